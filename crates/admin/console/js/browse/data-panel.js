/**
 * Shows and edits a znode's data. Unsaved text is never lost: a change on the server
 * meanwhile is announced, and both versions are compared before anything is overwritten.
 */

import { access } from "../core/access.js";
import { change, read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { bytes } from "../core/format.js";
import { button, empty, notice, problem, writeButton } from "../ui/controls.js";
import { toast } from "../ui/toast.js";
import { askConflict } from "./conflict-dialog.js";
import { Draft, bodyOf } from "./draft.js";
import { Editor } from "./editor.js";

const MODES = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
];
/** Larger data is shown, but not in an editor, which redraws at each key. */
const EDIT_BYTES_MAX = 512 * 1024;

export class DataPanel {
  /** @param {AbortSignal} signal @param {(node: any) => void} saved */
  constructor(signal, saved) {
    this.saved = saved;
    this.mode = undefined;
    /** @type {Draft | null} */
    this.draft = null;
    this.editor = new Editor((text) => this.typed(text));
    this.modes = h("div", { class: "segments", role: "group", "aria-label": "Show as" });
    this.size = h("span", { class: "muted" });
    this.message = h("div", { "aria-live": "polite" });
    this.news = h("div", {});
    this.save = writeButton(
      { label: "Save", icon: "save", kind: "primary", id: "save", onclick: () => this.store() },
      signal,
    );
    this.revert = button({ label: "Revert", id: "revert", onclick: () => this.reset() });
    const bar = h(
      "div",
      { class: "panel-bar" },
      this.modes,
      this.size,
      h("div", { class: "bar-end" }, this.revert, this.save),
    );
    this.hint = h("div", {});
    this.element = h(
      "div",
      { class: "data-panel" },
      bar,
      this.news,
      this.hint,
      this.editor.element,
      this.message,
    );
    this.element.addEventListener("keydown", (event) => this.key(event));
    access.onChange(() => this.draw(), signal);
  }

  get isDirty() {
    return this.draft?.isDirty ?? false;
  }

  /** Another znode. @param {any} node */
  open(node) {
    this.node = node;
    this.draft = new Draft(node, this.mode);
    show(this.news);
    this.draw();
  }

  /** The same znode again. Returns whether it has changed. @param {any} node */
  refresh(node) {
    if (this.draft.isBasedOn(node)) {
      this.node = node;
      return false;
    }
    if (!this.isDirty) {
      this.open(node);
    } else {
      this.announce(node);
    }
    return true;
  }

  announce(node) {
    const compare = button({ label: "Compare", id: "compare", onclick: () => this.resolve(node) });
    const text = `Changed on the server just now, to version ${node.stat.version}. What you typed is kept. `;
    show(this.news, notice("warn", text, compare));
  }

  typed(text) {
    this.draft.text = text;
    this.drawState();
  }

  draw() {
    if (!this.draft) {
      return;
    }
    const tooLarge = this.draft.base.length > EDIT_BYTES_MAX;
    this.editor.show(this.draft.text, this.draft.mode);
    this.editor.lock(!access.value.canWrite || tooLarge);
    const none = this.draft.base.length === 0 && !this.isDirty;
    show(
      this.hint,
      none ? noData() : null,
      tooLarge ? notice("info", "Too large to edit here; use “herdsman shell”.") : null,
    );
    show(
      this.modes,
      MODES.map(([mode, label]) => this.modeButton(mode, label)),
    );
    this.drawState();
  }

  drawState() {
    const { isDirty, draft } = this;
    this.element.classList.toggle("dirty", isDirty);
    this.save.disabled = !isDirty;
    this.revert.disabled = !isDirty;
    show(this.size, bytes(draft.base.length), isDirty ? " · not saved" : "");
    const wrong = draft.problem;
    const compactNote =
      isDirty && draft.savesCompact
        ? h("p", { class: "hint" }, "Will be saved in one line, as before.")
        : null;
    show(this.message, wrong ? h("p", { class: "invalid" }, wrong) : compactNote);
  }

  modeButton(mode, label) {
    const pressed = this.draft.mode === mode;
    return h(
      "button",
      { type: "button", class: "segment", "aria-pressed": pressed, onclick: () => this.switchTo(mode) },
      label,
    );
  }

  switchTo(mode) {
    try {
      this.draft.switchTo(mode);
      this.mode = mode;
      this.draw();
    } catch (error) {
      show(this.message, h("p", { class: "invalid" }, error.message));
    }
  }

  key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      if (this.isDirty) {
        this.save.click();
      }
    }
  }

  reset() {
    this.draft.text = "";
    this.open(this.node);
    this.reload();
  }

  async reload() {
    const node = await read("node", { path: this.node.path }).catch(() => null);
    if (node && !this.isDirty) {
      this.open(node);
    }
  }

  async store() {
    this.save.disabled = true;
    try {
      await this.put(this.draft.bytes(), this.draft.version);
    } catch (error) {
      await this.failed(error);
    } finally {
      this.save.disabled = !this.isDirty;
    }
  }

  async put(data, version) {
    const { path } = this.node;
    const answer = await change("PUT", "node", { path, version }, bodyOf(data));
    this.draft.saved(data, answer.stat.version);
    this.node = { ...this.node, stat: answer.stat, data: null, data_base64: null, ...bodyOf(data) };
    show(this.news);
    this.draw();
    this.saved(this.node);
    toast(`Saved as version ${answer.stat.version}.`);
  }

  async failed(error) {
    if (error.code !== "BadVersion") {
      show(this.message, problem(error));
      return;
    }
    try {
      await this.resolve(await read("node", { path: this.node.path }));
    } catch (second) {
      show(this.message, problem(second));
    }
  }

  async resolve(theirs) {
    let mine;
    try {
      mine = this.draft.bytes();
    } catch (error) {
      show(this.message, h("p", { class: "invalid" }, error.message));
      return;
    }
    const choice = await askConflict(theirs, mine);
    if (choice === "theirs") {
      this.open(theirs);
      this.saved(theirs);
    } else if (choice === "mine") {
      await this.put(mine, theirs.stat.version).catch((error) => this.failed(error));
    }
  }
}

function noData() {
  const words = access.value.canWrite ? "Type below to add data." : "Log in to add data.";
  return empty("This znode has no data.", words);
}
