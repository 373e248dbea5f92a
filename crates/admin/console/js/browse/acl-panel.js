/**
 * The ACL of a znode. Unknown schemes are shown and sent back as
 * they are: the server validates them.
 */

import { access } from "../core/access.js";
import { change, isAbort, read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { busy, button, check, chip, empty, problem, skeleton, writeButton } from "../ui/controls.js";
import { toast } from "../ui/toast.js";

const PERMISSIONS = [
  ["c", "create"],
  ["d", "delete"],
  ["r", "read"],
  ["w", "write"],
  ["a", "admin"],
];
const SCHEMES = ["world", "auth", "digest", "ip", "x509", "sasl", "super"];

/** @typedef {{scheme: string, id: string, perms: string}} Entry */

export class AclPanel {
  /** @param {AbortSignal} signal @param {() => void} saved */
  constructor(signal, saved) {
    this.saved = saved;
    /** @type {Entry[]} */
    this.entries = [];
    this.original = "[]";
    this.rows = h("tbody", {});
    this.message = h("div", { "aria-live": "polite" });
    this.recursive = check("Include everything below it", { id: "acl-recursive" });
    this.save = writeButton(
      { label: "Save ACL", icon: "save", kind: "primary", id: "save-acl", onclick: () => this.store() },
      signal,
    );
    const add = (label, entry, id) =>
      writeButton({ label, icon: "plus", id, onclick: () => this.add(entry) }, signal);
    const adds = [
      add("Entry", { scheme: "digest", id: "", perms: "r" }, "add-entry"),
      add("Anyone may read", { scheme: "world", id: "anyone", perms: "r" }),
      add("All permissions for me", { scheme: "auth", id: "", perms: "cdrwa" }),
    ];
    const options = h(
      "datalist",
      { id: "schemes" },
      SCHEMES.map((value) => h("option", { value })),
    );
    const head = h(
      "tr",
      {},
      ["Scheme", "Id", "Permissions", ""].map((text) => h("th", { scope: "col" }, text)),
    );
    const table = h("table", { class: "table acl-table" }, h("thead", {}, head), this.rows);
    const bar = h(
      "div",
      { class: "panel-bar" },
      adds,
      h("div", { class: "bar-end" }, this.recursive, this.save),
    );
    this.body = h("div", {}, h("div", { class: "table-frame" }, table), bar, options);
    this.element = h("div", { class: "acl-panel" }, this.body, this.message);
    access.onChange(() => this.draw(), signal);
  }

  get isDirty() {
    return JSON.stringify(this.entries) !== this.original;
  }

  /** @param {any} node */
  async open(node) {
    this.path = node.path;
    this.body.hidden = true;
    show(this.message, skeleton(2));
    await this.load();
  }

  async load() {
    const { path } = this;
    try {
      const answer = await read("acl", { path });
      if (path === this.path) {
        this.take(answer);
      }
    } catch (error) {
      if (!isAbort(error) && path === this.path) {
        this.body.hidden = true;
        show(this.message, error.status === 403 ? hidden() : problem(error, () => this.load()));
      }
    }
  }

  take(answer) {
    this.version = answer.aversion;
    this.entries = answer.acl.map(({ scheme, id, perms }) => ({ scheme, id, perms }));
    this.original = JSON.stringify(this.entries);
    this.body.hidden = false;
    show(this.message);
    this.draw();
  }

  /** Discards unsaved changes. */
  forget() {
    this.entries = JSON.parse(this.original);
  }

  /** @param {Entry} entry */
  add(entry) {
    this.entries.push({ ...entry });
    this.draw();
    this.rows.lastElementChild?.querySelector("input")?.focus();
  }

  draw() {
    show(
      this.rows,
      this.entries.map((entry) => this.row(entry)),
    );
    this.drawState();
  }

  drawState() {
    this.save.disabled = !this.isDirty;
    this.element.classList.toggle("dirty", this.isDirty);
  }

  row(entry) {
    const locked = !access.value.canWrite;
    const remove = () => {
      this.entries = this.entries.filter((other) => other !== entry);
      this.draw();
    };
    const trash = button({
      label: "Remove this entry",
      icon: "trash",
      kind: "quiet",
      iconOnly: true,
      onclick: remove,
    });
    trash.disabled = locked;
    return h(
      "tr",
      {},
      h(
        "td",
        {},
        this.input(entry, "scheme", {
          list: "schemes",
          "aria-label": "Scheme",
          class: "mono short",
          readonly: locked,
        }),
      ),
      h(
        "td",
        { class: "grow-cell" },
        this.input(entry, "id", {
          "aria-label": "Id",
          class: "mono",
          readonly: locked,
          placeholder: entry.scheme === "auth" ? "the user who is logged in" : "",
        }),
      ),
      h(
        "td",
        {},
        h(
          "div",
          { class: "perms" },
          PERMISSIONS.map(([letter, word]) => this.permission(entry, letter, word, locked)),
        ),
      ),
      h("td", {}, trash),
    );
  }

  input(entry, key, attributes) {
    const element = h("input", { type: "text", spellcheck: "false", autocomplete: "off", ...attributes });
    element.value = entry[key];
    element.addEventListener("input", () => {
      entry[key] = element.value;
      this.drawState();
    });
    return element;
  }

  permission(entry, letter, word, locked) {
    const box = check(word, { disabled: locked, "data-perm": letter });
    const input = box.querySelector("input");
    input.checked = entry.perms.includes(letter);
    input.addEventListener("change", () => {
      const without = entry.perms.replace(letter, "");
      entry.perms = input.checked ? without + letter : without;
      this.drawState();
    });
    return box;
  }

  async store() {
    const recursive = this.recursive.querySelector("input").checked;
    await busy(this.save, this.message, async () => {
      const query = { path: this.path, version: this.version };
      const answer = await change("PUT", "acl", query, { acl: this.entries, recursive });
      toast(
        recursive && answer.changed !== undefined ? `ACL of ${answer.changed} znodes saved.` : "ACL saved.",
      );
      await this.load();
      this.saved();
    }).finally(() => this.drawState());
  }
}

function hidden() {
  return empty("You may not see this ACL.", "Log in as a user who may read or administer this znode.");
}

/** One line for an ACL. @param {Entry[]} acl */
export function aclChips(acl) {
  return h(
    "span",
    { class: "chips" },
    acl.map(({ scheme, id, perms }) => chip(`${scheme}:${shorten(id)} ${perms || "nothing"}`)),
  );
}

function shorten(id) {
  return id.length > 24 ? `${id.slice(0, 22)}…` : id;
}
