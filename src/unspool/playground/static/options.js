// The options of the parser (dialect, tools, policies, prompt, finish reason), and the example outputs.

import { ask } from "./python.js";

const $ = (id) => document.getElementById(id);
const CUSTOM = "\u0000";

let start;
let custom = null;
let told;
let offered = [];

function option(value, text) {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = text;
  return element;
}

/** Fills the controls, and calls `on.changed()` or `on.opened(output)` when the user changes them. */
export function fillOptions(given, state, on) {
  start = given;
  told = on;
  for (const { name, models } of start.dialects) $("dialect").append(option(name, models ? `${name} · ${models}` : name));
  for (const preset of start.presets) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = preset.title;
    button.onclick = () => {
      $("shows").textContent = "";
      on.opened({ ...preset, tools: start.tools });
    };
    $("presets").append(button);
  }
  $("dialect").onchange = async () => {
    await showExamples($("dialect").value);
    pick("0");
  };
  $("example").onfocus = $("example").onpointerdown = () => showExamples(state.dialect);
  $("example").onchange = () => pick($("example").value);
  fillPolicies();
  for (const id of ["tools", "prompt"]) $(id).addEventListener("input", on.changed);
  $("reason").onchange = on.changed;
}

function fillPolicies() {
  const like = select("preset", ["", ...start.engines], "preset");
  like.querySelector("select").firstChild.textContent = "default";
  $("policies").append(like);
  for (const [name, values] of Object.entries(start.policies)) $("policies").append(select(name, values));
}

function select(name, values, title = name.replaceAll("_", " ")) {
  const label = document.createElement("label");
  const element = document.createElement("select");
  element.dataset.policy = name;
  element.append(...values.map((value) => option(value, value)));
  if (name !== "preset") element.firstChild.value = "";
  element.onchange = () => told.changed();
  label.append(title, element);
  return label;
}

const policies = () => [...$("policies").querySelectorAll("select")];

/** Copies the values of the controls to the state. */
export function readOptions(state) {
  state.prompt = $("prompt").value === "" ? null : $("prompt").value.replaceAll("\\n", "\n");
  state.finish_reason = $("reason").value;
  state.policies = Object.fromEntries(policies().filter((one) => one.value).map((one) => [one.dataset.policy, one.value]));
  const error = $("tools-error");
  error.hidden = true;
  try {
    const text = $("tools").value.trim();
    state.tools = text ? JSON.parse(text) : null;
  } catch (failure) {
    error.hidden = false;
    error.textContent = `${failure.message}. The previous tools stay in use.`;
  }
}

/** Copies the state to the controls. */
export function showOptions(state) {
  showDialect(state.dialect);
  $("tools").value = state.tools === null ? "" : JSON.stringify(state.tools, null, 2);
  $("tools-error").hidden = true;
  $("prompt").value = (state.prompt ?? "").replaceAll("\n", "\\n");
  $("reason").value = state.finish_reason ?? "stop";
  for (const one of policies()) {
    const value = state.policies?.[one.dataset.policy] ?? "";
    one.value = value;
    if (one.selectedIndex < 0) one.value = "";
  }
}

/** Selects a dialect, by name or as a declaration. */
export function showDialect(dialect) {
  $("dialect").querySelector("[data-custom]")?.remove();
  custom = null;
  let value = dialect;
  if (typeof dialect !== "string") {
    custom = dialect;
    value = CUSTOM;
  }
  if (![...$("dialect").options].some((one) => one.value === value)) {
    const one = option(value, custom ? `${custom?.name ?? "?"} · declared on this page` : value);
    one.dataset.custom = "";
    $("dialect").prepend(one);
  }
  $("dialect").value = value;
}

/** Fills the list of example outputs of a dialect. */
async function showExamples(dialect) {
  if (typeof dialect !== "string" || dialect === CUSTOM || $("example").dataset.dialect === dialect) return;
  const answer = await ask({ ask: "examples", dialect });
  if (answer.error) return;
  $("example").dataset.dialect = dialect;
  offered = [answer.sample, ...answer.groups.flatMap((group) => group.cases)].map((output) => ({
    ...output,
    dialect,
    tools: answer.tools[output.tools],
  }));
  let number = 1;
  $("example").replaceChildren(
    option("", "your own, or a preset"),
    option("0", "sample output of this dialect"),
    ...answer.groups.map((group) => {
      const element = document.createElement("optgroup");
      element.label = group.title;
      element.append(...group.cases.map((one) => option(String(number++), one.title)));
      return element;
    }),
  );
}

function pick(number) {
  const output = offered[Number(number)];
  if (number === "" || !output) return;
  told.opened(output);
  $("example").value = number;
  $("shows").textContent = output.shows ?? "";
}
