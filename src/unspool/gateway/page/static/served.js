// Panels that a gateway adds to the playground: a chat with its models, reports on the models,
// and the latest requests.

import { chatPanel } from "./served-chat.js";
import { el, field } from "./served-dom.js";
import { askJson, key } from "./served-gateway.js";
import { modelPanel } from "./served-model.js";
import { requestsPanel } from "./served-requests.js";

let about = null;

/** Returns whether the page may use the gateway; if not, adds a panel that shows the reason or asks for an API key. */
export async function admitted({ addPanel, gateway }) {
  document.head.append(el("link", { rel: "stylesheet", href: "served.css" }));
  gateway.headers = () => (key.get() ? { authorization: `Bearer ${key.get()}` } : {});
  try {
    about = await askJson("about");
    if (!about.admitted) addPanel("Key", keyPanel())();
    return about.admitted;
  } catch (error) {
    addPanel("Chat", el("p.served-problem", { role: "alert" }, `The gateway does not answer: ${error.message}`))();
    return false;
  }
}

/** Adds the panels; `page` is the playground's interface, `linked` is true if the URL links to an output. */
export function begin(page, linked) {
  const showChat = page.addPanel("Chat", chatPanel(about, page.open));
  page.addPanel("Latest requests", requestsPanel(about, page.open));
  page.addPanel("Model", modelPanel(about));
  if (!linked) showChat();
}

function keyPanel() {
  const input = el("input", { type: "password", autocomplete: "off", required: true });
  return el(
    "form.card.served-key",
    {
      onsubmit: (event) => {
        event.preventDefault();
        key.set(input.value.trim());
        location.reload();
      },
    },
    el("h2", {}, "This gateway needs an API key"),
    el("p", {}, "Enter one of the gateway's API keys. The key stays in this tab, is sent only to this gateway, and is deleted when the tab is closed."),
    key.get() && el("p.served-problem", { role: "alert" }, "That key is not valid."),
    field("API key", input),
    el("button.primary", { type: "submit" }, "Continue"),
  );
}
