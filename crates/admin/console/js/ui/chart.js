/**
 * Line charts over time, drawn as SVG: axes with round numbers, a legend, and a read-out under the pointer
 * or the arrow keys.
 */

import { h, s, show } from "../core/dom.js";
import { clockTime, round } from "../core/format.js";

const HEIGHT = 190;
const MARGIN = { top: 10, right: 12, bottom: 24, left: 46 };
/** Most points of a line; more would only add noise. */
const POINTS_MAX = 240;
/** After this many intervals without a sample the line has a gap. */
const GAP_INTERVALS = 4;

/**
 * @typedef {object} Series
 * @property {string} key
 * @property {string} label
 * @property {number} tone
 * @property {boolean} [peaks] whether a point shows the highest of its samples, not their mean
 */

export class Chart {
  /**
   * @param {{title: string, unit: string, series: Series[], spanMs: number}} options
   */
  constructor({ title, unit, series, spanMs }) {
    Object.assign(this, { title, unit, series, spanMs });
    this.samples = [];
    this.intervalMs = 2000;
    /** @type {number | null} the sample in the read-out */
    this.at = null;
    this.readout = h("div", { class: "chart-readout", role: "status" });
    this.svg = s("svg", {
      class: "chart-svg",
      height: HEIGHT,
      role: "img",
      tabindex: "0",
      "aria-label": title,
    });
    const legend = h(
      "ul",
      { class: "legend" },
      series.map(({ label, tone }) => h("li", { class: `tone-${tone}` }, label)),
    );
    const head = h(
      "figcaption",
      { class: "chart-head" },
      h("h3", {}, title),
      h("span", { class: "muted" }, unit),
      legend,
    );
    this.element = h("figure", { class: "chart" }, head, this.svg, this.readout);
    this.listen();
  }

  listen() {
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.pick(null));
    this.svg.addEventListener("blur", () => this.pick(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** @param {any[]} samples @param {number} intervalMs */
  show(samples, intervalMs) {
    this.samples = samples;
    this.intervalMs = intervalMs;
    this.draw();
  }

  get width() {
    return Math.max(220, this.svg.clientWidth || this.element.clientWidth);
  }

  draw() {
    if (this.samples.length === 0) {
      show(this.svg);
      show(this.readout, "No data yet.");
      return;
    }
    const scale = this.scale();
    this.svg.setAttribute("aria-label", this.summary());
    show(
      this.svg,
      yAxis(scale),
      xAxis(scale),
      this.series.map((line) => this.line(line, scale)),
      this.cursor(scale),
    );
    this.drawReadout();
  }

  scale() {
    const end = this.samples.at(-1).at_ms;
    const start = Math.max(end - this.spanMs, Math.min(this.samples[0].at_ms, end - 60_000));
    const values = this.samples.flatMap((sample) => this.series.map(({ key }) => sample[key] ?? 0));
    const top = niceTop(values.reduce((most, value) => Math.max(most, value), 0));
    const { left, right, bottom, top: upper } = MARGIN;
    const inner = this.width - left - right;
    return {
      start,
      end,
      top,
      width: this.width,
      x: (ms) => left + ((ms - start) / (end - start)) * inner,
      y: (value) => HEIGHT - bottom - (value / top) * (HEIGHT - bottom - upper),
    };
  }

  line(series, scale) {
    const group = Math.ceil(this.samples.length / POINTS_MAX);
    let path = "";
    let last = -Infinity;
    for (const { at, value } of thin(this, series, group)) {
      if (value === null || at < scale.start) {
        last = -Infinity;
        continue;
      }
      const point = `${scale.x(at).toFixed(1)} ${scale.y(value).toFixed(1)}`;
      // A line without length makes a dot, or a single sample would be invisible.
      path += at - last > GAP_INTERVALS * group * this.intervalMs ? `M${point}h0` : `L${point}`;
      last = at;
    }
    return s("path", { d: path || "M0 0", class: `chart-line tone-${series.tone}` });
  }

  cursor(scale) {
    const sample = this.at === null ? null : this.samples[this.at];
    if (!sample) {
      return null;
    }
    const x = scale.x(sample.at_ms);
    const dots = this.series.map(({ key, tone }) => {
      const value = sample[key];
      return value === null || value === undefined
        ? null
        : s("circle", { cx: x, cy: scale.y(value), r: 3.5, class: `chart-dot tone-${tone}` });
    });
    return s(
      "g",
      {},
      s("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: "chart-cursor" }),
      dots,
    );
  }

  drawReadout() {
    const sample = this.samples[this.at ?? this.samples.length - 1];
    const value = ({ key, label, tone }) =>
      h("span", { class: `readout tone-${tone}` }, `${label} `, h("strong", {}, number(sample[key])));
    show(
      this.readout,
      h("span", { class: "muted" }, this.at === null ? "now" : clockTime(sample.at_ms)),
      this.series.map(value),
    );
  }

  summary() {
    const last = this.samples.at(-1);
    return `${this.title}, ${this.unit}: ${this.series.map(({ key, label }) => `${label} ${number(last[key])}`).join(", ")}`;
  }

  point(x) {
    if (this.samples.length === 0) {
      return;
    }
    const scale = this.scale();
    const distance = (sample) => Math.abs(scale.x(sample.at_ms) - x);
    let nearest = 0;
    this.samples.forEach((sample, i) => {
      if (distance(sample) < distance(this.samples[nearest])) {
        nearest = i;
      }
    });
    this.pick(nearest);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && this.samples.length > 0) {
      event.preventDefault();
      const from = this.at ?? this.samples.length - 1;
      this.pick(Math.min(Math.max(from + step, 0), this.samples.length - 1));
    }
  }

  pick(at) {
    this.at = at;
    this.draw();
  }
}

/** One point for each group of samples. Groups begin at fixed times, or the line would flicker. */
function thin({ samples, intervalMs }, { key, peaks }, group) {
  const groups = new Map();
  const width = group * intervalMs;
  for (const sample of samples) {
    const slot = Math.floor(sample.at_ms / width);
    groups.set(slot, [...(groups.get(slot) ?? []), sample]);
  }
  return [...groups.values()].map((list) => {
    const values = list.map((sample) => sample[key]).filter((value) => value !== null && value !== undefined);
    const sum = values.reduce((total, value) => total + value, 0);
    const value = values.length === 0 ? null : peaks ? Math.max(...values) : sum / values.length;
    return { at: list.at(-1).at_ms, value };
  });
}

function number(value) {
  return value === null || value === undefined ? "–" : round(value);
}

/** The next round number above: 1, 2 or 5 times a power of ten. */
function niceTop(value) {
  if (value <= 0) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? 10 * power;
}

function yAxis(scale) {
  const steps = String(scale.top).replace(/[0.]/g, "") === "5" ? 5 : 4;
  const ticks = Array.from({ length: steps + 1 }, (_, i) => (scale.top * i) / steps);
  return ticks.map((value) => {
    const y = scale.y(value);
    const line = s("line", {
      x1: MARGIN.left,
      x2: scale.width - MARGIN.right,
      y1: y,
      y2: y,
      class: value === 0 ? "chart-base" : "chart-grid",
    });
    return [
      line,
      s("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end", class: "chart-label" }, round(value)),
    ];
  });
}

function xAxis(scale) {
  const steps = Math.max(1, Math.min(4, Math.floor(scale.width / 130)));
  return Array.from({ length: steps + 1 }, (_, i) => {
    const ms = scale.start + ((scale.end - scale.start) * i) / steps;
    const anchor = i === 0 ? "start" : i === steps ? "end" : "middle";
    return s(
      "text",
      { x: scale.x(ms), y: HEIGHT - 6, "text-anchor": anchor, class: "chart-label" },
      clockTime(ms),
    );
  });
}
