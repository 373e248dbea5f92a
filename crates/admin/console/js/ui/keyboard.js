/** Keyboard shortcuts. They are disabled while the user types, except those with Ctrl or Cmd. */

import { h } from "../core/dom.js";
import { openDialog } from "./dialog.js";
import { button } from "./controls.js";

/** @typedef {{keys: string, what: string, run: () => void}} Shortcut */

const IN_PLACE = [
  ["Arrow keys", "Move in the tree; right expands, left collapses"],
  ["Enter", "Show the znode"],
  ["Home, End", "First and last row of the tree"],
  ["Ctrl S", "Save what you edit"],
  ["Esc", "Close a dialog"],
];

/** @param {Shortcut[]} shortcuts keys as `g b` (one after the other), `/`, `ctrl+k` */
export function listen(shortcuts) {
  let prefix = "";
  document.addEventListener("keydown", (event) => {
    const key = name(event);
    if (key === null || document.querySelector("dialog[open]")) {
      return;
    }
    const typed = `${prefix} ${key}`.trim();
    const found = shortcuts.find(({ keys }) => keys === typed) ?? shortcuts.find(({ keys }) => keys === key);
    prefix = shortcuts.some(({ keys }) => keys.startsWith(`${key} `)) ? key : "";
    if (found) {
      prefix = "";
      event.preventDefault();
      found.run();
    }
  });
}

/** @param {Shortcut[]} shortcuts */
export function showShortcuts(shortcuts) {
  const dialog = openDialog({ title: "Keyboard", onsubmit: () => dialog.close() });
  const rows = [...shortcuts.map(({ keys, what }) => [keys, what]), ...IN_PLACE];
  const line = ([keys, what]) => h("tr", {}, h("th", { scope: "row" }, caps(keys)), h("td", {}, what));
  dialog.body.append(h("table", { class: "shortcuts" }, h("tbody", {}, rows.map(line))));
  dialog.footer.append(button({ label: "Close", type: "submit" }));
}

function caps(keys) {
  const shown = keys.replace("ctrl+k", "Ctrl K");
  if (shown.length > 8) {
    return h("kbd", {}, shown);
  }
  return shown.split(" ").map((key) => h("kbd", {}, key));
}

function name(event) {
  if (event.ctrlKey || event.metaKey) {
    return event.altKey ? null : `ctrl+${event.key.toLowerCase()}`;
  }
  const typing =
    event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
  return typing || event.altKey ? null : event.key;
}
