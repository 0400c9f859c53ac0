// Opens the cells of the table. The address names the open cell, #/parser/dialect/group with "*" as
// a wildcard, or the open case, #/parser/dialect/scenario.
//
// Text from models and parsers always becomes text nodes: elements are created only by `make`.
"use strict";

const EVERY = "*";
const AT_MOST = 400; // entries of a list before "Show more"
const SIGNS = { failed: "✗", known: "✗", policy: "≈", unsupported: "n/s", passed: "✓" };
const LOOKS = { failed: "fail", known: "fail", policy: "policy", unsupported: "none", passed: "pass" };
const WORDS = {
  failed: "failed", known: "known fault", policy: "by policy", unsupported: "not supported", passed: "passed",
};
const ACCEPTED = {
  truncated: "The output ends inside a call. Accepted: nothing, or the call with a prefix of its arguments.",
  malformed: "The call is broken. Accepted: its raw text as content, or the call with its arguments up to the error.",
  fragment: "The output ends inside a marker. Accepted: nothing, or its raw text.",
};

const find = (selector) => document.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// -- data

class Board {
  constructor(index) {
    const { parsers, dialects, groups, classes, scenarios, statuses } = index;
    Object.assign(this, { parsers, dialects, groups, classes, statuses });
    this.details = new Map(); // by dialect, once it has been opened
    this.passes = new Map(); // number of passed cases, by the address of a cell
    this.lists = new Map(); // entries, by the address of a cell
    this.byCase = new Map(); // entry, by the address of a case
    for (const [parser, dialect, group, passed] of index.passed) {
      for (const address of this.cellsOver(parsers[parser].name, dialects[dialect].name, groups[group].name)) {
        this.passes.set(address, (this.passes.get(address) ?? 0) + passed);
        if (!this.lists.has(address)) this.lists.set(address, []);
      }
    }
    for (const [parser, dialect, group, scenario, difference, status] of index.entries) {
      const entry = {
        parser: parsers[parser].name, dialect: dialects[dialect].name, group: groups[group].name,
        scenario: scenarios[scenario], class: classes[difference], status: statuses[status],
      };
      for (const address of this.cellsOver(entry.parser, entry.dialect, entry.group)) this.lists.get(address).push(entry);
      this.byCase.set(addressOf(entry.parser, entry.dialect, entry.scenario), entry);
    }
  }

  cellsOver(parser, dialect, group) {
    return [addressOf(parser, dialect, group), addressOf(parser, EVERY, group), addressOf(parser, dialect, EVERY), addressOf(parser, EVERY, EVERY)];
  }

  parser(name) {
    return this.parsers.find((parser) => parser.name === name);
  }

  title(group) {
    return this.groups.find((one) => one.name === group)?.title ?? "all groups";
  }

  // Load the details of a dialect.
  async about(dialect) {
    if (!this.details.has(dialect)) this.details.set(dialect, await unpacked(`data-${dialect}`));
    return this.details.get(dialect);
  }

  // Return an entry with its details.
  async withDetails(entry) {
    const { results, cases, tools } = await this.about(entry.dialect);
    const of = cases[entry.scenario];
    return { ...entry, ...results[`${entry.parser}/${entry.scenario}`], of, tools: tools[of.tools] };
  }
}

// As _address in report.py: escape everything but the slashes of scenarios.
const addressOf = (parser, dialect, what) => "#/" + [parser, dialect, ...what.split("/")].map(encodeURIComponent).join("/");

// Return the address in this page's escaping; the browser or a link may use another.
function currentAddress() {
  try {
    return location.hash.split("/").map((step) => encodeURIComponent(decodeURIComponent(step))).join("/").replace("%23", "#");
  } catch {
    return "";
  }
}

const caseAddress = ({ parser, dialect, scenario }) => addressOf(parser, dialect, scenario);

// -- filters

const filters = {
  parsers: [], dialect: "", group: EVERY, class: EVERY, hidesPolicy: false, onlyFaulty: false,
  read() {
    this.parsers = all("#parsers input").filter((box) => box.checked).map((box) => box.value);
    this.dialect = find("#dialect").value.trim().toLowerCase();
    this.group = find("#group").value;
    this.class = find("#class").value;
    this.hidesPolicy = find("#policy").checked;
    this.onlyFaulty = find("#faulty").checked;
  },
  lets(entry) {
    if (entry.status === "policy" && this.hidesPolicy) return false;
    return this.class === EVERY || (entry.class === this.class && entry.status !== "unsupported");
  },
};

// Return the class and the text of a cell, as Tally.appearance in report.py.
function look({ faults, policy, cases }) {
  if (faults) {
    const share = faults / cases;
    return [`fail f${1 + (share >= 0.1) + (share >= 0.34) + (share >= 0.67)}`, `✗ ${faults}/${cases}`];
  }
  if (policy) return ["policy", `≈ ${policy}/${cases}`];
  if (filters.class !== EVERY) return ["dim", "–"];
  return cases ? ["pass", `✓ ${cases}`] : ["none", "n/s"];
}

function counted(board, address) {
  const counts = { faults: 0, policy: 0, cases: board.passes.get(address) };
  for (const entry of board.lists.get(address)) {
    if (entry.status === "passed" || entry.status === "unsupported") continue;
    counts.cases += 1;
    if (filters.lets(entry)) counts[entry.status === "policy" ? "policy" : "faults"] += 1;
  }
  return counts;
}

function applyFilters(board) {
  filters.read();
  const { parsers, dialect, group, onlyFaulty } = filters;
  const heads = all(".board thead th").map((head) => head.dataset.group);
  const hides = (column) => group !== EVERY && column > 1 && heads[column] !== group;
  all(".board thead th").forEach((head, column) => { head.hidden = hides(column); });
  const models = new Map(board.dialects.map((one) => [one.name, `${one.name} ${one.models}`.toLowerCase()]));
  let shown = 0;
  for (const body of all(".board tbody")) {
    const name = body.dataset.dialect;
    let faulty = false;
    let first = true;
    for (const row of body.rows) {
      row.hidden = !parsers.includes(row.dataset.parser);
      row.classList.toggle("first", !row.hidden && first);
      first = first && row.hidden;
      [...row.cells].forEach((cell, column) => {
        if (!cell.hasAttribute("colspan")) cell.hidden = hides(column);
        const link = cell.querySelector("a");
        if (!link) return;
        const counts = counted(board, link.getAttribute("href"));
        [link.className, link.textContent] = look(counts);
        faulty ||= !row.hidden && !cell.hidden && counts.faults > 0;
      });
    }
    const wanted = name === EVERY || models.get(name).includes(dialect);
    body.hidden = !wanted || first || (onlyFaulty && !faulty && name !== EVERY);
    shown += !body.hidden && name !== EVERY;
  }
  find("#shown").textContent = `${shown} of ${board.dialects.length} dialects`;
}

function startFilters(board) {
  const form = find(".filters");
  for (const { name } of board.parsers) {
    find("#parsers").append(make("label", { class: "tick" }, make("input", { type: "checkbox", value: name, checked: "" }), ` ${name}`));
  }
  const used = new Set(all(".board thead th").map((head) => head.dataset.group));
  for (const { name, title } of board.groups.filter((group) => used.has(group.name))) {
    find("#group").append(make("option", { value: name }, title));
  }
  for (const name of board.classes.slice(1)) find("#class").append(make("option", { value: name }, name));
  form.addEventListener("input", () => applyFilters(board));
  form.addEventListener("reset", () => setTimeout(() => applyFilters(board)));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  find("#shown").textContent = `${board.dialects.length} dialects`;
  find(".board").addEventListener("pointerover", ({ target }) => {
    if (target.ariaLabel) target.title = target.ariaLabel;
  });
}

// -- text

function shownControl(character) {
  const code = character.codePointAt(0);
  if (character === "\n") return "⏎";
  if (character === "\t") return "⇥";
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

const CONTROL = /[\p{Cc}\p{Cf}\p{Cs}\u00a0\u2028\u2029\u3000]/u;

// Make control characters visible, and with `blanks` also spaces.
function visible(text, blanks = false) {
  const out = [];
  let plain = "";
  for (const character of text) {
    const control = CONTROL.test(character);
    if (!control && !(blanks && character === " ")) {
      plain += character;
      continue;
    }
    out.push(plain, make("span", { class: "control", "data-shown": control ? shownControl(character) : "·" }, character === "\n" ? "\n" : ""));
    plain = "";
  }
  return [...out, plain];
}

// Return the chunks of a text from their lengths; an abbreviated text comes with its chunks as text.
function chunksOf(text, chunks) {
  if (chunks.some((chunk) => typeof chunk === "string")) return chunks;
  const characters = [...text];
  let at = 0;
  return chunks.map((length) => characters.slice(at, (at += length)).join(""));
}

function rawText(text, chunks) {
  const pieces = chunksOf(text, chunks);
  if (pieces.length < 2) return make("pre", { class: "raw" }, visible(text), text ? "" : make("span", { class: "nothing" }, "(empty)"));
  return make("pre", { class: "raw", tabindex: "0" }, pieces.map((piece, number) =>
    make("span", { class: "chunk", title: `chunk ${number + 1} of ${pieces.length}, ${[...piece].length} characters` }, piece ? visible(piece) : "∅")));
}

// -- expected and actual

function eventsOf({ order, calls, content, reasoning, finish }, whole) {
  const events = [];
  const text = (kind, value) => value && events.push({ kind, text: value });
  const call = ({ id, function: { name, arguments: given } }) => events.push({ kind: "call", name, text: `${name} ${given}`, id });
  if (whole || !order?.length) {
    text("reasoning", reasoning);
    text("content", content);
    (calls ?? []).forEach(call);
  }
  for (const part of order ?? []) {
    if (part.unfinished) events.push({ ...part.unfinished, kind: part.unfinished.kind, text: part.unfinished.raw, accepted: ACCEPTED[part.unfinished.kind] });
    else if (whole) continue;
    else if ("tool_call" in part) call(calls[part.tool_call]);
    else for (const kind of ["reasoning", "content"]) text(kind, part[kind]);
  }
  events.push({ kind: "finish", text: finish ?? "" });
  return events;
}

const alike = (one, other) => one.kind === other.kind
  && (one.text === other.text || (one.kind === "finish" && !(one.text && other.text)));

// Return a longest common subsequence as pairs of indices.
function common(left, right, same) {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      table[i][j] = same(left[i], right[j]) ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (same(left[i], right[j])) pairs.push([i++, j++]);
    else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

const withoutWhitespace = (text) => text.replace(/\s/g, "");

function matches(unfinished, event) {
  if (!unfinished.accepted) return unfinished.kind === event.kind;
  if (event.kind === "call") return event.name === unfinished.name;
  return event.kind === "content" && withoutWhitespace(unfinished.text).includes(withoutWhitespace(event.text));
}

function aligned(expected, actual) {
  const rows = [];
  let i = 0;
  let j = 0;
  for (const [a, b] of [...common(expected, actual, alike), [expected.length, actual.length]]) {
    const others = actual.slice(j, b);
    for (const want of expected.slice(i, a)) {
      const at = others.findIndex((got) => matches(want, got));
      if (at >= 0) rows.push(...others.splice(0, at).map((got) => [null, got]));
      rows.push([want, at >= 0 ? others.shift() : null]);
    }
    rows.push(...others.map((got) => [null, got]));
    if (a < expected.length) rows.push([expected[a], actual[b]]);
    [i, j] = [a + 1, b + 1];
  }
  return rows;
}

const words = (text) => text.match(/[\p{L}\p{N}_]+|\s|./gsu) ?? [];

// Return the two texts as nodes, with their differences in <del> and <ins>.
function marked(left, right) {
  const [a, b] = [words(left), words(right)];
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const [inner, other] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const pairs = inner.length * other.length < 250000 ? common(inner, other, (x, y) => x === y) : [];
  const side = (tag, list, kept) => {
    const out = [];
    let run = "";
    const flush = () => { if (run) out.push(make(tag, {}, visible(run, true))); run = ""; };
    list.forEach((word, number) => {
      if (kept.has(number)) { flush(); out.push(visible(word)); } else run += word;
    });
    flush();
    return out;
  };
  const head = visible(a.slice(0, start).join(""));
  const tail = visible(end ? a.slice(-end).join("") : "");
  return [
    [head, side("del", inner, new Set(pairs.map(([x]) => x))), tail],
    [visible(a.slice(0, start).join("")), side("ins", other, new Set(pairs.map(([, y]) => y))), visible(end ? b.slice(-end).join("") : "")],
  ];
}

// Remove insignificant whitespace: all of it in text, outside of strings in arguments.
const unblanked = ({ kind, text }) => kind === "call" ? text.replace(/("(?:[^"\\]|\\.)*")|\s+/gs, "$1") : withoutWhitespace(text);

function eventCell(event, nodes, absent) {
  if (!event) return make("td", { class: "nothing" }, absent);
  const given = event.kind === "finish" && !event.text ? make("span", { class: "nothing" }, absent) : nodes;
  return make("td", {}, make("b", { class: "kind" }, event.kind), given, event.accepted ? make("span", { class: "note" }, event.accepted) : "");
}

function eventRow([want, got], entry) {
  if (want && got && alike(want, got)) {
    return make("tr", {}, make("th", { class: "mark", scope: "row" }, "same"),
      eventCell(want, visible(want.text), "any"), eventCell(got, visible(got.text), "decided by the server"));
  }
  if (want?.accepted) {
    return make("tr", {}, make("th", { class: "mark", scope: "row" }, "either way"),
      eventCell(want, visible(want.text)), eventCell(got, got && visible(got.text), "nothing"));
  }
  const blanks = want && got && unblanked(want) === unblanked(got);
  const lenient = want?.kind === "finish" && (entry.class !== "finish" || entry.status === "policy");
  const mark = blanks ? "≈ whitespace" : lenient ? "≈ differs" : want && got ? "≠ differs" : want ? "− missing" : "+ added";
  const [left, right] = marked(want?.text ?? "", got?.text ?? "");
  return make("tr", { class: blanks || lenient ? "close" : "differs" }, make("th", { class: "mark", scope: "row" }, mark),
    eventCell(want, left, "nothing"), eventCell(got, right, "nothing"));
}

const expectedOf = ({ of, chunking }) => eventsOf({
  order: of.expected_order, calls: of.expected_tool_calls, content: of.expected_content,
  reasoning: of.expected_reasoning, finish: of.expected_finish_reason,
}, chunking === "batch");

const actualOf = ({ actual, chunking }) => eventsOf({
  order: actual.order, calls: actual.tool_calls, content: actual.content,
  reasoning: actual.reasoning, finish: actual.finish_reason,
}, chunking === "batch");

function eventTable(entry) {
  const head = (...names) => make("thead", {}, make("tr", {}, names.map((name) => make("th", { scope: "col", class: name ? null : "mark" }, name))));
  const expected = expectedOf(entry);
  if (!entry.actual) {
    return make("table", { class: "events" }, head("expected"),
      make("tbody", {}, expected.map((event) => make("tr", {}, eventCell(event, visible(event.text), "any")))));
  }
  return make("table", { class: "events" }, head("", "expected", `actual: ${entry.parser}`),
    make("tbody", {}, aligned(expected, actualOf(entry)).map((row) => eventRow(row, entry))));
}

// -- a case

const chip = (status, text, href) => make(href ? "a" : "span", { class: `chip ${LOOKS[status]}`, href }, `${SIGNS[status]} ${text}`);

function quoted(text) {
  return /^[\w/.:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function commandOf(board, entry) {
  const scenario = entry.scenario.replace(/[[*?]/g, "[$&]");
  const words = [board.parser(entry.parser).option, "--dialect", entry.dialect, "--scenario", quoted(scenario)];
  if (entry.chunking) words.push("--chunking", entry.chunking);
  return ["unspool conformance run", ...words].join(" ");
}

function copied(text) {
  const pre = make("pre", { class: "command" }, text);
  const button = make("button", { type: "button", click: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
    }
  } }, "Copy");
  return make("div", { class: "with-button" }, pre, button);
}

// The page's legend explains the classes.
const meaning = (name) => all(".classes dt").find((term) => term.textContent === name)?.nextElementSibling.textContent ?? "";

// Only the worst chunking was checked for policy differences; the others have only a class.
function chunkingChip(entry, way, name) {
  if (name === "match") return chip("passed", `${way}: ${name}`);
  if (way === entry.chunking) return chip(entry.status, `${way}: ${name}, shown above`);
  return make("span", { class: "chip plain" }, `≠ ${way}: ${name}`);
}

function verdict(entry) {
  const { status, reason } = entry;
  const what = entry.error || entry.detail;
  if (status === "passed") return make("p", { class: "verdict pass" }, "Passed in every chunking. This case is an example of those that passed in this cell.");
  if (status === "unsupported") return make("p", { class: "verdict none" }, "Not supported, does not count: ", visible(reason));
  if (status === "policy") {
    return [make("p", { class: "verdict policy" }, make("b", {}, "A policy, not a fault: "), visible(reason), "."),
      make("p", { class: "verdict none" }, visible(what))];
  }
  return [make("p", { class: "verdict" }, entry.error ? make("b", {}, "error: ") : "", visible(what)),
    status === "known" ? make("p", { class: "verdict" }, make("b", {}, "A known fault: "), visible(reason), ".") : ""];
}

function otherParsers(board, entry) {
  const chips = board.parsers.filter(({ name }) => name !== entry.parser).map(({ name, dialects }) => {
    const other = board.byCase.get(addressOf(name, entry.dialect, entry.scenario));
    if (other) return chip(other.status, `${name}: ${other.status === "unsupported" || other.status === "passed" ? WORDS[other.status] : other.class}`, caseAddress(other));
    const ran = board.passes.has(addressOf(name, entry.dialect, entry.group));
    if (ran) return chip("passed", `${name}: passed`);
    return make("span", { class: "chip none" }, `${name}: ${entry.dialect in dialects ? "not run" : "does not support this dialect"}`);
  });
  return chips.length ? make("div", { class: "chips" }, "The same case in other parsers: ", chips) : "";
}

function facts(entry) {
  const { of, tools } = entry;
  const rows = [
    ["tools", tools.length ? make("details", {}, make("summary", {}, tools.map((tool) => tool.function?.name ?? "?").join(", ")), make("pre", { class: "raw" }, JSON.stringify(tools, null, 1))) : "none"],
    ["tool_choice", of.tool_choice === "auto" ? "" : JSON.stringify(of.tool_choice)],
    ["starts in", of.start === "content" ? "" : of.start],
    ["prompt ends with", of.prompt ? make("code", {}, visible(of.prompt)) : ""],
    ["generation ended by", of.finish_reason],
    ["choices", of.n > 1 ? `${of.n}, interleaved; one that differs is shown` : ""],
  ];
  return make("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function caseView(board, entry, list) {
  const { of, minimal } = entry;
  const at = list.findIndex((one) => caseAddress(one) === caseAddress(entry));
  const step = (by, text) => (at >= 0 && list[at + by] ? make("a", { href: caseAddress(list[at + by]) }, text) : "");
  const ways = Object.entries(entry.chunkings).map(([way, name]) => make("li", {}, chunkingChip(entry, way, name)));
  const number = entry.chunks.length;
  const shortened = entry.chunks.some((chunk) => typeof chunk === "string") ? "abbreviated, " : "";
  const cut = entry.chunking === "batch" ? "complete output" : `${entry.chunking}: ${shortened}${number === 1 ? "one chunk" : `${shortened ? "" : `${number} `}chunks, each after a line`}`;
  const counts = entry.status !== "unsupported" && entry.status !== "passed";
  const label = counts ? `${WORDS[entry.status]}: ${entry.class}` : WORDS[entry.status];
  const rule = of.rule ? make("p", { class: "rule" }, make("b", {}, "Rule: "), visible(of.rule)) : "";
  return make("article", { class: "case", tabindex: "-1" },
    make("nav", { class: "steps", "aria-label": "Cases" }, step(-1, "← previous"), step(1, "next →")),
    make("h3", {}, make("a", { href: caseAddress(entry), title: "Link to this case" }, entry.scenario), " ", make("small", {}, `in ${entry.dialect}`)),
    make("div", { class: "chips" }, chip(entry.status, label), counts ? make("small", {}, meaning(entry.class)) : ""),
    verdict(entry),
    otherParsers(board, entry),
    make("h4", {}, "Output of the model", make("small", {}, entry.chunking ? cut : "")),
    rawText(of.model_output ?? "", entry.chunks),
    make("h4", {}, entry.actual ? "Expected and actual" : "Expected",
      make("small", {}, entry.actual && entry.chunking === "batch" ? "a complete message has no order" : "")),
    rule,
    eventTable(entry),
    ways.length ? [make("h4", {}, "All chunkings", make("small", {}, counts ? "≠ also differs; the worst one counts" : "")), make("ul", { class: "chips" }, ways)] : "",
    minimal ? [make("h4", {}, "Smallest output with this difference", make("small", {}, minimal.chunks.length > 1 ? `${minimal.chunks.length} chunks` : "")), rawText(minimal.output, minimal.chunks)] : "",
    make("h4", {}, "The request"),
    facts(entry),
    make("h4", {}, "Command"),
    copied(commandOf(board, entry)));
}

// -- the panel

const severity = (board) => (one, other) => board.statuses.indexOf(one.status) - board.statuses.indexOf(other.status)
  || board.classes.indexOf(one.class) - board.classes.indexOf(other.class);

function headOf(entry) {
  if (entry.status === "passed") return "✓ a case that passed";
  if (entry.status === "unsupported") return "n/s not supported";
  return `${SIGNS[entry.status]} ${WORDS[entry.status]}: ${entry.class}`;
}

function listView({ board, address, dialect, group, list, unable }, current, most = AT_MOST) {
  const heads = new Map();
  for (const entry of list) {
    const head = headOf(entry);
    heads.set(head, [...(heads.get(head) ?? []), entry]);
  }
  const item = (entry) => make("li", {}, make("a", { href: caseAddress(entry), "aria-current": entry === current ? "true" : null },
    dialect === EVERY ? `${entry.dialect}: ` : "", entry.scenario));
  const view = make("nav", { class: "list", "aria-label": "Cases" });
  let left = most;
  for (const [head, entries] of heads) {
    view.append(make("h3", {}, `${head} (${entries.length})`), make("ul", {}, entries.slice(0, left).map(item)));
    left = Math.max(0, left - entries.length);
  }
  if (list.length > most) {
    const more = () => view.replaceWith(listView({ board, address, dialect, group, list, unable }, current, most * 4));
    view.append(make("button", { type: "button", click: more }, `Show more of ${list.length}`));
  }
  const hidden = board.lists.get(address).length - list.length;
  if (hidden > 0) view.append(make("p", {}, `${hidden} hidden by the page's filters.`));
  view.append(make("p", {}, `${board.passes.get(address)} passed.`));
  const reasons = new Map();
  for (const [of, scenario, reason] of unable) {
    if (group === EVERY || group === of) reasons.set(reason, [...(reasons.get(reason) ?? []), scenario]);
  }
  if (reasons.size) {
    view.append(make("details", {}, make("summary", {}, "Scenarios that the dialect cannot express"),
      [...reasons].map(([reason, names]) => [make("p", {}, `${reason}:`), make("ul", {}, names.map((name) => make("li", {}, name)))])));
  }
  return view;
}

class Panel {
  constructor(board) {
    this.board = board;
    this.element = find("#panel");
    this.open = null; // the cell of the current list
    this.element.addEventListener("close", () => {
      this.open = null;
      if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    });
    this.element.addEventListener("click", ({ target }) => { if (target === this.element) this.element.close(); });
  }

  async follow() {
    const { board } = this;
    const address = currentAddress();
    const named = board.byCase.get(address);
    if (!named && !board.lists.has(address)) {
      if (this.element.open) this.element.close();
      return;
    }
    if (!(named && this.open?.list.includes(named))) {
      const cell = named ? addressOf(named.parser, named.dialect, named.group) : address;
      const [parser, dialect, group] = cell.slice(2).split("/").map(decodeURIComponent);
      const list = board.lists.get(cell).filter((entry) => entry === named || filters.lets(entry)).sort(severity(board));
      const unable = dialect === EVERY ? [] : (await board.about(dialect)).inapplicable;
      this.open = { board, address: cell, parser, dialect, group, list, unable };
    }
    const entry = named ?? this.open.list[0];
    const view = entry ? caseView(board, await board.withDetails(entry), this.open.list) : make("article", { class: "case" }, "All cases passed, or the filters hide the others.");
    if (currentAddress() === address) this.show(entry, view); // otherwise the address changed meanwhile
  }

  show(entry, view) {
    const { board, address, parser, dialect, group, list } = this.open;
    const { version, dialects } = board.parser(parser);
    const readers = Object.entries(dialects[dialect] ?? {}).map(([role, name]) => `${role.replaceAll("_", " ")} ${name}`).join(", ");
    const old = this.element.dataset.address === address ? this.element.querySelector(".list") : null;
    const scrolled = old?.scrollTop;
    this.element.dataset.address = address;
    this.element.replaceChildren(
      make("div", { class: "bar-top" },
        make("h2", { id: "panel-title" }, [`${parser} ${version}`.trim(), dialect === EVERY ? "all dialects" : dialect, board.title(group)].join(" · "),
          make("p", {}, readers ? `Parsed by ${readers}.` : "")),
        make("button", { type: "button", click: () => this.element.close() }, "Close")),
      make("div", { class: "split" }, listView(this.open, entry), view));
    if (!this.element.open) this.element.showModal();
    const current = this.element.querySelector("[aria-current]");
    if (old) this.element.querySelector(".list").scrollTop = scrolled;
    else if (list[0] !== entry) current?.scrollIntoView({ block: "center" });
    current?.focus({ preventScroll: true });
  }
}

unpacked("index").then((index) => {
  const board = new Board(index);
  const panel = new Panel(board);
  startFilters(board);
  addEventListener("hashchange", () => panel.follow());
  return panel.follow();
}).catch((error) => {
  find("header").append(make("p", { class: "notice" }, `The cells cannot be opened: ${error.message}. A current browser is needed.`));
});
