/** The dialog to delete a znode, or a subtree after it has been counted. */

import { change, read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { count, plural } from "../core/format.js";
import { childOf, hrefOf, nameOf, parentOf } from "../core/paths.js";
import { busy, button, field } from "../ui/controls.js";
import { cancelButton, openDialog } from "../ui/dialog.js";
import { toast } from "../ui/toast.js";

/** Counting stops after this many requests: beyond that the exact number does not matter. */
const REQUESTS_MAX = 40;

/** @param {any} node */
export function askDelete(node) {
  return node.stat.num_children > 0 ? askRecursive(node) : askSingle(node);
}

function askSingle(node) {
  const failed = h("div", {});
  const go = button({ label: "Delete", kind: "danger", type: "submit", id: "delete-now" });
  const query = { path: node.path, version: node.stat.version };
  const dialog = openDialog({
    title: "Delete this znode?",
    onsubmit: () => busy(go, failed, () => remove(query, dialog)),
  });
  dialog.body.append(pathLine(node.path), h("p", { class: "muted" }, "This cannot be undone."), failed);
  dialog.footer.append(cancelButton(dialog), go);
}

function askRecursive(node) {
  const failed = h("div", {});
  const name = h("input", { name: "confirm", class: "mono", autocomplete: "off", spellcheck: "false" });
  const go = button({ label: "Delete all", kind: "danger", type: "submit", id: "delete-now" });
  go.disabled = true;
  name.addEventListener("input", () => {
    go.disabled = name.value !== nameOf(node.path);
  });
  const query = { path: node.path, recursive: true };
  const dialog = openDialog({
    title: "Delete this subtree?",
    onsubmit: () => !go.disabled && busy(go, failed, () => remove(query, dialog)),
  });
  const total = h("p", { id: "delete-count", role: "status" }, "Counting…");
  dialog.body.append(
    pathLine(node.path),
    total,
    field(`To confirm, type ${nameOf(node.path)}`, name),
    failed,
  );
  dialog.footer.append(cancelButton(dialog), go);
  name.focus();
  showCount(node.path, total);
}

async function remove(query, dialog) {
  const answer = await change("DELETE", "node", query);
  dialog.close();
  toast(`${plural(answer.deleted ?? 1, "znode")} deleted.`);
  location.hash = hrefOf(parentOf(query.path));
}

async function showCount(path, place) {
  try {
    const { below, exact } = await countBelow(path);
    show(
      place,
      `This znode and ${exact ? "" : "more than "}`,
      h("strong", {}, count(below)),
      " below it. This cannot be undone.",
    );
  } catch (error) {
    show(place, `The znodes could not be counted: ${error.message}`);
  }
}

async function countBelow(root) {
  const waiting = [{ path: root, after: null }];
  let below = 0;
  for (let requests = 0; waiting.length > 0; requests += 1) {
    if (requests === REQUESTS_MAX) {
      return { below, exact: false };
    }
    const { path, after } = waiting.pop();
    const page = await read("children", { path, after, limit: 1000 });
    below += page.children.length;
    if (page.next !== null && page.next !== undefined) {
      waiting.push({ path, after: page.next });
    }
    waiting.push(
      ...page.children
        .filter((info) => info.num_children > 0)
        .map((info) => ({ path: childOf(path, info.name), after: null })),
    );
  }
  return { below, exact: true };
}

function pathLine(path) {
  return h("p", { class: "mono path-line" }, path);
}
