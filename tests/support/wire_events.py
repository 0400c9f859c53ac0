"""Events without spans, for tests of wire encoders."""

from __future__ import annotations

from unspool.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    Status,
    Text,
)


def content_event(text: str) -> Event:
    return Text("content", text, 0, 0)


def reasoning_event(text: str) -> Event:
    return Text("reasoning", text, 0, 0)


def call(index: int, *pieces: str, status: Status = "complete", name: str = "f") -> list[Event]:
    return [
        CallStart(index, name, f"call_{index}", 0, 0),
        *(CallArgs(index, piece, 0, 0) for piece in pieces),
        CallEnd(index, status, "" if status == "complete" else "raw", 0, 0),
    ]


def end(reason: FinishReason = "stop") -> Event:
    return Finish(reason, 0)


ALL = [
    reasoning_event("I "),
    reasoning_event("see."),
    content_event("One "),
    content_event("moment."),
    *call(0, '{"a"', ": 1}"),
    *call(1),
    end(),
]
