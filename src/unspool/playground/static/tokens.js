// The tokens of a text, by a tokenizer.json: in the worker, where nothing waits for it.

import { Tokenizer } from "./tokenizers.mjs";

let known = "";
let tokenizer;

/** The question with the tokens of its text and its prompt in it. */
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
