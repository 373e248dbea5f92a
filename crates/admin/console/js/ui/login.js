/** Logging in and out, and the corner of the page that shows the user. */

import { access, logIn, logOut } from "../core/access.js";
import { h, show } from "../core/dom.js";
import { busy, button, field } from "./controls.js";
import { cancelButton, openDialog } from "./dialog.js";
import { toast } from "./toast.js";

/** @param {HTMLElement} place */
export function showLogin(place) {
  access.follow((now) => show(place, now.loggedIn ? loggedIn(now) : loggedOut()));
}

/** Opens the dialog. */
export function askLogin() {
  const user = h("input", { name: "user", autocomplete: "username", required: true, spellcheck: "false" });
  const password = h("input", {
    name: "password",
    type: "password",
    autocomplete: "current-password",
    required: true,
  });
  const failed = h("div", {});
  const enter = button({ label: "Log in", kind: "primary", type: "submit" });
  const submit = () =>
    busy(enter, failed, async () => {
      if (user.value.includes(":")) {
        throw new Error("A user’s name cannot contain a colon.");
      }
      await logIn(user.value, password.value);
      dialog.close();
      toast(`Logged in as ${user.value}.`);
    });
  const dialog = openDialog({ title: "Log in", className: "dialog-narrow", onsubmit: submit });
  const explanation =
    "A user of ZooKeeper’s digest scheme. The server keeps no list of users: what a user may do is in the ACL of each znode.";
  dialog.body.append(
    h("p", { class: "muted" }, explanation),
    field("User", user),
    field("Password", password),
    failed,
  );
  dialog.footer.append(cancelButton(dialog), enter);
  user.focus();
}

function loggedOut() {
  return button({ label: "Log in", icon: "key", id: "log-in", onclick: askLogin });
}

function loggedIn(now) {
  const who = h(
    "span",
    { class: "who", title: now.ids.map(({ scheme, id }) => `${scheme}:${id}`).join("\n") },
    now.user,
  );
  return [
    who,
    button({
      label: "Log out",
      icon: "leave",
      kind: "quiet",
      iconOnly: true,
      id: "log-out",
      onclick: logOut,
    }),
  ];
}
