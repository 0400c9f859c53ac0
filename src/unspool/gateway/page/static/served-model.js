// What is known of a model: its dialect and why, and what the doctor found.

import { el, fold } from "./served-dom.js";
import { askJson } from "./served-gateway.js";

const LEVELS = { problem: "Must be changed", warning: "Warning", note: "Note" };

/** The panel. */
export function modelPanel(about) {
  const shown = el("div.desk-model-report", { "aria-live": "polite" });
  const choice = el("select", { "aria-label": "model" }, ...about.models.map(({ name }) => el("option", { value: name }, name)));
  async function show() {
    const name = choice.value;
    shown.replaceChildren(el("p.desk-hint", {}, "Examining the model's template…"));
    try {
      const found = await askJson(`models/${encodeURIComponent(name)}`);
      if (choice.value === name) shown.replaceChildren(...report(found));
    } catch (error) {
      shown.replaceChildren(el("p.desk-problem", { role: "alert" }, error.message));
    }
  }

  choice.addEventListener("change", show);
  const element = el("div.desk-panel", {}, about.models.length > 1 && choice, shown);
  // Only when somebody looks: the doctor takes a second.
  new IntersectionObserver(([entry], observer) => {
    if (entry.isIntersecting) {
      observer.disconnect();
      show();
    }
  }).observe(element);
  return element;
}

function report(found) {
  const doctor = found.doctor;
  const ways = found.constraints.map((one) => ({ native: "a grammar", json: "a JSON schema" })[one]);
  const held = ways.length ? `can be held to ${ways.join(" or ")} by its engine` : "is held to nothing by its engine";
  return [
    el("p.desk-lead", {}, el("b", {}, found.name), " writes calls as ", el("code", {}, found.dialect), `, chosen ${found.chosen}.`),
    el("p", {}, `It ${held}; tools are shown to it ${found.tools_shown}.`),
    found.why_no_doctor && el("p.desk-hint", {}, found.why_no_doctor),
    ...(doctor ? diagnosis(doctor) : []),
  ].filter(Boolean);
}

function diagnosis(doctor) {
  const verdict = doctor.healthy ? "Everything fits together." : "Something must be changed.";
  return [
    el("h4", {}, "Why this dialect"),
    el("ul", {}, ...doctor.evidence.map((sentence) => el("li", {}, sentence))),
    el("h4", {}, "What the doctor says"),
    el("p", {}, verdict),
    findings(doctor.findings),
    doctor.breaks.length && fold("What would break without a word", false, findings(doctor.breaks)),
    doctor.requests.length && fold("What is decided about typical requests", false, requests(doctor.requests)),
    doctor.markers.length && fold("Markers, as the vocabulary has them", false, markers(doctor.markers)),
    el("p.desk-hint", {}, "unspool doctor MODEL prints the rest, with the flags that other servers need."),
  ].filter(Boolean);
}

const findings = (found) =>
  el("ul.desk-findings", {}, ...found.map(({ level, text, fix }) => el("li", { "data-level": level }, el("b", {}, `${LEVELS[level]}: `), text, fix && el("small", {}, ` ${fix}.`))));

const table = (heads, rows) =>
  el(
    "div.desk-scroll",
    { tabindex: "0", role: "group", "aria-label": heads[0] },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, cell))))),
    ),
  );

const requests = (cases) =>
  table(
    ["request", "special tokens", "reasoning", "begins in", "calls", "held by"],
    cases.map(({ name, settings: told }) => [
      name,
      told.skip_special_tokens ? "may be stripped" : "keep",
      told.reasoning ? "on" : "off",
      told.start ?? "refused",
      told.tool_output ?? "",
      told.constraint ?? "",
    ]),
  );

const markers = (found) => table(["marker", "role", "in the vocabulary"], found.map(({ text, role, kind }) => [el("code", {}, text), role, kind]));
