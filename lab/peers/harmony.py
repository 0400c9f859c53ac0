"""Peer program for openai-harmony, the reference parser for gpt-oss, which parses token ids."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from openai_harmony import Message, Role, StreamableParser, load_harmony_encoding

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

_START = "<|start|>assistant"
_FUNCTIONS = "functions."


_encoding = cache(load_harmony_encoding)


def _ids(text: str) -> list[int]:
    return list(_encoding("HarmonyGptOss").encode(text, allowed_special="all"))


def _parser(request: ProtocolRequest) -> StreamableParser:
    parser = StreamableParser(_encoding("HarmonyGptOss"), role=Role.ASSISTANT)
    for token in _ids(request.tail.removeprefix(_START)):
        parser.process(token)
    return parser


class _Stream(PeerStream):
    def __init__(self, request: ProtocolRequest) -> None:
        self._stop = request.stop
        self._parser = _parser(request)
        self._messages = len(self._parser.messages)
        self._calls = 0
        self._open = False
        self._seen: set[str] = set()
        self._new = True

    def feed(self, text: str, finished: bool) -> ChunkOutput:
        deltas = [delta for token in _ids(text) for delta in self._process(token)]
        if finished:
            self._parser.process_eos()
        return deltas

    def finish(self) -> ChunkOutput:
        deltas = [delta for token in _ids(self._stop) for delta in self._process(token)]
        self._parser.process_eos()
        return deltas

    def _process(self, token: int) -> list[Json]:
        parser = self._parser
        parser.process(token)
        deltas: list[Json] = []
        if len(parser.messages) > self._messages:
            self._messages = len(parser.messages)
            recipient = parser.messages[-1].recipient or ""
            if recipient.startswith(_FUNCTIONS) and not self._open:  # no arguments, so no delta
                deltas += self._call(recipient, "")
            self._open = False
            self._new = True
        text = parser.last_content_delta
        if not text:
            return deltas
        recipient = parser.current_recipient or ""
        if recipient.startswith(_FUNCTIONS):
            return deltas + self._call(recipient, text)
        channel = _channel(parser.current_channel)
        # The parser returns each message of a channel separately, so join them with newlines, as batch()
        # does.
        separator = "\n" if self._new and channel in self._seen else ""
        self._new = False
        self._seen.add(channel)
        return [*deltas, {channel: separator + text}]

    def _call(self, recipient: str, arguments: str) -> list[Json]:
        call: Json = {"index": self._calls, "arguments": arguments}
        if not self._open:
            call["name"] = recipient.removeprefix(_FUNCTIONS)
            self._open = True
            self._calls += 1
        call["index"] = self._calls - 1
        return [{"tool_calls": [call]}]

    @property
    def finish_reason(self) -> str | None:
        return None


def _channel(channel: str | None) -> str:
    return "reasoning" if channel == "analysis" else "content"


class _Harmony(PeerProgram):
    name = "openai-harmony"
    version = version("openai-harmony")

    def dialects(self) -> dict[str, Json]:
        return {"harmony": {"parser": "StreamableParser"}}

    def unsplittable(self, request: ProtocolRequest) -> re.Pattern[str] | None:
        return any_of(request.facts.controls)

    def stream(self, request: ProtocolRequest) -> PeerStream:
        _check(request)
        return _Stream(request)

    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        _check(request)
        parser = _parser(request)
        for token in _ids(request.text + request.stop):
            parser.process(token)
        parser.process_eos()
        content: list[str] = []
        reasoning: list[str] = []
        calls: list[Json] = []
        for message in parser.messages:
            text = _text(message)
            recipient = message.recipient or ""
            if recipient.startswith(_FUNCTIONS):
                name = recipient.removeprefix(_FUNCTIONS)
                calls.append({"index": len(calls), "name": name, "arguments": text})
            else:
                (reasoning if message.channel == "analysis" else content).append(text)
        entry = {"content": "\n".join(content), "reasoning": "\n".join(reasoning), "tool_calls": calls}
        return entry, None


def _text(message: Message) -> str:
    return "".join(part.text for part in message.content)


def _check(request: ProtocolRequest) -> None:
    if not request.tools or request.tool_choice != "auto":
        raise Unsupported("the parser ignores the options of a request")
    if request.has_control_token_in_string:
        raise Unsupported("the parser needs token ids, but a marker in the output may be ordinary text")


def main(facts: Path) -> None:
    """Serve requests with the parser of openai-harmony."""
    environment = Environment.read(facts)
    os.environ.setdefault("TIKTOKEN_ENCODINGS_BASE", str(environment.harmony))
    serve(_Harmony(), environment)
