/**
 * “Go to”: a path, a page, or a search through the whole tree, all in one box.
 * Text that begins with a slash is a path and is completed; any other text is searched for.
 */

import { isAbort, read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { count, plural } from "../core/format.js";
import { childOf, hrefOf, nameOf, parentOf } from "../core/paths.js";
import { settled } from "../core/scope.js";
import { openDialog } from "./dialog.js";
import { chip, problem } from "./controls.js";

const RESULTS_MAX = 50;
const WHERE = [
  ["both", "Names and data"],
  ["names", "Names"],
  ["data", "Data"],
];

/** @typedef {{text: string, note?: string, where?: string, href: string}} Result */

/** @param {string} [start] the initial text */
export function openPalette(start = "") {
  const dialog = openDialog({
    title: "Go to a path or search",
    className: "palette",
    onsubmit: () => list.choose(),
  });
  const list = new ResultList((href) => {
    dialog.close();
    location.hash = href;
  });
  const box = inputBox(start);
  const status = h("p", { class: "muted palette-status", role: "status" });
  const search = new Search(list, status, () => scope.value);
  const scope = scopeSelect(() => search.run(box.value));
  const later = settled(180, () => search.run(box.value));
  box.addEventListener("input", later);
  box.addEventListener("keydown", (event) => list.steer(event));
  dialog.body.append(h("div", { class: "palette-bar" }, icon("search"), box, scope), list.element, status);
  dialog.closed.then(() => search.stop());
  box.focus();
  search.run(start);
}

function inputBox(start) {
  const attributes = {
    type: "text",
    id: "palette-box",
    role: "combobox",
    "aria-label": "Path or text",
    "aria-controls": "palette-results",
    "aria-expanded": "true",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "/path, or text to search for",
  };
  const box = h("input", attributes);
  box.value = start;
  return box;
}

function scopeSelect(changed) {
  const options = WHERE.map(([value, label]) => h("option", { value }, label));
  return h("select", { "aria-label": "Where to search", onchange: changed }, options);
}

/** Queries the server, and drops responses to outdated queries. */
class Search {
  constructor(list, status, where) {
    this.list = list;
    this.status = status;
    this.where = where;
    this.running = new AbortController();
  }

  stop() {
    this.running.abort();
  }

  async run(typed) {
    this.stop();
    this.running = new AbortController();
    const { signal } = this.running;
    try {
      const [results, words] = await this.ask(typed.trim(), signal);
      this.list.show(results);
      show(this.status, words);
    } catch (error) {
      if (!isAbort(error)) {
        this.list.show([]);
        show(this.status, problem(error));
      }
    }
  }

  async ask(typed, signal) {
    if (typed === "") {
      return [pages(), "Begin with / for a path, or type text to search for in the whole tree."];
    }
    if (typed.startsWith("/")) {
      return completions(typed, signal);
    }
    show(this.status, "Searching…");
    return matches(typed, this.where(), signal);
  }
}

function pages() {
  const page = (name) => ({ text: name, note: "page", href: `#/${name.toLowerCase()}` });
  return ["Browse", "Recipes", "Sessions", "Ensemble", "Server"].map(page);
}

async function completions(typed, signal) {
  const parent = parentOf(typed);
  const begun = typed === "/" ? "" : nameOf(typed);
  const itself = typed.length > 1 && typed.endsWith("/") ? typed.slice(0, -1) : typed;
  const answer = await read(
    "children",
    { path: parent, filter: begun || null, limit: RESULTS_MAX },
    signal,
  ).catch((error) => {
    if (error.status === 404) {
      return null;
    }
    throw error;
  });
  if (!answer) {
    return [[], `The znode ${parent} does not exist.`];
  }
  const found = answer.children.map(({ name }) => childOf(parent, name));
  const ranked = found
    .filter((path) => path !== itself)
    .sort((a, b) => Number(b.startsWith(typed)) - Number(a.startsWith(typed)));
  const exact = found.includes(itself) || itself === "/" ? [itself] : [];
  const total = answer.matched ?? answer.total;
  return [
    [...exact, ...ranked].map(toPath),
    total === 0 ? `Nothing in ${parent} contains “${begun}”.` : plural(total, "znode"),
  ];
}

async function matches(words, where, signal) {
  const answer = await read("search", { q: words, in: where, limit: RESULTS_MAX }, signal);
  const results = answer.matches.map((match) => ({
    ...toPath(match.path),
    note: match.excerpt,
    where: match.where,
  }));
  const more = answer.truncated ? " There are more: refine the search." : "";
  const looked = `${count(answer.scanned)} znodes searched.`;
  return [results, `${results.length === 0 ? "Nothing found. " : ""}${looked}${more}`];
}

function toPath(path) {
  return { text: path, href: hrefOf(path) };
}

/** A list box that is controlled from the input above it. */
class ResultList {
  constructor(go) {
    this.go = go;
    this.element = h("ul", {
      id: "palette-results",
      role: "listbox",
      "aria-label": "Results",
      class: "results",
    });
    this.results = [];
    this.at = 0;
  }

  /** @param {Result[]} results */
  show(results) {
    this.results = results;
    show(
      this.element,
      results.map((result, i) => this.row(result, i)),
    );
    this.mark(0);
  }

  row(result, i) {
    const where = result.where ? chip(result.where === "name" ? "name" : "data") : null;
    const note =
      result.note && result.where !== "name" ? h("span", { class: "result-note" }, result.note) : null;
    const text = h("span", { class: "result-text mono" }, result.text);
    const click = () => this.go(result.href);
    return h("li", { role: "option", id: `result-${i}`, class: "result", onclick: click }, text, where, note);
  }

  steer(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.mark((this.at + step + this.results.length) % Math.max(1, this.results.length));
    }
  }

  mark(at) {
    this.at = at;
    [...this.element.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
    this.element.children[at]?.scrollIntoView({ block: "nearest" });
    document.getElementById("palette-box")?.setAttribute("aria-activedescendant", `result-${at}`);
  }

  choose() {
    const result = this.results[this.at];
    if (result) {
      this.go(result.href);
    }
  }
}
