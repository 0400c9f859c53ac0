// Panel: a report on a model, with its dialect, the evidence for the dialect, and any problems.

import { el, fold } from "./served-dom.js";
import { askJson } from "./served-gateway.js";

const LEVELS = { problem: "Problem", warning: "Warning", note: "Note" };

/** Returns the panel. */
export function modelPanel(about) {
  const shown = el("div.served-model-report", { "aria-live": "polite" });
  const choice = el("select", { "aria-label": "model" }, ...about.models.map(({ name }) => el("option", { value: name }, name)));
  async function show() {
    const name = choice.value;
    shown.replaceChildren(el("p.served-hint", {}, "Examining the model's template…"));
    try {
      const found = await askJson(`models/${encodeURIComponent(name)}`);
      if (choice.value === name) shown.replaceChildren(...report(found));
    } catch (error) {
      shown.replaceChildren(el("p.served-problem", { role: "alert" }, error.message));
    }
  }

  choice.addEventListener("change", show);
  const element = el("div.served-panel", {}, about.models.length > 1 && choice, shown);
  // Load the report only when the panel is first visible, because the gateway takes a second to create it.
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
  const kinds = found.constraints.map((one) => ({ native: "a grammar", json: "a JSON schema" })[one]);
  const constraint = kinds.length ? `can be constrained by ${kinds.join(" or ")}` : "cannot be constrained";
  return [
    el("p.served-lead", {}, el("b", {}, found.name), " writes tool calls as ", el("code", {}, found.dialect), `, chosen ${found.chosen}.`),
    el("p", {}, `Its output ${constraint}; tools are added to the prompt ${found.tools_shown}.`),
    found.why_no_doctor && el("p.served-hint", {}, found.why_no_doctor),
    ...(doctor ? diagnosis(doctor) : []),
  ].filter(Boolean);
}

function diagnosis(doctor) {
  const verdict = doctor.healthy ? "No problems found." : "There are problems to fix.";
  return [
    el("h4", {}, "Evidence for the dialect"),
    el("ul", {}, ...doctor.evidence.map((sentence) => el("li", {}, sentence))),
    el("h4", {}, "Doctor"),
    el("p", {}, verdict),
    findings(doctor.findings),
    doctor.breaks.length && fold("Silent failures", false, findings(doctor.breaks)),
    doctor.requests.length && fold("Plans for typical requests", false, requests(doctor.requests)),
    doctor.markers.length && fold("Markers in the vocabulary", false, markers(doctor.markers)),
    el("p.served-hint", {}, "For the full report, with flags for other servers, run: unspool doctor MODEL"),
  ].filter(Boolean);
}

const findings = (found) =>
  el("ul.served-findings", {}, ...found.map(({ level, text, fix }) => el("li", { "data-level": level }, el("b", {}, `${LEVELS[level]}: `), text, fix && el("small", {}, ` ${fix}.`))));

const table = (heads, rows) =>
  el(
    "div.served-scroll",
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
    ["request", "special tokens", "reasoning", "start", "tool calls", "constraint"],
    cases.map(({ name, settings }) => [
      name,
      settings.skip_special_tokens ? "may be stripped" : "keep",
      settings.reasoning ? "on" : "off",
      settings.start ?? "refused",
      settings.tool_output ?? "",
      settings.constraint ?? "",
    ]),
  );

const markers = (found) => table(["marker", "role", "in the vocabulary"], found.map(({ text, role, kind }) => [el("code", {}, text), role, kind]));
