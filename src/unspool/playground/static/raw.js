// The raw output: a text area, and below it the same text, coloured by spans.
//
// The colours are CSS highlights over one text node.  So a step changes no elements, only one
// range for each span.

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

/** Calls `callback(text)` when the user edits the text. */
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
  node.data = `${text}\n`;  // so that an empty last line has a height
  units = measure(text);
  unpaint();
}

/** Removes all colours and diagnostics, because they belong to the previous text. */
function unpaint() {
  for (const highlight of highlights.values()) highlight.clear();
  marks.replaceChildren();
}

/** Returns a function from offsets of Python (code points) to offsets of JavaScript (UTF-16 units). */
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

/** Paints the spans and diagnostics of an answer; `follow` keeps the current position in view. */
export function paint(answer, follow) {
  unpaint();
  for (const [start, end, kind, broken] of answer.spans) {
    highlights.get(kind)?.add(range(start, end));
    if (broken) highlights.get("broken")?.add(range(start, end));
  }
  if (answer.pending) highlights.get("held")?.add(range(answer.decided, answer.fed));
  highlights.get("future")?.add(range(answer.fed, Infinity));
  mark(answer.diagnostics);
  if (follow) reveal(answer.fed);
}

/** Puts a caret with a description under the position of each diagnostic. */
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

/** Returns the position of a character relative to the text. */
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

/** Selects a part of the text. */
export function select(start, end) {
  area.focus({ preventScroll: true });
  area.setSelectionRange(units(start), units(end));
  reveal(start);
}
