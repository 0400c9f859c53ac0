// Talking to the gateway that serves this page: the key, JSON, streams of events.

const KEY = "unspool-key";

/** The key of the gateway's API: typed once, gone with the tab. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** The gateway did not do what it was asked for. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Ask for something; the answer is a response that is well. */
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
  const told = await response.json().catch(() => ({}));
  throw new Refused(response.status, told.error?.message ?? `status ${response.status}`);
}

/** Ask for JSON. */
export const askJson = async (path, how) => (await ask(path, how)).json();

/** The events of a stream of them: pairs of a name and a text. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const blocks = new Blocks();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield* blocks.feed(read.value);
}

/** Text of a stream of events, cut anywhere, as events. */
export class Blocks {
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
