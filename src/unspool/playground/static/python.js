// Calls the library: in a worker on the static page, or at the gateway that serves the page.

export const served = document.documentElement.hasAttribute("data-served");

/** Headers for requests to the gateway, to which the gateway's page adds its key. */
export const gateway = { headers: () => ({}) };

let worker;
let number = 0;
const waiting = new Map();

/** Resolves with the seconds that Python took to start. */
export const ready = served ? Promise.resolve(0) : startWorker();

/** Calls `unspool.playground.answer`; errors are returned as answers. */
export function ask(request) {
  return served ? askGateway(request) : askWorker(request);
}

function startWorker() {
  const began = performance.now();
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  const started = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.ready) return resolve((performance.now() - began) / 1000);
      if (data.failed) return reject(new Error(data.failed));
      waiting.get(data.number)(JSON.parse(data.answer));
      waiting.delete(data.number);
    };
    worker.onerror = (event) => reject(new Error(event.message || "the worker did not start"));
  });
  started.catch(() => {});  // the callers of `ready` handle the error
  return started;
}

async function askWorker(request) {
  try {
    await ready;
  } catch (error) {
    return { error: `Python did not start: ${error.message}`, kind: "Python" };
  }
  return new Promise((resolve) => {
    waiting.set(++number, resolve);
    worker.postMessage({ number, request: JSON.stringify(request) });
  });
}

async function askGateway(request) {
  try {
    const response = await fetch("playground/answer", {
      method: "POST",
      headers: { "content-type": "application/json", ...gateway.headers() },
      body: JSON.stringify(request),
    });
    const answer = await response.json();
    if (response.ok) return answer;
    return { error: answer.error?.message ?? response.statusText, kind: `HTTP ${response.status}` };
  } catch (error) {
    return { error: `the gateway does not answer: ${error.message}`, kind: "network" };
  }
}
