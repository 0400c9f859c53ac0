// Python in the browser: Pyodide, our wheel and its dependencies, all from this folder.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = (name) => new URL(name, import.meta.url).href;

async function start() {
  const [pyodide, files] = await Promise.all([loadPyodide({ indexURL: here("pyodide/") }), wheels()]);
  for (const data of files) pyodide.unpackArchive(data, "wheel");
  return pyodide.runPython(`
import json
from unspool.playground import answer
lambda request: json.dumps(answer(json.loads(request)))
`);
}

async function wheels() {
  const names = await (await fetch(here("wheels/wheels.json"))).json();
  return Promise.all(names.map(async (name) => (await fetch(here(`wheels/${name}`))).arrayBuffer()));
}

const starting = start();
starting.then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ failed: String(error) }),
);

let tokens;

/** Adds token ids to a request, because Python has no tokenizer in the browser. */
async function withIds(request) {
  tokens ??= import("./tokens.js");
  return (await tokens).withIds(request);
}

onmessage = async ({ data: { number, request } }) => {
  const answer = await starting;
  let asked = request;
  if (request.startsWith('{"ask":"labels"')) {
    try {
      asked = JSON.stringify(await withIds(JSON.parse(request)));
    } catch (error) {
      return postMessage({ number, answer: JSON.stringify({ error: String(error), kind: "tokenizer" }) });
    }
  }
  postMessage({ number, answer: answer(asked) });
};
