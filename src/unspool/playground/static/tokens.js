// Tokenization of a text with a tokenizer.json, in the worker, so that the page stays responsive.

import { Tokenizer } from "./tokenizers.mjs";

let known = "";
let tokenizer;

/** Returns the request with the token ids of its text and its prompt. */
export function withIds(request) {
  if (request.tokenizer_json !== known) {
    tokenizer = new Tokenizer(JSON.parse(request.tokenizer_json), {});
    known = request.tokenizer_json;
  }
  const encode = (text) => tokenizer.encode(text, { add_special_tokens: false }).ids;
  return {
    ...request,
    ids: encode(request.text),
    prompt_ids: request.prompt === null ? null : encode(request.prompt),
  };
}
