// Requests to the gateway that serves this page, with an API key, JSON bodies and event streams.

const KEY = "unspool-key";

/** The API key, which is stored until the tab is closed. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** Error response of the gateway. */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Sends a request and returns the response; throws if its status is an error. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(`playground/${path}`, {
    method,
    headers,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new RequestError(response.status, answer.error?.message ?? `status ${response.status}`);
}

/** Sends a request and returns the JSON of its response. */
export const askJson = async (path, options) => (await ask(path, options)).json();

/** Yields the events of a response as pairs of an event name and its data. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield* parser.feed(read.value);
}

/** Parser of an event stream whose text arrives in arbitrary chunks. */
export class EventParser {
  #rest = "";

  *feed(text) {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data.push(line.slice(6));
      }
      if (data.length) yield [name, data.join("\n")];
    }
  }
}
