/** The children of one znode as a table: pages, and a filter that the server applies. */

import { isAbort, read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { bytes, count, moment, plural } from "../core/format.js";
import { childOf, hrefOf } from "../core/paths.js";
import { settled } from "../core/scope.js";
import { button, chip, empty, problem, skeleton } from "../ui/controls.js";

const PAGE = 200;

export class ChildrenPanel {
  constructor() {
    this.filter = h("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter by name",
      "aria-label": "Filter children by name",
      autocomplete: "off",
    });
    this.filter.addEventListener(
      "input",
      settled(150, () => this.load()),
    );
    this.status = h("span", { class: "muted", role: "status" });
    this.rows = h("tbody", {});
    const columns = [
      ["Name"],
      ["Type", "wide-only"],
      ["Size", "number wide-only"],
      ["Children", "number"],
      ["Version", "number wide-only"],
      ["Modified", "number"],
    ];
    const head = h(
      "tr",
      {},
      columns.map(([text, name]) => h("th", { scope: "col", class: name }, text)),
    );
    this.table = h("table", { class: "table" }, h("thead", {}, head), this.rows);
    this.foot = h("div", { class: "panel-foot" });
    const bar = h("div", { class: "panel-bar" }, this.filter, this.status);
    this.element = h(
      "div",
      { class: "children-panel" },
      bar,
      h("div", { class: "table-frame" }, this.table),
      this.foot,
    );
    this.running = new AbortController();
  }

  /** @param {any} node */
  open(node) {
    this.path = node.path;
    this.filter.value = "";
    show(this.rows);
    this.table.hidden = true;
    show(this.foot, skeleton(4));
    return this.load();
  }

  /** Reads the shown pages again. */
  async load() {
    this.running.abort();
    this.running = new AbortController();
    const limit = Math.min(1000, Math.max(PAGE, this.rows.childElementCount));
    await this.read({ limit }, (page) =>
      show(
        this.rows,
        page.children.map((info) => this.row(info)),
      ),
    );
  }

  async more(next) {
    await this.read({ after: next, limit: PAGE }, (page) =>
      this.rows.append(...page.children.map((info) => this.row(info))),
    );
  }

  async read(query, take) {
    const { signal } = this.running;
    try {
      const page = await read(
        "children",
        { path: this.path, filter: this.filter.value || null, ...query },
        signal,
      );
      if (!signal.aborted) {
        take(page);
        this.drawFoot(page);
      }
    } catch (error) {
      if (!isAbort(error)) {
        show(
          this.foot,
          problem(error, () => this.load()),
        );
      }
    }
  }

  drawFoot(page) {
    const shown = this.rows.childElementCount;
    const matched = page.matched ?? page.total;
    const filtered = this.filter.value !== "";
    show(
      this.status,
      filtered
        ? `${count(matched)} of ${plural(page.total, "child", "children")}`
        : plural(page.total, "child", "children"),
    );
    this.table.hidden = shown === 0;
    if (shown === 0) {
      show(
        this.foot,
        filtered
          ? empty("No child matches the filter.", "Clear the filter to see all.")
          : empty("No children.", "Use “Create child” above to add one."),
      );
    } else if (page.next !== null && page.next !== undefined) {
      const label = `Show more (${count(matched - shown)} left)`;
      show(this.foot, button({ label, id: "more-children", onclick: () => this.more(page.next) }));
    } else {
      show(this.foot);
    }
  }

  row(info) {
    const path = childOf(this.path, info.name);
    const type = info.type === "persistent" ? h("span", { class: "muted" }, "persistent") : chip(info.type);
    return h(
      "tr",
      { "data-name": info.name },
      h("td", { class: "grow-cell" }, h("a", { href: hrefOf(path), class: "mono" }, info.name)),
      h("td", { class: "wide-only" }, type),
      h("td", { class: "number wide-only" }, bytes(info.data_length)),
      h(
        "td",
        { class: "number" },
        info.num_children > 0 ? count(info.num_children) : h("span", { class: "muted" }, "–"),
      ),
      h("td", { class: "number wide-only" }, count(info.version)),
      h("td", { class: "number" }, moment(info.mtime_ms)),
    );
  }
}
