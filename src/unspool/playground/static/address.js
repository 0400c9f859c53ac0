// The state of the page in its URL: JSON after the "#", compressed if that is shorter.

const LONGEST = 16_000;
const LARGEST = 1_000_000;

/** Returns the fragment of a URL for a state, or null if it would be too long for a link. */
export async function toHash(state) {
  const data = new TextEncoder().encode(JSON.stringify(state));
  const deflated = await through(data, new CompressionStream("deflate-raw"));
  const hash = deflated.length < data.length ? `z=${base64(deflated)}` : `j=${base64(data)}`;
  return hash.length > LONGEST ? null : hash;
}

/** Returns the state in the fragment of a URL, or null if there is none. */
export async function fromHash(hash) {
  const [kind, text] = hash.replace(/^#/, "").split("=", 2);
  if (!text || !["j", "z"].includes(kind)) return null;
  try {
    let data = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    if (kind === "z") data = await through(data, new DecompressionStream("deflate-raw"), LARGEST);
    const state = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data));
    return state && typeof state === "object" && !Array.isArray(state) ? state : null;
  } catch {
    return null;  // the link is truncated or invalid
  }
}

async function through(data, stream, most = Infinity) {
  const parts = [];
  let length = 0;
  for await (const part of new Blob([data]).stream().pipeThrough(stream)) {
    length += part.length;
    if (length > most) throw new RangeError("the state in the link is too large");
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function base64(data) {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
