"""Encoding of server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ..http.json_encoding import encode_line

DONE: Final = b"data: [DONE]\n\n"
"""Event that ends an OpenAI stream."""


def data_event(chunk: Mapping[str, object]) -> bytes:
    """Encode a chunk as a server-sent event without a name."""
    return b"data: %b\n\n" % encode_line(chunk)


def named_events(chunks: Iterable[Mapping[str, object]]) -> bytes:
    """Encode chunks as server-sent events; the name of each event is the ``type`` of its chunk."""
    events = [
        b"event: %b\ndata: %b\n\n" % (str(chunk["type"]).encode(), encode_line(chunk)) for chunk in chunks
    ]
    return b"".join(events)
