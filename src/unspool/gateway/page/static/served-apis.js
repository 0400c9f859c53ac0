// Functions for each of the three APIs: they convert a conversation to a request, and stream events to an answer.
//
// A turn is {role: "user", text}, {role: "tool", id, text}, or the model's
// {role: "assistant", reasoning, text, calls: [{id, name, arguments}]}.

/** Returns an empty turn of the model. */
export const emptyAnswer = () => ({
  role: "assistant",
  reasoning: "",
  text: "",
  calls: [],
  finish: "",
  error: "",
  usage: null,
});

const withoutUndefined = (entries) => Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
const functionOf = (tool) => tool.function ?? tool;
const argumentsOf = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
};

const chat = {
  title: "Chat Completions",
  body: (turns, { system, tools, choice, ...more }) =>
    withoutUndefined({
      messages: [...(system ? [{ role: "system", content: system }] : []), ...turns.map(chat.message)],
      tools: tools.length ? tools : undefined,
      tool_choice: tools.length ? choice : undefined,
      stream_options: { include_usage: true },
      ...more,
    }),
  message: (turn) => {
    if (turn.role === "user") return { role: "user", content: turn.text };
    if (turn.role === "tool") return { role: "tool", tool_call_id: turn.id, content: turn.text };
    const calls = turn.calls.map(({ id, name, arguments: text }) => ({
      id,
      type: "function",
      function: { name, arguments: text },
    }));
    return withoutUndefined({
      role: "assistant",
      content: turn.text,
      reasoning_content: turn.reasoning || undefined,
      tool_calls: calls.length ? calls : undefined,
    });
  },
  take: (answer, _, chunk) => {
    answer.usage = chunk.usage ?? answer.usage;
    if (chunk.error) answer.error = chunk.error.message;
    for (const { delta, finish_reason } of chunk.choices ?? []) {
      answer.text += delta.content ?? "";
      answer.reasoning += delta.reasoning_content ?? delta.reasoning ?? "";
      for (const { index, id, function: call } of delta.tool_calls ?? []) {
        answer.calls[index] ??= { id, name: call.name, arguments: "" };
        answer.calls[index].arguments += call.arguments ?? "";
      }
      answer.finish = finish_reason ?? answer.finish;
    }
  },
};

const messages = {
  title: "Messages",
  body: (turns, { system, tools, choice, max_tokens, ...more }) =>
    withoutUndefined({
      messages: turns.map(messages.message),
      system: system || undefined,
      max_tokens: max_tokens ?? 1024,
      tools: tools.length ? tools.map(messages.tool) : undefined,
      tool_choice: tools.length ? { type: { required: "any" }[choice] ?? choice } : undefined,
      ...more,
    }),
  tool: (tool) => {
    const { name, description, parameters } = functionOf(tool);
    return withoutUndefined({ name, description, input_schema: parameters ?? { type: "object", properties: {} } });
  },
  message: (turn) => {
    if (turn.role === "user") return { role: "user", content: turn.text };
    if (turn.role === "tool")
      return { role: "user", content: [{ type: "tool_result", tool_use_id: turn.id, content: turn.text }] };
    const content = turn.text ? [{ type: "text", text: turn.text }] : [];
    for (const { id, name, arguments: text } of turn.calls)
      content.push({ type: "tool_use", id, name, input: argumentsOf(text) });
    return { role: "assistant", content };
  },
  take: (answer, name, event) => {
    if (name === "error" || event.error) answer.error = event.error.message;
    const { delta = {}, content_block: block } = event;
    if (block?.type === "tool_use") answer.calls.push({ id: block.id, name: block.name, arguments: "" });
    answer.text += delta.text ?? "";
    answer.reasoning += delta.thinking ?? "";
    if (delta.partial_json !== undefined) answer.calls.at(-1).arguments += delta.partial_json;
    answer.finish = delta.stop_reason ?? answer.finish;
    answer.usage = event.usage ?? answer.usage;
  },
};

const responses = {
  title: "Responses",
  body: (turns, { system, tools, choice, max_tokens, ...more }) =>
    withoutUndefined({
      input: turns.flatMap(responses.items),
      instructions: system || undefined,
      max_output_tokens: max_tokens,
      tools: tools.length ? tools.map(responses.tool) : undefined,
      tool_choice: tools.length ? choice : undefined,
      store: false,
      ...more,
    }),
  tool: (tool) => {
    const { name, description, parameters } = functionOf(tool);
    return withoutUndefined({ type: "function", name, description, parameters, strict: false });
  },
  items: (turn) => {
    if (turn.role === "user") return [{ role: "user", content: turn.text }];
    if (turn.role === "tool") return [{ type: "function_call_output", call_id: turn.id, output: turn.text }];
    const message = turn.text ? [{ role: "assistant", content: turn.text }] : [];
    const calls = turn.calls.map(({ id, name, arguments: text }) => ({
      type: "function_call",
      call_id: id,
      name,
      arguments: text,
    }));
    return [...message, ...calls];
  },
  take: (answer, name, event) => {
    if (event.error) answer.error = event.error.message;
    if (name === "response.output_text.delta") answer.text += event.delta;
    else if (name === "response.reasoning_text.delta") answer.reasoning += event.delta;
    else if (name === "response.function_call_arguments.delta") answer.calls.at(-1).arguments += event.delta;
    else if (name === "response.output_item.added" && event.item.type === "function_call")
      answer.calls.push({ id: event.item.call_id, name: event.item.name, arguments: event.item.arguments ?? "" });
    else if (/^response\.(completed|incomplete|failed)$/.test(name)) {
      answer.finish = event.response.incomplete_details?.reason ?? event.response.status;
      answer.usage = event.response.usage;
      answer.error = event.response.error?.message ?? answer.error;
    }
  },
};

/** The three APIs: `body` converts a conversation to a request, `take` adds a stream event to an answer. */
export const APIS = { chat, messages, responses };
