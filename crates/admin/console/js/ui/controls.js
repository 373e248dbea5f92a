/** The controls that all pages use. */

import { access, readOnlyReason } from "../core/access.js";
import { h, icon, show } from "../core/dom.js";
import { toast } from "./toast.js";

/**
 * @typedef {object} ButtonOptions
 * @property {string} label
 * @property {string} [icon]
 * @property {"primary" | "danger" | "quiet"} [kind]
 * @property {boolean} [iconOnly] the label is read out, not shown
 * @property {string} [id]
 * @property {string} [type]
 * @property {(event: Event) => void} [onclick]
 */

/** @param {ButtonOptions} options */
export function button(options) {
  const classes = [
    "button",
    options.kind ? `button-${options.kind}` : "",
    options.iconOnly ? "button-icon" : "",
  ];
  const attributes = {
    class: classes.join(" ").trim(),
    type: options.type ?? "button",
    id: options.id,
    onclick: options.onclick,
    "aria-label": options.iconOnly ? options.label : null,
    title: options.iconOnly ? options.label : null,
  };
  const text = options.iconOnly ? null : h("span", {}, options.label);
  return h("button", attributes, options.icon ? icon(options.icon) : null, text);
}

/**
 * A button that changes something. It is disabled, with the reason, if the user may not make changes.
 * @param {ButtonOptions} options
 * @param {AbortSignal} signal
 */
export function writeButton(options, signal) {
  const press = (event) => {
    const reason = readOnlyReason(access.value);
    if (reason) {
      event.preventDefault();
      toast(reason);
    } else {
      options.onclick?.(event);
    }
  };
  const element = button({ ...options, onclick: press });
  access.follow((now) => setDisabled(element, readOnlyReason(now), options.label), signal);
  return element;
}

function setDisabled(element, reason, label) {
  element.toggleAttribute("data-read-only", reason !== null);
  element.setAttribute("aria-disabled", String(reason !== null));
  element.title = reason ?? (element.classList.contains("button-icon") ? label : "");
}

/** @param {string} text @param {string} [tone] `ok`, `warn`, `bad`, `accent` */
export function chip(text, tone) {
  return h("span", { class: tone ? `chip chip-${tone}` : "chip" }, text);
}

/** An empty state, with a sentence that says what to do. */
export function empty(title, sentence, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", {}, sentence), ...more);
}

/** Grey bars while something loads. @param {number} lines */
export function skeleton(lines = 3) {
  const bars = Array.from({ length: lines }, () => h("span", { class: "skeleton-line" }));
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, bars);
}

/**
 * An error, shown where it happened.
 * @param {Error} error
 * @param {() => void} [retry]
 */
export function problem(error, retry) {
  const again = retry ? button({ label: "Try again", kind: "quiet", onclick: retry }) : null;
  return h("div", { class: "problem", role: "alert" }, icon("alert"), h("p", {}, error.message), again);
}

/** A line of explanation inside a page. */
export function notice(tone, ...children) {
  return h(
    "div",
    { class: `notice notice-${tone}` },
    icon(tone === "warn" ? "alert" : "info"),
    h("div", {}, ...children),
  );
}

/** @param {string} label @param {HTMLElement} control @param {string} [hint] */
export function field(label, control, hint) {
  const note = hint ? h("span", { class: "hint" }, hint) : null;
  return h("label", { class: "field" }, h("span", { class: "field-label" }, label), control, note);
}

/** A check box with its label. */
export function check(label, attributes = {}) {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", ...attributes }),
    h("span", {}, label),
  );
}

/** A list of terms and values. @param {Array<[string, any]>} pairs */
export function facts(pairs) {
  const row = ([term, value]) => h("div", { class: "fact" }, h("dt", {}, term), h("dd", {}, value));
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(row));
}

/** Copies text to the clipboard, even where the browser has no clipboard API for plain http. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    copyBySelection(text);
  }
}

function copyBySelection(text) {
  const area = h("textarea", { class: "off-screen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  toast(document.execCommand("copy") ? "Copied." : "This browser does not allow the console to copy.");
  area.remove();
}

/**
 * Runs an action of a button: disables it meanwhile, and shows an error beside it.
 * @param {HTMLButtonElement} pressed
 * @param {HTMLElement} errorPlace
 * @param {() => Promise<void>} run
 */
export async function busy(pressed, errorPlace, run) {
  pressed.disabled = true;
  show(errorPlace);
  try {
    await run();
  } catch (error) {
    show(errorPlace, problem(error));
  } finally {
    pressed.disabled = false;
  }
}
