/**
 * The server's REST interface. In: a request. Out: parsed JSON, or an {@link ApiError} whose message can
 * be shown to the user. Every request has credentials; there are no cookies.
 */

import { Observable } from "./observable.js";
import { credentials } from "./credentials.js";

const TIMEOUT_MS = 20_000;
const BASE = "api/v1/";

/**
 * Whether the server responds: `up`, `down` (no response), `waiting` (it responds, but has no leader).
 * @type {Observable<"up" | "down" | "waiting">}
 */
export const reach = new Observable("up");

/** An error of the server, or of the connection to it. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 when nothing came back
   * @param {string} code one word, as `BadVersion`
   * @param {string} message
   * @param {any} [body]
   */
  constructor(status, code, message, body) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

/**
 * Reads.
 * @param {string} resource below `/api/v1`, or from the root when it begins with a slash
 * @param {Record<string, any>} [query] without those that are `undefined` or `null`
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function read(resource, query, signal) {
  return exchange(address(resource, query), { headers: headers() }, signal);
}

/**
 * Changes something.
 * @param {"POST" | "PUT" | "DELETE"} method
 * @param {string} resource
 * @param {Record<string, any>} query
 * @param {any} [body]
 * @returns {Promise<any>}
 */
export function change(method, resource, query, body) {
  // The header proves that the request is from this page and not from a form of another site.
  const request = { method, headers: { ...headers(), "X-Herdsman": "1" } };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  return exchange(address(resource, query), request);
}

/**
 * Opens a stream of events.
 * @param {string} resource
 * @param {Record<string, any>} query
 * @param {AbortSignal} signal
 * @returns {Promise<ReadableStream<Uint8Array>>}
 */
export async function open(resource, query, signal) {
  const request = { headers: { ...headers(), Accept: "text/event-stream" }, signal };
  const response = await fetch(address(resource, query), request);
  if (!response.ok || !response.body) {
    throw await refusal(response);
  }
  return response.body;
}

async function exchange(url, request, signal) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  request.signal = signal ? AbortSignal.any([signal, timeout]) : timeout;
  request.cache = "no-store";
  const response = await answer(url, request, signal);
  const error = response.ok ? null : await refusal(response);
  reach.value = error?.code === "NotServing" ? "waiting" : "up";
  if (error) {
    throw error;
  }
  return body(response, signal);
}

async function answer(url, request, signal) {
  try {
    return await fetch(url, request);
  } catch (cause) {
    throw noAnswer(cause, signal);
  }
}

async function body(response, signal) {
  try {
    return await response.json();
  } catch (cause) {
    if (cause instanceof SyntaxError) {
      throw new ApiError(response.status, "BadAnswer", "The server's response is not JSON.");
    }
    throw noAnswer(cause, signal);
  }
}

/** The error for a missing response. An aborted request says nothing about the server. */
function noAnswer(cause, signal) {
  if (signal?.aborted) {
    return cause;
  }
  reach.value = "down";
  return new ApiError(0, "NoAnswer", "The server does not respond.");
}

async function refusal(response) {
  const body = await response.json().catch(() => null);
  const code = body?.error ?? `Http${response.status}`;
  const message = body?.message ?? `The server responded with ${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, code, sentence(message), body);
}

function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

function headers() {
  const header = credentials.header();
  return header ? { Authorization: header } : {};
}

function address(resource, query = {}) {
  // Relative to the page, so that the console also works below a proxy's prefix.
  const url = new URL(resource.startsWith("/") ? `.${resource}` : BASE + resource, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) {
      url.searchParams.set(name, String(value));
    }
  }
  return url;
}

/**
 * Whether an error only means that the request was aborted.
 * @param {any} error
 */
export function isAbort(error) {
  return error?.name === "AbortError";
}
