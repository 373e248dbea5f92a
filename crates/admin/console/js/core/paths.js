/** Paths of znodes. */

/** @param {string} path */
export function parentOf(path) {
  const at = path.lastIndexOf("/");
  return at <= 0 ? "/" : path.slice(0, at);
}

/** @param {string} path the last part, or `/` for the root */
export function nameOf(path) {
  return path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
}

/**
 * @param {string} parent
 * @param {string} name
 */
export function childOf(parent, name) {
  return parent === "/" ? `/${name}` : `${parent}/${name}`;
}

/** All ancestors from the root down, and the path itself. @param {string} path */
export function lineage(path) {
  const parts = path.split("/").filter((part) => part !== "");
  return ["/", ...parts.map((_, i) => `/${parts.slice(0, i + 1).join("/")}`)];
}

/** @param {string} path @param {string} root */
export function isWithin(path, root) {
  return root === "/" || path === root || path.startsWith(`${root}/`);
}

/** The URL of a znode in the console. @param {string} path */
export function hrefOf(path) {
  const parts = path.split("/").filter((part) => part !== "");
  return `#/browse/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * The error in a name for a child, or `null`.
 * @param {string} name
 */
export function nameProblem(name) {
  if (name === "") {
    return "Enter a name.";
  }
  if (name === "." || name === "..") {
    return "“.” and “..” cannot be names.";
  }
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/.test(name)) {
    return "A name cannot contain control characters.";
  }
  return null;
}
