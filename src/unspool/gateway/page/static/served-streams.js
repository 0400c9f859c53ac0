// Two streams side by side: what the model wrote, and what the client got for it.
//
// A row is one read of the upstream's stream.  Where its right side is empty, the text on
// its left is being held back, because it may still become a marker.

import { el } from "./served-dom.js";

const MOST_ROWS = 2000;

/** The rows of one answer. */
export class Streams {
  constructor() {
    this.count = el("p.desk-count", { role: "status" });
    this.rows = el("div.desk-rows", {
      tabindex: "0",
      role: "group",
      "aria-label": "both streams",
      onscroll: () => (this.following = this.#atEnd()),
    });
    this.element = el(
      "div.desk-streams",
      {},
      el(
        "div.desk-heads",
        { "aria-hidden": "true" },
        el("h4", {}, "What the model wrote"),
        el("h4", {}, "What the client got"),
      ),
      this.rows,
      this.count,
    );
    this.clear();
  }

  clear() {
    this.rows.replaceChildren();
    this.reads = this.characters = this.chunks = this.left = 0;
    this.got = null;
    this.following = true;
    this.#tell();
  }

  /** One read of the upstream's stream. */
  raw(deltas) {
    this.reads += 1;
    const wrote = el("div.desk-wrote", {});
    for (const { text, reasoning, calls, finish } of deltas) {
      this.characters += text.length;
      if (reasoning) wrote.append(el("span.desk-apart", { title: "told apart by the upstream" }, reasoning));
      if (text) wrote.append(el("code", {}, ...visible(text)));
      for (const { name, arguments: text } of calls ?? [])
        wrote.append(el("span.desk-apart", { title: "told apart by the upstream" }, `${name ?? ""}${text ?? ""}`));
      if (finish) wrote.append(el("span.desk-end", {}, `end: ${finish}`));
    }
    this.#row(wrote);
    this.#follow();
  }

  /** An event that the client got. */
  wire(name, text) {
    this.chunks += 1;
    if (this.got === null) this.#row(el("div.desk-wrote", {}));
    this.got.append(el("code.desk-chunk", {}, short(name, text)));
    this.#follow();
  }

  #row(wrote) {
    if (this.rows.childElementCount >= MOST_ROWS) {
      this.rows.firstElementChild.remove();
      this.left += 1;
    }
    this.got = el("div.desk-got", {});
    this.rows.append(el("div.desk-row", {}, wrote, this.got));
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.rows;
    return scrollHeight - scrollTop - clientHeight < 40;
  }

  #follow() {
    if (this.following) this.rows.scrollTop = this.rows.scrollHeight;
    this.#tell();
  }

  #tell() {
    const left = this.left ? ` The first ${this.left} rows are not shown.` : "";
    this.count.textContent = this.reads
      ? `${many(this.characters, "character")} in ${many(this.reads, "read")} came to ${many(this.chunks, "event")}.${left}`
      : "Nothing has come yet.";
  }
}

const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Text with its line feeds to be seen. */
function visible(text) {
  return text.split(/(\n)/).map((part) => (part === "\n" ? el("i", {}, "⏎\n") : part));
}

/** What is different from event to event. */
function short(name, text) {
  try {
    const event = JSON.parse(text);
    if (event.choices?.length) {
      const { delta, finish_reason } = event.choices[0];
      return JSON.stringify(finish_reason ? { ...delta, finish_reason } : delta);
    }
    if (event.usage && event.choices) return JSON.stringify({ usage: event.usage });
    const { type, sequence_number, item_id, output_index, content_index, ...rest } = event;
    if (rest.response) rest.response = "…";
    return `${type ?? name} ${JSON.stringify(rest)}`;
  } catch {
    return text;
  }
}
