// A chat with a model that the gateway serves: tools of one's own, both streams side by side.

import { APIS, emptyAnswer } from "./served-apis.js";
import { detail } from "./served-detail.js";
import { el, field, fold, pretty } from "./served-dom.js";
import { Blocks, ask, eventsOf } from "./served-gateway.js";
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

/** The panel. */
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
    this.tools = el("textarea.desk-code", { rows: "14", spellcheck: "false", value: pretty(EXAMPLE) });
    this.wrong = el("p.desk-problem", { role: "alert", hidden: true });
    this.log = el("ol.desk-turns", { role: "log", "aria-label": "Conversation" });
    this.text = el("textarea", { rows: "2", value: QUESTION, onkeydown: (event) => this.#keyed(event) });
    this.sending = el("button.primary", { type: "submit" }, "Send");
    this.stopping = el("button", { type: "button", hidden: true, onclick: () => this.#stop?.abort() }, "Stop");
    this.streams = new Streams();
    this.came = el("div", {});
    this.element = this.#laidOut(about);
  }

  #laidOut(about) {
    const several = about.models.length > 1;
    return el(
      "div.desk-panel",
      {},
      el(
        "div.desk-chat",
        {},
        el(
          "section.card.desk-talk",
          { "aria-label": "Chat" },
          el(
            "div.head",
            {},
            el("h2", {}, several ? "Chat" : `Chat with ${about.models[0].name}`),
            el("button", { type: "button", onclick: () => this.#anew() }, "New chat"),
          ),
          this.log,
          el(
            "form.desk-compose",
            { onsubmit: (event) => this.#submitted(event) },
            field("Message", this.text),
            el("div.desk-actions", {}, this.sending, this.stopping),
          ),
        ),
        el(
          "section.card.desk-setup",
          { "aria-label": "The request" },
          el("div.head", {}, el("h2", {}, "The request")),
          el(
            "div.desk-fields",
            {},
            several && field("Model", this.model),
            field("API", this.api),
            field("Tool choice", this.choice),
            field("Temperature", this.temperature),
            field("Most tokens", this.limit),
          ),
          fold("Tools of your own making", true, field("JSON", this.tools, "as chat requests have it; empty for none"), this.wrong),
          fold("System prompt", false, field("Text", this.system)),
        ),
      ),
      el(
        "section.card",
        { "aria-label": "Both streams" },
        el("div.head", {}, el("h2", {}, "Both streams, side by side")),
        this.streams.element,
        this.came,
      ),
    );
  }

  #keyed(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.sending.form.requestSubmit();
    }
  }

  #submitted(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text || this.#stop || this.#offered() === null) return;
    // What was not answered is not asked again.
    while (this.#turns.at(-1)?.role === "user") this.#turns.pop();
    this.#turns.push({ role: "user", text });
    this.log.append(el("li.desk-user", {}, text));
    this.text.value = "";
    this.#answer();
  }

  #anew() {
    this.#stop?.abort();
    this.#turns = [];
    this.log.replaceChildren();
    this.came.replaceChildren();
    this.streams.clear();
    this.text.value = QUESTION;
    this.text.focus();
  }

  /** The tools of the editor; null: they are none, and that was said. */
  #offered() {
    this.wrong.hidden = true;
    try {
      const tools = JSON.parse(this.tools.value.trim() || "[]");
      if (!Array.isArray(tools)) throw new Error("a list of tools, between [ and ]");
      return tools;
    } catch (error) {
      this.wrong.textContent = `These are no tools: ${error.message}`;
      this.wrong.hidden = false;
      this.tools.closest("details").open = true;
      this.tools.focus();
      return null;
    }
  }

  #request() {
    const tools = this.#offered();
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
    this.came.replaceChildren();
    this.#stop = new AbortController();
    this.#busy(true);
    try {
      const response = await ask("chat", { method: "POST", body: request, signal: this.#stop.signal });
      await this.#follow(response, APIS[request.api], answer, turn);
    } catch (error) {
      answer.error = error.name === "AbortError" ? "stopped" : error.message;
    }
    answer.calls = answer.calls.filter(Boolean);
    turn.end();
    this.#stop = null;
    this.#busy(false);
    if (answer.error) {
      turn.offerAgain(() => this.#stop || this.#answer());
      return;
    }
    this.#turns.push(answer);
    if (answer.calls.length) this.#askForResults(answer.calls);
    else this.text.focus();
  }

  async #follow(response, api, answer, turn) {
    const wire = new Blocks();
    let whole = null;
    for await (const [name, text] of eventsOf(response)) {
      const value = JSON.parse(text);
      if (name === "raw") this.streams.raw(value);
      else if (name === "head") whole = value.status === 200 ? null : "";
      else if (name === "end") this.came.replaceChildren(detail(value, this.open));
      else if (name === "error") answer.error = value.message;
      else if (name === "wire" && whole !== null) answer.error = refusal((whole += value));
      else if (name === "wire") {
        for (const [kind, data] of wire.feed(value)) {
          this.streams.wire(kind, data);
          if (data !== "[DONE]") api.take(answer, kind, JSON.parse(data));
        }
        turn.show();
      }
    }
  }

  #busy(busy) {
    this.sending.disabled = busy;
    this.stopping.hidden = !busy;
  }

  /** The user is the tool. */
  #askForResults(calls) {
    const inputs = calls.map(({ name }) => el("textarea", { rows: "2", value: name === "get_weather" ? RESULT : "" }));
    const form = el(
      "form.desk-results",
      {},
      ...calls.map(({ name, arguments: text }, at) => field(`Result of ${name}`, inputs[at], text)),
      el("button.primary", { type: "submit" }, calls.length > 1 ? "Send the results" : "Send the result"),
    );
    const item = el("li.desk-tool", {}, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      calls.forEach(({ id }, at) => this.#turns.push({ role: "tool", id, text: inputs[at].value }));
      item.replaceChildren(...inputs.map((input, at) => el("pre", {}, `${calls[at].name} → ${input.value}`)));
      // Held to a call it would call for ever.
      if (this.choice.value === "required") this.choice.value = "auto";
      this.#answer();
    });
    this.log.append(item);
    inputs[0].focus();
  }
}

/** A turn of the model's, as it grows. */
class Turn {
  constructor(answer) {
    this.answer = answer;
    this.reasoning = el("p.desk-reasoning", { hidden: true });
    this.text = el("p", { hidden: true });
    this.calls = el("div", {});
    this.state = el("p.desk-hint", {}, "…");
    this.element = el("li.desk-model", {}, this.reasoning, this.text, this.calls, this.state);
  }

  show() {
    const { reasoning, text, calls } = this.answer;
    this.reasoning.textContent = reasoning;
    this.reasoning.hidden = !reasoning;
    this.text.textContent = text;
    this.text.hidden = !text;
    this.calls.replaceChildren(
      ...calls.filter(Boolean).map(({ name, arguments: given }) => el("pre.desk-call", {}, el("b", {}, name), ` ${given}`)),
    );
  }

  offerAgain(again) {
    const button = el("button", { type: "button" }, "Try again");
    button.addEventListener("click", () => {
      button.remove();
      again();
    });
    this.element.append(button);
  }

  end() {
    this.show();
    const { error, finish } = this.answer;
    this.state.className = error ? "desk-diagnostic" : "desk-hint";
    this.state.textContent = error || `ended by ${finish}`;
  }
}

function refusal(text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text;
  }
}
