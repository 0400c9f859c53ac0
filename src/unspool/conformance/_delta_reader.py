"""From deltas to a message: what a strict client makes of a parser's stream.

The rules are those of ``unspool.wire.ChatStreamDecoder``, which reads them here, too.
A parser is not a server: the role, the types of calls and missing ids are filled
in, and so is a finish reason that it leaves to its server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..message import Message, TextPart
from ..wire._chat_decoder import ChatStreamDecoder
from ._cases import (
    CallAt,
    DeltaMessage,
    ExtractedToolCallInformation,
    FunctionCall,
    Json,
    Part,
    Stretch,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a stream has come: characters that are not blank of each channel, calls opened."""

    content: int
    reasoning: int
    calls: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A parser's answer, put together."""

    message: ExtractedToolCallInformation
    reached: tuple[Reached, ...]
    """After every delta that says something; between two of them the order is not known."""


def rebuild(deltas: Iterable[DeltaMessage | None], finish_reason: str | None) -> Rebuilt:
    """Put deltas together; raises ``ProtocolError`` if no strict client could."""
    client = ChatStreamDecoder(check_json=False)  # the comparison judges arguments, broken ones too
    client.feed({"role": "assistant"})
    opened: set[int] = set()
    content = reasoning = 0
    reached: list[Reached] = []
    for delta in deltas:
        if delta is None or delta.empty:
            continue
        client.feed(_chunk(delta, opened))
        content += _visible(delta.content)
        reasoning += _visible(delta.reasoning)
        opened.update(call.index for call in delta.tool_calls)
        reached.append(Reached(content, reasoning, len(opened)))
    client.feed({"delta": {}, "finish_reason": finish_reason or ("tool_calls" if opened else "stop")})
    return Rebuilt(_information(client.message(), finish_reason), tuple(reached))


def _chunk(delta: DeltaMessage, opened: set[int]) -> Json:
    chunk: Json = {}
    if delta.reasoning:
        chunk["reasoning_content"] = delta.reasoning
    if delta.content:
        chunk["content"] = delta.content
    if delta.tool_calls:
        new = set(opened)
        chunk["tool_calls"] = []
        for call in delta.tool_calls:
            entry: Json = {"index": call.index}
            function: Json = {}
            if call.name is not None:
                function["name"] = call.name
            if call.arguments is not None:
                function["arguments"] = call.arguments
            if call.index not in new:
                entry |= {"id": call.id or f"call_{call.index}", "type": "function"}
            elif call.id is not None:
                entry["id"] = call.id
            new.add(call.index)
            chunk["tool_calls"].append(entry | ({"function": function} if function else {}))
    return chunk


def _information(message: Message, finish_reason: str | None) -> ExtractedToolCallInformation:
    calls: list[ToolCall] = []
    order: list[Part] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            order.append(Stretch(part.channel, part.text))
        else:
            order.append(CallAt(len(calls)))
            calls.append(ToolCall(FunctionCall(part.name, part.arguments), part.id))
    return ExtractedToolCallInformation(
        bool(calls), tuple(calls), message.content, message.reasoning, finish_reason, tuple(order)
    )


def _visible(text: str | None) -> int:
    return sum(map(len, text.split())) if text else 0


def visible(texts: Sequence[str]) -> int:
    """How many characters of these texts are not blank."""
    return sum(map(_visible, texts))
