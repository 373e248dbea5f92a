/** Sessions: connected clients, their ephemerals and their watches. */

import { isAbort, read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { count, duration, millis, moment, plural } from "../core/format.js";
import { hrefOf } from "../core/paths.js";
import { button, chip, empty, facts, problem, skeleton } from "../ui/controls.js";
import { Loaded, pageHead, whenChanged } from "../ui/page.js";

const EVERY_MS = 3000;
const PAGE = 500;

/** @param {import("../core/scope.js").Scope} scope */
export function sessionsPage(scope) {
  const page = new SessionsPage(scope);
  return { element: page.element, go: ([id]) => page.select(id ?? null) };
}

class SessionsPage {
  constructor(scope) {
    this.scope = scope;
    this.selected = null;
    this.wanted = PAGE;
    this.answer = { sessions: [], total: 0, next: null };
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter by id, address or operation",
      "aria-label": "Filter sessions",
      autocomplete: "off",
    });
    this.filter.addEventListener("input", () => this.drawRows());
    this.status = h("span", { class: "muted", role: "status" });
    this.rows = h("tbody", {});
    this.foot = h("div", { class: "panel-foot" });
    this.detail = h("section", { class: "session-detail", "aria-label": "One session" });
    this.list = new Loaded(
      scope,
      () => this.fetch(),
      whenChanged((answer, place) => this.take(answer, place)),
    );
    const head = pageHead(
      "Sessions",
      "All sessions that this server knows, with their ephemeral znodes and watches.",
      this.filter,
      this.status,
    );
    this.split = h("div", { class: "split" }, this.list.every(EVERY_MS), this.detail);
    this.element = h("div", { class: "page" }, head, this.split);
    scope.every(EVERY_MS, () => this.loadDetail());
  }

  async fetch() {
    let sessions = [];
    let page = { next: null };
    do {
      page = await read("sessions", { after: page.next, limit: PAGE }, this.scope.signal);
      sessions = [...sessions, ...page.sessions];
    } while (page.next && sessions.length < this.wanted);
    return { sessions, total: page.total, next: page.next ?? null };
  }

  take(answer, place) {
    this.answer = answer;
    if (!place.contains(this.rows)) {
      show(
        place,
        h(
          "div",
          { class: "table-frame" },
          h("table", { class: "table table-links" }, h("thead", {}, header()), this.rows),
        ),
        this.foot,
      );
    }
    this.drawRows();
  }

  drawRows() {
    const words = this.filter.value.trim().toLowerCase();
    const shown = this.answer.sessions.filter((session) => matches(session, words));
    show(
      this.status,
      words
        ? `${count(shown.length)} of ${plural(this.answer.total, "session")}`
        : plural(this.answer.total, "session"),
    );
    show(
      this.rows,
      shown.map((session) => this.row(session)),
    );
    show(this.foot, this.footWords(shown, words));
  }

  footWords(shown, words) {
    if (shown.length === 0) {
      return words
        ? empty("No session matches.", "Clear the filter to see all.")
        : empty("No sessions.", "Connected clients are shown here.");
    }
    if (!this.answer.next) {
      return null;
    }
    const more = () => {
      this.wanted += PAGE;
      this.list.load();
    };
    return button({
      label: `Show more (${count(this.answer.total - this.answer.sessions.length)} left)`,
      onclick: more,
    });
  }

  row(session) {
    const { connection } = session;
    const link = h("a", { href: `#/sessions/${session.id}`, class: "mono" }, session.id);
    return h(
      "tr",
      { "data-session": session.id, "aria-selected": session.id === this.selected },
      h("td", {}, link, session.local ? [" ", chip("local")] : null),
      h(
        "td",
        {},
        connection
          ? h("span", { class: "mono" }, connection.peer)
          : h("span", { class: "muted" }, "other server or none"),
      ),
      h("td", { class: "number" }, count(session.ephemerals)),
      h("td", { class: "number wide-only" }, count(session.watches)),
      h("td", { class: "number wide-only" }, duration(session.timeout_ms)),
      h("td", { class: "wide-only" }, connection?.last_op ?? "–"),
      h("td", { class: "number wide-only" }, connection ? millis(connection.latency_avg_ms) : "–"),
    );
  }

  select(id) {
    this.selected = id;
    this.detailAnswer = null;
    this.split.classList.toggle("has-detail", id !== null);
    for (const row of this.rows.children) {
      row.setAttribute("aria-selected", String(row.dataset.session === id));
    }
    show(
      this.detail,
      id === null
        ? empty("Select a session.", "Its ephemeral znodes and watches are shown here.")
        : skeleton(5),
    );
    this.loadDetail();
  }

  async loadDetail() {
    const id = this.selected;
    if (id === null || id === undefined) {
      return;
    }
    try {
      const answer = await read(`sessions/${encodeURIComponent(id)}`, {}, this.scope.signal);
      if (id === this.selected && JSON.stringify(answer) !== this.detailAnswer) {
        this.detailAnswer = JSON.stringify(answer);
        show(this.detail, sessionDetail(answer));
      }
    } catch (error) {
      if (!isAbort(error) && id === this.selected && (error.status === 404 || !this.detailAnswer)) {
        show(
          this.detail,
          back(),
          error.status === 404
            ? empty("This session has ended.", "Its ephemeral znodes were deleted.")
            : problem(error, () => this.loadDetail()),
        );
      }
    }
  }
}

function header() {
  const columns = [
    ["Session"],
    ["Client"],
    ["Ephemerals", "number"],
    ["Watches", "number wide-only"],
    ["Timeout", "number wide-only"],
    ["Last request", "wide-only"],
    ["Latency", "number wide-only"],
  ];
  return h(
    "tr",
    {},
    columns.map(([text, name]) => h("th", { scope: "col", class: name }, text)),
  );
}

function matches(session, words) {
  const text = `${session.id} ${session.connection?.peer ?? ""} ${session.connection?.last_op ?? ""}`;
  return text.toLowerCase().includes(words);
}

function back() {
  return h("a", { class: "back-link", href: "#/sessions" }, icon("back"), "All sessions");
}

function sessionDetail(session) {
  const { connection } = session;
  const about = facts([
    ["Timeout", duration(session.timeout_ms)],
    ["Kind", session.local ? "local to this server" : "global"],
    connection && ["Client", h("span", { class: "mono" }, connection.peer)],
    connection && ["Connected", moment(connection.established_ms)],
    connection && ["Packets", `${count(connection.received)} in, ${count(connection.sent)} out`],
    connection && ["Waiting requests", count(connection.queued)],
    connection && [
      "Latency",
      `${millis(connection.latency_avg_ms)} mean, ${millis(connection.latency_max_ms)} max`,
    ],
    session.expires_ms && ["Expires", moment(session.expires_ms, "in")],
  ]);
  const hidden =
    session.hidden > 0
      ? h("p", { class: "hint" }, `${plural(session.hidden, "path")} not shown: you may not read them.`)
      : null;
  return [
    back(),
    h("h2", { class: "mono" }, session.id),
    connection ? null : h("p", { class: "muted" }, "Its client is connected to another server, or not connected."),
    about,
    h("h3", {}, `Ephemeral znodes (${count(session.ephemeral_paths.length)})`),
    session.ephemeral_paths.length > 0
      ? h(
          "ul",
          { class: "path-list" },
          session.ephemeral_paths.map((path) => h("li", {}, pathLink(path))),
        )
      : h("p", { class: "muted" }, "None."),
    h("h3", {}, `Watches (${count(session.watch_paths.length)})`),
    session.watch_paths.length > 0
      ? h("ul", { class: "path-list" }, session.watch_paths.map(watchLine))
      : h("p", { class: "muted" }, "None on this server."),
    session.truncated ? h("p", { class: "hint" }, "There are more.") : null,
    hidden,
  ];
}

function pathLink(path) {
  return h("a", { href: hrefOf(path), class: "mono" }, path);
}

function watchLine({ path, kind }) {
  return h("li", {}, pathLink(path), chip(kind));
}
