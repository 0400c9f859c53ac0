"""Transformers: ``ResponseParser`` with the response templates of its server."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from transformers.cli.serving import utils as serving
from transformers.utils.chat_parsing import ResponseParser
from transformers.utils.chat_parsing.response_parser import parse_response

from ..workloads import TOOLS, Answer
from . import Reader

VERSION = version("transformers")

_FAMILIES = {"hermes": "qwen3", "qwen3_coder": "qwen3_5", "reasoning": "qwen3"}
"""Model types of the server's templates, by row."""


def _answer(results: list[Any]) -> Answer:
    if isinstance(results[0], dict):
        return _message(results[0])
    content, reasoning = "", ""
    calls: list[tuple[str, str]] = []
    events = [event for found in results for event in (found[1] if isinstance(found, tuple) else found)]
    for item in serving.response_events_to_chunks(events):
        if isinstance(item, serving.ToolCall):
            calls.append((item.name, item.arguments))
        elif isinstance(item, serving.ReasoningText):
            reasoning += item
        else:
            content += item
    return Answer(content, reasoning, calls)


def _message(message: dict[str, Any]) -> Answer:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [(function["name"], json.dumps(function["arguments"])) for function in functions]
    return Answer(message.get("content") or "", message.get("reasoning_content") or "", calls)


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Return a reader for the families with a template."""
    if dialect not in _FAMILIES:
        return None
    shipped = serving._RESPONSE_TEMPLATE_FALLBACKS.items()  # noqa: SLF001
    template = next(template for types, template in shipped if _FAMILIES[dialect] in types)
    prefix = template["start_anchor"]

    def start() -> tuple[Callable[[str], Any], Callable[[], Any]]:
        parser = ResponseParser(template, prefix=prefix, tools=TOOLS)
        return parser.feed, parser.finalize

    return Reader(
        start,
        _answer,
        whole=lambda text: parse_response(text, template, prefix=prefix, tools=TOOLS),
    )
