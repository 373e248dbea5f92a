/**
 * The router for `#/page/rest`. It opens pages, asks them before the user leaves, and ends them
 * with everything they have started.
 */

import { Scope } from "./scope.js";
import { Observable } from "./observable.js";

/**
 * @typedef {object} Page
 * @property {HTMLElement} element
 * @property {(parts: string[]) => void} go the address changed within the page
 * @property {(parts: string[]) => Promise<boolean>} [mayLeave] asked before the address changes
 * @property {() => boolean} [isDirty] whether closing the browser would lose unsaved text
 */

/** @typedef {{title: string, open: (scope: Scope) => Page}} Route */

export class Router {
  /**
   * @param {Record<string, Route>} routes
   * @param {HTMLElement} outlet
   * @param {string} first the page of an empty address
   */
  constructor(routes, outlet, first) {
    this.routes = routes;
    this.outlet = outlet;
    this.first = first;
    /** @type {string | null} the address that is shown */
    this.hash = null;
    /** @type {Observable<string>} */
    this.name = new Observable("");
    /** @type {Page | null} */
    this.page = null;
    this.scope = new Scope();
  }

  start() {
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("beforeunload", (event) => {
      if (this.page?.isDirty?.()) {
        event.preventDefault();
      }
    });
    this.follow();
  }

  async follow() {
    const wanted = location.hash;
    if (wanted === this.hash) {
      return;
    }
    const { name, parts } = parse(wanted, this.first);
    if (this.page?.mayLeave && this.page.isDirty?.()) {
      // Restore the address until the user has decided.
      history.replaceState(null, "", this.hash || "#");
      if (!(await this.page.mayLeave(parts))) {
        return;
      }
      history.replaceState(null, "", wanted);
    }
    this.hash = wanted;
    this.enter(name, parts);
  }

  enter(name, parts) {
    const route = this.routes[name] ?? this.routes[this.first];
    if (!this.page || this.name.value !== name) {
      this.scope.end();
      this.scope = new Scope();
      this.page = route.open(this.scope);
      this.outlet.replaceChildren(this.page.element);
      this.name.value = name;
    }
    document.title = `${route.title} · Herdsman`;
    this.page.go(parts);
  }
}

function parse(hash, first) {
  const [name, ...parts] = hash.replace(/^#\/?/, "").split("/");
  return { name: name || first, parts: parts.filter((part) => part !== "").map(decode) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
