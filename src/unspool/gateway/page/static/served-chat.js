// Panel: a chat with a model.  The user can define tools, and sees the model's output beside the client's events.

import { APIS, emptyAnswer } from "./served-apis.js";
import { detail } from "./served-detail.js";
import { el, field, fold, pretty } from "./served-dom.js";
import { EventParser, ask, eventsOf } from "./served-gateway.js";
import { Streams } from "./served-streams.js";

const EXAMPLE = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Get the current weather in a city.",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];
const QUESTION = "What is the weather in Paris?";
const RESULT = '{"temperature": 21, "sky": "clear"}';

/** Returns the panel. */
export function chatPanel(about, open) {
  return new Chat(about, open).element;
}

class Chat {
  #turns = [];
  #stop = null;

  constructor(about, open) {
    this.open = open;
    const option = (value, title = value) => el("option", { value }, title);
    this.model = el("select", {}, ...about.models.map(({ name }) => option(name)));
    this.api = el("select", {}, ...Object.entries(APIS).map(([name, { title }]) => option(name, title)));
    this.choice = el("select", {}, ...["auto", "required", "none"].map((one) => option(one)));
    this.temperature = el("input", { type: "number", min: "0", max: "2", step: "0.1", value: "0" });
    this.limit = el("input", { type: "number", min: "1", step: "1", value: "512" });
    this.system = el("textarea", { rows: "2", placeholder: "none" });
    this.tools = el("textarea.served-code", { rows: "14", spellcheck: "false", value: pretty(EXAMPLE) });
    this.wrong = el("p.served-problem", { role: "alert", hidden: true });
    this.log = el("ol.served-turns", { role: "log", "aria-label": "Conversation" });
    this.text = el("textarea", { rows: "2", value: QUESTION, onkeydown: (event) => this.#onKey(event) });
    this.sending = el("button.primary", { type: "submit" }, "Send");
    this.stopping = el("button", { type: "button", hidden: true, onclick: () => this.#stop?.abort() }, "Stop");
    this.streams = new Streams();
    this.detail = el("div", {});
    this.element = this.#layOut(about);
  }

  #layOut(about) {
    const several = about.models.length > 1;
    return el(
      "div.served-panel",
      {},
      el(
        "div.served-chat",
        {},
        el(
          "section.card.served-talk",
          { "aria-label": "Chat" },
          el(
            "div.head",
            {},
            el("h2", {}, several ? "Chat" : `Chat with ${about.models[0].name}`),
            el("button", { type: "button", onclick: () => this.#startNew() }, "New chat"),
          ),
          this.log,
          el(
            "form.served-compose",
            { onsubmit: (event) => this.#onSubmit(event) },
            field("Message", this.text),
            el("div.served-actions", {}, this.sending, this.stopping),
          ),
        ),
        el(
          "section.card.served-setup",
          { "aria-label": "Request" },
          el("div.head", {}, el("h2", {}, "Request")),
          el(
            "div.served-fields",
            {},
            several && field("Model", this.model),
            field("API", this.api),
            field("Tool choice", this.choice),
            field("Temperature", this.temperature),
            field("Max tokens", this.limit),
          ),
          fold("Tools", true, field("JSON", this.tools, "in the format of Chat Completions; leave empty for no tools"), this.wrong),
          fold("System prompt", false, field("Text", this.system)),
        ),
      ),
      el(
        "section.card",
        { "aria-label": "Both streams" },
        el("div.head", {}, el("h2", {}, "Both streams, side by side")),
        this.streams.element,
        this.detail,
      ),
    );
  }

  #onKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.sending.form.requestSubmit();
    }
  }

  #onSubmit(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text || this.#stop || this.#readTools() === null) return;
    // Remove messages that have no answer, so that they are not sent again.
    while (this.#turns.at(-1)?.role === "user") this.#turns.pop();
    this.#turns.push({ role: "user", text });
    this.log.append(el("li.served-user", {}, text));
    this.text.value = "";
    this.#answer();
  }

  #startNew() {
    this.#stop?.abort();
    this.#turns = [];
    this.log.replaceChildren();
    this.detail.replaceChildren();
    this.streams.clear();
    this.text.value = QUESTION;
    this.text.focus();
  }

  /** Returns the tools from the editor; if they are not valid, shows an error and returns null. */
  #readTools() {
    this.wrong.hidden = true;
    try {
      const tools = JSON.parse(this.tools.value.trim() || "[]");
      if (!Array.isArray(tools)) throw new Error("expected a list of tools, between [ and ]");
      return tools;
    } catch (error) {
      this.wrong.textContent = `The tools are not valid: ${error.message}`;
      this.wrong.hidden = false;
      this.tools.closest("details").open = true;
      this.tools.focus();
      return null;
    }
  }

  #request() {
    const tools = this.#readTools();
    if (tools === null) return null;
    const number = (input) => (input.value === "" ? undefined : Number(input.value));
    return {
      api: this.api.value,
      body: APIS[this.api.value].body(this.#turns, {
        model: this.model.value,
        system: this.system.value.trim(),
        tools,
        choice: this.choice.value,
        temperature: number(this.temperature),
        max_tokens: number(this.limit),
        stream: true,
      }),
    };
  }

  async #answer() {
    const request = this.#request();
    if (request === null) return;
    const answer = emptyAnswer();
    const turn = new Turn(answer);
    this.log.append(turn.element);
    this.streams.clear();
    this.detail.replaceChildren();
    this.#stop = new AbortController();
    this.#setBusy(true);
    try {
      const response = await ask("chat", { method: "POST", body: request, signal: this.#stop.signal });
      await this.#follow(response, APIS[request.api], answer, turn);
    } catch (error) {
      answer.error = error.name === "AbortError" ? "stopped" : error.message;
    }
    answer.calls = answer.calls.filter(Boolean);
    turn.end();
    this.#stop = null;
    this.#setBusy(false);
    if (answer.error) {
      turn.offerRetry(() => this.#stop || this.#answer());
      return;
    }
    this.#turns.push(answer);
    if (answer.calls.length) this.#askForResults(answer.calls);
    else this.text.focus();
  }

  async #follow(response, api, answer, turn) {
    const wire = new EventParser();
    let whole = null;
    for await (const [name, text] of eventsOf(response)) {
      const value = JSON.parse(text);
      if (name === "raw") this.streams.raw(value);
      else if (name === "head") whole = value.status === 200 ? null : "";
      else if (name === "end") this.detail.replaceChildren(detail(value, this.open));
      else if (name === "error") answer.error = value.message;
      else if (name === "wire" && whole !== null) answer.error = errorMessage((whole += value));
      else if (name === "wire") {
        for (const [kind, data] of wire.feed(value)) {
          this.streams.wire(kind, data);
          if (data !== "[DONE]") api.take(answer, kind, JSON.parse(data));
        }
        turn.show();
      }
    }
  }

  #setBusy(busy) {
    this.sending.disabled = busy;
    this.stopping.hidden = !busy;
  }

  /** Asks the user for the results of tool calls. */
  #askForResults(calls) {
    const inputs = calls.map(({ name }) => el("textarea", { rows: "2", value: name === "get_weather" ? RESULT : "" }));
    const form = el(
      "form.served-results",
      {},
      ...calls.map(({ name, arguments: text }, at) => field(`Result of ${name}`, inputs[at], text)),
      el("button.primary", { type: "submit" }, calls.length > 1 ? "Send the results" : "Send the result"),
    );
    const item = el("li.served-tool", {}, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      calls.forEach(({ id }, at) => this.#turns.push({ role: "tool", id, text: inputs[at].value }));
      item.replaceChildren(...inputs.map((input, at) => el("pre", {}, `${calls[at].name} → ${input.value}`)));
      // Now that the tools have run, let the model answer with text.
      if (this.choice.value === "required") this.choice.value = "auto";
      this.#answer();
    });
    this.log.append(item);
    inputs[0].focus();
  }
}

/** View of the model's turn, updated while the turn arrives. */
class Turn {
  constructor(answer) {
    this.answer = answer;
    this.reasoning = el("p.served-reasoning", { hidden: true });
    this.text = el("p", { hidden: true });
    this.calls = el("div", {});
    this.state = el("p.served-hint", {}, "…");
    this.element = el("li.served-model", {}, this.reasoning, this.text, this.calls, this.state);
  }

  show() {
    const { reasoning, text, calls } = this.answer;
    this.reasoning.textContent = reasoning;
    this.reasoning.hidden = !reasoning;
    this.text.textContent = text;
    this.text.hidden = !text;
    this.calls.replaceChildren(
      ...calls.filter(Boolean).map(({ name, arguments: text }) => el("pre.served-call", {}, el("b", {}, name), ` ${text}`)),
    );
  }

  offerRetry(retry) {
    const button = el("button", { type: "button" }, "Try again");
    button.addEventListener("click", () => {
      button.remove();
      retry();
    });
    this.element.append(button);
  }

  end() {
    this.show();
    const { error, finish } = this.answer;
    this.state.className = error ? "served-problem" : "served-hint";
    this.state.textContent = error || `finish reason: ${finish}`;
  }
}

function errorMessage(text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text;
  }
}
