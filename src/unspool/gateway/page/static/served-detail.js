// One request, all of it: raw text, message, diagnostics, plan, times.

import { el, fold, pretty, seconds } from "./served-dom.js";

/** What a request came to; `open` puts an output into the playground. */
export function detail(request, open) {
  const failed = request.error || (request.status >= 400 ? request.code : "");
  return el(
    "div.desk-detail",
    {},
    failed && el("p.desk-problem", { role: "alert" }, failed),
    ...request.left_out.map((sentence) => el("p.desk-hint", {}, sentence)),
    ...request.choices.map((choice) => choiceOf(choice, request, open)),
    plan(request),
    times(request),
  );
}

function choiceOf(choice, request, open) {
  const many = request.choices.length > 1 ? ` (choice ${choice.index})` : "";
  const canOpen = choice.raw && request.plan;
  return el(
    "section",
    {},
    el("h4", {}, `All that the model wrote${many}`),
    el("pre.desk-raw", { tabindex: "0" }, choice.raw || "nothing that is text"),
    ...choice.apart.map((one) =>
      el("p.desk-apart", {}, "told apart by the upstream: ", one.reasoning || one.calls.map((call) => call.name).join(", ")),
    ),
    canOpen && el("button", { type: "button", onclick: () => open(playable(choice, request)) }, "Open in the playground"),
    choice.unread && el("p.desk-problem", {}, choice.unread),
    choice.diagnostics?.length
      ? el(
          "ul.desk-diagnostics",
          {},
          ...choice.diagnostics.map((diagnostic) =>
            el("li", {}, el("b", {}, diagnostic.kind), ` at ${diagnostic.start} to ${diagnostic.end}: ${diagnostic.detail}`),
          ),
        )
      : null,
    choice.message && fold(`The message, ended by ${choice.finish_reason}`, false, el("pre", { tabindex: "0" }, pretty(choice.message))),
  );
}

/** What the playground needs to show an output as it was read here. */
function playable(choice, request) {
  return {
    text: choice.raw,
    dialect: request.plan.dialect,
    tools: request.offered,
    policies: request.plan.policies,
    prompt: request.plan.prompt === null ? null : request.plan.prompt.slice(-200),
    finish_reason: choice.finish_reason,
  };
}

/** What was decided, why, and what the backend was told. */
export function plan(request) {
  const decided = request.plan;
  if (!decided) return null;
  const { prompt, prompt_length: length, told } = decided;
  return fold(
    "What the plan decided, and what the backend was told",
    false,
    el("dl.desk-why", {}, ...Object.entries(decided.why).flatMap(([name, why]) => [el("dt", {}, name), el("dd", {}, why)])),
    ...decided.warnings.map((warning) => el("p.desk-problem", {}, warning)),
    el("h5", {}, "Told to the backend"),
    el("pre", { tabindex: "0" }, told === null ? "not kept" : pretty(told)),
    el("h5", {}, prompt === null ? "The prompt is written by the upstream" : `Prompt, ${length.toLocaleString()} characters`),
    prompt !== null && el("pre", { tabindex: "0" }, prompt),
  );
}

function times(request) {
  const parts = [
    request.first !== null && `first word after ${seconds(request.first)}`,
    request.seconds !== null ? `all of it after ${seconds(request.seconds)}` : "it goes on",
    `${request.deltas} deltas`,
    request.gone && `the client: ${request.gone}`,
  ];
  return el("p.desk-hint", {}, `${parts.filter(Boolean).join(", ")}. ${request.id}`);
}
