"""Server-sent events as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ..http.json_encoding import encode_line

DONE: Final = b"data: [DONE]\n\n"
"""Last event of an OpenAI stream."""


def data_event(chunk: Mapping[str, object]) -> bytes:
    """Return a chunk as an event without a name."""
    return b"data: %b\n\n" % encode_line(chunk)


def named_events(chunks: Iterable[Mapping[str, object]]) -> bytes:
    """Return chunks as events that have the chunk's type as name."""
    events = [
        b"event: %b\ndata: %b\n\n" % (str(chunk["type"]).encode(), encode_line(chunk)) for chunk in chunks
    ]
    return b"".join(events)
