"""Property test of API streams: a client receives the complete response, and cannot run any other calls.

For each API, this module has a client that assembles a stream strictly by the rules of the API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from .._core.arguments.json_value import canonical_json
from ..dialects import Dialect
from ..errors import MalformedOutput, ProtocolError
from ..events import CallArgs, CallEnd, CallStart, Event
from ..parser import Parser
from ..wire import (
    ChatStream,
    ChatStreamDecoder,
    Chunk,
    MessagesStream,
    OllamaStream,
    ResponsesStream,
)
from ._parser_runs import ModelOutput, ParseRun, as_model_output


@dataclass(frozen=True, slots=True)
class Received:
    """Response as assembled by a client."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    """For each call, its name and its arguments; the arguments are JSON text."""
    reason: str
    error: bool = False
    """True if the response is an error, so that the client must ignore the other fields."""


_ERROR: Final = Received("", "", (), "", error=True)


def assert_wires(
    dialect: str | Dialect, case: str | ModelOutput, ways: Iterable[Sequence[str]] | None = None
) -> None:
    """Assert, for every API, that a client receives equal responses with and without streaming.

    - The calls that the client assembles from the stream are the calls of the complete response.
    - The client can parse the arguments of complete calls, but not those of other calls.
    - The client receives every complete call, all content and all reasoning.

    Arguments are compared as text, because Python values would hide differences in the spelling
    of numbers, infinite numbers, and duplicate keys.

    :param ways: the chunkings to try, by default one chunk and single characters.
    """
    case = as_model_output(case)
    for chunks in ([case.text], list(case.text)) if ways is None else ways:
        for name, wire in WIRES.items():
            _assert_wire(dialect, case, chunks, name, wire)


def _assert_wire(
    dialect: str | Dialect, case: ModelOutput, chunks: Sequence[str], name: str, wire: Wire
) -> None:
    parser = _parser(dialect, case)
    stream = wire.stream(parser)
    sent: list[Chunk] = stream.feed(())
    builder = parser.fold()
    events: list[Event] = []
    failed = False
    for batch in (*(parser.feed(chunk) for chunk in chunks), parser.finish(case.finish_reason)):
        events += batch
        sent += stream.feed(batch)
        try:
            builder.feed(batch)
        except MalformedOutput:
            failed = True
            break

    def make_error(why: str) -> AssertionError:
        return ParseRun(parser.dialect, case, chunks, events, None, []).broken(f"wires ({name})", why)

    try:
        streamed = wire.read_stream(sent)
    except ProtocolError as error:
        raise make_error(str(error)) from error
    try:
        message = None if failed else builder.message
        whole = _ERROR if message is None else wire.read_whole(wire.stream(parser).response(message))
    except MalformedOutput:
        message, whole = None, _ERROR
    # If arguments are objects, a complete response cannot contain broken calls: it omits them or is an error.
    if wire.carries_objects:
        if not streamed.error:
            readable = tuple(call for call in streamed.calls if _is_runnable(call[1]))
            if whole.error and len(readable) == len(streamed.calls):
                raise make_error("the complete response is an error, but the stream is not")
            streamed = replace(streamed, calls=readable)
        if whole.error:
            streamed = _ERROR
    normalize = _canonical if parser.policies.arguments == "canonical" else tuple
    streamed = replace(streamed, calls=normalize(streamed.calls))
    if streamed != whole:
        raise make_error(f"\n    streamed: {streamed}\n    whole:    {whole}")
    if streamed.error:
        return
    complete_calls = list(normalize(_complete(events)))
    runs = [call for call in streamed.calls if _is_runnable(call[1])]
    if runs != complete_calls:
        raise make_error(f"a client can run {runs}, but the model wrote {complete_calls}")
    if any(not arguments for _, arguments in streamed.calls):
        raise make_error("a call has empty arguments, which clients read as {}")


def _canonical(calls: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the calls with canonical arguments, as in a message; a stream keeps the model's own text."""
    return tuple((name, canonical_json(text) if _is_runnable(text) else text) for name, text in calls)


def _complete(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Return the name and the arguments of each complete call."""
    names: dict[int, str] = {}
    pieces: dict[int, list[str]] = {}
    out: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, CallStart):
            names[event.index] = event.name
            pieces[event.index] = []
        elif isinstance(event, CallArgs):
            pieces[event.index].append(event.json)
        elif isinstance(event, CallEnd) and event.status == "complete":
            out.append((names[event.index], "".join(pieces[event.index]) or "{}"))
    return out


def _parser(dialect: str | Dialect, case: ModelOutput) -> Parser:
    return Parser(
        dialect,
        tools=case.tools,
        prompt=case.prompt,
        continues=case.continues,
        policies=case.policies,
        new_id=lambda _, index: f"call_{index}",
    )


# -- one client per API


def _chat_stream(chunks: Sequence[Chunk]) -> Received:
    client = ChatStreamDecoder()
    for chunk in chunks:
        if "error" in chunk:
            return _ERROR
        client.feed(chunk)
    sent = client.finish().to_chat(broken="poison")
    return _chat_whole({"choices": [{"message": sent, "finish_reason": client.message.finish_reason}]})


def _chat_whole(response: Any) -> Received:
    choice = response["choices"][0]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return Received(
        message["content"] or "",
        message.get("reasoning_content") or message.get("reasoning") or "",
        tuple((function["name"], function["arguments"]) for function in functions),
        choice["finish_reason"],
    )


def _responses_stream(chunks: Sequence[Any]) -> Received:
    items: list[Any] = []
    pieces: dict[int, str] = {}
    for chunk in chunks:
        kind = chunk["type"]
        if kind == "response.failed":
            return _ERROR
        if kind == "response.function_call_arguments.delta":
            pieces[chunk["output_index"]] = pieces.get(chunk["output_index"], "") + chunk["delta"]
        elif kind == "response.output_item.done":
            item = chunk["item"]
            if (
                item["type"] == "function_call"
                and pieces.get(chunk["output_index"], "{}") != item["arguments"]
            ):
                joined = pieces.get(chunk["output_index"])
                raise ProtocolError(
                    f"the argument deltas join to {joined!r}, but the finished item is {item}"
                )
            items.append(item)
    response = chunks[-1]["response"]
    if response["output"] != items:
        raise ProtocolError(f"the finished items are {items}, but the response has {response['output']}")
    return _responses_whole(response)


def _responses_whole(response: Any) -> Received:
    texts = {"message": "", "reasoning": ""}
    calls: list[tuple[str, str]] = []
    for item in response["output"]:
        if item["type"] == "function_call":
            calls.append((item["name"], item["arguments"]))
            if (item["status"] == "completed") != _is_runnable(item["arguments"]):
                raise ProtocolError(
                    f"the status of a call is {item['status']!r}, which contradicts its arguments "
                    f"{item['arguments']!r}"
                )
        else:
            texts[item["type"]] += "".join(part["text"] for part in item["content"])
    details = response["incomplete_details"] or {}
    return Received(texts["message"], texts["reasoning"], tuple(calls), details.get("reason", "completed"))


def _messages_stream(chunks: Sequence[Any]) -> Received:
    texts = {"text": "", "thinking": ""}
    calls: list[tuple[str, str]] = []
    block: Any = None
    pieces = reason = ""
    for chunk in chunks:
        kind = chunk["type"]
        if kind == "error":
            return _ERROR
        if kind == "content_block_start":
            block, pieces = chunk["content_block"], ""
        elif kind == "content_block_delta":
            delta = chunk["delta"]
            if delta["type"] in ("text_delta", "thinking_delta"):
                texts[block["type"]] += delta[block["type"]]
            else:
                pieces += delta.get("partial_json", "")
        elif kind == "content_block_stop" and block["type"] == "tool_use":
            # As in the SDKs, take the input from content_block_start if there are no deltas.
            calls.append((block["name"], pieces or json.dumps(block["input"])))
        elif kind == "message_delta":
            reason = chunk["delta"]["stop_reason"]
    return Received(texts["text"], texts["thinking"], tuple(calls), reason)


def _messages_whole(response: Any) -> Received:
    texts = {"text": "", "thinking": ""}
    calls: list[tuple[str, str]] = []
    for block in response["content"]:
        if block["type"] == "tool_use":
            calls.append((block["name"], block["input"]))
        else:
            texts[block["type"]] += block[block["type"]]
    return Received(texts["text"], texts["thinking"], tuple(calls), response["stop_reason"])


def _ollama_stream(lines: Sequence[Any]) -> Received:
    content = reasoning = ""
    calls: list[tuple[str, str]] = []
    for line in lines:
        if "error" in line:
            return _ERROR
        line_content = _ollama_whole(line)
        content, reasoning = content + line_content.content, reasoning + line_content.reasoning
        calls += line_content.calls
    if [line["done"] for line in lines] != [False] * (len(lines) - 1) + [True]:
        raise ProtocolError("the last line, and no other, must have done=true")
    return Received(content, reasoning, tuple(calls), lines[-1]["done_reason"])


def _ollama_whole(line: Any) -> Received:
    message = line["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return Received(
        message["content"],
        message.get("thinking", ""),
        tuple((function["name"], function["arguments"]) for function in functions),
        line.get("done_reason", ""),
    )


def _is_runnable(arguments: str) -> bool:
    """Return whether a client would run a call with these arguments."""
    try:
        return isinstance(json.loads(arguments, strict=False, parse_int=str), dict)
    except RecursionError:
        return True  # the text is nested too deeply for Python's JSON parser
    except ValueError:
        return False


def _as_text(arguments: str) -> str:
    """Return arguments unchanged, instead of converting them to an object as encoders do by default."""
    return arguments


@dataclass(frozen=True, slots=True)
class Wire:
    """API format, with our encoder and a test client."""

    stream: Callable[[Parser], Any]
    read_stream: Callable[[Sequence[Any]], Received]
    read_whole: Callable[[Any], Received]
    carries_objects: bool = False
    """True if complete responses contain arguments as objects, which cannot represent broken calls."""


WIRES: Final[Mapping[str, Wire]] = {
    "chat": Wire(ChatStream, _chat_stream, _chat_whole),
    "responses": Wire(ResponsesStream, _responses_stream, _responses_whole),
    "messages": Wire(
        partial(MessagesStream, load_arguments=_as_text),
        _messages_stream,
        _messages_whole,
        carries_objects=True,
    ),
    "ollama": Wire(
        partial(OllamaStream, load_arguments=_as_text), _ollama_stream, _ollama_whole, carries_objects=True
    ),
}
"""Mapping from the name of each API to its encoder and client."""
