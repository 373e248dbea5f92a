/**
 * The state of the server, at the top of every page: who it is, and a banner while it is away. It is asked
 * all the time, so what broke comes back by itself.
 */

import { keepAccess } from "../core/access.js";
import { isAbort, reach, read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { Observable } from "../core/observable.js";
import { Scope } from "../core/scope.js";
import { chip } from "./controls.js";

const ASK_EVERY_MS = 2000;
const TONES = {
  leader: "accent",
  follower: "ok",
  observer: "ok",
  standalone: "ok",
  looking: "warn",
  "read-only": "warn",
};

/** What `/api/v1/server` said last. @type {Observable<any>} */
export const server = new Observable(null);

/** @param {HTMLElement} banner @param {HTMLElement} place */
export function watchServer(banner, place) {
  reach.follow((state) => {
    banner.hidden = state === "up";
    show(banner, words(state));
    drawState(place);
    if (state === "up") {
      keepAccess();
    }
  });
  server.onChange(() => drawState(place));
  new Scope().every(ASK_EVERY_MS, ask);
}

async function ask() {
  try {
    server.value = await read("server");
    reach.value = server.value.serving ? "up" : "waiting";
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    // `reach` has it already, and the banner shows it.
  }
}

function words(state) {
  if (state === "down") {
    return [
      icon("alert"),
      h(
        "p",
        {},
        h("strong", {}, "The server does not answer. "),
        "Trying again every two seconds. What you typed is kept.",
      ),
    ];
  }
  if (state === "waiting") {
    return [
      icon("alert"),
      h(
        "p",
        {},
        h("strong", {}, "The server is not serving: it has no leader. "),
        "It goes on when a majority of servers is there. What you typed is kept.",
      ),
    ];
  }
  return [];
}

function drawState(place) {
  const now = server.value;
  if (reach.value === "down") {
    show(place, chip("no answer", "bad"));
  } else if (now) {
    const number = now.server_id === null || now.server_id === undefined ? "" : `server ${now.server_id}`;
    show(place, h("span", { class: "server-name" }, number), chip(now.role, TONES[now.role] ?? "warn"));
  }
}
