// View of one request: raw output, message, diagnostics, plan and times.

import { el, fold, pretty, seconds } from "./served-dom.js";

/** Returns a view of a request; `open` is a function that opens an output in the playground. */
export function detail(request, open) {
  const failed = request.error || (request.status >= 400 ? request.code : "");
  return el(
    "div.served-detail",
    {},
    failed && el("p.served-problem", { role: "alert" }, failed),
    ...request.left_out.map((sentence) => el("p.served-hint", {}, sentence)),
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
    el("h4", {}, `Model output${many}`),
    el("pre.served-raw", { tabindex: "0" }, choice.raw || "no text"),
    ...choice.apart.map((one) =>
      el("p.served-apart", {}, "parsed by the upstream: ", one.reasoning || one.calls.map((call) => call.name).join(", ")),
    ),
    canOpen && el("button", { type: "button", onclick: () => open(playable(choice, request)) }, "Open in the playground"),
    choice.unread && el("p.served-problem", {}, choice.unread),
    choice.diagnostics?.length
      ? el(
          "ul.served-diagnostics",
          {},
          ...choice.diagnostics.map((diagnostic) =>
            el("li", {}, el("b", {}, diagnostic.kind), ` at ${diagnostic.start} to ${diagnostic.end}: ${diagnostic.detail}`),
          ),
        )
      : null,
    choice.message && fold(`Message (finish reason: ${choice.finish_reason})`, false, el("pre", { tabindex: "0" }, pretty(choice.message))),
  );
}

/** Returns the playground's input for parsing an output in the same way as the gateway did. */
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

/** Returns a view of the plan and of the request that was sent to the upstream. */
export function plan(request) {
  const decided = request.plan;
  if (!decided) return null;
  const { prompt, prompt_length: length, told: upstreamRequest } = decided;
  return fold(
    "Plan and upstream request",
    false,
    el("dl.served-why", {}, ...Object.entries(decided.why).flatMap(([name, why]) => [el("dt", {}, name), el("dd", {}, why)])),
    ...decided.warnings.map((warning) => el("p.served-problem", {}, warning)),
    el("h5", {}, "Upstream request"),
    el("pre", { tabindex: "0" }, upstreamRequest === null ? "not stored" : pretty(upstreamRequest)),
    el("h5", {}, prompt === null ? "Prompt: rendered by the upstream" : `Prompt, ${length.toLocaleString()} characters`),
    prompt !== null && el("pre", { tabindex: "0" }, prompt),
  );
}

function times(request) {
  const parts = [
    request.first !== null && `first delta after ${seconds(request.first)}`,
    request.seconds !== null ? `finished after ${seconds(request.seconds)}` : "running",
    `${request.deltas} deltas`,
    request.gone && `client: ${request.gone}`,
  ];
  return el("p.served-hint", {}, `${parts.filter(Boolean).join(", ")}. ${request.id}`);
}
