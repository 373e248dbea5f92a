/** Browse: the tree at the left, one znode at the right, both live. */

import { access } from "../core/access.js";
import { reach } from "../core/api.js";
import { h } from "../core/dom.js";
import { hrefOf, parentOf } from "../core/paths.js";
import { soon } from "../core/scope.js";
import { Live } from "../browse/live.js";
import { NodePane } from "../browse/node-pane.js";
import { TreeModel } from "../browse/tree-model.js";
import { TreeView } from "../browse/tree-view.js";

const REFRESH_MS = 250;
const LIVE_WORDS = {
  connecting: ["Connecting", "Connecting to the stream of changes."],
  tree: ["Live", "Changes appear as they happen."],
  node: ["Live, this znode", "Very many changes right now: only the znode on screen is watched."],
  lost: ["Not live", "The stream of changes was lost; retrying."],
};

/** @param {import("../core/scope.js").Scope} scope @returns {import("../core/router.js").Page} */
export function browsePage(scope) {
  const page = new BrowsePage(scope);
  return {
    element: page.element,
    go: (parts) => page.go(`/${parts.join("/")}`),
    isDirty: () => page.pane.isDirty,
    mayLeave: () => page.pane.mayLeave(),
  };
}

class BrowsePage {
  constructor(scope) {
    this.model = new TreeModel(() => this.view?.update());
    this.view = new TreeView(this.model, (path) => this.choose(path));
    this.pane = new NodePane(scope.signal);
    this.live = new Live(this, scope.signal);
    /** Nodes whose children have changed since they were read. @type {Set<string>} */
    this.stale = new Set();
    this.refreshSoon = soon(REFRESH_MS, () => this.refreshStale());
    this.refreshNodeSoon = soon(REFRESH_MS, () => this.pane.refresh());
    this.element = this.layout();
    this.live.start();
    access.onChange(() => this.live.connect(), scope.signal);
    reach.onChange((now) => now === "up" && this.ready(), scope.signal);
  }

  layout() {
    const state = h("span", { class: "live", id: "live" });
    this.live.state.follow((now) => {
      state.dataset.state = now;
      [state.textContent, state.title] = LIVE_WORDS[now];
    });
    const head = h("div", { class: "tree-head" }, h("h2", {}, "Znodes"), state);
    const side = h("section", { class: "tree-side", "aria-label": "Tree" }, head, this.view.element);
    return h("div", { class: "browse" }, side, this.pane.element);
  }

  choose(path) {
    const href = hrefOf(path);
    if (location.hash === href) {
      this.pane.element.scrollIntoView({ block: "nearest" });
    }
    location.hash = href;
  }

  async go(path) {
    this.element.dataset.at = path === "/" ? "root" : "node";
    this.live.look(path);
    const opened = this.pane.open(path);
    await this.model.reveal(path);
    this.view.select(path);
    await opened;
  }

  /** The stream is open, or has a gap: everything on screen may be outdated. */
  ready() {
    this.markOpen(this.model.root);
    this.refreshSoon();
    if (this.pane.node) {
      this.refreshNodeSoon();
    }
  }

  markOpen(node) {
    if (node.expanded && node.children) {
      this.stale.add(node.path);
      node.children.forEach((child) => this.markOpen(child));
    }
  }

  /** @param {import("../core/events.js").WatchEvent} event */
  change({ type, path }) {
    if (type === "deleted") {
      this.model.drop(path);
    }
    if (type === "created" || type === "deleted") {
      this.childrenOf(parentOf(path));
    } else if (type === "children") {
      this.childrenOf(path);
    } else {
      this.view.flash(path);
    }
    if (path === this.pane.path || (type !== "changed" && parentOf(path) === this.pane.path)) {
      this.refreshNodeSoon();
    }
  }

  childrenOf(path) {
    this.stale.add(path);
    // So that a znode with its first child can be expanded.
    this.stale.add(parentOf(path));
    this.refreshSoon();
    if (path === this.pane.path) {
      this.childrenStale = true;
    }
  }

  async refreshStale() {
    const paths = [...this.stale];
    this.stale.clear();
    if (this.childrenStale) {
      this.childrenStale = false;
      this.pane.childrenChanged();
    }
    for (const path of paths) {
      await this.model.refresh(path);
    }
    this.view.update();
  }
}
