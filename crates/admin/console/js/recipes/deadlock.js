/** Draws a deadlock as a cycle of sessions; each arrow is a lock that a session waits for. */

import { h, s } from "../core/dom.js";
import { plural } from "../core/format.js";
import { hrefOf } from "../core/paths.js";

const WIDTH = 460;
const BOX = { width: 156, height: 34 };

/** @typedef {{session: string, holds: string, waits_for: string}} Link */

/** @param {{cycle: Link[], also_stuck?: number}} deadlock */
export function deadlockCard({ cycle, also_stuck: others }) {
  const more =
    others > 0
      ? h(
          "p",
          { class: "muted" },
          `${plural(others, "more session waits", "more sessions wait")} for them.`,
        )
      : null;
  const words = h("div", { class: "deadlock-words" }, h("ol", { class: "line" }, cycle.map(sentence)), more);
  return h("article", { class: "card deadlock" }, ring(cycle), words);
}

function sentence({ session, holds, waits_for: wanted }) {
  const lock = (path) => h("a", { href: hrefOf(path), class: "mono" }, path);
  const who = h("a", { href: `#/sessions/${session}`, class: "mono" }, session);
  return h("li", {}, who, " holds ", lock(holds), " and waits for ", lock(wanted));
}

function ring(cycle) {
  const size = { width: WIDTH, height: cycle.length === 2 ? 150 : 280 };
  const places = cycle.map((_, i) => place(i, cycle.length, size));
  const arrows = cycle.map((link, i) =>
    arrow(places[i], places[(i + 1) % cycle.length], link.waits_for, size),
  );
  const boxes = cycle.map((link, i) => box(places[i], link.session));
  const words = `Cycle of ${cycle.length} sessions that wait for each other`;
  return s(
    "svg",
    { class: "ring", viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": words },
    head(),
    arrows,
    boxes,
  );
}

function place(i, total, size) {
  const angle = (2 * Math.PI * i) / total - (total === 2 ? Math.PI : Math.PI / 2);
  const x = size.width / 2 + (size.width / 2 - BOX.width / 2 - 4) * Math.cos(angle);
  const y = size.height / 2 + (size.height / 2 - BOX.height / 2 - 6) * Math.sin(angle);
  return { x, y };
}

function box({ x, y }, session) {
  const frame = s("rect", {
    x: x - BOX.width / 2,
    y: y - BOX.height / 2,
    width: BOX.width,
    height: BOX.height,
    rx: 8,
    class: "ring-box",
  });
  return [
    frame,
    s("text", { x, y: y + 4, "text-anchor": "middle", class: "ring-session" }, shorten(session, 20)),
  ];
}

/** A curved arrow from one to the next, bent away from the middle. */
function arrow(from, to, lock, size) {
  const away = bend(from, to, size);
  const start = edge(from, away);
  const end = edge(to, away);
  const top = { x: (start.x + 2 * away.x + end.x) / 4, y: (start.y + 2 * away.y + end.y) / 4 };
  const line = s("path", {
    d: `M${start.x} ${start.y}Q${away.x} ${away.y} ${end.x} ${end.y}`,
    class: "ring-arrow",
    "marker-end": "url(#ring-head)",
  });
  return [
    line,
    s("text", { x: top.x, y: top.y + 4, "text-anchor": "middle", class: "ring-lock" }, shorten(lock, 30)),
  ];
}

/** Two boxes on one line have two arrows, one above and one below; in a larger cycle each bends outwards. */
function bend(from, to, size) {
  const centre = { x: size.width / 2, y: size.height / 2 };
  const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  if (Math.abs(from.y - to.y) < 1 && Math.abs(middle.y - centre.y) < 1) {
    return { x: centre.x, y: from.x < to.x ? -40 : size.height + 40 };
  }
  return { x: middle.x + (middle.x - centre.x) * 0.35, y: middle.y + (middle.y - centre.y) * 0.35 };
}

/** The point where the line to another point leaves the box. */
function edge(at, towards) {
  const dx = towards.x - at.x;
  const dy = towards.y - at.y;
  const scale = Math.min(
    Math.abs((BOX.width / 2 + 4) / (dx || 1)),
    Math.abs((BOX.height / 2 + 4) / (dy || 1)),
  );
  return { x: at.x + dx * Math.min(1, scale), y: at.y + dy * Math.min(1, scale) };
}

function head() {
  const tip = s("path", { d: "M0 0L8 4L0 8Z", class: "ring-tip" });
  return s(
    "defs",
    {},
    s(
      "marker",
      {
        id: "ring-head",
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerWidth: 8,
        markerHeight: 8,
        orient: "auto",
      },
      tip,
    ),
  );
}

function shorten(text, most) {
  return text.length > most ? `…${text.slice(1 - most)}` : text;
}
