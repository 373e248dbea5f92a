/** The dialog to create a child. */

import { change } from "../core/api.js";
import { h } from "../core/dom.js";
import { childOf, hrefOf, nameProblem } from "../core/paths.js";
import { busy, button, check, field } from "../ui/controls.js";
import { cancelButton, openDialog } from "../ui/dialog.js";

const TYPES = [
  ["persistent", "Persistent: stays until it is deleted"],
  ["container", "Container: deleted after its last child"],
  ["ttl", "TTL: deleted after a time without changes"],
];

/** @param {string} parent */
export function askCreate(parent) {
  const fields = makeFields();
  const failed = h("div", {});
  const create = button({ label: "Create", kind: "primary", type: "submit", id: "create" });
  const submit = () =>
    busy(create, failed, async () => {
      const made = await change("POST", "node", { path: wantedPath(parent, fields) }, bodyFrom(fields));
      dialog.close();
      location.hash = hrefOf(made.path);
    });
  const dialog = openDialog({ title: `Create below ${parent}`, onsubmit: submit });
  dialog.body.append(
    field("Name", fields.name, "A name with slashes also creates the znodes in between."),
    field("Data", fields.data),
    field("Type", fields.type),
    fields.ttlField,
    fields.sequential,
    fields.mine,
    failed,
  );
  dialog.footer.append(cancelButton(dialog), create);
  fields.name.focus();
}

function makeFields() {
  const ttl = h("input", { type: "number", min: 1, value: 60, name: "ttl" });
  const ttlField = h("div", { hidden: true }, field("Seconds without a change", ttl));
  const type = h(
    "select",
    { name: "type" },
    TYPES.map(([value, label]) => h("option", { value }, label)),
  );
  type.addEventListener("change", () => {
    ttlField.hidden = type.value !== "ttl";
  });
  return {
    name: h("input", { name: "name", autocomplete: "off", spellcheck: "false", class: "mono" }),
    data: h("textarea", { name: "data", rows: 4, class: "mono", spellcheck: "false" }),
    type,
    ttl,
    ttlField,
    sequential: check("Sequential: the server appends an increasing number to the name", { name: "sequential" }),
    mine: check("Only I may use it (ACL of the user who is logged in)", { name: "mine" }),
  };
}

function wantedPath(parent, fields) {
  const name = fields.name.value.replace(/^\/+/, "");
  const parts = name.split("/");
  const sequential = isChecked(fields.sequential);
  parts.forEach((part, i) => {
    const mayBeEmpty = sequential && i === parts.length - 1;
    const wrong = mayBeEmpty && part === "" ? null : nameProblem(part);
    if (wrong) {
      throw new Error(wrong);
    }
  });
  return childOf(parent, name);
}

function bodyFrom(fields) {
  const body = {
    data: fields.data.value,
    type: fields.type.value,
    sequential: isChecked(fields.sequential),
    parents: true,
  };
  if (fields.type.value === "ttl") {
    body.ttl_ms = Math.round(Number(fields.ttl.value) * 1000);
  }
  if (isChecked(fields.mine)) {
    body.acl = [{ scheme: "auth", id: "", perms: "cdrwa" }];
  }
  return body;
}

function isChecked(label) {
  return label.querySelector("input").checked;
}
