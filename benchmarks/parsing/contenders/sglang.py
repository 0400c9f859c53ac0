"""SGLang: its detectors of calls and of reasoning, without the server around them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sglang import __version__
from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from ..workloads import TOOLS, Answer
from . import Reader

VERSION = __version__

logging.disable(logging.CRITICAL)

_PARSERS = {
    "hermes": "hermes",
    "mistral": "mistral",
    "qwen3_coder": "qwen3_coder",
    "deepseek_v3": "deepseekv3",
    "kimi_k2": "kimi_k2",
    "llama3_json": "llama3",
    "pythonic": "pythonic",
    "glm45": "glm45",
    "harmony": "gpt-oss",
}
_TOOLS = [Tool.model_validate(tool) for tool in TOOLS]


def _answer(results: list[Any]) -> Answer:
    content = ""
    calls: dict[int, list[str]] = {}
    for text, found in results:
        content += text or ""
        for call in found:
            kept = calls.setdefault(call.tool_index, ["", ""])
            kept[0] += call.name or ""
            kept[1] += call.parameters or ""
    return Answer(content, calls=[calls[index] for index in sorted(calls)])


def _reasoning(results: list[Any]) -> Answer:
    parts = [part for part in results if part is not None]
    return Answer("".join(text or "" for _, text in parts), "".join(text or "" for text, _ in parts))


def _start_reasoning() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    parser = ReasoningParser("qwen3", stream_reasoning=True)
    return parser.parse_stream_chunk, lambda: None


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Its parsers of these names.

    Of harmony it is given the calls only: reasoning is for another parser of its own.
    """
    if dialect == "reasoning":
        return Reader(_start_reasoning, _reasoning, label="qwen3 (reasoning)")
    name = _PARSERS[dialect]

    def start() -> tuple[Callable[[str], Any], Callable[[], Any]]:
        parser = FunctionCallParser(_TOOLS, name)
        return parser.parse_stream_chunk, parser.parse_stream_end

    return Reader(
        start, _answer, whole=lambda text: FunctionCallParser(_TOOLS, name).parse_non_stream(text), label=name
    )
