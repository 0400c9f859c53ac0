// Two streams side by side: the model's output, and the events that the client got.
//
// Each row is one read of the upstream's stream.  If the right side of a row is empty, the parser is
// holding back the text on the left, because the text may be the start of a marker.

import { el } from "./served-dom.js";

const MAX_ROWS = 2000;

/** View of both streams for one answer, row by row. */
export class Streams {
  constructor() {
    this.count = el("p.served-count", { role: "status" });
    this.rows = el("div.served-rows", {
      tabindex: "0",
      role: "group",
      "aria-label": "both streams",
      onscroll: () => (this.following = this.#atEnd()),
    });
    this.element = el(
      "div.served-streams",
      {},
      el(
        "div.served-heads",
        { "aria-hidden": "true" },
        el("h4", {}, "Model output"),
        el("h4", {}, "Events for the client"),
      ),
      this.rows,
      this.count,
    );
    this.clear();
  }

  clear() {
    this.rows.replaceChildren();
    this.reads = this.characters = this.chunks = this.dropped = 0;
    this.got = null;
    this.following = true;
    this.#updateCount();
  }

  /** Adds the deltas of one read of the upstream's stream. */
  raw(deltas) {
    this.reads += 1;
    const wrote = el("div.served-wrote", {});
    for (const { text, reasoning, calls, finish } of deltas) {
      this.characters += text.length;
      if (reasoning) wrote.append(el("span.served-apart", { title: "parsed by the upstream" }, reasoning));
      if (text) wrote.append(el("code", {}, ...visible(text)));
      for (const { name, arguments: text } of calls ?? [])
        wrote.append(el("span.served-apart", { title: "parsed by the upstream" }, `${name ?? ""}${text ?? ""}`));
      if (finish) wrote.append(el("span.served-end", {}, `end: ${finish}`));
    }
    this.#addRow(wrote);
    this.#follow();
  }

  /** Adds an event that the client got. */
  wire(name, text) {
    this.chunks += 1;
    if (this.got === null) this.#addRow(el("div.served-wrote", {}));
    this.got.append(el("code.served-chunk", {}, short(name, text)));
    this.#follow();
  }

  #addRow(wrote) {
    if (this.rows.childElementCount >= MAX_ROWS) {
      this.rows.firstElementChild.remove();
      this.dropped += 1;
    }
    this.got = el("div.served-got", {});
    this.rows.append(el("div.served-row", {}, wrote, this.got));
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.rows;
    return scrollHeight - scrollTop - clientHeight < 40;
  }

  #follow() {
    if (this.following) this.rows.scrollTop = this.rows.scrollHeight;
    this.#updateCount();
  }

  #updateCount() {
    const dropped = this.dropped ? ` The first ${this.dropped} rows are not shown.` : "";
    this.count.textContent = this.reads
      ? `${many(this.characters, "character")} in ${many(this.reads, "read")} became ${many(this.chunks, "event")}.${dropped}`
      : "No output yet.";
  }
}

const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Returns text with visible newlines. */
function visible(text) {
  return text.split(/(\n)/).map((part) => (part === "\n" ? el("i", {}, "⏎\n") : part));
}

/** Returns the part of an event that differs between events. */
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
