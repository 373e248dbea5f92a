/** Server: its state, configuration, other HTTP endpoints and log level. */

import { change, read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { bytes, count, duration } from "../core/format.js";
import { busy, chip, empty, facts, writeButton } from "../ui/controls.js";
import { Loaded, pageHead, whenChanged } from "../ui/page.js";
import { toast } from "../ui/toast.js";

const EVERY_MS = 2000;
const LEVELS = ["error", "warn", "info", "debug", "trace"];
const ENDPOINTS = [
  ["/metrics", "Metrics", "for Prometheus, under Apache’s names"],
  ["/commands", "Commands", "Apache’s admin commands, as JSON"],
  ["/livez", "Live", "whether the process is healthy"],
  ["/readyz", "Ready", "whether it serves clients"],
  ["/api/v1/export?path=/", "Export", "the part of the tree that everyone may read, as JSON lines"],
];

/** @param {import("../core/scope.js").Scope} scope */
export function serverPage(scope) {
  const about = new Loaded(scope, () => read("server", {}, scope.signal), whenChanged(drawFacts));
  const settings = new Loaded(scope, () => read("/commands/configuration", {}, scope.signal), drawSettings);
  settings.load();
  const head = pageHead("Server", "The server that you are connected to.");
  const columns = h(
    "div",
    { class: "columns" },
    section("Facts", about.every(EVERY_MS)),
    h("div", {}, section("Other endpoints", endpoints()), section("Log level", logLevel(scope))),
  );
  return {
    element: h("div", { class: "page" }, head, columns, section("Configuration", settings.place)),
    go: () => {},
  };
}

function section(title, ...children) {
  return h("section", { class: "section", "aria-label": title }, h("h2", {}, title), ...children);
}

function drawFacts(now, place) {
  const storage = {
    ok: ["healthy", "ok"],
    full: ["full: writes are rejected", "bad"],
    failed: ["failed: repair the disk, then restart", "bad"],
  }[now.storage] ?? [now.storage ?? "–", undefined];
  show(
    place,
    h(
      "div",
      { class: "card" },
      facts([
        ["Version", now.version],
        ["Role", chip(now.role, now.serving ? "ok" : "warn")],
        ["Clients connect to", h("span", { class: "mono" }, now.client_address ?? "–")],
        ["Running for", duration(now.uptime_ms)],
        ["Last zxid", h("code", {}, now.zxid)],
        ["Epoch", now.epoch ?? "–"],
        ["Znodes", count(now.znodes)],
        ["Data", bytes(now.data_bytes)],
        ["Ephemerals", count(now.ephemerals)],
        ["Watches", count(now.watches)],
        ["Sessions", count(now.sessions)],
        ["Connections", count(now.connections)],
        ["Waiting requests", count(now.outstanding)],
        ["Snapshots on disk", bytes(now.data_dir_bytes)],
        ["Logs on disk", bytes(now.log_dir_bytes)],
        ["Storage", chip(...storage)],
      ]),
    ),
  );
}

function endpoints() {
  const line = ([href, name, words]) =>
    h(
      "li",
      {},
      h("a", { href: `.${href}`, target: "_blank", rel: "noopener" }, name),
      h("span", { class: "muted" }, ` ${words}`),
    );
  return h("ul", { class: "card endpoints" }, ENDPOINTS.map(line));
}

function drawSettings(answer, place) {
  const rows = Object.entries(answer).filter(([name]) => name !== "command" && name !== "error");
  if (rows.length === 0) {
    show(place, empty("No settings.", "This server does not show its configuration."));
    return;
  }
  const filter = h("input", {
    type: "search",
    placeholder: "Filter settings",
    "aria-label": "Filter settings",
  });
  const body = h("tbody", {}, rows.map(settingRow));
  filter.addEventListener("input", () => {
    for (const row of body.children) {
      row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase());
    }
  });
  show(
    place,
    h("div", { class: "panel-bar" }, filter),
    h("div", { class: "table-frame" }, h("table", { class: "table" }, body)),
  );
}

function settingRow([name, value]) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "mono" }, name),
    h("td", { class: "mono grow-cell wrap" }, text),
  );
}

function logLevel(scope) {
  const select = h(
    "select",
    { "aria-label": "Log level", id: "log-level" },
    LEVELS.map((value) => h("option", { value }, value)),
  );
  const failed = h("div", {});
  const apply = () =>
    busy(set, failed, async () => {
      await change("PUT", "log-level", {}, { level: select.value });
      toast(`The server now logs at level ${select.value}.`);
    });
  const set = writeButton({ label: "Set", id: "set-log-level", onclick: apply }, scope.signal);
  const now = new Loaded(
    scope,
    () => read("log-level", {}, scope.signal),
    (answer, place) => {
      if (!LEVELS.includes(answer.level)) {
        select.append(h("option", { value: answer.level }, answer.level));
      }
      select.value = answer.level;
      show(
        place,
        h("div", { class: "panel-bar" }, select, set),
        h(
          "p",
          { class: "hint" },
          "Until the server is restarted. Needs a user with all permissions on the root.",
        ),
      );
    },
  );
  now.load();
  return h("div", { class: "card" }, now.place, failed);
}
