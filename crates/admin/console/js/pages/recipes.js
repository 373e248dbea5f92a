/** Recipes: locks, elections and so on in the tree. Deadlocks come first, because they block clients. */

import { read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { count, plural } from "../core/format.js";
import { chip, empty, notice } from "../ui/controls.js";
import { Loaded, pageHead, whenChanged } from "../ui/page.js";
import { barrierCard, electionCard, groupCard, lockCard, queueTable, serviceCard } from "../recipes/cards.js";
import { deadlockCard } from "../recipes/deadlock.js";

const EVERY_MS = 2000;

/** @param {import("../core/scope.js").Scope} scope */
export function recipesPage(scope) {
  const status = h("span", { class: "muted", role: "status" });
  const draw = whenChanged((answer, place) => {
    show(status, `${count(answer.scanned)} znodes searched`);
    drawRecipes(answer, place);
  });
  const loaded = new Loaded(scope, () => read("recipes", {}, scope.signal), draw);
  const lead =
    "Locks, elections, barriers, queues and services of Curator, kazoo and Herdsman, recognised by their znodes.";
  return {
    element: h("div", { class: "page" }, pageHead("Recipes", lead, status), loaded.every(EVERY_MS)),
    go: () => {},
  };
}

function drawRecipes(answer, place) {
  const sections = [
    deadlocks(answer.deadlocks),
    cards("Locks", answer.locks, lockCard),
    cards("Elections", answer.elections, electionCard),
    cards("Services", answer.services, serviceCard),
    cards("Barriers", answer.barriers, barrierCard),
    cards("Groups", answer.groups, groupCard),
    table("Queues", answer.queues, queueTable),
  ].filter(Boolean);
  const partly = answer.truncated
    ? notice("info", "The tree is large: only part of it was searched.")
    : null;
  show(place, partly, sections.length > 0 ? h("div", { class: "recipe-sections" }, sections) : nothing());
}

function nothing() {
  return empty(
    "No recipes are in use.",
    "When a client uses a lock, an election, a barrier, a queue or a service, it is shown here.",
  );
}

function deadlocks(found) {
  if (!found || found.length === 0) {
    return null;
  }
  const words =
    found.length === 1
      ? "Deadlock: these sessions wait for each other, and none can proceed"
      : `${plural(found.length, "deadlock")}: these sessions wait for each other`;
  return h(
    "section",
    { class: "section-full deadlocks", role: "alert", "aria-label": "Deadlocks" },
    h("h2", {}, words),
    found.map(deadlockCard),
  );
}

function cards(title, found, card) {
  return table(title, found, (list) => h("div", { class: "cards" }, list.map(card)));
}

function table(title, found, draw) {
  if (!found || found.length === 0) {
    return null;
  }
  const head = h("div", { class: "section-head" }, h("h2", {}, title), chip(count(found.length)));
  // Sections with one card are side by side.
  const size = found.length === 1 && draw !== queueTable ? "section-small" : "section-full";
  return h("section", { class: size, "aria-label": title }, head, draw(found));
}
