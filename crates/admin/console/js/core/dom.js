/**
 * Makes elements without markup. Data from a server goes into text nodes and attributes, never
 * through a parser: a znode called `<script>` is plain text.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | Array<any>} Child */

/**
 * Makes an HTML element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `onclick` and the like take functions; `false` and `null` omit the attribute.
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Makes an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Replaces all children.
 * @param {Element} element
 * @param {...Child} children
 */
export function show(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/**
 * An icon from the sprite.
 * @param {string} name
 */
export function icon(name) {
  const use = s("use", { href: `console/img/icons.svg#${name}` });
  return s("svg", { class: "icon", "aria-hidden": "true", viewBox: "0 0 20 20" }, use);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

function setAttribute(element, name, value) {
  if (typeof value === "function") {
    element.addEventListener(name.replace(/^on/, ""), value);
  } else if (name.startsWith("aria-") && typeof value === "boolean") {
    // ARIA attributes need the text “true”: an attribute without a value is not enough.
    element.setAttribute(name, String(value));
  } else if (value === true) {
    element.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    element.setAttribute(name, String(value));
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
