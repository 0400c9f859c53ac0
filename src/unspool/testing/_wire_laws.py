"""The law of the wires: what a client gets of a stream is what the whole response has, and only that can run.

For each API a client that puts a stream together by that API's rules, and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from .._core.arguments.json_value import canonical_json
from ..dialects._declaration import Dialect
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
from ._outputs import Case, Reading, as_case


@dataclass(frozen=True, slots=True)
class Received:
    """What a client has when the response is over."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    """Names and arguments, as the text that the response has."""
    reason: str
    error: bool = False
    """The response is an error; what came before it does not count."""


_ERROR: Final = Received("", "", (), "", error=True)


def assert_wires(
    dialect: str | Dialect, case: str | Case, ways: Iterable[Sequence[str]] | None = None
) -> None:
    """On every wire, streamed in any way and whole, a client gets the same, and runs what the model wrote.

    - The calls that it puts together are those of the response that is not streamed.
    - Arguments that it can read are those of a complete call; those of any other cannot be read.
    - Every complete call is among them, and so are all text and all reasoning.

    Arguments are compared as text: Python's values would hide how a number is spelled, that it is
    infinite, and a key that is given twice.

    :param ways: the chunkings to try; by default at once and in single characters.
    """
    case = as_case(case)
    for chunks in ([case.text], list(case.text)) if ways is None else ways:
        for name, wire in WIRES.items():
            _assert_wire(dialect, case, chunks, name, wire)


def _assert_wire(dialect: str | Dialect, case: Case, chunks: Sequence[str], name: str, wire: Wire) -> None:
    parser = _parser(dialect, case)
    stream = wire.stream(parser)
    sent: list[Chunk] = stream.encode(())
    fold = parser.fold()
    events: list[Event] = []
    failed = False
    for portion in (*(parser.feed(chunk) for chunk in chunks), parser.finish(case.finish_reason)):
        events += portion
        sent += stream.encode(portion)
        try:
            fold.push(portion)
        except MalformedOutput:
            failed = True
            break

    def complain(why: str) -> AssertionError:
        return Reading(parser.dialect, case, chunks, events, None, []).broken(f"wires ({name})", why)

    try:
        streamed = wire.read_stream(sent)
    except ProtocolError as error:
        raise complain(str(error)) from error
    try:
        message = None if failed else fold.message()
        whole = _ERROR if message is None else wire.read_whole(wire.stream(parser).response(message))
    except MalformedOutput:
        message, whole = None, _ERROR
    if wire.carries_objects:  # a broken call is not in it, or it is an error
        if not streamed.error:
            readable = tuple(call for call in streamed.calls if _reads(call[1]))
            if whole.error and len(readable) == len(streamed.calls):
                raise complain("the whole response is an error, and the stream is none")
            streamed = replace(streamed, calls=readable)
        if whole.error:
            streamed = _ERROR
    spell = _canonical if parser.policies.arguments == "canonical" else tuple
    streamed = replace(streamed, calls=spell(streamed.calls))
    if streamed != whole:
        raise complain(f"\n    streamed: {streamed}\n    whole:    {whole}")
    if streamed.error:
        return
    written = list(spell(_complete(events)))
    runs = [call for call in streamed.calls if _reads(call[1])]
    if runs != written:
        raise complain(f"a client can run {runs}, and the model wrote {written}")
    if any(not arguments for _, arguments in streamed.calls):
        raise complain("a call has no arguments, which clients take for {}")


def _canonical(calls: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return calls as a whole message has them; a stream sends arguments as they were written."""
    return tuple((name, canonical_json(text) if _reads(text) else text) for name, text in calls)


def _complete(events: Iterable[Event]) -> list[tuple[str, str]]:
    """The complete calls."""
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


def _parser(dialect: str | Dialect, case: Case) -> Parser:
    return Parser(
        dialect,
        tools=case.tools,
        prompt=case.prompt,
        continues=case.continues,
        policies=case.policies,
        new_id=lambda _, index: f"call_{index}",
    )


# -- clients, one for each API


def _chat_stream(chunks: Sequence[Chunk]) -> Received:
    client = ChatStreamDecoder()
    for chunk in chunks:
        if "error" in chunk:
            return _ERROR
        client.feed(chunk)
    message = client.message()
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return Received(message.content or "", message.reasoning or "", calls, message.finish_reason)


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
                raise ProtocolError(f"the deltas of {item} are {pieces.get(chunk['output_index'])!r}")
            items.append(item)
    response = chunks[-1]["response"]
    if response["output"] != items:
        raise ProtocolError(f"the items done are {items}, those of the response {response['output']}")
    return _responses_whole(response)


def _responses_whole(response: Any) -> Received:
    texts = {"message": "", "reasoning": ""}
    calls: list[tuple[str, str]] = []
    for item in response["output"]:
        if item["type"] == "function_call":
            calls.append((item["name"], item["arguments"]))
            if (item["status"] == "completed") != _reads(item["arguments"]):
                raise ProtocolError(f"the status is {item['status']}, the arguments {item['arguments']!r}")
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
            # What the SDKs do: no pieces mean the input that the block began with.
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
        said = _ollama_whole(line)
        content, reasoning = content + said.content, reasoning + said.reasoning
        calls += said.calls
    if [line["done"] for line in lines] != [False] * (len(lines) - 1) + [True]:
        raise ProtocolError("the last line, and no other, is to say that it is done")
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


def _reads(arguments: str) -> bool:
    """Whether a client could run a call with these."""
    try:
        return isinstance(json.loads(arguments, strict=False, parse_int=str), dict)
    except RecursionError:
        return True  # too deep for this judge
    except ValueError:
        return False


def _as_text(arguments: str) -> str:
    """Return arguments as their text, where the response has an object."""
    return arguments


@dataclass(frozen=True, slots=True)
class Wire:
    """An API, and a client of it."""

    stream: Callable[[Parser], Any]
    read_stream: Callable[[Sequence[Any]], Received]
    read_whole: Callable[[Any], Received]
    carries_objects: bool = False
    """The whole response has arguments as objects, so that a broken call has no place in it."""


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
"""The wires, by the names of their APIs."""
