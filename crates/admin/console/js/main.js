/** Starts the console. */

import { keepTimes } from "./core/format.js";
import { Router } from "./core/router.js";
import { browsePage } from "./pages/browse.js";
import { ensemblePage } from "./pages/ensemble.js";
import { recipesPage } from "./pages/recipes.js";
import { serverPage } from "./pages/server.js";
import { sessionsPage } from "./pages/sessions.js";
import { watchServer } from "./ui/banner.js";
import { listen, showShortcuts } from "./ui/keyboard.js";
import { askLogin, showLogin } from "./ui/login.js";
import { openPalette } from "./ui/palette.js";
import { showTheme, switchTheme } from "./ui/theme.js";

const ROUTES = {
  browse: { title: "Browse", open: browsePage },
  recipes: { title: "Recipes", open: recipesPage },
  sessions: { title: "Sessions", open: sessionsPage },
  ensemble: { title: "Ensemble", open: ensemblePage },
  server: { title: "Server", open: serverPage },
};

const byId = (id) => document.getElementById(id);
const goTo = (page) => () => {
  location.hash = `#/${page}`;
};

/** @type {import("./ui/keyboard.js").Shortcut[]} */
const SHORTCUTS = [
  { keys: "ctrl+k", what: "Go to a path, or search", run: () => openPalette() },
  { keys: "/", what: "Go to a path", run: () => openPalette("/") },
  { keys: "g b", what: "Browse", run: goTo("browse") },
  { keys: "g r", what: "Recipes", run: goTo("recipes") },
  { keys: "g s", what: "Sessions", run: goTo("sessions") },
  { keys: "g e", what: "Ensemble", run: goTo("ensemble") },
  { keys: "g v", what: "Server", run: goTo("server") },
  { keys: "l", what: "Log in", run: askLogin },
  { keys: "d", what: "Switch between light and dark", run: switchTheme },
  { keys: "?", what: "Show this list", run: () => showShortcuts(SHORTCUTS) },
];

function start() {
  showTheme(byId("theme"));
  showLogin(byId("login"));
  watchServer(byId("banner"), byId("server-state"));
  listen(SHORTCUTS);
  keepTimes();
  byId("open-palette").addEventListener("click", () => openPalette());
  byId("skip").addEventListener("click", () => byId("main").focus());
  byId("open-shortcuts").addEventListener("click", () => showShortcuts(SHORTCUTS));
  const router = new Router(ROUTES, byId("main"), "browse");
  router.name.onChange(markPage);
  router.start();
}

function markPage(name) {
  for (const link of document.querySelectorAll("nav a[data-page]")) {
    if (link.dataset.page === name) {
      link.setAttribute("aria-current", "page");
    } else {
      link.removeAttribute("aria-current");
    }
  }
}

start();
