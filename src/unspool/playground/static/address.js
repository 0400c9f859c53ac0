// What is seen, in the address: JSON behind the "#", deflated where that is shorter.

const LONGEST = 16_000;
const LARGEST = 1_000_000;

/** The part of an address behind its "#"; null: it would be too long to be passed on. */
export async function toHash(state) {
  const data = new TextEncoder().encode(JSON.stringify(state));
  const deflated = await through(data, new CompressionStream("deflate-raw"));
  const hash = deflated.length < data.length ? `z=${base64(deflated)}` : `j=${base64(data)}`;
  return hash.length > LONGEST ? null : hash;
}

/** The state that an address holds; null: it holds none. */
export async function fromHash(hash) {
  const [kind, text] = hash.replace(/^#/, "").split("=", 2);
  if (!text || !["j", "z"].includes(kind)) return null;
  try {
    let data = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    if (kind === "z") data = await through(data, new DecompressionStream("deflate-raw"), LARGEST);
    const state = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data));
    return state && typeof state === "object" && !Array.isArray(state) ? state : null;
  } catch {
    return null;  // cut off on its way, or never ours
  }
}

async function through(data, stream, most = Infinity) {
  const parts = [];
  let length = 0;
  for await (const part of new Blob([data]).stream().pipeThrough(stream)) {
    length += part.length;
    if (length > most) throw new RangeError("larger than anything that we wrote");
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function base64(data) {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
