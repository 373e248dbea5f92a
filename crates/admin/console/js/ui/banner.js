/**
 * The state of the server, at the top of every page: its name and role, and a banner while it is unavailable. It
 * is polled all the time, so the page recovers by itself.
 */

import { keepAccess } from "../core/access.js";
import { isAbort, reach, read } from "../core/api.js";
import { h, icon, show } from "../core/dom.js";
import { Observable } from "../core/observable.js";
import { Scope } from "../core/scope.js";
import { chip } from "./controls.js";

const POLL_INTERVAL_MS = 2000;
const TONES = {
  leader: "accent",
  follower: "ok",
  observer: "ok",
  standalone: "ok",
  looking: "warn",
  "read-only": "warn",
};

/** The last response of `/api/v1/server`. @type {Observable<any>} */
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
  new Scope().every(POLL_INTERVAL_MS, poll);
}

async function poll() {
  try {
    server.value = await read("server");
    reach.value = server.value.serving ? "up" : "waiting";
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    // `reach` already has the state, and the banner shows it.
  }
}

function words(state) {
  if (state === "down") {
    return [
      icon("alert"),
      h(
        "p",
        {},
        h("strong", {}, "The server does not respond. "),
        "Retrying every two seconds. What you typed is kept.",
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
        "It resumes when a majority of servers is available. What you typed is kept.",
      ),
    ];
  }
  return [];
}

function drawState(place) {
  const now = server.value;
  if (reach.value === "down") {
    show(place, chip("no response", "bad"));
  } else if (now) {
    const number = now.server_id === null || now.server_id === undefined ? "" : `server ${now.server_id}`;
    show(place, h("span", { class: "server-name" }, number), chip(now.role, TONES[now.role] ?? "warn"));
  }
}
