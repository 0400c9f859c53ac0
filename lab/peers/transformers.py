"""Peer program for Transformers, which runs ``ResponseParser`` with the response templates of its server.

``transformers serve`` contains response templates for families whose tokenizers do not have one. The server's
code that converts the parser's events is used unchanged.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers.cli.serving import utils as serving
from transformers.utils.chat_parsing import ResponseParser
from transformers.utils.chat_parsing.response_parser import parse_response

from ._protocol import (
    ChunkOutput,
    Environment,
    Json,
    PeerProgram,
    PeerStream,
    ProtocolRequest,
    Unsupported,
    any_of,
    serve,
)

_FAMILIES = {"hermes": "qwen3", "qwen3_coder": "qwen3_5", "gemma4": "gemma4"}
"""Dialects, each with the model type for which the server has a response template."""


def _template(dialect: str) -> Json:
    shipped = serving._RESPONSE_TEMPLATE_FALLBACKS.items()  # noqa: SLF001
    return next(template for types, template in shipped if _FAMILIES[dialect] in types)


def _prefix(request: ProtocolRequest) -> str:
    """Return the end of the prompt, which starts with the anchor of the response template."""
    anchor = _template(request.dialect)["start_anchor"]
    first = anchor if isinstance(anchor, str) else anchor[0]
    return first + request.tail.removeprefix(request.facts.prompt).removeprefix("\n")


def _deltas(events: list[Json], calls: int) -> list[Json]:
    """Convert events to the deltas that the server would send; ``calls`` is the number of earlier calls."""
    deltas: list[Json] = []
    for item in serving.response_events_to_chunks(events):
        if isinstance(item, serving.ToolCall):
            call = {"index": calls, "name": item.name, "arguments": item.arguments}
            calls += 1
            deltas.append({"tool_calls": [call]})
        elif isinstance(item, serving.ReasoningText):
            deltas.append({"reasoning": str(item)})
        else:
            deltas.append({"content": item})
    return deltas


class _Stream(PeerStream):
    def __init__(self, request: ProtocolRequest) -> None:
        self._stop = request.stop
        self._parser = ResponseParser(
            _template(request.dialect), prefix=_prefix(request), tools=request.tools
        )
        self._calls = 0

    def feed(self, text: str, finished: bool) -> ChunkOutput:
        deltas = self._send(self._parser.feed(text))
        return deltas + self._send(self._parser.finalize()[1]) if finished else deltas

    def finish(self) -> ChunkOutput:
        # The parser also needs the token that ends the turn.
        deltas = self._send(self._parser.feed(self._stop))
        return deltas + self._send(self._parser.finalize()[1])

    def _send(self, events: list[Any]) -> list[Json]:
        deltas = _deltas(events, self._calls)
        self._calls += sum("tool_calls" in delta for delta in deltas)
        return deltas

    @property
    def finish_reason(self) -> str | None:
        return None


class _Transformers(PeerProgram):
    name = "transformers"
    version = version("transformers")

    def dialects(self) -> dict[str, Json]:
        return {name: {"response_template": family} for name, family in _FAMILIES.items()}

    def unsplittable(self, request: ProtocolRequest) -> re.Pattern[str] | None:
        return any_of(request.facts.controls)

    def stream(self, request: ProtocolRequest) -> PeerStream:
        _check(request)
        return _Stream(request)

    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        _check(request)
        message = parse_response(
            request.text + request.stop,
            _template(request.dialect),
            prefix=_prefix(request),
            tools=request.tools,
        )
        calls = [serving._normalize_tool_call(call) for call in message.get("tool_calls") or ()]  # noqa: SLF001
        entry = {
            "content": message.get("content"),
            "reasoning": message.get("reasoning_content"),
            "tool_calls": [
                {"index": index, "name": call.name, "arguments": call.arguments}
                for index, call in enumerate(calls)
            ],
        }
        return entry, None


def _check(request: ProtocolRequest) -> None:
    if not request.tools or request.tool_choice != "auto":
        raise Unsupported("the parser ignores the request's tools")


def main(facts: Path) -> None:
    """Serve requests with the parser of Transformers."""
    environment = Environment.read(facts)
    serve(_Transformers(), environment)
