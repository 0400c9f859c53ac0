"""Recorded streams, played back.

The file holds one stream per line, as JSON::

    {"name": "weather", "chunks": ["<tool_call>", "..."], "finish_reason": "stop"}

or is itself a recording of a completions stream (``data: {...}`` lines, as
``curl`` writes them).  A request that contains a recording's name in its last
message gets that one; others get them in turn.
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
from ..http.errors import Failure
from .base import Batch, Delta, Stream, UpstreamRequest, Usage
from .completions import finish_of
from .http import Passed
from .sse import EventReader


class ReplayedOutput(msgspec.Struct, frozen=True):
    """One output, in the pieces that it came in."""

    chunks: list[str]
    name: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    error: str = ""
    """The stream ends with this error instead."""


class ReplayUpstream:
    """Plays recordings."""

    renders = False
    constraints = ("native", "json")
    """It is held to what was recorded, whatever that is."""

    def __init__(self, path: str, *, delay: float = 0.0) -> None:
        self._recordings = load(path)
        self._turns = itertools.cycle(self._recordings)
        self._delay = delay

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    async def ready(self) -> bool:
        """Always."""
        return True

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Recordings have no tokenizer."""
        del text, special
        return None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Likewise."""
        del tokens
        return None

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """There is nobody to hand it on to."""
        del body
        raise Failure("not_found", f"recordings have no {path}", code="not_found")

    async def open(self, task: UpstreamRequest) -> Stream:
        """Play a recording, from the beginning."""
        return _Playing(self._choose(task.request), task, self._delay)

    def _choose(self, request: Mapping[str, Any]) -> ReplayedOutput:
        messages = request.get("messages") or [{}]
        said = json.dumps(messages[-1].get("content"), ensure_ascii=False)
        named = [one for one in self._recordings if one.name and one.name in said]
        return max(named, key=lambda one: len(one.name)) if named else next(self._turns)


class _Playing:
    """A recording being played, once for every choice."""

    def __init__(self, recording: ReplayedOutput, task: UpstreamRequest, delay: float) -> None:
        self._recording = recording
        self._chunks = iter(_stopped(recording.chunks, task.stop))
        self._n = task.n
        self._limit = task.max_tokens
        self._count = 0
        self._delay = delay
        self._over = False

    async def next(self) -> Batch | None:
        """The next chunk."""
        if self._over:
            return None
        await asyncio.sleep(self._delay)
        limited = self._limit is not None and self._count >= self._limit
        found = None if limited else next(self._chunks, None)
        if found is None:
            self._over = True
            if self._recording.error:
                raise Failure(
                    "upstream", f"the upstream failed: {self._recording.error}", code="upstream_error"
                )
            reason = "length" if limited else self._recording.finish_reason
            usage = Usage(self._recording.prompt_tokens, self._count * self._n)
            return Batch([Delta(i, "", finish=finish_of(reason)) for i in range(self._n)], usage)
        text, stopped_by = found
        self._count += 1
        if stopped_by is not None:
            self._over = True
            usage = Usage(self._recording.prompt_tokens, self._count * self._n)
            return Batch(
                [Delta(i, text, finish="stop", stopped_by=stopped_by) for i in range(self._n)], usage
            )
        return Batch([Delta(i, text) for i in range(self._n)])

    async def close(self) -> None:
        """Nothing to do."""


def _stopped(chunks: list[str], stops: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """The chunks up to the first stop string, as an engine would have sent them."""
    whole = "".join(chunks)
    found = min(((whole.find(stop), stop) for stop in stops if stop in whole), default=None)
    if found is None:
        return [(chunk, None) for chunk in chunks]
    out: list[tuple[str, str | None]] = []
    left = found[0]
    for chunk in chunks:
        if left <= len(chunk):
            out.append((chunk[:left], found[1]))
            break
        out.append((chunk, None))
        left -= len(chunk)
    return out


def load(path: str) -> list[ReplayedOutput]:
    """The recordings in a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        if data.lstrip().startswith(b"data:"):
            found = [_from_events(data)]
        else:
            found = [
                msgspec.json.decode(line, type=ReplayedOutput) for line in data.split(b"\n") if line.strip()
            ]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, Failure) as error:
        raise UsageError(
            f'{path}: {error}; expected a line {{"chunks": ["...", ...]}} for each stream, or data: lines'
        ) from error
    if not found:
        raise UsageError(f"{path} has no recorded streams in it")
    return found


def _from_events(data: bytes) -> ReplayedOutput:
    """A recorded completions stream."""
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
