// Files that the user drops or chooses: those that identify a dialect, and tokenizers.

import { ask } from "./python.js";
import { make } from "./views.js";

const FIRST = 1 << 22;  // bytes to read first from a GGUF, whose header may be longer
const MOST = 1 << 27;

const found = document.getElementById("found");

/** Calls `on.dialect(use)` or `on.tokenizer(text)` for each file. */
export function takeFiles(on) {
  const input = document.getElementById("file");
  input.onchange = () => {
    if (input.files[0]) take(input.files[0], on);
    input.value = "";
  };
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const file = event.dataTransfer?.files[0];
    if (file) take(file, on);
  });
}

async function take(file, on) {
  say(`Reading ${file.name}…`);
  const magic = await file.slice(0, 4).text();
  if (magic === "GGUF") return tell(file, await detectGguf(file), on);
  if (file.size > MOST) return say(`${file.name} is too large to be a template or a tokenizer.`, true);
  const text = await file.text();
  if (isTokenizer(text)) {
    say(`${file.name}: the view “Tokens” shows the label of every token.`);
    return on.tokenizer(text);
  }
  tell(file, await ask({ ask: "detect", name: file.name, text }), on);
}

function isTokenizer(text) {
  if (!text.trimStart().startsWith("{")) return false;
  try {
    const value = JSON.parse(text);
    return typeof value.model === "object" && value.model !== null && "vocab" in value.model;
  } catch {
    return false;
  }
}

/** Sends only the start of a GGUF, with more and more bytes until the start contains the whole header. */
async function detectGguf(file) {
  for (let size = FIRST; ; size *= 4) {
    const answer = await ask({ ask: "detect", name: file.name, base64: await base64(file.slice(0, size)) });
    if (answer.kind !== "TruncatedHeader" || size >= file.size || size >= MOST) return answer;
  }
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

function tell(file, answer, on) {
  if (answer.error) return say(answer.error, true);
  const sure = answer.tried && answer.dialect ? `, ${Math.round(answer.confidence * 100)} % sure` : "";
  const kind = answer.inferred ? "inferred dialect" : (answer.dialect ?? "no dialect");
  const title = make("p", "", make("strong", "", kind), ` for ${file.name}${sure}`);
  const lines = [...answer.evidence, ...answer.warnings].map((line) => make("li", "", line));
  const also = answer.runners_up.length ? [make("p", "also", `Other matching dialects: ${answer.runners_up.join(", ")}`)] : [];
  const declared = answer.declaration ? [make("pre", "", answer.declaration)] : [];
  show(title, make("ul", "", ...lines), ...also, ...declared);
  if (answer.use) on.dialect(answer.use);
}

function say(text, wrong = false) {
  show(make("p", wrong ? "error" : "", text));
}

function show(...children) {
  const close = make("button", "close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.onclick = () => (found.hidden = true);
  found.hidden = false;
  found.replaceChildren(close, ...children);
}
