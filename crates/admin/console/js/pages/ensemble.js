/** Ensemble: its members, performance and elections. */

import { read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { count, duration, millis, moment, plural } from "../core/format.js";
import { Chart } from "../ui/chart.js";
import { chip, empty, facts, notice } from "../ui/controls.js";
import { Loaded, pageHead, whenChanged } from "../ui/page.js";

const MEMBERS_EVERY_MS = 2000;
const HISTORY_EVERY_MS = 2000;
const SPAN_MS = 30 * 60_000;
const TONES = { leader: "accent", follower: "ok", observer: "ok", standalone: "ok" };

const CHARTS = [
  {
    title: "Throughput",
    unit: "requests per second",
    series: [series("reads_per_s", "reads", 1), series("writes_per_s", "writes", 2)],
  },
  {
    title: "Read latency",
    unit: "milliseconds",
    series: [series("read_p50_ms", "median", 1), series("read_p99_ms", "99th percentile", 2, true)],
  },
  {
    title: "Write latency",
    unit: "milliseconds",
    series: [
      series("write_p50_ms", "median", 1),
      series("write_p99_ms", "99th percentile", 2, true),
      series("fsync_p99_ms", "fsync, 99th", 3, true),
    ],
  },
  {
    title: "Load",
    unit: "number",
    series: [series("connections", "connections", 1), series("outstanding", "requests waiting", 2, true)],
  },
];

/** @param {import("../core/scope.js").Scope} scope */
export function ensemblePage(scope) {
  const elected = h("div", {});
  const members = new Loaded(
    scope,
    () => read("ensemble", {}, scope.signal),
    whenChanged((answer, place) => {
      drawMembers(answer, place);
      show(elected, elections(answer.elections ?? []));
    }),
  );
  const plots = h(
    "section",
    { class: "section", "aria-label": "Plots" },
    h("h2", {}, "This server, last 30 minutes"),
  );
  plots.append(history(scope));
  const head = pageHead("Ensemble", "The leader, how far each member is behind it, and how fast this server responds.");
  const element = h("div", { class: "page" }, head, members.every(MEMBERS_EVERY_MS), plots, elected);
  return { element, go: () => {} };
}

function series(key, label, tone, peaks = false) {
  return { key, label, tone, peaks };
}

function drawMembers(answer, place) {
  const down = answer.members.filter((member) => !member.reachable);
  const warning =
    down.length > 0
      ? notice("warn", `${plural(down.length, "member")} of ${answer.members.length} cannot be reached.`)
      : null;
  const summary =
    answer.mode === "standalone"
      ? "A standalone server."
      : `${plural(answer.members.length, "member")}, epoch ${answer.epoch ?? "unknown"}.`;
  show(
    place,
    h(
      "section",
      { class: "section", "aria-label": "Members" },
      h("div", { class: "section-head" }, h("h2", {}, "Members"), h("span", { class: "muted" }, summary)),
      warning,
      h("div", { class: "cards" }, answer.members.map(memberCard)),
    ),
  );
}

function memberCard(member) {
  const role = member.reachable ? member.role : "unreachable";
  const tone = member.reachable ? (TONES[member.role] ?? "warn") : "bad";
  const leads = member.role === "leader" && member.reachable;
  const name = member.id === null || member.id === undefined ? "This server" : `Server ${member.id}`;
  return h(
    "article",
    {
      class: `card member ${leads ? "member-leads" : ""} ${member.reachable ? "" : "member-down"}`,
      "data-member": member.id ?? "",
    },
    h(
      "header",
      { class: "card-head" },
      leads ? icon("crown") : icon("server"),
      h("h3", {}, name),
      member.me ? chip("this server") : null,
      h("span", { class: "grow" }),
      chip(role, tone),
    ),
    h("p", { class: "muted mono small" }, member.client_address ?? member.address),
    member.problem ? h("p", { class: "member-problem" }, member.problem) : null,
    member.reachable ? memberFacts(member) : null,
  );
}

function memberFacts(member) {
  return facts([
    ["zxid", h("code", {}, member.zxid ?? "–")],
    ["Behind the leader", lag(member)],
    ["Latency", `${millis(member.latency_avg_ms)} mean, ${millis(member.latency_max_ms)} max`],
    ["Connections", count(member.connections)],
    ["Waiting requests", count(member.outstanding)],
    ["Znodes", count(member.znodes)],
    ["Version", member.version ?? "–"],
  ]);
}

function lag(member) {
  if (member.lag === null || member.lag === undefined) {
    return "–";
  }
  return member.lag === 0
    ? "nothing"
    : chip(plural(member.lag, "transaction"), member.lag > 1000 ? "warn" : undefined);
}

function elections(list) {
  const rows = [...list].sort((a, b) => b.at_ms - a.at_ms).slice(0, 50);
  const cell = (event) => [
    h("td", {}, moment(event.at_ms)),
    h("td", {}, event.event),
    h("td", { class: "number" }, event.epoch ?? "–"),
    h(
      "td",
      {},
      event.leader_id === null || event.leader_id === undefined ? "–" : `server ${event.leader_id}`,
    ),
    h(
      "td",
      { class: "number" },
      event.took_ms === null || event.took_ms === undefined
        ? "–"
        : event.took_ms < 10_000
          ? millis(event.took_ms)
          : duration(event.took_ms),
    ),
  ];
  const head = [["When"], ["This server’s role"], ["Epoch", "number"], ["Leader"], ["Took", "number"]];
  const table = h(
    "div",
    { class: "table-frame" },
    h(
      "table",
      { class: "table", id: "elections" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map(([text, name]) => h("th", { scope: "col", class: name }, text)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((event) => h("tr", {}, cell(event))),
      ),
    ),
  );
  const nothing = empty("No election since this server started.", "Changes of the leader are shown here.");
  return h(
    "section",
    { class: "section section-apart", "aria-label": "Elections" },
    h("h2", {}, "Elections"),
    rows.length > 0 ? table : nothing,
  );
}

function history(scope) {
  const charts = CHARTS.map((options) => new Chart({ ...options, spanMs: SPAN_MS }));
  let samples = [];
  const fetch = () => read("history", { since: samples.at(-1)?.at_ms }, scope.signal);
  const take = (answer, place) => {
    const last = samples.at(-1)?.at_ms ?? 0;
    const fresh = answer.samples.filter((sample) => sample.at_ms > last);
    const begin = (fresh.at(-1)?.at_ms ?? last) - SPAN_MS;
    samples = [...samples, ...fresh].filter((sample) => sample.at_ms >= begin);
    charts.forEach((chart) => chart.show(samples, answer.interval_ms));
    if (!place.querySelector(".charts")) {
      show(
        place,
        h(
          "div",
          { class: "charts" },
          charts.map((chart) => chart.element),
        ),
      );
    }
  };
  return new Loaded(scope, fetch, take).every(HISTORY_EVERY_MS);
}
