/**
 * A znode's data while it is edited: the server's version, the edited text, and which of the
 * three formats is used.
 */

import { fromBase64, fromHex, fromText, same, toBase64, toHex, toText } from "../core/bytes.js";
import { compact, looksLikeJson, pretty, problem } from "../core/json.js";

/** @typedef {"text" | "json" | "hex"} Mode */

/** The data of a `GET /node` answer. @param {any} node */
export function dataOf(node) {
  return node.data_base64 ? fromBase64(node.data_base64) : fromText(node.data ?? "");
}

/** The request body for data. @param {Uint8Array} data */
export function bodyOf(data) {
  const text = toText(data);
  return text === null ? { data_base64: toBase64(data) } : { data: text };
}

export class Draft {
  /** @param {any} node @param {Mode} [mode] kept if the data can be shown in it */
  constructor(node, mode) {
    this.base = dataOf(node);
    this.version = node.stat.version;
    this.mode = bestMode(this.base, mode);
    this.text = render(this.base, this.mode);
  }

  get isDirty() {
    return this.text !== render(this.base, this.mode);
  }

  /** Whether JSON is saved on one line again, as it was. */
  get savesCompact() {
    const text = toText(this.base);
    return this.mode === "json" && text !== null && looksLikeJson(text) && !text.includes("\n");
  }

  /** The data to save. Throws an error with a readable message if the text is invalid. @returns {Uint8Array} */
  bytes() {
    if (!this.isDirty) {
      return this.base;
    }
    if (this.mode === "hex") {
      const data = fromHex(this.text);
      if (!data) {
        throw new Error("Hex needs pairs of the digits 0–9 and a–f.");
      }
      return data;
    }
    return fromText(this.mode === "json" ? this.json() : this.text);
  }

  /** The error in the text, or `null`. */
  get problem() {
    try {
      this.bytes();
      return this.mode === "json" && this.text !== "" ? problem(this.text) : null;
    } catch (error) {
      return error.message;
    }
  }

  /** Switches to another format. Throws if the bytes cannot be shown in it. @param {Mode} mode */
  switchTo(mode) {
    const data = this.mode === "json" && problem(this.text) ? fromText(this.text) : this.bytes();
    const text = mode === "hex" ? "" : toText(data);
    if (text === null) {
      throw new Error("The data is not text: only hex can show it.");
    }
    if (mode === "json" && data.length > 0 && problem(text)) {
      throw new Error(problem(text));
    }
    this.text = render(data, mode);
    this.mode = mode;
  }

  /** After saving. @param {Uint8Array} data @param {number} version */
  saved(data, version) {
    this.base = data;
    this.version = version;
    this.text = render(data, this.mode);
  }

  /** Whether it is based on the server's version. @param {any} node */
  isBasedOn(node) {
    return node.stat.version === this.version && same(this.base, dataOf(node));
  }

  json() {
    const wrong = problem(this.text);
    if (wrong) {
      throw new Error(`${wrong} Switch to Text to save it as it is.`);
    }
    return this.savesCompact ? compact(this.text) : this.text;
  }
}

function bestMode(data, wanted) {
  const text = toText(data);
  if (text === null || wanted === "hex") {
    return "hex";
  }
  if (wanted === "text") {
    return "text";
  }
  return looksLikeJson(text) ? "json" : "text";
}

function render(data, mode) {
  if (mode === "hex") {
    return toHex(data);
  }
  const text = toText(data) ?? "";
  return mode === "json" && problem(text) === null ? pretty(text) : text;
}
