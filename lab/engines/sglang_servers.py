"""Runner of SGLang's own servers with given outputs, in SGLang's environment.

SGLang's own classes serve Chat Completions, Responses and Messages, from the body of a request to the
bytes of the answer. In place of the engine, a tokenizer manager answers every request with given ids,
decoded one token at a time, as SGLang's detokenizer does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from unittest.mock import MagicMock

from lab.peers._vocabulary import EngineTokenizer
from unspool.integrations.sglang import load
from unspool.tokens import ReasoningIds

_ENGINE: Final = (
    "sglang.srt.configs",
    "sglang.srt.managers",
    "sglang.srt.utils.hf_transformers",
    "sglang.srt.utils.hf_transformers_utils",
)
"""Modules that run models; they are replaced, because serving does not need the packages they import."""


class _Record:
    """Stand-in for an engine's record with arbitrary fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class _WithoutEngine(MetaPathFinder, Loader):
    """Importer that replaces each module of the engine by a stand-in."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        inside = any(name == module or name.startswith(f"{module}.") for module in _ENGINE)
        return ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = MagicMock(name=spec.name)
        module.__path__ = []
        if spec.name.endswith(".io_struct"):
            module.GenerateReqInput = type("GenerateReqInput", (_Record,), {})
            module.EmbeddingReqInput = type("EmbeddingReqInput", (_Record,), {})
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing; the stand-in is complete."""


class _Settings:
    """Server options: incremental deltas, everything else disabled."""

    incremental_streaming_output = True
    disaggregation_mode = "null"

    def __getattr__(self, name: str) -> Any:
        return None


class Vocabulary(EngineTokenizer):
    """Vocabulary with control tokens, and with a fixed prompt instead of a chat template."""

    def __init__(self, file: Path, markers: Iterable[str], eos: str) -> None:
        super().__init__(file, markers, eos)
        # As in most vocabularies, control tokens are special and tags are not.
        special = [name for name in self.markers if name.startswith(("<|", "<｜", "[")) or name == eos]
        self.all_special_tokens = special
        self.all_special_ids = [self.markers[name] for name in special]
        self.prompt = ""

    def apply_chat_template(self, messages: object, *, tokenize: bool = True, **_: object) -> Any:
        """Return the prompt of the case, regardless of the messages."""
        del messages
        return self.encode(self.prompt) if tokenize else self.prompt

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of a token."""
        return self.decode(id).encode()

    def special_tokens(self) -> Mapping[int, str]:
        """Return the tokens that are matched as a whole."""
        return {id: name for name, id in self.markers.items()}

    def skipped_tokens(self) -> Mapping[int, str]:
        """Return the tokens that ``skip_special_tokens`` removes."""
        return dict(zip(self.all_special_ids, self.all_special_tokens, strict=True))


def real_tokenizer(folder: str) -> Any:
    """Load a model's own tokenizer with its template, without guessing its class."""
    from transformers import PreTrainedTokenizerFast

    config = json.loads(Path(folder, "tokenizer_config.json").read_text(encoding="utf-8"))
    eos = config["eos_token"]
    return PreTrainedTokenizerFast(
        tokenizer_file=str(Path(folder, "tokenizer.json")),
        eos_token=eos if isinstance(eos, str) else eos["content"],
        chat_template=config.get("chat_template"),
    )


class Manager:
    """Tokenizer manager that answers every request with the same output."""

    def __init__(self, tokenizer: Any, tool: str | None, reasoning: str | None) -> None:
        self.tokenizer = tokenizer
        self.names = {"tool_call_parser": tool, "reasoning_parser": reasoning, "grammar_backend": "xgrammar"}
        self.model_config = SimpleNamespace(
            hf_config=SimpleNamespace(model_type="", architectures=[]),
            is_multimodal=False,
            context_len=1 << 20,
            get_default_sampling_params=dict,
        )
        self.server_args = None
        self.served_model_name = self.model_path = "model"
        self.num_reserved_tokens = 0
        self.request_logger = SimpleNamespace(log_requests=False)
        self.ids: list[int] = []
        self.finish = "stop"
        self.last_request: Any = None
        """Last request to the engine."""
        self.counts: dict[str, int] = {}

    def config_value(self, name: str) -> Any:
        """Return a setting."""
        return self.names.get(name)

    def create_abort_task(self, request: object) -> None:
        """Do nothing; there is no engine to abort."""

    async def generate_request(self, request: Any, raw: object = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the output, in one piece or token by token."""
        del raw
        self.last_request = request
        params = request.sampling_params
        skip = params["skip_special_tokens"]
        last = {
            "type": self.finish,
            **({"matched": self.tokenizer.eos_token_id} if self.finish == "stop" else {}),
        }
        done = 0
        for count in range(1, len(self.ids) + 1) if request.stream and self.ids else [len(self.ids)]:
            finished = count == len(self.ids)
            text = self.tokenizer.decode(self.ids[done:count], skip_special_tokens=skip)
            if text.endswith("\ufffd") and not finished:
                continue  # the character is incomplete
            done = count
            meta = {
                "id": "1",
                "finish_reason": last if finished else None,
                "prompt_tokens": len(request.input_ids),
                "completion_tokens": count,
                "cached_tokens": 0,
                "reasoning_tokens": self.reasoning_tokens(request.require_reasoning) if finished else 0,
                "weight_version": "",
            }
            yield {"text": text, "output_ids": self.ids[:count], "meta_info": meta, "index": 0}

    def closes_reasoning(self) -> bool:
        """Return whether the output has a token that ends reasoning for the scheduler."""
        name = self.names["reasoning_parser"]
        end = reasoning_parser(name, self.tokenizer).get_think_end_token_ids(self.tokenizer) if name else []
        return len(end) == 1 and end[0] in self.ids

    def reasoning_tokens(self, required: bool) -> int:
        """Count the tokens of reasoning as the scheduler does."""
        name = self.names["reasoning_parser"]
        if name is None:
            return 0
        detector = reasoning_parser(name, self.tokenizer)
        end = detector.get_think_end_token_ids(self.tokenizer)
        ids = self.ids
        start: list[int] = []
        if not required:
            start = detector.get_self_opened_think_start_token_ids(self.tokenizer) or []
            if not start or ids[: len(start)] != start:
                return 0
        if not end:
            return 0
        for place in range(len(start), len(ids) - len(end) + 1):
            if ids[place : place + len(end)] == end:
                return place + len(end)
        return len(ids)


_parsers: dict[tuple[str, int], Any] = {}


def reasoning_parser(name: str, tokenizer: Any) -> Any:
    """Return the detector that the scheduler uses."""
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    key = (name, id(tokenizer))
    if key not in _parsers:
        _parsers[key] = ReasoningParser(model_type=name, stream_reasoning=False, tokenizer=tokenizer).detector
    return _parsers[key]


class Servers:
    """Three servers of one model."""

    def __init__(self, tokenizer: Any, tool: str | None, reasoning: str | None) -> None:
        from sglang.srt.entrypoints.anthropic.serving import AnthropicServing
        from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
        from sglang.srt.entrypoints.openai.serving_responses import OpenAIServingResponses
        from sglang.srt.parser.template_manager import TemplateManager

        self.manager = Manager(tokenizer, tool, reasoning)
        self.chat = OpenAIServingChat(self.manager, TemplateManager())
        self.responses = OpenAIServingResponses(self.manager, TemplateManager())
        self.messages = AnthropicServing(self.chat)

    async def ask(self, api: str, body: dict[str, Any]) -> Any:
        """Return the answer: the body of a response, or the events of a stream."""
        from sglang.srt.entrypoints.anthropic.protocol import AnthropicMessagesRequest
        from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, ResponsesRequest

        raw = SimpleNamespace(headers={}, state=SimpleNamespace())
        if api == "chat":
            answer = await self.chat.handle_request(ChatCompletionRequest(**body), raw)
        elif api == "responses":
            answer = await self.responses.create_responses(ResponsesRequest(**body), raw)
        else:
            answer = await self.messages.handle_messages(AnthropicMessagesRequest(**body), raw)
        if hasattr(answer, "body_iterator"):
            answer = answer.body_iterator
        if hasattr(answer, "__aiter__"):
            return _events([part if isinstance(part, str) else part.decode() async for part in answer])
        if hasattr(answer, "body"):
            return json.loads(answer.body)
        return json.loads(answer.model_dump_json())


def _events(parts: Iterable[str]) -> list[dict[str, Any]]:
    lines = "".join(parts).split("\n")
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


# -- conversion of answers


def read_chat(answer: Any, counted: dict[str, int]) -> dict[str, Any]:
    """Convert an answer of Chat Completions."""
    out = _empty()
    if isinstance(answer, dict):
        if "choices" not in answer:
            return {**out, "error": str(answer.get("message", answer))}
        choice = answer["choices"][0]
        message = choice["message"]
        out |= {"content": message["content"] or "", "reasoning": message.get("reasoning_content") or ""}
        calls = message.get("tool_calls") or ()
        out["calls"] = [_call(call["function"]) for call in calls]
        out["ids"] = [call["id"] for call in calls]
        out["finish"] = choice["finish_reason"]
        counted |= answer["usage"]
        return out
    out["ids"] = []
    for chunk in answer:
        if "error" in chunk:
            return {**out, "error": chunk["error"]["message"]}
        counted |= chunk.get("usage") or {}
        for choice in chunk["choices"]:
            delta = choice["delta"]
            out["content"] += delta.get("content") or ""
            out["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                _add(out["calls"], call["index"], call["function"])
                out["ids"] += [call["id"]] if call.get("id") else []
            out["finish"] = choice["finish_reason"] or out["finish"]
    return out


def read_responses(answer: Any, counted: dict[str, int]) -> dict[str, Any]:
    """Convert an answer of Responses; for a stream, use its deltas."""
    out = _empty()
    if isinstance(answer, dict):
        if "output" not in answer:
            return {**out, "error": str(answer)}
        for item in answer["output"]:
            _item(out, item)
        _end(out, answer, counted)
        return out
    calls: dict[str, dict[str, str]] = {}
    for event in answer:
        kind = event["type"]
        if kind == "response.output_item.added" and event["item"]["type"] == "function_call":
            calls[event["item"]["id"]] = {"name": event["item"]["name"], "arguments": ""}
        elif kind == "response.function_call_arguments.delta":
            calls[event["item_id"]]["arguments"] += event["delta"]
        elif kind == "response.output_item.done" and event["item"]["type"] == "function_call":
            call = calls[event["item"]["id"]]
            if call["arguments"] != event["item"]["arguments"]:
                out["error"] = f"deltas {call['arguments']!r}, item {event['item']['arguments']!r}"
            call["status"] = event["item"]["status"]
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            out["reasoning"] += event["delta"]
        elif kind == "response.output_text.delta":
            out["content"] += event["delta"]
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            out["calls"] = list(calls.values())
            _end(out, event["response"], counted)
        elif kind == "error":
            out["error"] = str(event)
    return out


def _item(out: dict[str, Any], item: dict[str, Any]) -> None:
    if item["type"] == "reasoning":
        out["reasoning"] += "".join(part["text"] for part in item.get("content") or item["summary"])
    elif item["type"] == "message":
        out["content"] += "".join(part["text"] for part in item["content"])
    elif item["type"] == "function_call":
        out["calls"].append({**_call(item), "status": item["status"]})


def _end(out: dict[str, Any], response: dict[str, Any], counted: dict[str, int]) -> None:
    out["finish"] = response["status"]
    usage = response.get("usage") or {}
    counted |= {name: value for name, value in usage.items() if isinstance(value, int)}


def read_messages(answer: Any, counted: dict[str, int]) -> dict[str, Any]:
    """Convert an answer of Messages; arguments that are not an object stay text."""
    out = _empty()
    if isinstance(answer, dict):
        if answer.get("type") == "error":
            return {**out, "error": answer["error"]["message"]}
        for block in answer["content"]:
            if block["type"] == "tool_use":
                arguments = json.dumps(block["input"], ensure_ascii=False)
                out["calls"].append({"name": block["name"], "arguments": arguments})
            else:
                name = "content" if block["type"] == "text" else "reasoning"
                out[name] += block.get("text") or block.get("thinking") or ""
        out["finish"] = answer["stop_reason"]
        counted |= answer["usage"]
        return out
    for event in answer:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            out["calls"].append({"name": event["content_block"]["name"], "arguments": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            out["content"] += delta.get("text") or ""
            out["reasoning"] += delta.get("thinking") or ""
            if delta["type"] == "input_json_delta":
                out["calls"][-1]["arguments"] += delta["partial_json"]
        elif event["type"] == "message_delta":
            out["finish"] = event["delta"]["stop_reason"]
            counted |= event.get("usage") or {}
        elif event["type"] == "error":
            out["error"] = event["error"]["message"]
    return out


def _empty() -> dict[str, Any]:
    return {"reasoning": "", "content": "", "calls": [], "finish": "", "error": ""}


def _call(function: dict[str, Any]) -> dict[str, str]:
    return {"name": function["name"], "arguments": function["arguments"]}


def _add(calls: list[dict[str, str]], index: int, function: dict[str, Any]) -> None:
    if index == len(calls):
        calls.append({"name": function["name"], "arguments": ""})
    calls[index]["arguments"] += function["arguments"] or ""


READERS: Final = {"chat": read_chat, "responses": read_responses, "messages": read_messages}


def body_of(api: str, case: Mapping[str, Any], *, stream: bool) -> dict[str, Any]:
    """Return the request for a case."""
    question = "What is the weather?"
    more = dict(case.get("request", {}))
    if api == "chat":
        tools = {"tools": case["tools"]} if case["tools"] else {}
        options = {"stream_options": {"include_usage": True}} if stream else {}
        messages = [{"role": "user", "content": question}]
        return {"model": "model", "messages": messages, "stream": stream, **tools, **options, **more}
    functions = [tool["function"] for tool in case["tools"]]
    if api == "responses":
        offered = [{"type": "function", "parameters": {}, **function} for function in functions]
        tools = {"tools": offered} if offered else {}
        return {"model": "model", "input": question, "stream": stream, "store": False, **tools, **more}
    listed = [
        {
            "name": function["name"],
            "description": function.get("description") or "",
            "input_schema": {"type": "object", **(function.get("parameters") or {})},
        }
        for function in functions
    ]
    tools = {"tools": listed} if listed else {}
    messages = [{"role": "user", "content": question}]
    return {"model": "model", "max_tokens": 4096, "messages": messages, "stream": stream, **tools, **more}


class Models:
    """Models by dialect and pair of parsers."""

    def __init__(self, vocabulary: Path, facts: Mapping[str, Any]) -> None:
        self._vocabulary = vocabulary
        self._facts = facts
        self._servers: dict[tuple[str, ...], Servers] = {}

    def servers(self, case: Mapping[str, Any]) -> Servers:
        """Return the servers for a case, by default with unspool's parser for its dialect.

        With ``real``, the model has a vocabulary and a chat template of its own.
        """
        dialect, real = case["dialect"], case.get("real")
        ours = f"unspool_{dialect}"
        tool, reasoning = case.get("tool", ours), case.get("reasoning", ours)
        key = (dialect, str(tool), str(reasoning), str(real))
        if key not in self._servers:
            tokenizer = self._real(real, own=tool == "unspool") if real else self._made(dialect)
            self._servers[key] = Servers(tokenizer, tool, reasoning)
        return self._servers[key]

    def _made(self, dialect: str) -> Any:
        facts = self._facts[dialect]
        return Vocabulary(self._vocabulary, facts["controls"], (facts["stops"] or ["</s>"])[0])

    def _real(self, folder: str, *, own: bool) -> Any:
        tokenizer = real_tokenizer(folder)

        def prompt_of_the_case(messages: object, *, tokenize: bool = True, **_: object) -> Any:
            del messages
            prompt = tokenizer.prompt
            return tokenizer.encode(prompt, add_special_tokens=False) if tokenize else prompt

        if not own:
            tokenizer.apply_chat_template = prompt_of_the_case
        return tokenizer


async def run(models: Models, case: Mapping[str, Any], apis: Sequence[str]) -> dict[str, Any]:
    """Return the answers to one case by API, streamed and not, with the token counts."""
    servers = models.servers(case)
    manager = servers.manager
    manager.tokenizer.prompt = case["prompt"]
    manager.ids = manager.tokenizer.encode(case["text"], add_special_tokens=False)
    manager.finish = case["finish"]
    answers: dict[str, Any] = {}
    for api in apis:
        for mode in ("whole", "stream"):
            counted: dict[str, int] = {}
            answer = await servers.ask(api, body_of(api, case, stream=mode == "stream"))
            answers[f"{api} {mode}"] = READERS[api](answer, counted) | {"usage": counted}
            answers[f"{api} {mode}"]["prompt"] = len(manager.last_request.input_ids)
    answers["text"] = manager.tokenizer.decode(manager.ids)
    answers["tokens"] = {"completion": len(manager.ids), "reasoning": _reasoning_tokens(case, manager)}
    answers["closed"] = manager.closes_reasoning()
    answers["tag"] = manager.last_request.sampling_params.get("structural_tag")
    return answers


def _reasoning_tokens(case: Mapping[str, Any], manager: Manager) -> int:
    """Count the tokens up to the end of reasoning with unspool, including the markers, as SGLang does."""
    ids = ReasoningIds(case["dialect"], manager.tokenizer)
    end = ids.end(manager.ids, prompt=list(manager.last_request.input_ids))
    return len(manager.ids) if end is None else end


class Grammars:
    """SGLang's own grammar backend on a real vocabulary."""

    def __init__(self, folder: str) -> None:
        from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

        self._tokenizer = real_tokenizer(folder)
        self._backend = XGrammarGrammarBackend(
            self._tokenizer,
            vocab_size=len(self._tokenizer),
            model_eos_token_ids=[self._tokenizer.eos_token_id],
        )

    def accepts(self, tag: str, text: str) -> bool:
        """Return whether a model under the tag's grammar can write the text and end there."""
        matcher = self._backend.dispatch_structural_tag(tag).matcher
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return all(map(matcher.accept_token, [*ids, self._tokenizer.eos_token_id]))


def load_servers() -> str:
    """Load the plug-in and SGLang's servers; return SGLang's version."""
    logging.disable(logging.CRITICAL)
    sys.meta_path.insert(0, _WithoutEngine())
    load()
    from sglang import __version__
    from sglang.srt import runtime_context

    vars(runtime_context)["_CONTEXT"] = SimpleNamespace(config_bag=lambda _: _Settings())
    return str(__version__)


def main(cases: Path, answers: Path) -> None:
    """Read cases from one file and write their answers to another."""
    given = json.loads(cases.read_text(encoding="utf-8"))
    version = load_servers()
    models = Models(Path(given["vocabulary"]), given["facts"])
    grammars = Grammars(given["real"])
    with answers.open("w", encoding="utf-8") as out:
        out.write(json.dumps({"version": version}) + "\n")
        for case in given["cases"]:
            found = asyncio.run(run(models, case, case["apis"]))
            tag = found.pop("tag")
            found["accepted"] = [
                tag is not None and grammars.accepts(tag, text) for text in case.get("held", ())
            ]
            out.write(json.dumps(found, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
