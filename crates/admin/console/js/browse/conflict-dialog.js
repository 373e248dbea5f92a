/** A conflict: shows the server's version and the user's, to choose from. */

import { toHex, toText } from "../core/bytes.js";
import { h } from "../core/dom.js";
import { moment } from "../core/format.js";
import { looksLikeJson, pretty } from "../core/json.js";
import { button, chip } from "../ui/controls.js";
import { openDialog } from "../ui/dialog.js";
import { diff, diffView } from "../ui/diff.js";
import { dataOf } from "./draft.js";

/**
 * @param {any} theirs the znode as the server has it now
 * @param {Uint8Array} mine
 * @returns {Promise<"mine" | "theirs" | undefined>} `undefined`: continue editing
 */
export function askConflict(theirs, mine) {
  const dialog = openDialog({
    title: "Changed meanwhile",
    className: "dialog-wide",
    onsubmit: () => dialog.close(),
  });
  const { stat } = theirs;
  dialog.body.append(
    h(
      "p",
      {},
      "Another client changed this znode while you edited it. It is now version ",
      h("strong", {}, stat.version),
      ", changed ",
      moment(stat.mtime_ms),
      ".",
    ),
    h("p", { class: "diff-legend" }, chip("− theirs", "bad"), chip("+ mine", "ok")),
    comparison(dataOf(theirs), mine),
  );
  dialog.footer.append(
    button({ label: "Continue editing", type: "submit" }),
    button({ label: "Take theirs", id: "take-theirs", onclick: () => dialog.close("theirs") }),
    button({
      label: "Overwrite with mine",
      kind: "danger",
      id: "keep-mine",
      onclick: () => dialog.close("mine"),
    }),
  );
  return dialog.closed;
}

function comparison(theirs, mine) {
  const [a, b] = [toText(theirs), toText(mine)];
  const lines = a === null || b === null ? diff(toHex(theirs), toHex(mine)) : diff(readable(a), readable(b));
  if (lines.every((line) => line.sign === " ")) {
    return h("p", { class: "muted" }, "Both versions are the same.");
  }
  return diffView(lines);
}

function readable(text) {
  return looksLikeJson(text) ? pretty(text) : text;
}
