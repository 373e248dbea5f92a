/** Formats numbers, sizes and times. */

import { h } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];
const STEPS = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [86_400, 3600, "h"],
  [Infinity, 86_400, "d"],
];

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : COUNT.format(value);
}

/** @param {number} value @param {string} one @param {string} [many] */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) {
    return "–";
  }
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  if (unit === 0) {
    return plural(value, "byte");
  }
  return `${rest.toFixed(rest < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

/** A latency. @param {number | null | undefined} ms */
export function millis(ms) {
  if (ms === null || ms === undefined) {
    return "–";
  }
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${round(ms)} ms`;
}

/** Rounds to a sensible number of digits. @param {number} value */
export function round(value) {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return COUNT.format(Number(value.toFixed(digits)));
}

/** A length of time. @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const [, step, unit] = STEPS.find(([below]) => seconds < below);
  const whole = Math.floor(seconds / step);
  const finer = STEPS[STEPS.findIndex((row) => row[1] === step) - 1];
  const rest = finer ? Math.floor((seconds % step) / finer[1]) : 0;
  return rest > 0 && whole < 10 ? `${whole} ${unit} ${rest} ${finer[2]}` : `${whole} ${unit}`;
}

/** @param {number} ms since 1970 */
export function exactTime(ms) {
  return EXACT.format(new Date(ms));
}

/** @param {number} ms since 1970 */
export function clockTime(ms) {
  return CLOCK.format(new Date(ms));
}

/**
 * A moment: how long ago, with the exact time on hover. It is updated by {@link keepTimes}.
 * @param {number | null | undefined} ms
 * @param {"ago" | "for" | "in"} [style]
 */
export function moment(ms, style = "ago") {
  if (ms === null || ms === undefined || ms <= 0) {
    return h("span", { class: "muted" }, "–");
  }
  const date = new Date(ms);
  const attributes = {
    datetime: date.toISOString(),
    title: exactTime(ms),
    "data-at": ms,
    "data-style": style,
  };
  return h("time", attributes, words(ms, style));
}

/** Keeps all shown moments up to date. */
export function keepTimes() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-at]")) {
      const text = words(Number(element.dataset.at), element.dataset.style);
      if (element.textContent !== text) {
        element.textContent = text;
      }
    }
  }, 1000);
}

function words(ms, style) {
  const past = Date.now() - ms;
  if (style === "for") {
    return duration(past);
  }
  if (style === "in") {
    return past >= 0 ? "now" : `in ${duration(-past)}`;
  }
  return past < 2000 ? "just now" : `${duration(past)} ago`;
}
