/**
 * Server-sent events through `fetch`: the browser's own EventSource cannot send credentials.
 */

import { isAbort, open } from "./api.js";
import { sleep } from "./scope.js";

const PAUSE_FIRST_MS = 500;
const PAUSE_MAX_MS = 10_000;

/**
 * @typedef {object} WatchEvent
 * @property {"created" | "deleted" | "changed" | "children"} type
 * @property {string} path
 */

/**
 * @typedef {object} Watcher
 * @property {() => void} ready the stream is open: data read before may be outdated
 * @property {(event: WatchEvent) => void} change
 * @property {(error: any) => void} lost the stream was lost; it will be opened again
 */

/**
 * Watches until the signal fires, and opens the stream again whenever it breaks.
 * @param {Record<string, any>} query
 * @param {Watcher} watcher
 * @param {AbortSignal} signal
 */
export async function watch(query, watcher, signal) {
  let pauseMs = PAUSE_FIRST_MS;
  while (!signal.aborted) {
    try {
      const stream = await open("watch", query, signal);
      pauseMs = PAUSE_FIRST_MS;
      await deliver(stream, watcher);
      watcher.lost(null);
    } catch (error) {
      if (isAbort(error)) {
        return;
      }
      watcher.lost(error);
    }
    await sleep(pauseMs, signal);
    pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
  }
}

async function deliver(stream, watcher) {
  for await (const { event, data } of messages(stream)) {
    if (event === "change") {
      watcher.change(JSON.parse(data));
    } else if (event === "ready" || event === "gap") {
      // After a gap changes may have been missed: handle it like a new stream.
      watcher.ready();
    }
  }
}

/**
 * Cuts a stream of bytes into messages.
 * @param {ReadableStream<Uint8Array>} stream
 */
async function* messages(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const parts = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = parts.pop() ?? "";
      yield* parts.map(parseMessage);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * One message: `event:` and `data:` lines; lines that begin with a colon are keep-alives.
 * @param {string} text
 */
export function parseMessage(text) {
  let event = "message";
  const data = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) {
      event = line.slice(6).trim();
    } else if (line.startsWith("data:")) {
      data.push(line.slice(5).replace(/^ /, ""));
    }
  }
  return { event, data: data.join("\n") };
}
