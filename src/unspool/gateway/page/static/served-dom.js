// Elements in one expression.  Text is always text: nothing of a model or a client becomes markup.

/** An element: its attributes, listeners (onclick and its like) and properties, and what is in it. */
export function el(name, properties = {}, ...inside) {
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
  element.append(...inside.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

let count = 0;

/** A label with the control that it is for. */
export function field(label, control, hint = "") {
  control.id ||= `desk-${++count}`;
  return el("div.desk-field", {}, el("label", { for: control.id }, label, hint && el("small", {}, ` ${hint}`)), control);
}

/** A part that can be opened. */
export const fold = (title, open, ...inside) =>
  el("details.desk-fold", { open }, el("summary", {}, title), ...inside);

/** Seconds for people. */
export const seconds = (value) =>
  value === null || value === undefined ? "" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;

/** JSON for people. */
export const pretty = (value) => JSON.stringify(value, null, 2);
