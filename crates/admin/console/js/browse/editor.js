/**
 * The editor for data: a plain text area over a coloured copy of its text. The copy sets the
 * height, the text area has everything else: caret, selection, undo, screen readers.
 */

import { h, show } from "../core/dom.js";
import { fromHex, offsets, toAscii } from "../core/bytes.js";
import { tokens } from "../core/json.js";

const COLOUR_MAX = 200_000;

export class Editor {
  /** @param {(text: string) => void} typed */
  constructor(typed) {
    this.back = h("pre", { class: "editor-back", "aria-hidden": "true" });
    this.area = h("textarea", {
      class: "editor-area",
      "aria-label": "Data",
      spellcheck: "false",
      autocapitalize: "off",
    });
    this.offsets = h("pre", { class: "editor-side", "aria-hidden": "true" });
    this.ascii = h("pre", { class: "editor-side", "aria-hidden": "true" });
    const stack = h("div", { class: "editor-stack" }, this.back, this.area);
    this.element = h("div", { class: "editor" }, this.offsets, stack, this.ascii);
    this.area.addEventListener("input", () => {
      this.colour();
      typed(this.area.value);
    });
  }

  /** @param {string} text @param {import("./draft.js").Mode} mode */
  show(text, mode) {
    this.mode = mode;
    this.element.dataset.mode = mode;
    // Setting the same text again would move the caret to the end.
    if (this.area.value !== text) {
      this.area.value = text;
    }
    this.colour();
  }

  /** @param {boolean} locked */
  lock(locked) {
    this.area.readOnly = locked;
  }

  colour() {
    const text = this.area.value;
    // An empty last line has no height.
    show(this.back, this.mode === "json" && text.length < COLOUR_MAX ? coloured(text) : text, "\n");
    const data = this.mode === "hex" ? fromHex(text) : null;
    show(this.offsets, data ? offsets(data) : "");
    show(this.ascii, data ? toAscii(data) : "");
  }
}

function coloured(text) {
  return tokens(text).map((token) => {
    const plain = token.kind === "space" || token.kind === "mark";
    return plain ? token.text : h("span", { class: `json-${token.kind}` }, token.text);
  });
}
