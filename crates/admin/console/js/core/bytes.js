/** Bytes and their text formats. */

/** @param {string} text */
export function fromText(text) {
  return new TextEncoder().encode(text);
}

/** The text, or `null` if the bytes are not UTF-8. @param {Uint8Array} data */
export function toText(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

/** @param {string} text */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** @param {Uint8Array} data */
export function toBase64(data) {
  let text = "";
  for (let i = 0; i < data.length; i += 8192) {
    text += String.fromCharCode(...data.subarray(i, i + 8192));
  }
  return btoa(text);
}

/** Sixteen bytes to a line. @param {Uint8Array} data */
export function toHex(data) {
  return lines(data, (row) => [...row].map((byte) => byte.toString(16).padStart(2, "0")).join(" "));
}

/** The printable characters; a dot for other bytes. @param {Uint8Array} data */
export function toAscii(data) {
  const char = (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·");
  return lines(data, (row) => [...row].map(char).join(""));
}

/** The offset of each line. @param {Uint8Array} data */
export function offsets(data) {
  return lines(data, (_, at) => at.toString(16).padStart(6, "0"));
}

/** The bytes, or `null` if it is not pairs of hex digits. @param {string} text */
export function fromHex(text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) {
    return null;
  }
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} a @param {Uint8Array} b */
export function same(a, b) {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

function lines(data, write) {
  const out = [];
  for (let at = 0; at < data.length; at += 16) {
    out.push(write(data.subarray(at, at + 16), at));
  }
  return out.join("\n");
}
