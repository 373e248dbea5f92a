/** Dialogs. They use the browser's dialog element, so that focus stays inside and Escape closes them. */

import { h } from "../core/dom.js";
import { button } from "./controls.js";

/**
 * @typedef {object} Dialog
 * @property {HTMLElement} body
 * @property {HTMLElement} footer
 * @property {(answer?: any) => void} close
 * @property {Promise<any>} closed resolves to the value passed to `close`; `undefined` for Escape
 */

/**
 * Opens an empty dialog.
 * @param {{title: string, className?: string, onsubmit?: () => void}} options
 * @returns {Dialog}
 */
export function openDialog({ title, className = "", onsubmit }) {
  const body = h("div", { class: "dialog-body" });
  const footer = h("div", { class: "dialog-footer" });
  const form = h(
    "form",
    { method: "dialog" },
    head(title, () => element.close()),
    body,
    footer,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onsubmit?.();
  });
  const element = h("dialog", { class: `dialog ${className}`, "aria-label": title }, form);
  let answer;
  const closed = new Promise((resolve) => {
    element.addEventListener("close", () => {
      element.remove();
      resolve(answer);
    });
  });
  const close = (value) => {
    answer = value;
    element.close();
  };
  document.body.append(element);
  element.showModal();
  // After the caller has filled it: focus the first field, or else the button that changes nothing.
  queueMicrotask(() =>
    (body.querySelector("input, textarea, select") ?? footer.querySelector("button"))?.focus(),
  );
  return { body, footer, close, closed };
}

/**
 * Asks a question.
 * @param {{title: string, text: any, yes: string, no?: string, kind?: "primary" | "danger"}} options
 * @returns {Promise<boolean>}
 */
export async function confirm({ title, text, yes, no = "Cancel", kind = "primary" }) {
  const dialog = openDialog({ title, onsubmit: () => dialog.close(true) });
  dialog.body.append(h("p", {}, text));
  dialog.footer.append(cancelButton(dialog, no), button({ label: yes, kind, type: "submit" }));
  return (await dialog.closed) === true;
}

/** @param {Dialog} dialog @param {string} [label] */
export function cancelButton(dialog, label = "Cancel") {
  return button({ label, onclick: () => dialog.close() });
}

function head(title, close) {
  const shut = button({ label: "Close", icon: "close", kind: "quiet", iconOnly: true, onclick: close });
  return h("div", { class: "dialog-head" }, h("h2", {}, title), shut);
}
