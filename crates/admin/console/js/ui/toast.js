/** A short message at the edge of the screen. */

import { h } from "../core/dom.js";

const STAY_MS = 4000;

/** @param {string} text */
export function toast(text) {
  const region = document.getElementById("toasts");
  const element = h("p", { class: "toast" }, text);
  region.replaceChildren(element);
  setTimeout(() => element.remove(), STAY_MS);
}
