/** One znode at the right: its path, actions, data, children, ACL and details. */

import { access, readOnlyReason } from "../core/access.js";
import { isAbort, reach, read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { count } from "../core/format.js";
import { hrefOf, lineage, nameOf, parentOf } from "../core/paths.js";
import { button, chip, copy, empty, notice, problem, skeleton, writeButton } from "../ui/controls.js";
import { confirm } from "../ui/dialog.js";
import { askLogin } from "../ui/login.js";
import { AclPanel } from "./acl-panel.js";
import { ChildrenPanel } from "./children-panel.js";
import { askCreate } from "./create-dialog.js";
import { DataPanel } from "./data-panel.js";
import { askDelete } from "./delete-dialog.js";
import { details } from "./details.js";

const TABS = [
  ["data", "Data"],
  ["children", "Children"],
  ["acl", "Access"],
];
const FRESH_MS = 2400;

export class NodePane {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.path = null;
    this.node = null;
    /** @type {string | null} the tab that the user chose */
    this.chosen = null;
    this.running = new AbortController();
    this.panels = {
      data: new DataPanel(signal, (node) => this.saved(node)),
      children: new ChildrenPanel(),
      acl: new AclPanel(signal, () => this.refresh()),
    };
    this.make = writeButton(
      { label: "Create child", icon: "plus", id: "create-child", onclick: () => askCreate(this.path) },
      signal,
    );
    this.drop = writeButton(
      {
        label: "Delete",
        icon: "trash",
        kind: "danger-quiet",
        id: "delete",
        onclick: () => askDelete(this.node),
      },
      signal,
    );
    this.fresh = h("span", { class: "fresh-mark", role: "status" });
    this.head = h("div", { class: "node-head" });
    this.state = h("div", { class: "node-state" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the znode" });
    this.panel = h("div", { class: "tab-panel", role: "tabpanel", id: "tab-panel", tabindex: "-1" });
    this.facts = h("div", { class: "node-facts" });
    this.body = h(
      "div",
      { class: "node-body" },
      h("div", { class: "node-main" }, this.tabs, this.panel),
      this.facts,
    );
    this.element = h(
      "section",
      { class: "node-pane", "aria-label": "Znode" },
      this.head,
      this.state,
      this.body,
    );
    this.tabs.addEventListener("keydown", (event) => this.key(event));
    access.onChange(() => this.path && this.refresh(), signal);
    reach.onChange((now) => now === "up" && this.path && this.refresh(), signal);
  }

  get isDirty() {
    return this.node !== null && (this.panels.data.isDirty || this.panels.acl.isDirty);
  }

  /** @param {string} path */
  async open(path) {
    this.path = path;
    this.node = null;
    this.tab = null;
    this.body.hidden = true;
    this.drawHead();
    show(this.state, skeleton(6));
    await this.load();
  }

  /** Reads it again, and keeps unsaved text. */
  refresh() {
    return this.load();
  }

  async load() {
    this.running.abort();
    this.running = new AbortController();
    try {
      this.took(await read("node", { path: this.path }, this.running.signal));
    } catch (error) {
      if (!isAbort(error)) {
        this.failed(error);
      }
    }
  }

  failed(error) {
    // While the server is unavailable, the banner says so and the content stays on screen.
    if (this.node && (error.status === 0 || error.status === 503)) {
      return;
    }
    this.body.hidden = !this.isDirty;
    show(
      this.state,
      error.status === 404
        ? this.gone()
        : error.status === 403
          ? refused()
          : problem(error, () => this.refresh()),
    );
  }

  gone() {
    const up = parentOf(this.path);
    return empty(
      "This znode does not exist.",
      "It was deleted, or never created. ",
      h("p", {}, h("a", { href: hrefOf(up) }, `Go to ${up}`)),
    );
  }

  took(node) {
    const before = this.node;
    this.node = node;
    this.body.hidden = false;
    show(this.state, this.readOnlyNote());
    if (before) {
      this.panels.data.refresh(node);
    } else {
      this.drawHead();
      this.panels.data.open(node);
      this.openTab(this.chosen ?? firstTab(node));
    }
    // Redrawing unchanged content would lose the focus.
    if (JSON.stringify(before?.stat) !== JSON.stringify(node.stat)) {
      show(this.facts, details(node));
      this.drawTabs();
    }
    if (before && before.stat.mzxid !== node.stat.mzxid) {
      this.markFresh();
    }
  }

  /** After saving, the change is not highlighted. */
  saved(node) {
    const before = this.node;
    this.node = { ...before, stat: { ...before.stat, mzxid: node.stat.mzxid } };
    this.took(node);
  }

  markFresh() {
    this.element.classList.add("fresh");
    show(this.fresh, chip("changed just now", "accent"));
    clearTimeout(this.freshTimer);
    this.freshTimer = setTimeout(() => {
      this.element.classList.remove("fresh");
      show(this.fresh);
    }, FRESH_MS);
  }

  readOnlyNote() {
    const reason = readOnlyReason(access.value);
    if (!reason || !access.value.known) {
      return null;
    }
    const enter = access.value.loggedIn
      ? null
      : button({ label: "Log in", kind: "quiet", onclick: askLogin });
    return notice("info", reason, " ", enter);
  }

  drawHead() {
    const type = this.node && this.node.type !== "persistent" ? chip(this.node.type, "accent") : null;
    const title = h(
      "h1",
      { class: "node-name" },
      h("span", { class: "mono" }, nameOf(this.path)),
      type,
      this.fresh,
    );
    const copyPath = button({
      label: "Copy path",
      icon: "copy",
      kind: "quiet",
      iconOnly: true,
      id: "copy-path",
      onclick: () => copy(this.path),
    });
    show(
      this.head,
      h("div", { class: "crumb-line" }, crumbs(this.path), copyPath),
      h("div", { class: "title-line" }, title, this.node ? this.actions() : null),
    );
  }

  actions() {
    const stays = this.path === "/" || this.path === "/zookeeper";
    return h("div", { class: "actions" }, this.make, stays ? null : this.drop);
  }

  drawTabs() {
    show(
      this.tabs,
      TABS.map(([name, label]) => this.tabButton(name, label)),
    );
  }

  tabButton(name, label) {
    const selected = name === this.tab;
    const number =
      name === "children" ? h("span", { class: "tab-count" }, count(this.node.stat.num_children)) : null;
    const attributes = {
      type: "button",
      role: "tab",
      id: `tab-${name}`,
      "aria-selected": selected,
      "aria-controls": "tab-panel",
      tabindex: selected ? 0 : -1,
      onclick: () => this.choose(name),
    };
    return h("button", attributes, label, number);
  }

  choose(name) {
    this.chosen = name;
    if (!this.node) {
      return;
    }
    this.openTab(name);
    this.drawTabs();
    document.getElementById(`tab-${name}`)?.focus();
  }

  openTab(name) {
    if (this.tab === name) {
      return;
    }
    this.tab = name;
    const panel = this.panels[name];
    if (name !== "data" && !(name === "acl" && panel.path === this.path && panel.isDirty)) {
      panel.open(this.node);
    }
    this.panel.setAttribute("aria-labelledby", `tab-${name}`);
    show(this.panel, panel.element);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const names = TABS.map(([name]) => name);
      this.choose(names[(names.indexOf(this.tab) + step + names.length) % names.length]);
      event.preventDefault();
    }
  }

  /** Children were created or deleted. */
  childrenChanged() {
    if (this.node && this.tab === "children") {
      this.panels.children.load();
    }
  }

  /** Asks before unsaved text is discarded. */
  async mayLeave() {
    const text = `Your changes of ${this.path} are not saved.`;
    const leave = await confirm({
      title: "Leave without saving?",
      text,
      yes: "Leave",
      no: "Stay",
      kind: "danger",
    });
    if (leave) {
      this.panels.data.open(this.node);
      this.panels.acl.forget();
    }
    return leave;
  }
}

function firstTab(node) {
  return node.stat.data_length === 0 && node.stat.num_children > 0 ? "children" : "data";
}

function refused() {
  return empty(
    "You may not read this znode.",
    "Its ACL does not allow you to read it. Log in as a user who may.",
    button({ label: "Log in", icon: "key", onclick: askLogin }),
  );
}

function crumbs(path) {
  const links = lineage(path).map((step, i) => {
    const name = i === 0 ? "root" : nameOf(step);
    const link = h(
      "a",
      { href: hrefOf(step), class: i === 0 ? "" : "mono", "aria-current": step === path ? "location" : null },
      name,
    );
    return h("li", {}, i === 0 ? null : icon("chevron"), link);
  });
  return h("nav", { "aria-label": "Path" }, h("ol", { class: "crumbs" }, links));
}
