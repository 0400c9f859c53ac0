"""Encoding of JSON for responses and stores."""

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
"""Characters that some readers treat as line breaks, with their JSON escape sequences."""


def encode_json(value: object) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # the value contains a lone surrogate
        return _encode_ascii(value)


def encode_line(value: object) -> bytes:
    """Encode a value as JSON on one line, without any character that a reader may treat as a line break."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # the value contains a lone surrogate
        data = _encode_ascii(value)
    if not data.isascii():
        for character, escaped in _LINE_BREAKS:
            data = data.replace(character, escaped)
    return data


def raw_json(text: str) -> msgspec.Raw:
    """Wrap JSON text in a value that the encoder writes unchanged, but on one line.

    Line breaks become spaces, which is safe because JSON allows line breaks only between tokens.
    A lone surrogate becomes an escape sequence, which is safe because it can only be in a string.
    """
    line = text.replace("\n", " ").replace("\r", " ")
    return msgspec.Raw(line.encode("utf-8", "backslashreplace"))


def _encode_ascii(value: object) -> bytes:
    """Encode a value as JSON, with escape sequences for all non-ASCII characters."""
    if isinstance(value, str):
        return json.dumps(value).encode()
    if isinstance(value, Mapping):
        members = [b"%b:%b" % (_encode_ascii(str(key)), _encode_ascii(item)) for key, item in value.items()]
        return b"{%b}" % b",".join(members)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(_encode_ascii, value))
    return _encode(value)
