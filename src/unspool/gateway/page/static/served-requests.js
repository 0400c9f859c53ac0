// The last requests that the gateway answered, whoever sent them.

import { detail } from "./served-detail.js";
import { el, seconds } from "./served-dom.js";
import { askJson } from "./served-gateway.js";

const EVERY = 3000;

/** The panel. */
export function requestsPanel(about, open) {
  const list = el("ol.desk-requests", {});
  const said = el("p.desk-hint", { role: "status" });
  const shown = el("div", {}, el("p.desk-hint", {}, "Choose a request to see what the model wrote."));
  let chosen = "";

  async function refresh() {
    try {
      const { requests, why_none: why } = await askJson("requests");
      const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
      list.replaceChildren(...requests.map(entry));
      if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
      said.textContent = why || (requests.length ? "" : "There were none yet. Send one from the chat, or from a program.");
    } catch (error) {
      said.textContent = error.message;
    }
  }

  function entry(request) {
    const state = request.running ? "running" : `${request.status || ""}`;
    const when = new Date(request.at * 1000).toLocaleTimeString();
    return el(
      "li",
      {},
      el(
        "button.desk-request",
        { type: "button", "data-id": request.id, "aria-pressed": String(request.id === chosen), onclick: () => show(request.id) },
        el("span.desk-state", { "data-state": request.running ? "running" : request.status >= 400 ? "failed" : "well" }, state),
        el("span", {}, when),
        el("span", {}, request.api || request.path),
        el("span", {}, request.model),
        el("span", {}, request.running ? "" : seconds(request.seconds)),
        el("span", {}, `${request.characters} characters`),
      ),
    );
  }

  async function show(id) {
    chosen = id;
    for (const button of list.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.id === id));
    try {
      shown.replaceChildren(detail(await askJson(`requests/${encodeURIComponent(id)}`), open));
    } catch (error) {
      shown.replaceChildren(el("p.desk-problem", { role: "alert" }, error.message));
    }
  }

  async function forget() {
    await askJson("requests", { method: "DELETE" });
    shown.replaceChildren();
    await refresh();
  }

  const workers =
    about.workers > 1 ? ` This gateway has ${about.workers} workers, and each knows its own: look again, and another may answer.` : "";
  const element = el(
    "div.desk-panel",
    {},
    el("p.desk-hint", {}, `The last ${about.requests} requests, kept in the gateway's memory and nowhere else.${workers}`),
    el(
      "div.desk-actions",
      {},
      el("button", { type: "button", onclick: refresh }, "Look again"),
      el("button", { type: "button", onclick: forget }, "Forget all"),
    ),
    said,
    el("div.desk-columns", {}, list, shown),
  );
  const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && refresh());
  seen.observe(element);
  setInterval(() => element.offsetParent !== null && !document.hidden && refresh(), EVERY);
  return element;
}
