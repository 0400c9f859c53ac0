// Helpers that create DOM elements.  Strings become text nodes, so text from models and clients never becomes markup.

/** Creates an element with attributes, listeners (such as onclick), properties and children. */
export function el(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list" && typeof value !== "string") element[key] = value;
    else if (key === "value" || key === "textContent") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

let count = 0;

/** Returns a control with its label. */
export function field(label, control, hint = "") {
  control.id ||= `served-${++count}`;
  return el("div.served-field", {}, el("label", { for: control.id }, label, hint && el("small", {}, ` ${hint}`)), control);
}

/** Returns a section that the user can open. */
export const fold = (title, open, ...children) =>
  el("details.served-fold", { open }, el("summary", {}, title), ...children);

/** Formats seconds. */
export const seconds = (value) =>
  value === null || value === undefined ? "" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;

/** Formats JSON with indentation. */
export const pretty = (value) => JSON.stringify(value, null, 2);
