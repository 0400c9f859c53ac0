// What the page has besides, where a gateway serves it: a chat with its models, what is known of
// them, and the last requests.

import { chatPanel } from "./served-chat.js";
import { el, field } from "./served-dom.js";
import { askJson, key } from "./served-gateway.js";
import { modelPanel } from "./served-model.js";
import { requestsPanel } from "./served-requests.js";

let about = null;

/** Whether the gateway answers this page's questions; if not, a panel says what is to be done. */
export async function admitted({ addPanel, gateway }) {
  document.head.append(el("link", { rel: "stylesheet", href: "served.css" }));
  gateway.headers = () => (key.get() ? { authorization: `Bearer ${key.get()}` } : {});
  try {
    about = await askJson("about");
    if (!about.admitted) addPanel("Key", keyPanel())();
    return about.admitted;
  } catch (error) {
    addPanel("Chat", el("p.desk-problem", { role: "alert" }, `The gateway does not answer: ${error.message}`))();
    return false;
  }
}

/** Adds panels; `page` is what the playground offers, `linked` whether somebody followed a link to an output. */
export function begin(page, linked) {
  const showChat = page.addPanel("Chat", chatPanel(about, page.open));
  page.addPanel("Last requests", requestsPanel(about, page.open));
  page.addPanel("Model", modelPanel(about));
  if (!linked) showChat();
}

function keyPanel() {
  const input = el("input", { type: "password", autocomplete: "off", required: true });
  return el(
    "form.card.desk-key",
    {
      onsubmit: (event) => {
        event.preventDefault();
        key.set(input.value.trim());
        location.reload();
      },
    },
    el("h2", {}, "This gateway asks for a key"),
    el("p", {}, "One of its api_keys. It stays in this tab, is sent to this gateway alone, and is gone when the tab is closed."),
    key.get() && el("p.desk-problem", { role: "alert" }, "That key is not valid."),
    field("API key", input),
    el("button.primary", { type: "submit" }, "Go on"),
  );
}
