// The output: a text area for hands, and under it the same text in the colours of its spans.
//
// The colours are highlights over one text node, so that a step changes no element: what is painted
// is a range for each span.

const KINDS = ["reasoning", "content", "name", "arguments", "call", "markup", "end", "held", "future", "broken"];

const area = document.getElementById("raw");
const ink = document.getElementById("ink");
const marks = document.getElementById("marks");
const highlights = new Map();
let node = ink.appendChild(document.createTextNode(""));
let units = (offset) => offset;

if (globalThis.CSS?.highlights) {
  for (const kind of KINDS) {
    const highlight = new Highlight();
    highlight.priority = kind === "broken" ? 1 : 0;
    CSS.highlights.set(`unspool-${kind}`, highlight);
    highlights.set(kind, highlight);
  }
}

/** Calls back with the text when somebody has changed it. */
export function onEdit(callback) {
  area.addEventListener("input", () => {
    write(area.value);
    callback(area.value);
  });
}

/** Shows another text. */
export function setText(text) {
  area.value = text;
  write(text);
}

function write(text) {
  node.data = `${text}\n`;  // a line that was begun has a height
  units = measure(text);
  marks.replaceChildren();
}

/** Offsets are counted in characters by Python, in units of UTF-16 here. */
function measure(text) {
  if (!/[\ud800-\udbff][\udc00-\udfff]/.test(text)) return (offset) => offset;
  const starts = [];
  let at = 0;
  for (const character of text) {
    starts.push(at);
    at += character.length;
  }
  starts.push(at);
  return (offset) => starts[Math.min(offset, starts.length - 1)];
}

function range(start, end) {
  const last = node.length - 1;
  return new StaticRange({
    startContainer: node,
    startOffset: Math.min(units(start), last),
    endContainer: node,
    endOffset: Math.min(units(end), last),
  });
}

/** Paints what an answer says of the text; `follow`: keeps the place in view that was reached. */
export function paint(answer, follow) {
  for (const highlight of highlights.values()) highlight.clear();
  for (const [start, end, kind, broken] of answer.spans) {
    highlights.get(kind)?.add(range(start, end));
    if (broken) highlights.get("broken")?.add(range(start, end));
  }
  if (answer.pending) highlights.get("held")?.add(range(answer.decided, answer.fed));
  highlights.get("future")?.add(range(answer.fed, Infinity));
  mark(answer.diagnostics);
  if (follow) reveal(answer.fed);
}

/** A caret under each place where something went wrong, with what it is. */
function mark(diagnostics) {
  marks.replaceChildren(
    ...diagnostics.map((diagnostic) => {
      const box = place(diagnostic.at);
      const caret = document.createElement("span");
      caret.className = "caret";
      const kind = diagnostic.kind.replaceAll("_", " ");
      const told = kind.endsWith(" call") && diagnostic.at > diagnostic.start ? diagnostic.detail : `${kind}: ${diagnostic.detail}`;
      const leftwards = box.left > ink.clientWidth * 0.6;
      caret.textContent = leftwards ? `${told} ▲` : `▲ ${told}`;
      caret.style.left = `${box.left}px`;
      caret.style.top = `${box.bottom}px`;
      caret.classList.toggle("leftwards", leftwards);
      return caret;
    }),
  );
}

/** Where a character stands, from the corner of the paper. */
function place(offset) {
  const at = Math.min(units(offset), node.length - 1);
  const one = document.createRange();
  one.setStart(node, at);
  one.setEnd(node, Math.min(at + 1, node.length));
  const box = one.getClientRects()[0] ?? one.getBoundingClientRect();
  const paper = ink.getBoundingClientRect();
  return { left: box.left - paper.left, top: box.top - paper.top, bottom: box.bottom - paper.top };
}

/** Scrolls a character into view. */
export function reveal(offset) {
  const box = document.getElementById("raw-box");
  const { top, bottom } = place(offset);
  if (top < box.scrollTop) box.scrollTop = top - 40;
  else if (bottom > box.scrollTop + box.clientHeight - 30) box.scrollTop = bottom - box.clientHeight + 60;
}

/** Selects a stretch of the text. */
export function select(start, end) {
  area.focus({ preventScroll: true });
  area.setSelectionRange(units(start), units(end));
  reveal(start);
}
