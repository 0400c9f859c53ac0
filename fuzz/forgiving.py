"""Tolerant JSON reader: valid JSON has its own value, other text the value of similar JSON.

A fuzzer that changes one byte of a JSON text usually makes it invalid, and every such
input would take the same path. With this reader the change becomes a changed value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)("|\Z|\\\Z)', re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?", re.ASCII)
_WORDS: Final[Mapping[str, Any]] = {"t": True, "f": False, "n": None}
_DEEPEST: Final = 400


def value_of(text: str) -> Any:
    """Return the value of a text that is JSON or similar to it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _Reader(text).value()


def object_of(text: str) -> dict[str, Any]:
    """Return the value as an object; any other value gives an empty object."""
    found = value_of(text)
    return found if isinstance(found, dict) else {}


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def value(self) -> Any:
        """Return the next value, or None at the end."""
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == '"':
                return self._string()
            if char in "[{" and self._depth < _DEEPEST:
                self._at += 1
                self._depth += 1
                found = self._list() if char == "[" else self._object()
                self._depth -= 1
                return found
            number = _NUMBER.match(text, self._at)
            if number is not None:
                self._at = number.end()
                return json.loads(number[0])
            self._at += 1
            if char in _WORDS:
                while self._at < len(text) and text[self._at].isalpha():
                    self._at += 1
                return _WORDS[char]
            if char in "]}":
                return None
        return None

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            self._at += 1
            return ""
        self._at = found.end()
        try:
            return str(json.loads(f'"{found[1]}"', strict=False))
        except ValueError:
            return found[1]

    def _closed(self, closer: str) -> bool:
        """Return whether the array or object ends here, after skipping separators between its members."""
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n,:":
            self._at += 1
        if self._at >= len(self._text):
            return True
        closed = self._text[self._at] == closer
        self._at += closed
        return closed

    def _list(self) -> list[Any]:
        out: list[Any] = []
        while not self._closed("]"):
            out.append(self.value())
        return out

    def _object(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not self._closed("}"):
            key = self.value()
            self._closed("")
            out[key if isinstance(key, str) else "key"] = self.value()
        return out
