/**
 * The tree at the left. Only visible rows are elements, so a hundred thousand rows cost no more
 * than fifty. One row at a time is in the Tab order; arrow keys move to the other rows.
 */

import { h, icon, s, show } from "../core/dom.js";
import { count } from "../core/format.js";
import { parentOf } from "../core/paths.js";

const ROW_PX = 30;
const BEYOND = 8;
const FLASH_MS = 2400;

export class TreeView {
  /**
   * @param {import("./tree-model.js").TreeModel} model
   * @param {(path: string) => void} choose
   */
  constructor(model, choose) {
    this.model = model;
    this.choose = choose;
    this.selected = "/";
    this.focused = "/";
    /** @type {import("./tree-model.js").Row[]} */
    this.rows = [];
    /** @type {Map<string, HTMLElement>} */
    this.shown = new Map();
    this.space = h("div", { class: "tree-space", role: "presentation" });
    this.element = h("div", { class: "tree", role: "tree", "aria-label": "Znodes" }, this.space);
    this.listen();
  }

  listen() {
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("focusin", (event) => this.noticeFocus(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Takes the model's rows. */
  update() {
    this.rows = this.model.rows();
    this.space.style.height = `${this.rows.length * ROW_PX}px`;
    if (this.index(this.focused) < 0) {
      this.focused = this.index(this.selected) >= 0 ? this.selected : "/";
    }
    this.draw();
  }

  /** @param {string} path */
  select(path) {
    this.selected = path;
    this.focused = path;
    this.update();
    this.scrollTo(this.index(path));
  }

  /** Highlights a changed row for a moment. @param {string} path */
  flash(path) {
    const row = this.shown.get(path);
    row?.classList.add("flash");
    setTimeout(() => row?.classList.remove("flash"), FLASH_MS);
  }

  index(key) {
    return this.rows.findIndex((row) => row.key === key);
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - BEYOND);
    const last = Math.ceil((this.element.scrollTop + this.element.clientHeight) / ROW_PX) + BEYOND;
    const wanted = new Map();
    this.rows.slice(first, last).forEach((row, i) => wanted.set(row.key, [row, first + i]));
    // The focused row stays an element while it is scrolled out of view, or the focus would be lost.
    const at = this.index(this.focused);
    if (at >= 0) {
      wanted.set(this.focused, [this.rows[at], at]);
    }
    this.removeOthers(wanted);
    for (const [row, i] of wanted.values()) {
      this.drawRow(row, i);
    }
    this.loadVisible(this.rows.slice(first, last));
  }

  removeOthers(wanted) {
    for (const [key, element] of this.shown) {
      if (!wanted.has(key)) {
        element.remove();
        this.shown.delete(key);
      }
    }
  }

  drawRow(row, i) {
    let element = this.shown.get(row.key);
    if (!element) {
      element = h("div", { class: "tree-row", "data-key": row.key });
      this.shown.set(row.key, element);
      this.space.append(element);
    }
    element.style.top = `${i * ROW_PX}px`;
    element.style.setProperty("--level", String(row.level - 1));
    const state = describe(row, this.selected === row.key, this.focused === row.key);
    if (element.dataset.state !== state.text) {
      element.dataset.state = state.text;
      fillRow(element, row, state);
    }
    element.tabIndex = this.focused === row.key ? 0 : -1;
  }

  /** Loads more rows at the end of the loaded ones. */
  loadVisible(rows) {
    const more = rows.find((row) => row.kind === "more" && !row.node.loading);
    if (more && this.element.clientHeight > 0) {
      this.model.more(more.node);
    }
  }

  click(event) {
    const row = this.rowOf(event.target);
    if (!row) {
      return;
    }
    this.focused = row.key;
    if (row.kind === "problem") {
      this.model.more(row.node);
    } else if (event.target.closest(".twist") && row.node.mayOpen) {
      this.toggle(row.node);
    } else if (row.kind === "node") {
      this.choose(row.node.path);
    }
    this.draw();
  }

  noticeFocus(event) {
    const row = this.rowOf(event.target);
    if (row && row.key !== this.focused) {
      this.focused = row.key;
      this.draw();
    }
  }

  rowOf(target) {
    const key = target.closest?.(".tree-row")?.dataset.key;
    return key === undefined ? null : this.rows[this.index(key)];
  }

  toggle(node) {
    if (node.expanded) {
      this.model.close(node);
    } else {
      this.model.open(node);
    }
  }

  key(event) {
    const at = this.index(this.focused);
    const row = this.rows[at];
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_PX) - 1);
    const moves = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: this.rows.length - 1,
      PageDown: at + page,
      PageUp: at - page,
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !row) {
      return;
    }
    if (event.key in moves) {
      this.focus(moves[event.key]);
    } else if (!this.act(event.key, row, at)) {
      return;
    }
    event.preventDefault();
  }

  act(key, row, at) {
    if (key === "Enter" || key === " ") {
      this.element.querySelector(`[data-key="${CSS.escape(row.key)}"]`)?.click();
    } else if (key === "ArrowRight") {
      this.goIn(row, at);
    } else if (key === "ArrowLeft") {
      this.goOut(row);
    } else {
      return false;
    }
    return true;
  }

  goIn(row, at) {
    if (row.kind !== "node" || !row.node.mayOpen) {
      return;
    }
    if (row.node.expanded) {
      this.focus(at + 1);
    } else {
      this.model.open(row.node);
    }
  }

  goOut(row) {
    if (row.kind === "node" && row.node.expanded) {
      this.model.close(row.node);
    } else {
      this.focus(this.index(row.kind === "node" ? parentOf(row.key) : row.node.path));
    }
  }

  focus(at) {
    const i = Math.min(Math.max(at, 0), this.rows.length - 1);
    this.focused = this.rows[i].key;
    this.scrollTo(i);
    this.draw();
    this.shown.get(this.focused)?.focus({ preventScroll: true });
  }

  scrollTo(i) {
    const top = i * ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    if (i < 0 || clientHeight === 0) {
      return;
    }
    if (top < scrollTop) {
      this.element.scrollTop = top - ROW_PX;
    } else if (top + 2 * ROW_PX > scrollTop + clientHeight) {
      this.element.scrollTop = top + 2 * ROW_PX - clientHeight;
    }
  }
}

function describe(row, selected, focused) {
  const { node } = row;
  const size = node.children ? node.total : node.info.num_children;
  const open = row.kind === "node" && node.mayOpen ? String(node.expanded) : null;
  const text = [
    row.kind,
    selected,
    open,
    size,
    node.info.type,
    row.position,
    node.problem?.message,
    node.loading,
  ].join("|");
  return { selected, focused, open, size, text };
}

function fillRow(element, row, state) {
  if (row.kind !== "node") {
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(row.level));
    show(element, h("span", { class: "twist" }), h("span", { class: "tree-note" }, tailWords(row)));
    return;
  }
  const attributes = {
    role: "treeitem",
    "aria-level": row.level,
    "aria-selected": state.selected,
    "aria-expanded": state.open,
    "aria-posinset": row.position,
  };
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) {
      element.removeAttribute(name);
    } else {
      element.setAttribute(name, String(value));
    }
  }
  element.title = row.node.path;
  const badge =
    state.size > 0 ? h("span", { class: "tree-count", title: "children" }, count(state.size)) : null;
  const twist = h("span", { class: "twist" }, state.open === null ? null : icon("chevron"));
  show(element, twist, mark(row.node.info.type), h("span", { class: "tree-name" }, row.node.name), badge);
}

function tailWords(row) {
  if (row.kind === "problem") {
    return `${row.node.problem.message} Press Enter to try again.`;
  }
  if (row.kind === "loading" || row.node.loading) {
    return "Loading…";
  }
  return `${count(row.node.total - row.node.children.length)} more`;
}

/** A dot whose shape shows the type of the znode; its title has the name. */
function mark(type) {
  return h(
    "span",
    { class: `mark mark-${type}`, title: type },
    s("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, shape(type)),
  );
}

function shape(type) {
  if (type === "ephemeral") {
    return s("circle", { cx: 5, cy: 5, r: 3.5, class: "hollow" });
  }
  if (type === "container") {
    return s("rect", { x: 1.5, y: 1.5, width: 7, height: 7, rx: 1, class: "hollow" });
  }
  return type === "ttl" ? s("path", { d: "M5 1 L9 8.5 H1 Z" }) : s("circle", { cx: 5, cy: 5, r: 3 });
}
