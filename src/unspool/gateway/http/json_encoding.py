"""JSON as this gateway writes it: answers, and what it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode


def encoded(value: object) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, from a model or a client
        return _escaped(value)


def raw_json(text: str) -> msgspec.Raw:
    """Return JSON text as a value that is encoded as this text, on one line.

    Line breaks stand between values only, and lone surrogates in strings, which may spell them out.
    """
    line = text.replace("\n", " ").replace("\r", " ")
    return msgspec.Raw(line.encode("utf-8", "backslashreplace"))


def _escaped(value: object) -> bytes:
    """Encode a value, with characters beyond ASCII in strings as escape sequences."""
    if isinstance(value, str):
        return json.dumps(value).encode()
    if isinstance(value, Mapping):
        members = [b"%b:%b" % (_escaped(str(key)), _escaped(item)) for key, item in value.items()]
        return b"{%b}" % b",".join(members)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(_escaped, value))
    return _encode(value)
