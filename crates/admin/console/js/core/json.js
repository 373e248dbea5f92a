/**
 * JSON as text. It is split into tokens and never rebuilt from values, so that a number of twenty digits or
 * a key that appears twice stays as it was.
 */

const TOKEN = /("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],:])|(\s+)|(.)/gsu;
const KINDS = ["string", "number", "word", "mark", "space", "other"];

/** @typedef {{kind: string, text: string}} Token */

/** @param {string} text @returns {Token[]} */
export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    found.push({ kind, text: match[0] });
  }
  return markKeys(found);
}

/**
 * The error in it, or `null`.
 * @param {string} text
 */
export function problem(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `Not valid JSON: ${place(error.message, text)}.`;
  }
}

/** Whether it is an object or an array: a bare number is better shown as text. @param {string} text */
export function looksLikeJson(text) {
  return /^\s*[[{]/.test(text) && problem(text) === null;
}

/** Formats it with a line for each member. @param {string} text valid JSON */
export function pretty(text) {
  const kept = tokens(text).filter((token) => token.kind !== "space");
  let depth = 0;
  let out = "";
  kept.forEach((token, i) => {
    const next = kept[i + 1]?.text;
    if (token.text === "}" || token.text === "]") {
      depth -= 1;
    }
    out += token.text;
    if (token.text === "{" || token.text === "[") {
      depth += 1;
    }
    out += gap(token.text, next, depth);
  });
  return out;
}

/** Formats it on one line. @param {string} text valid JSON */
export function compact(text) {
  return tokens(text)
    .filter((token) => token.kind !== "space")
    .map((token) => token.text)
    .join("");
}

function gap(text, next, depth) {
  if (next === undefined) {
    return "";
  }
  if (text === ":") {
    return " ";
  }
  const opens = text === "{" || text === "[";
  const closes = next === "}" || next === "]";
  if (opens && closes) {
    return "";
  }
  if (opens || text === ",") {
    return `\n${"  ".repeat(depth)}`;
  }
  return closes ? `\n${"  ".repeat(depth - 1)}` : "";
}

function markKeys(found) {
  let last = null;
  for (const token of found) {
    if (token.text === ":" && last?.kind === "string") {
      last.kind = "key";
    }
    if (token.kind !== "space") {
      last = token;
    }
  }
  return found;
}

function place(message, text) {
  const position = /position (\d+)/.exec(message);
  const plain = message.replace(/^JSON\.parse: /, "").replace(/ in JSON at position.*/s, "");
  if (!position) {
    return plain.replace(/\.$/, "");
  }
  const before = text.slice(0, Number(position[1])).split("\n");
  return `${plain} at line ${before.length}, column ${before.at(-1).length + 1}`;
}
