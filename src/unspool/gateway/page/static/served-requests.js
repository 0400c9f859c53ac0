// Panel: the latest requests of all clients that use the same API key.

import { detail } from "./served-detail.js";
import { el, seconds } from "./served-dom.js";
import { askJson } from "./served-gateway.js";

const REFRESH_MS = 3000;

/** Returns the panel. */
export function requestsPanel(about, open) {
  const list = el("ol.served-requests", {});
  const status = el("p.served-hint", { role: "status" });
  const shown = el("div", {}, el("p.served-hint", {}, "Choose a request to see the model's output."));
  let chosen = "";

  async function refresh() {
    try {
      const { requests, why_none: why } = await askJson("requests");
      const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
      list.replaceChildren(...requests.map(entry));
      if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
      status.textContent = why || (requests.length ? "" : "There are no requests yet. Send one from the chat or from a program.");
    } catch (error) {
      status.textContent = error.message;
    }
  }

  function entry(request) {
    const state = request.running ? "running" : `${request.status || ""}`;
    const when = new Date(request.at * 1000).toLocaleTimeString();
    return el(
      "li",
      {},
      el(
        "button.served-request",
        { type: "button", "data-id": request.id, "aria-pressed": String(request.id === chosen), onclick: () => show(request.id) },
        el("span.served-state", { "data-state": request.running ? "running" : request.status >= 400 ? "failed" : "well" }, state),
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
      shown.replaceChildren(el("p.served-problem", { role: "alert" }, error.message));
    }
  }

  async function forget() {
    await askJson("requests", { method: "DELETE" });
    shown.replaceChildren();
    await refresh();
  }

  const workers =
    about.workers > 1 ? ` Each of the gateway's ${about.workers} workers has its own list, so a refresh may show a different list.` : "";
  const element = el(
    "div.served-panel",
    {},
    el("p.served-hint", {}, `The latest ${about.requests} requests, which are stored in the gateway's memory only.${workers}`),
    el(
      "div.served-actions",
      {},
      el("button", { type: "button", onclick: refresh }, "Refresh"),
      el("button", { type: "button", onclick: forget }, "Delete all"),
    ),
    status,
    el("div.served-columns", {}, list, shown),
  );
  const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && refresh());
  observer.observe(element);
  setInterval(() => element.offsetParent !== null && !document.hidden && refresh(), REFRESH_MS);
  return element;
}
