/** The differences of two texts, line by line. */

import { h } from "../core/dom.js";

/** The largest table of comparisons; for larger texts everything counts as changed. */
const CELLS_MAX = 4_000_000;
const CONTEXT = 3;

/** @typedef {{sign: " " | "-" | "+", text: string}} Line */

/** @param {string} before @param {string} after @returns {Line[]} */
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start += 1;
  }
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) {
    end += 1;
  }
  const same = (lines) => lines.map((text) => ({ sign: " ", text }));
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))];
}

/** Draws the differences; skips long parts without any. @param {Line[]} lines */
export function diffView(lines) {
  const near = lines.map((_, i) =>
    lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some((line) => line.sign !== " "),
  );
  const rows = [];
  lines.forEach((line, i) => {
    if (near[i]) {
      rows.push(row(line));
    } else if (i === 0 || near[i - 1]) {
      rows.push(h("div", { class: "diff-line diff-skip" }, "⋯"));
    }
  });
  return h("div", { class: "diff", role: "group", "aria-label": "Differences", tabindex: "0" }, rows);
}

function row({ sign, text }) {
  const name = { "-": "theirs", "+": "mine", " ": "same" }[sign];
  const spoken = sign === " " ? null : h("span", { class: "off-screen" }, name);
  return h(
    "div",
    { class: `diff-line diff-${name}` },
    h("span", { class: "diff-sign", "aria-hidden": "true" }, sign),
    spoken,
    text,
  );
}

function between(a, b) {
  if (a.length * b.length > CELLS_MAX) {
    return [...a.map((text) => ({ sign: "-", text })), ...b.map((text) => ({ sign: "+", text }))];
  }
  return walk(a, b, lengths(a, b));
}

/** The length of the longest common subsequence of each pair of tails. */
function lengths(a, b) {
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const next =
        a[i] === b[j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
      table[i * width + j] = next;
    }
  }
  return table;
}

function walk(a, b, table) {
  const width = b.length + 1;
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ sign: " ", text: a[i] });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      lines.push({ sign: "-", text: a[i++] });
    } else {
      lines.push({ sign: "+", text: b[j++] });
    }
  }
  return lines;
}
