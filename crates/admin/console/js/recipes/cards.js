/** One card for each lock, election, barrier and service. */

import { h, icon } from "../core/dom.js";
import { count, moment, plural } from "../core/format.js";
import { childOf, hrefOf } from "../core/paths.js";
import { chip } from "../ui/controls.js";

const LINE_SHOWN = 5;
const INSTANCES_SHOWN = 12;

/** @param {any} lock */
export function lockCard(lock) {
  const free = lock.holders.length === 0;
  const waiting = lock.waiters_total ?? lock.waiters.length;
  const state = free
    ? chip("free", "ok")
    : chip(waiting > 0 ? plural(waiting, "waiter") : "held", waiting > 0 ? "warn" : "accent");
  return card(
    "lock",
    lock,
    state,
    h("p", { class: "muted small" }, `${lock.kind}, ${lock.layout}`),
    free
      ? h("p", { class: "muted" }, "Not held.")
      : lock.holders.map((holder) => participant(lock.path, holder, "holds it", "for")),
    unlisted(lock.holders, lock.holders_total),
    line(lock.path, lock.waiters, waiting, "waits"),
  );
}

/** @param {any} election */
export function electionCard(election) {
  const { leader, candidates } = election;
  const waiting = election.candidates_total ?? candidates.length;
  return card(
    "crown",
    election,
    chip(plural(waiting + (leader ? 1 : 0), "candidate"), "accent"),
    leader ? participant(election.path, leader, "leads", "for") : h("p", { class: "muted" }, "No leader."),
    line(election.path, candidates, waiting, "waiting"),
  );
}

/** @param {any} barrier */
export function barrierCard(barrier) {
  const size = barrier.size ?? null;
  const progress = size
    ? h("meter", {
        class: "barrier-meter",
        min: 0,
        max: size,
        value: barrier.members,
        "aria-label": "arrived",
      })
    : null;
  const words = barrier.open
    ? "open"
    : size
      ? `${count(barrier.members)} of ${count(size)} arrived`
      : barrier.kind === "barrier"
        ? "closed"
        : plural(barrier.members, "member");
  return card(
    "lock",
    barrier,
    chip(words, barrier.open ? "ok" : "accent"),
    h("p", { class: "muted small" }, barrier.kind, ", for ", moment(barrier.since_ms, "for")),
    progress,
  );
}

/** @param {any} service */
export function serviceCard(service) {
  const instance = (one) => {
    const port = one.port ?? one.ssl_port;
    const place = one.address ? `${one.address}${port ? `:${port}` : ""}` : one.id;
    const off = one.enabled === false ? chip("disabled", "warn") : null;
    return h(
      "li",
      { class: "person" },
      h("span", { class: "person-name mono" }, place, " ", off),
      h(
        "span",
        { class: "person-facts" },
        one.address ? h("span", {}, one.id) : null,
        sessionLink(one.session),
        payload(one.payload),
      ),
    );
  };
  const total = service.instances_total ?? service.instances.length;
  const shown = service.instances.slice(0, INSTANCES_SHOWN);
  return card(
    "server",
    { path: service.path, title: service.name },
    chip(plural(total, "instance"), total > 0 ? "ok" : "warn"),
    h("ul", { class: "line" }, shown.map(instance)),
    unlisted(shown, total),
  );
}

/** @param {any} group */
export function groupCard(group) {
  const total = group.members_total ?? group.members.length;
  const shown = group.members.slice(0, INSTANCES_SHOWN);
  const members = shown.map((member) => participant(group.path, member, "member", "for"));
  return card("people", group, chip(plural(total, "member"), "ok"), members, unlisted(shown, total));
}

/** @param {any[]} queues */
export function queueTable(queues) {
  const head = [
    ["Queue"],
    ["Kind", "wide-only"],
    ["Depth", "number"],
    ["Taken", "number wide-only"],
    ["Waiting consumers", "number wide-only"],
    ["Oldest item", "number"],
  ];
  const row = (queue) =>
    h(
      "tr",
      { "data-path": queue.path },
      h("td", { class: "grow-cell" }, pathLink(queue.path)),
      h("td", { class: "wide-only" }, queue.kind),
      h("td", { class: "number" }, h("strong", {}, count(queue.depth))),
      h("td", { class: "number wide-only" }, count(queue.taken)),
      h("td", { class: "number wide-only" }, count(queue.consumers_waiting)),
      h("td", { class: "number" }, moment(queue.oldest_ms)),
    );
  return h(
    "div",
    { class: "table-frame" },
    h(
      "table",
      { class: "table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map(([text, name]) => h("th", { scope: "col", class: name }, text)),
        ),
      ),
      h("tbody", {}, queues.map(row)),
    ),
  );
}

function card(picture, thing, state, ...children) {
  const title = h("h3", { class: "mono" }, thing.title ?? pathLink(thing.path));
  const where = thing.title ? h("p", { class: "small" }, pathLink(thing.path)) : null;
  return h(
    "article",
    { class: "card recipe", "data-path": thing.path },
    h("header", { class: "card-head" }, icon(picture), title, h("span", { class: "grow" }), state),
    where,
    ...children,
  );
}

/** The waiting clients, in their order. The first few are shown, the rest on demand. */
function line(path, people, total, does) {
  if (people.length === 0) {
    return null;
  }
  const item = (one) => h("li", {}, participant(path, one, does, "for"));
  const first = h("ol", { class: "line" }, people.slice(0, LINE_SHOWN).map(item));
  if (people.length <= LINE_SHOWN) {
    return [first, unlisted(people, total)];
  }
  const rest = h("ol", { class: "line", start: LINE_SHOWN + 1 }, people.slice(LINE_SHOWN).map(item));
  return [
    first,
    h(
      "details",
      {},
      h("summary", {}, `${count(people.length - LINE_SHOWN)} more`),
      rest,
      unlisted(people, total),
    ),
  ];
}

/** The number of entries that the server did not list: it sends only the first ones. */
function unlisted(shown, total) {
  const rest = (total ?? shown.length) - shown.length;
  return rest > 0 ? h("p", { class: "muted small" }, `and ${count(rest)} more`) : null;
}

function participant(path, one, does, style) {
  const name = one.payload ? payload(one.payload) : sessionLink(one.session);
  const mode = one.mode ? chip(one.mode) : null;
  const time = h("span", { class: "person-time" }, `${does} for `, moment(one.since_ms, style));
  const node = h("a", { href: hrefOf(childOf(path, one.node)), class: "small", title: one.node }, "znode");
  const facts = h(
    "span",
    { class: "person-facts" },
    one.payload ? sessionLink(one.session) : null,
    one.peer ? h("span", { class: "mono" }, one.peer) : null,
    node,
  );
  return h("div", { class: "person" }, h("span", { class: "person-name" }, name, " ", mode), time, facts);
}

function payload(text) {
  return text
    ? h("span", { class: "payload", title: text }, text.length > 60 ? `${text.slice(0, 58)}…` : text)
    : null;
}

function sessionLink(id) {
  return id ? h("a", { href: `#/sessions/${id}`, class: "mono" }, id) : null;
}

function pathLink(path) {
  return h("a", { href: hrefOf(path), class: "mono" }, path);
}
