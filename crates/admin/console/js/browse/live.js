/**
 * Live updates. One stream for the whole tree while there are few changes; if there are very many,
 * only the znode on screen is watched, so that the console never costs the servers much.
 */

import { watch } from "../core/events.js";
import { Observable } from "../core/observable.js";

const BUSY_EVENTS = 400;
const BUSY_WINDOW_MS = 2000;

/** @typedef {"connecting" | "tree" | "node" | "lost"} LiveState */

export class Live {
  /**
   * @param {{change: (event: import("../core/events.js").WatchEvent) => void, ready: () => void}} target
   * @param {AbortSignal} signal
   */
  constructor(target, signal) {
    this.target = target;
    this.signal = signal;
    /** @type {Observable<LiveState>} */
    this.state = new Observable("connecting");
    this.path = "/";
    this.busy = false;
    this.controller = null;
    this.windowStart = 0;
    this.windowEvents = 0;
  }

  start() {
    this.connect();
    this.signal.addEventListener("abort", () => this.controller?.abort());
  }

  /** Sets the znode on screen. @param {string} path */
  look(path) {
    const moved = path !== this.path;
    this.path = path;
    if (this.busy && moved) {
      this.connect();
    }
  }

  /** Opens the stream again, for example after logging in. */
  connect() {
    this.controller?.abort();
    this.controller = new AbortController();
    const query = this.busy ? { path: this.path } : { path: "/", recursive: true };
    watch(query, this, this.controller.signal);
  }

  ready() {
    this.state.value = this.busy ? "node" : "tree";
    this.target.ready();
  }

  lost() {
    this.state.value = "lost";
  }

  /** @param {import("../core/events.js").WatchEvent} event */
  change(event) {
    this.target.change(event);
    if (!this.busy && this.isTooMuch()) {
      this.busy = true;
      this.connect();
    }
  }

  isTooMuch() {
    const now = performance.now();
    if (now - this.windowStart > BUSY_WINDOW_MS) {
      this.windowStart = now;
      this.windowEvents = 0;
    }
    this.windowEvents += 1;
    return this.windowEvents > BUSY_EVENTS;
  }
}
