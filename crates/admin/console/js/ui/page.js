/** The frame of pages that poll a resource. */

import { isAbort, reach } from "../core/api.js";
import { access } from "../core/access.js";
import { h, show } from "../core/dom.js";
import { problem, skeleton } from "./controls.js";

/** @param {string} title @param {string} lead a description of the page @param {...any} tools */
export function pageHead(title, lead, ...tools) {
  return h(
    "div",
    { class: "page-head" },
    h("div", {}, h("h1", {}, title), h("p", { class: "muted" }, lead)),
    h("div", { class: "page-tools" }, ...tools),
  );
}

/**
 * An element that is filled by polling: grey bars first, then the data; if polling fails, the error, but only if
 * there is no data on screen.
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

  /** Reads now and repeatedly. @param {number} pauseMs */
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
 * Draws only if the data has changed, so that focus, selection and open details stay.
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
