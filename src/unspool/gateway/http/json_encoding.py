"""JSON that the gateway writes: answers, and entries of its stores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode

_LINE_BREAKS: Final = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)
"""Characters that some line readers take for a line break, and their escape sequences."""


def encode_json(value: object) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, from a model or a client
        return _encode_ascii(value)


def encode_line(value: object) -> bytes:
    """Encode a value as JSON on one line, for every kind of line reader."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, from a model or a client
        data = _encode_ascii(value)
    if not data.isascii():
        for character, escaped in _LINE_BREAKS:
            data = data.replace(character, escaped)
    return data


def raw_json(text: str) -> msgspec.Raw:
    """Return JSON text as a value that is encoded as this text, on one line.

    JSON allows line breaks between values only.  A lone surrogate can only be part of a
    string, where its escape sequence means the same.
    """
    line = text.replace("\n", " ").replace("\r", " ")
    return msgspec.Raw(line.encode("utf-8", "backslashreplace"))


def _encode_ascii(value: object) -> bytes:
    """Encode a value with escape sequences for all characters of strings beyond ASCII."""
    if isinstance(value, str):
        return json.dumps(value).encode()
    if isinstance(value, Mapping):
        members = [b"%b:%b" % (_encode_ascii(str(key)), _encode_ascii(item)) for key, item in value.items()]
        return b"{%b}" % b",".join(members)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(_encode_ascii, value))
    return _encode(value)
