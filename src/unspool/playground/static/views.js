// The results: the message as it grows, its diagnostics, events and chunks.
//
// All text is inserted as text nodes, never as HTML, because a model may write anything.

const MOST_ROWS = 60;  // a step may change every row
const STATES = { open: "… open", complete: "✓ complete", malformed: "✗ malformed", truncated: "✂ cut off" };

/** Creates an element with a class and children. */
export function make(tag, kind = "", ...children) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}

/** Makes the children of an element show these items; keeps a child if only its text changes. */
function sync(root, items, shape, fill) {
  items.forEach((item, number) => {
    const wanted = shape(item);
    let child = root.children[number];
    if (child?.dataset.shape !== wanted) {
      const fresh = make("div", wanted);
      fresh.dataset.shape = wanted;
      child ? child.replaceWith(fresh) : root.append(fresh);
      child = fresh;
    }
    fill(child, item);
  });
  while (root.children.length > items.length) root.lastChild.remove();
}

function put(element, kind, text) {
  const cells = (element.cells ??= {});
  if (!cells[kind]) element.append((cells[kind] = make("div", kind)));
  if (cells[kind].told !== text) cells[kind].textContent = cells[kind].told = text;
}

/** Shows the parts of the message, or the reason why there is no message. */
export function showMessage(root, message, reason = "The policies treat this output as an error.") {
  const parts = message?.parts ?? [];
  const empty = { kind: "nothing", text: message ? "Nothing yet." : reason };
  sync(
    root,
    parts.length ? parts : [empty],
    (part) => `part k-${part.kind} ${part.status ?? ""}`,
    (element, part) => {
      if (part.kind === "call") {
        put(element, "label", `call ${STATES[part.status]}`);
        put(element, "called", part.name);
        put(element, "given", part.arguments);
      } else {
        if (part.kind !== "nothing") put(element, "label", part.kind);
        put(element, "said", part.text);
      }
    },
  );
}

/** Shows the diagnostics, each with a caret under its position; calls `onChoose(diagnostic)` on a click. */
export function showDiagnostics(root, diagnostics, onChoose) {
  root.hidden = !diagnostics.length;
  root.replaceChildren(
    ...diagnostics.map((diagnostic) => {
      const title = make("button", "title", `${diagnostic.kind.replaceAll("_", " ")}: ${diagnostic.detail}`);
      title.type = "button";
      title.title = "Show where";
      title.addEventListener("click", () => onChoose(diagnostic));
      return make(
        "div",
        "diagnostic",
        title,
        make("pre", "", narrow(diagnostic.caret)),
        make("p", "", `At ${diagnostic.at}: ${diagnostic.means || diagnostic.kind}.`),
      );
    }),
  );
}

/** Cuts a long line shortly before its caret. */
function narrow(caret) {
  const [line, under] = caret.split("\n");
  const cut = Math.max(4, under.length - 26);
  return `${cut > 4 ? "…" : ""}${line.slice(cut)}\n${cut > 4 ? " " : ""}${under.slice(cut)}`;
}

const SAYS = {
  Text: (event) => [event.channel, event.text],
  CallStart: (event) => ["name", `${event.name}  ${event.id}`],
  CallArgs: (event) => ["arguments", event.json],
  CallEnd: (event) => [event.status === "complete" ? "call" : "broken", event.status],
  Markup: (event) => ["markup", `${event.kind} ${JSON.stringify(event.text)}`],
  Diagnostic: (event) => ["broken", `${event.kind}: ${event.detail}`],
  Finish: (event) => ["markup", event.reason ?? ""],
};

/** Shows the last events. */
export function showEvents(root, answer) {
  const rows = answer.events.slice(-MOST_ROWS);
  showRows(root, rows, answer, answer.events.length - rows.length, (event) => {
    const [kind, said] = SAYS[event.event](event);
    const quoted = ["Text", "CallArgs"].includes(event.event) ? JSON.stringify(said) : said;
    return { kind, name: event.event, said: quoted, place: `${event.start}–${event.end}` };
  });
}

/** Shows the last chunks of an API. */
export function showChunks(root, answer, api) {
  const chunks = answer.chunks[api] ?? [];
  const rows = chunks.slice(-MOST_ROWS);
  const earlier = chunks.length - rows.length;
  showRows(root, rows, answer, earlier || (answer.earlier ? -1 : 0), ({ chunk }) => {
    const { id, object, created, model, ...rest } = chunk;
    const chat = object === "chat.completion.chunk";
    const name = chat ? "data" : chunk.type ?? "data";
    return { kind: "markup", name, said: JSON.stringify(chat ? rest : chunk), place: "" };
  });
}

function showRows(root, rows, answer, earlier, say) {
  const now = Math.min(answer.position, answer.steps + 1);
  const told = earlier > 0 ? `${earlier} earlier rows` : earlier < 0 ? "rows of the last steps" : "";
  const items = told ? [{ told }, ...rows] : rows;
  sync(
    root,
    items.length ? items : [{ told: "Nothing yet." }],
    (row) => {
      if (row.told) return "told";
      return `row k-${say(row).kind}${row.step === now ? " now" : ""}`;
    },
    (element, row) => {
      if (row.told) return void (element.textContent = row.told);
      const { name, said, place } = say(row);
      put(element, "step", row.step ? String(row.step) : "·");
      put(element, "name", name);
      put(element, "what", said);
      put(element, "place", place);
    },
  );
}

/** Shows the tokens in the colours of their labels. */
export function showTokens(root, answer) {
  if (answer.error) return void root.replaceChildren(make("p", "told", answer.error));
  root.replaceChildren(
    make(
      "p",
      "tokens",
      ...answer.tokens.map((token) => {
        const flags = `${token.shared ? ", shared with the next span" : ""}${token.broken ? ", broken" : ""}`;
        const text = token.text.replaceAll("\n", "⏎\n") || "·";
        const element = make("span", `token k-${token.kind}${token.broken ? " broken" : ""}`, text);
        element.title = `${token.id}: ${token.kind}${flags}`;
        return element;
      }),
    ),
  );
}
