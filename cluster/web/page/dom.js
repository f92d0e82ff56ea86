// Elements, made without HTML: texts of users stay texts.

const svgSpace = "http://www.w3.org/2000/svg";

// fill sets attributes and properties of an element, and adds its children.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// h makes an element of HTML, and s one of SVG. Children that are strings become text.
export const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const s = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(svgSpace, name), attributes, children);

// text changes the text of an element, if it is another one: screen readers are told of changes.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

// attribute changes an attribute, if it has another value.
export function attribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Rows keeps one child for each item of a list. Children stay as long as their items, so that the
// focus, the selection and the place of scrolling do.
export class Rows {
  constructor(parent, key, make) {
    Object.assign(this, { parent, key, make, known: new Map() });
  }

  // show makes the children those of the items. make(item) returns {node, update(item)}.
  show(items) {
    const next = new Map();
    let before = null;
    for (const item of items) {
      const key = this.key(item);
      const row = this.known.get(key) ?? this.make(item);
      row.update?.(item);
      next.set(key, row);
      const place = before ? before.nextSibling : this.parent.firstChild;
      if (place !== row.node) this.parent.insertBefore(row.node, place);
      before = row.node;
    }
    for (const [key, row] of this.known) if (!next.has(key)) row.node.remove();
    this.known = next;
  }
}
