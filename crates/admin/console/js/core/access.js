/** The user's ids on the server, and whether the user may write. */

import { isAbort, read } from "./api.js";
import { credentials } from "./credentials.js";
import { Observable } from "./observable.js";

/**
 * @typedef {object} Access
 * @property {boolean} known whether the server has responded yet
 * @property {boolean} canWrite
 * @property {boolean} loggedIn
 * @property {string | null} user
 * @property {Array<{scheme: string, id: string}>} ids
 */

/** @type {Observable<Access>} */
export const access = new Observable({ known: false, canWrite: false, loggedIn: false, user: null, ids: [] });

/** Reads it from the server. */
export async function refreshAccess() {
  const answer = await read("whoami");
  access.value = {
    known: true,
    canWrite: answer.can_write,
    loggedIn: answer.logged_in,
    user: answer.user ?? credentials.user,
    ids: answer.ids,
  };
}

/**
 * Reads it again whenever the server was unavailable.
 */
export async function keepAccess() {
  try {
    await refreshAccess();
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    // The banner shows that the server is unavailable; this is read again when it is back.
  }
}

/** @param {string} user @param {string} password */
export async function logIn(user, password) {
  credentials.remember(user, password);
  try {
    await refreshAccess();
  } catch (error) {
    credentials.forget();
    throw error;
  }
}

export async function logOut() {
  credentials.forget();
  await keepAccess();
}

/** Why nothing can be changed, or `null`. @param {Access} now */
export function readOnlyReason(now) {
  if (now.canWrite) {
    return null;
  }
  if (!now.known) {
    return "Checking your permissions.";
  }
  return now.loggedIn
    ? "This server does not allow changes from the console."
    : "Read-only: log in to make changes.";
}
