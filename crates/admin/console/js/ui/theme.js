/** The theme: light, dark, or the system's. */

import { button } from "./controls.js";
import { show } from "../core/dom.js";

const KEY = "herdsman.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** @param {HTMLElement} place */
export function showTheme(place) {
  apply(localStorage.getItem(KEY));
  draw(place);
  dark.addEventListener("change", () => draw(place));
}

/** Switches to the other theme. */
export function switchTheme() {
  const next = isDark() ? "light" : "dark";
  // The system's own choice is not stored, because it may change during the day.
  if ((next === "dark") === dark.matches) {
    localStorage.removeItem(KEY);
    apply(null);
  } else {
    localStorage.setItem(KEY, next);
    apply(next);
  }
  draw(document.getElementById("theme"));
}

function apply(theme) {
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  } else {
    delete document.documentElement.dataset.theme;
  }
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function draw(place) {
  const label = isDark() ? "Use light colours" : "Use dark colours";
  const name = isDark() ? "sun" : "moon";
  show(place, button({ label, icon: name, kind: "quiet", iconOnly: true, onclick: switchTheme }));
}
