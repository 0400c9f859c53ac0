"""Decoder that assembles a parser's deltas into a message, as a strict client would.

The deltas are decoded by ``unspool.wire.ChatStreamDecoder`` and must follow its rules. A parser is not a
server, so this module adds the fields that a server would add: the role, the types of calls, missing ids, and
a missing finish reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..message import BrokenCall, Message, TextPart
from ..wire import ChatStreamDecoder, make_poison
from .case_format import (
    CallReference,
    DeltaMessage,
    ExtractedToolCallInformation,
    FunctionCall,
    Json,
    Part,
    TextSegment,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Position in a stream: the number of characters in each channel and the number of calls so far."""

    content: int
    reasoning: int
    calls: int


@dataclass(frozen=True, slots=True)
class DecodedStream:
    """Message decoded from a parser's deltas."""

    message: ExtractedToolCallInformation
    positions: tuple[StreamPosition, ...]
    """Positions after each delta that is not empty. Positions inside a delta are unknown, because a delta
    does not show the order of its content, reasoning and calls."""


def decode_stream(deltas: Iterable[DeltaMessage | None], finish_reason: str | None) -> DecodedStream:
    """Decode deltas into a message; raise ``ProtocolError`` if a strict client would reject the stream."""
    client = ChatStreamDecoder(check_json=False)  # arguments are checked later, in the comparison
    client.feed({"role": "assistant"})
    opened: set[int] = set()
    content = reasoning = 0
    positions: list[StreamPosition] = []
    for delta in deltas:
        if delta is None or delta.empty:
            continue
        client.feed(_to_chunk(delta, opened))
        content += _count_visible(delta.content)
        reasoning += _count_visible(delta.reasoning)
        opened.update(call.index for call in delta.tool_calls)
        positions.append(StreamPosition(content, reasoning, len(opened)))
    client.feed({"delta": {}, "finish_reason": finish_reason or ("tool_calls" if opened else "stop")})
    return DecodedStream(_to_message(client.finish(), finish_reason), tuple(positions))


def _to_chunk(delta: DeltaMessage, opened: set[int]) -> Json:
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


def _to_message(message: Message, finish_reason: str | None) -> ExtractedToolCallInformation:
    calls: list[ToolCall] = []
    order: list[Part] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            order.append(TextSegment(part.channel, part.text))
        else:
            order.append(CallReference(len(calls)))
            poison = make_poison(part.arguments, part.status) if isinstance(part, BrokenCall) else ""
            calls.append(ToolCall(FunctionCall(part.name, part.arguments + poison), part.id))
    return ExtractedToolCallInformation(
        bool(calls), tuple(calls), message.content, message.reasoning, finish_reason, tuple(order)
    )


def _count_visible(text: str | None) -> int:
    return sum(map(len, text.split())) if text else 0


def count_visible(texts: Sequence[str]) -> int:
    """Return the total number of characters in these strings, not counting whitespace."""
    return sum(map(_count_visible, texts))
