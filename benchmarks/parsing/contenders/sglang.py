"""SGLang: its detectors of calls and of reasoning, without the server around them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from sglang import __version__
from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from ..workloads import TOOLS, Answer
from . import Reader

VERSION = __version__

logging.disable(logging.CRITICAL)

_PARSERS: dict[str, tuple[str | None, str | None]] = {
    "hermes": ("hermes", None),
    "mistral": ("mistral", None),
    "qwen3_coder": ("qwen3_coder", None),
    "deepseek_v3": ("deepseekv3", None),
    "kimi_k2": ("kimi_k2", None),
    "llama3_json": ("llama3", None),
    "pythonic": ("pythonic", None),
    "glm45": ("glm45", None),
    "harmony": ("gpt-oss", "gpt-oss"),
    "reasoning": (None, "qwen3"),
}
"""Tool parser and reasoning parser by row."""

_TOOLS = [Tool.model_validate(tool) for tool in TOOLS]


Result: TypeAlias = tuple[str | None, str | None, list[Any]]
"""Reasoning, content, pieces of calls."""


def _answer(results: list[Result]) -> Answer:
    texts: list[list[str]] = [[], []]
    calls: dict[int, list[str]] = {}
    for reasoning, content, found in results:
        texts[0].append(reasoning or "")
        texts[1].append(content or "")
        for call in found:
            kept = calls.setdefault(call.tool_index, ["", ""])
            kept[0] += call.name or ""
            kept[1] += call.parameters or ""
    return Answer("".join(texts[1]), "".join(texts[0]), [calls[index] for index in sorted(calls)])


class _DetectorChain:
    """Reasoning detector followed by the call detector, as in the server."""

    def __init__(self, calls: str | None, reasoning: str | None) -> None:
        self._calls = calls and FunctionCallParser(_TOOLS, calls)
        self._reasoning = reasoning and ReasoningParser(reasoning, stream_reasoning=True)

    def feed(self, text: str) -> Result:
        reasoning, content, calls = None, text, []
        if self._reasoning:
            reasoning, content = self._reasoning.parse_stream_chunk(text)
        if self._calls and content:
            content, calls = self._calls.parse_stream_chunk(content)
        return reasoning, content, calls

    def finish(self) -> Result:
        return (None, *self._calls.parse_stream_end()) if self._calls else (None, None, [])

    def whole(self, text: str) -> Result:
        reasoning, content, calls = None, text, []
        if self._reasoning:
            reasoning, content = self._reasoning.parse_non_stream(text)
        if self._calls:
            content, calls = self._calls.parse_non_stream(content)
        return reasoning, content, calls


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Return a reader with SGLang's parsers for the dialect."""
    calls, reasoning = _PARSERS[dialect]

    def start() -> tuple[Callable[[str], Result], Callable[[], Result]]:
        both = _DetectorChain(calls, reasoning)
        return both.feed, both.finish

    return Reader(start, _answer, whole=lambda text: _DetectorChain(calls, reasoning).whole(text))
