// The page: it holds one state, sends it to the library, and shows the answer.

import { fromHash, toHash } from "./address.js";
import { takeFiles } from "./files.js";
import { fillOptions, readOptions, showDialect, showOptions } from "./options.js";
import { addPanel, showPlayground } from "./panels.js";
import { ask, gateway, ready, served } from "./python.js";
import * as raw from "./raw.js";
import { showChunks, showEvents, showMessage, showDiagnostics, showTokens } from "./views.js";

const $ = (id) => document.getElementById(id);
const VIEWS = {
  events: "Events",
  chat: "Chat Completions",
  messages: "Messages",
  responses: "Responses",
  tokens: "Tokens",
};
const WINDOW = 24;  // pieces that are fed one by one for a step
const PACE = 40;  // milliseconds per step
const LONGEST = 20_000;  // maximum milliseconds for a whole output

/** The state of the page.  `position` is null at the end; `tools` is null if the tools are not known. */
const state = {
  dialect: "hermes",
  text: "",
  tools: null,
  policies: {},
  prompt: null,
  finish_reason: "stop",
  chunk: 0,
  position: null,
  view: "events",
};
let start;
let seen = null;  // the displayed answer; null if this text has no answer yet
let loading = !served;
let playing = false;
let tokenizer = null;

// -- requests: one at a time; while one runs, only the latest of the new ones is kept

let asking = null;
let asked = null;

function refresh(extra = {}) {
  asked = { extra };
  $("playground").dataset.asking = "";
  asking ??= (async () => {
    while (asked) {
      const question = { ask: "play", ...state, view: undefined, apis: apis(), window: WINDOW, ...asked.extra };
      asked = null;
      const began = performance.now();
      const answer = await ask(question);
      if (isCurrent(question)) show(answer);
      $("playground").dataset.milliseconds = (performance.now() - began).toFixed(1);
    }
    asking = null;
    delete $("playground").dataset.asking;
  })();
  return asking;
}

const isCurrent = (question) => question.text === state.text && question.dialect === state.dialect;

/** Sets the text, and clears the results of the previous text. */
function setText(text) {
  state.text = text;
  seen = null;
  for (const id of ["message", "diagnostics", "view", "mode", "held", "finish", "position-told"]) $(id).replaceChildren();
  $("diagnostics").hidden = $("error").hidden = true;
  if (loading) showMessage($("message"), null, "Waiting for Python…");
}

const apis = () => (state.view in { chat: 1, messages: 1, responses: 1 } ? [state.view] : []);

function show(answer) {
  $("error").hidden = !answer.error;
  $("error").textContent = answer.error ?? "";
  if (answer.error && !seen) $("message").replaceChildren();
  if (answer.error) return;
  seen = answer;
  const end = answer.steps + 1;
  state.position = answer.position === end ? null : answer.position;
  $("position").max = end;
  $("position").value = answer.position;
  const told = answer.position === end ? "the end" : `${answer.position} of ${answer.steps}`;
  $("position-told").value = told;
  $("position").setAttribute("aria-valuetext", told);
  $("mode").textContent = answer.mode === "finished" ? "finished" : `mode: ${answer.mode}`;
  $("held").textContent = heldText(answer);
  $("held").classList.toggle("some", answer.pending > 0);
  $("finish").textContent = answer.message?.finish_reason ? `finish_reason: ${answer.message.finish_reason}` : "";
  raw.paint(answer, playing);
  showMessage($("message"), answer.message);
  showDiagnostics($("diagnostics"), answer.diagnostics, (diagnostic) => raw.select(diagnostic.start, Math.max(diagnostic.end, diagnostic.at + 1)));
  showView();
  if (playing) $("message").scrollTop = $("message").scrollHeight;
  if (state.position !== null) $("view").scrollTop = $("view").scrollHeight;  // the newest row is the last
  remember();
}

function heldText(answer) {
  if (!answer.pending) return "nothing held back";
  const characters = [...state.text.slice(0, answer.fed * 2)].slice(answer.decided, answer.fed).join("");
  const most = answer.max_pending === null ? "until the value closes" : `at most ${answer.max_pending}`;
  return `holds back ${answer.pending} (${most}): ${JSON.stringify(characters.slice(0, 40))}`;
}

function showView() {
  if (state.view === "events") showEvents($("view"), seen);
  else if (state.view !== "tokens") showChunks($("view"), seen, state.view);
}

async function showLabels() {
  if (state.view !== "tokens") return;
  if (!tokenizer) return showTokens($("view"), { error: "Drop the model's tokenizer.json to label every token." });
  const question = { ask: "labels", ...state, view: undefined, tokenizer_json: tokenizer };
  const answer = await ask(question);
  if (isCurrent(question) && state.view === "tokens") showTokens($("view"), answer);
}

// -- the URL

let timer;

function remember() {
  clearTimeout(timer);
  if ($("playground").hidden) return;
  timer = setTimeout(async () => {
    const hash = await toHash(changed());
    history.replaceState(null, "", hash === null ? location.pathname : `#${hash}`);
    $("copy-link").disabled = hash === null;
    $("copy-link").title = hash === null ? "The output is too long for a link" : "";
  }, 250);
}

/** Returns the state without its default values. */
function changed() {
  const same = { policies: "{}", prompt: "null", finish_reason: '"stop"', chunk: "0", position: "null", view: '"events"' };
  same.tools = JSON.stringify(start.tools);
  return Object.fromEntries(Object.entries(state).filter(([key, value]) => JSON.stringify(value) !== same[key]));
}

/** Shows an output from a link or from another page; missing fields get their default values. */
export function open(other) {
  pause();
  const known = { dialect: "hermes", text: "", tools: start.tools, policies: {}, prompt: null };
  Object.assign(state, known, { finish_reason: "stop", chunk: 0, position: null, view: "events" });
  for (const key of Object.keys(state)) if (key in other) state[key] = other[key];
  setText(typeof state.text === "string" ? state.text : "");
  if (!(state.view in VIEWS)) state.view = "events";
  raw.setText(state.text);
  showOptions(state);
  showChunk();
  chooseView(state.view);
  showPlayground();
  return refresh();
}

/** Returns the fragment of a URL that shows this output: `{text, dialect, tools, ...}`. */
export const addressOf = toHash;

addEventListener("hashchange", async () => {
  const other = await fromHash(location.hash);
  if (other) open(other);
});

// -- playback controls

function go(position, announce = false) {
  const end = (seen?.steps ?? Infinity) + 1;
  state.position = Math.max(0, Math.min(position, end));
  const done = refresh();
  if (announce) done.then(tell);
  return done;
}

const here = () => seen?.position ?? 0;

function tell() {
  if (!seen) return;
  const fresh = seen.events.filter((event) => event.step === seen.position && seen.position);
  const told = fresh.map((event) => `${event.event} ${event.text ?? event.name ?? event.json ?? event.status ?? ""}`);
  $("announce").textContent = `${$("position-told").value}, ${$("mode").textContent}, ${$("held").textContent}. ${told.join(". ")}`;
}

function pause() {
  playing = false;
  $("play").firstElementChild.textContent = "▶";
  $("play").lastChild.data = " Play";
}

async function play() {
  if (playing) return pause();
  playing = true;
  $("play").firstElementChild.textContent = "❚❚";
  $("play").lastChild.data = " Pause";
  if (here() > (seen?.steps ?? 0)) await go(0);
  if (!seen) return pause();
  const stride = Math.max(1, Math.ceil((seen.steps * PACE) / LONGEST));
  while (playing && here() <= seen.steps) {
    const began = performance.now();
    await go(here() + stride);
    const rest = PACE - (performance.now() - began);
    await new Promise((resolve) => (rest > 4 ? setTimeout(resolve, rest) : requestAnimationFrame(resolve)));
  }
  pause();
  tell();
}

function showChunk() {
  $("chunk").value = state.chunk;
  const told = state.chunk ? `${state.chunk} ${state.chunk === 1 ? "character" : "characters"}` : "like tokens";
  $("chunk-told").value = told;
  $("chunk").setAttribute("aria-valuetext", told);
}

const STEPS = {
  ArrowLeft: () => go(here() - 1, true),
  ArrowRight: () => go(here() + 1, true),
  Home: () => go(0, true),
  End: () => go(Infinity, true),
  " ": play,
};

function transport() {
  $("first").onclick = () => go(0, true);
  $("back").onclick = () => go(here() - 1, true);
  $("forward").onclick = () => go(here() + 1, true);
  $("last").onclick = () => go(Infinity, true);
  $("play").onclick = play;
  $("position").oninput = () => {
    pause();
    go(Number($("position").value));
  };
  $("chunk").oninput = () => {
    pause();
    state.chunk = Number($("chunk").value);
    showChunk();
    const at = state.position === null || !seen ? {} : { position: null, at: seen.fed };
    refresh(at);
  };
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest("input, select, textarea, button, summary, [role=tab], [role=tabpanel], a");
    if (busy || event.ctrlKey || event.metaKey || event.altKey || $("playground").hidden) return;
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    if (event.key !== " ") pause();
    STEPS[event.key]();
  });
}

// -- the views beside the message

function views() {
  for (const [name, title] of Object.entries(VIEWS)) {
    const tab = document.createElement("button");
    Object.assign(tab, { type: "button", role: "tab", id: `view-${name}`, textContent: title });
    tab.setAttribute("aria-controls", "view");
    tab.onclick = () => {
      chooseView(name);
      refresh();
    };
    tab.onkeydown = (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      const names = Object.keys(VIEWS);
      const next = names.at((names.indexOf(name) + way) % names.length);
      chooseView(next);
      $(`view-${next}`).focus();
      refresh();
    };
    $("views").append(tab);
  }
}

function chooseView(name) {
  state.view = name;
  for (const tab of $("views").children) {
    const chosen = tab.id === `view-${name}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  $("view").setAttribute("aria-labelledby", `view-${name}`);
  $("view").replaceChildren();
  $("view").classList.toggle("chunks", name !== "events" && name !== "tokens");
  showLabels();
}

// -- the clipboard

async function copy(text, told) {
  try {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = told;
  } catch {
    $("copied").textContent = "The browser does not allow this page to copy.";
  }
}

function copies() {
  $("copy-link").onclick = async () => {
    const hash = await toHash(changed());
    if (hash !== null) copy(`${location.href.split("#")[0]}#${hash}`, "Copied the link.");
  };
  $("copy-case").onclick = async () => {
    const answer = await ask({ ask: "case", ...state, view: undefined });
    if (answer.error) $("copied").textContent = answer.error;
    else copy(JSON.stringify(answer.case, null, 2), "Copied a case of the conformance suite.");
  };
}

// -- colours

function theme() {
  const labels = { "": "system", light: "light", dark: "dark" };
  const choose = (name) => {
    document.documentElement.dataset.theme = name;
    $("theme").setAttribute("aria-label", `Colours: ${labels[name]}`);
    $("theme").title = `Colours: ${labels[name]}`;
    $("theme").textContent = { "": "◐", light: "☀", dark: "☾" }[name];
  };
  let now = "";
  try {
    now = localStorage.getItem("unspool-theme") ?? "";
  } catch {}  // the browser may block storage
  choose(now in labels ? now : "");
  $("theme").onclick = () => {
    now = { "": "light", light: "dark", dark: "" }[now];
    choose(now);
    try {
      localStorage.setItem("unspool-theme", now);
    } catch {}
  };
}

// -- start

async function begin() {
  theme();
  const gatewayPage = served ? await import("./served.js") : null;
  if (served) {
    $("where").textContent = "browser and the gateway";
    $("python").textContent = "";
  }
  if (gatewayPage && !(await gatewayPage.admitted({ addPanel, gateway }))) return;
  const given = served ? { dialects: await ask({ ask: "dialects" }) } : await (await fetch("start.json")).json();
  start = given.dialects;
  if (start.error) return show(start);
  $("version").textContent = `unspool ${start.version}`;
  views();
  transport();
  copies();
  fillOptions(start, state, {
    changed: () => {
      pause();
      state.position = null;
      readOptions(state);
      refresh();
      showLabels();
    },
    opened: (output) => open({ ...output, view: state.view, chunk: state.chunk, policies: state.policies }),
  });
  raw.onEdit((text) => {
    pause();
    setText(text);
    state.position = null;
    $("example").value = "";
    $("shows").textContent = "";
    refresh();
    showLabels();
  });
  $("clear").onclick = () => {
    open({ dialect: state.dialect, tools: state.tools, view: state.view });
    $("raw").focus();
  };
  takeFiles({
    dialect: (use) => {
      state.dialect = use;
      showDialect(use);
      refresh();
    },
    tokenizer: (text) => {
      tokenizer = text;
      chooseView("tokens");
      refresh();
    },
  });
  const linked = await fromHash(location.hash);
  const first = linked ?? { ...start.presets[0] };
  const opened = open(first);
  if (!linked && given.play) show(given.play);
  if (served) {
    gatewayPage.begin({ addPanel, open }, linked !== null);
  } else {
    const seconds = await ready.catch((error) => error);
    loading = false;
    $("python").textContent = typeof seconds === "number" ? `Python runs here (${seconds.toFixed(1)} s)` : String(seconds);
  }
  await opened;
  document.documentElement.dataset.ready = "";
}

begin();
