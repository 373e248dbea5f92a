/** The frame of the pages that read one thing again and again. */

import { isAbort, reach } from "../core/api.js";
import { access } from "../core/access.js";
import { h, show } from "../core/dom.js";
import { problem, skeleton } from "./controls.js";

/** @param {string} title @param {string} lead one sentence that says what the page is for @param {...any} tools */
export function pageHead(title, lead, ...tools) {
  return h(
    "div",
    { class: "page-head" },
    h("div", {}, h("h1", {}, title), h("p", { class: "muted" }, lead)),
    h("div", { class: "page-tools" }, ...tools),
  );
}

/**
 * Shows a place that is filled by reading: bars at first, then what was read; when reading fails, the error
 * only if there is nothing better on screen.
 */
export class Loaded {
  /**
   * @param {import("../core/scope.js").Scope} scope
   * @param {() => Promise<any>} fetch
   * @param {(answer: any, place: HTMLElement) => void} draw
   */
  constructor(scope, fetch, draw) {
    Object.assign(this, { scope, fetch, draw });
    this.place = h("div", { class: "loaded" }, skeleton(5));
    this.filled = false;
    access.onChange(() => this.load(), scope.signal);
    reach.onChange((now) => now === "up" && this.load(), scope.signal);
  }

  /** Reads now and again. @param {number} pauseMs */
  every(pauseMs) {
    this.scope.every(pauseMs, () => this.load());
    return this.place;
  }

  async load() {
    try {
      const answer = await this.fetch();
      if (!this.scope.signal.aborted) {
        this.filled = true;
        this.draw(answer, this.place);
      }
    } catch (error) {
      if (!isAbort(error) && !this.filled) {
        show(
          this.place,
          problem(error, () => this.load()),
        );
      }
    }
  }
}

/**
 * Draws only when what is drawn has changed, so that focus, selection and open details stay.
 * @param {(answer: any, place: HTMLElement) => void} draw
 */
export function whenChanged(draw) {
  let last = "";
  return (answer, place) => {
    const now = JSON.stringify(answer);
    if (now !== last) {
      last = now;
      draw(answer, place);
    }
  };
}
