/**
 * The user who is logged in, until the browser tab is closed. The server stores nothing: each request has
 * user and password, for ZooKeeper's `digest` scheme.
 */

const KEY = "herdsman.credentials";

class Credentials {
  constructor() {
    this.pair = load();
  }

  /** @returns {string | null} */
  get user() {
    return this.pair?.user ?? null;
  }

  /**
   * @param {string} user
   * @param {string} password
   */
  remember(user, password) {
    this.pair = { user, password };
    sessionStorage.setItem(KEY, JSON.stringify(this.pair));
  }

  forget() {
    this.pair = null;
    sessionStorage.removeItem(KEY);
  }

  /** The `Authorization` header. */
  header() {
    return this.pair ? `Basic ${base64(`${this.pair.user}:${this.pair.password}`)}` : null;
  }
}

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

function base64(text) {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes));
}

export const credentials = new Credentials();
