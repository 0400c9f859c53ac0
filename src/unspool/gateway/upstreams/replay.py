"""Upstream that replays recorded output, for tests and demonstrations.

Each line of the file is one output, as JSON::

    {"name": "weather", "chunks": ["<tool_call>", "..."], "finish_reason": "stop"}

The file may also be a recorded stream of ``/v1/completions``: ``data: {...}`` lines, as ``curl``
prints them.  If the last message of a request contains the name of a recording, this recording is replayed.
For all other requests, the recordings are replayed in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...errors import UsageError
from ...wire import Delta, EventReader
from ..http.failure import Failure
from .base import Batch, Stream, UpstreamRequest, Usage
from .completions import read_finish_reason
from .http_client import ForwardedResponse


class ReplayedOutput(msgspec.Struct, frozen=True):
    """Recorded output as a list of chunks."""

    chunks: list[str]
    name: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    error: str = ""
    """Message of the error that ends the stream; empty if the stream ends with a finish reason."""


class ReplayUpstream:
    """Upstream that replays recordings."""

    renders = False
    constraints = ("native", "json")
    """All kinds of constraints, because a constraint does not change a recording."""

    def __init__(self, path: str, *, delay: float = 0.0) -> None:
        self._recordings = load_recordings(path)
        self._turns = itertools.cycle(self._recordings)
        self._delay = delay

    async def start(self) -> None:
        """Do nothing; the recordings are loaded already."""

    async def stop(self) -> None:
        """Do nothing; there is nothing to release."""

    async def ready(self) -> bool:
        """Return True; a recording is always ready."""
        return True

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return None; recordings have no tokenizer."""
        del text, special
        return None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return None; recordings have no tokenizer."""
        del tokens
        return None

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Raise a failure; recordings have no other endpoints."""
        del body, headers
        raise Failure("not_found", f"{path} is not available for recordings", code="not_found")

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start a recording from its beginning."""
        return _ReplayStream(self._choose(request.chat), request, self._delay)

    def _choose(self, request: Mapping[str, Any]) -> ReplayedOutput:
        messages = request.get("messages") or [{}]
        content = json.dumps(messages[-1].get("content"), ensure_ascii=False)
        matches = [one for one in self._recordings if one.name and one.name in content]
        return max(matches, key=lambda one: len(one.name)) if matches else next(self._turns)


class _ReplayStream:
    """Stream of one recording, repeated for every choice."""

    def __init__(self, recording: ReplayedOutput, request: UpstreamRequest, delay: float) -> None:
        self._recording = recording
        self._chunks = iter(_cut_at_stop(recording.chunks, request.stop))
        self._n = request.n
        self._limit = request.max_tokens
        self._count = 0
        self._delay = delay
        self._finished = False

    async def next(self) -> Batch | None:
        """Return the next chunk for all choices, or None at the end."""
        if self._finished:
            return None
        await asyncio.sleep(self._delay)
        limited = self._limit is not None and self._count >= self._limit
        chunk = None if limited else next(self._chunks, None)
        if chunk is None:
            self._finished = True
            if self._recording.error:
                raise Failure(
                    "upstream", f"the upstream failed: {self._recording.error}", code="upstream_error"
                )
            reason = "length" if limited else self._recording.finish_reason
            usage = Usage(self._recording.prompt_tokens, self._count * self._n)
            return Batch([Delta(i, "", finish=read_finish_reason(reason)) for i in range(self._n)], usage)
        text, stopped_by = chunk
        self._count += 1
        if stopped_by is not None:
            self._finished = True
            usage = Usage(self._recording.prompt_tokens, self._count * self._n)
            return Batch(
                [Delta(i, text, finish="stop", stopped_by=stopped_by) for i in range(self._n)], usage
            )
        return Batch([Delta(i, text) for i in range(self._n)])

    async def close(self) -> None:
        """Do nothing; there is nothing to release."""


def _cut_at_stop(chunks: list[str], stops: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """Cut the chunks at the first stop string; return pairs of a chunk's text and a stop string.

    The stop string is None, except in the last pair if the output contains a stop string.
    """
    text = "".join(chunks)
    first = min(((text.find(stop), stop) for stop in stops if stop in text), default=None)
    if first is None:
        return [(chunk, None) for chunk in chunks]
    out: list[tuple[str, str | None]] = []
    remaining, stop = first
    for chunk in chunks:
        if remaining <= len(chunk):
            out.append((chunk[:remaining], stop))
            break
        out.append((chunk, None))
        remaining -= len(chunk)
    return out


def load_recordings(path: str) -> list[ReplayedOutput]:
    """Load all recordings from a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        if data.lstrip().startswith(b"data:"):
            recordings = [_read_event_stream(data)]
        else:
            lines = data.split(b"\n")
            recordings = [msgspec.json.decode(line, type=ReplayedOutput) for line in lines if line.strip()]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, Failure) as error:
        raise UsageError(
            f'{path}: {error}; expected lines like {{"chunks": ["...", ...]}} or like "data: ..."'
        ) from error
    if not recordings:
        raise UsageError(f"{path} has no recordings")
    return recordings


def _read_event_stream(data: bytes) -> ReplayedOutput:
    """Return the output in a recorded stream of ``/v1/completions`` or ``/v1/chat/completions``."""
    reader = EventReader(len(data) + 1)
    chunks: list[str] = []
    reason = "stop"
    for payload in (*reader.feed(data), *reader.finish()):
        if payload == b"[DONE]":
            break
        for choice in msgspec.json.decode(payload).get("choices") or ():
            if choice.get("index", 0) == 0:
                text = choice.get("text") or (choice.get("delta") or {}).get("content")
                chunks += [text] if text else []
                reason = choice.get("finish_reason") or reason
    return ReplayedOutput(chunks, finish_reason=reason)
