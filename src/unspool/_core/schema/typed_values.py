"""Values from text: what the untyped text of a parameter means, by its schema.

The one place where text becomes a typed value, for every dialect whose wire
format carries no types.  Three rules govern it:

* The result is JSON text, and never says less than the source: digits are
  copied, not computed with; containers keep their spelling.
* Its numbers are in range: finite, and not too long for a client (``numbers.py``).
* A value that is not what its schema says stays a string.  Nothing is dropped.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from json.encoder import encode_basestring
from typing import Final

from .keywords import LOOSE_WORDS, PYTHON_TO_JSON
from .number_range import in_range
from .python_to_json import number_to_json, python_to_json
from .tools import CONTAINERS, ValueType

_BLANKS: Final = " \t\n\r\f\v"
_INTEGER: Final = re.compile(r"[+-]?[0-9]++(?:\.0++)?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_PADDED: Final = re.compile(r"\+|-?0[0-9]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_KINDS: Final = {
    "{": "object",
    "[": "array",
    '"': "string",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
    **dict.fromkeys("-0123456789", "number"),
}
"""What a JSON value is, by its first character."""
_STRINGS: Final = ("string", "str", "raw", "true")
"""What markup calls a string; ``true`` where it only says whether it is one."""
_EMPTY: Final = {"dict": "{}", "object": "{}", "list": "[]", "array": "[]"}
"""What markup calls a container, and one with nothing in it."""
_NUMBER_STARTS: Final = frozenset("-.0123456789")


class Slot:
    """Where a value is to go, and what its schema and its own markup say of it."""

    __slots__ = ("_declared", "_kind", "_python_values", "streams")

    def __init__(
        self, kind: ValueType, declared: str, *, untyped_is_string: bool, python_values: bool
    ) -> None:
        """What is known before the value comes.

        :param declared: what an attribute says that the value is.
        :param untyped_is_string: what it is where nobody says anything.
        :param python_values: as for ``coerce``.
        """
        self._kind: Final = kind
        self._declared: Final = declared
        self._python_values: Final = python_values
        by_schema = kind.is_string if kind.types else untyped_is_string
        self.streams: Final = declared in _STRINGS if declared else by_schema
        """It is a string, whatever it looks like, and can be handed on as it arrives."""

    def value(self, raw: str) -> tuple[str, str]:
        """JSON for the whole text of a value that does not stream, and the kind of note to make, if any."""
        kind, declared = self._kind, self._declared
        text = raw.strip(" \t\r\n")
        if not text and declared in _EMPTY:
            return _EMPTY[declared], ""
        found = _json_kind(text) if declared or not kind.types else None
        if found == "string":
            if declared:
                return text, ""
        elif found is not None and not (kind.types and kind.is_string):
            return text, ""
        if not kind.types:
            return quote(raw), ""
        value, fits = coerce(raw, kind, self._python_values)
        if fits:
            return value, ""
        decoded = _unescaped(text, kind.types & CONTAINERS)
        return (decoded, "slip") if decoded is not None else (value, "coerced_to_string")


def is_text(kind: ValueType, declared: str) -> bool:
    """Whether a value is a string for certain, so that what looks like markup in it is data."""
    return declared in _STRINGS or kind.types == {"string"}


def spelt_value(text: str, kind: ValueType) -> str:
    """JSON for text without quotes where strings have them: by spelling, unless the schema knows better."""
    value = spelling(text)
    types = kind.types
    if not types or kind.is_any or (value == "null" and "null" in types):
        return value or quote(text)
    coerced, fits = coerce(text, kind, python_values=False)
    return coerced if fits or value is None else value


def spelling(text: str) -> str | None:
    """JSON for the number or word that a text is."""
    return LOOSE_WORDS.get(text) or (number_to_json(text) if text and text[0] in _NUMBER_STARTS else None)


def coerce(raw: str, kind: ValueType, python_values: bool) -> tuple[str, bool]:
    """``raw`` as JSON text, and whether that is what the schema asks for.

    ``python_values``: also understand ``True``, ``None`` and ``{'k': 1}``.

    >>> coerce("007", ValueType({"type": "integer"}), False)
    ('7', True)
    >>> coerce("seven", ValueType({"type": "integer"}), False)
    ('"seven"', False)
    """
    if kind.is_string:
        return quote(raw), True
    text = raw.strip(_BLANKS)
    value = _json_value(text, kind)
    if value is None and python_values:
        value = _python_value(text, kind.types)
    if value is not None:
        return value, True
    return quote(raw), "string" in kind.types


def quote(text: str) -> str:
    """``text`` as a JSON string; only what must be is escaped."""
    return encode_basestring(text)


def _json_value(text: str, kind: ValueType) -> str | None:
    """The first type that fits, in this order; what fits none may be a string."""
    types = kind.types
    if kind.is_any:
        return text if _json_kind(text) not in (None, "string") else None
    if "string" in types and _PADDED.match(text):
        return None  # a phone number or a postal code: as a number it would say less
    word = text.lower()
    if "null" in types and word == "null":
        return word
    if word in ("0", "1") and "boolean" in types and types <= {"boolean", "null"}:
        return "true" if word == "1" else "false"
    if "boolean" in types and word in ("true", "false"):
        return word
    if "integer" in types and _INTEGER.fullmatch(text):
        return number_to_json(text.partition(".")[0])
    if "number" in types and _NUMBER.fullmatch(text):
        return number_to_json(text)
    if not text and types <= CONTAINERS:
        return "{}" if "object" in types else "[]"
    return text if _json_kind(text) in types & CONTAINERS else None


def _python_value(text: str, types: frozenset[str]) -> str | None:
    value = PYTHON_TO_JSON.get(text)
    if value is None and text.startswith(("{", "[", "(")):
        value = python_to_json(text)
    # "(5)" is a number to Python, but hardly to the model.
    return value if value and _KINDS[value[0]] in types - {"number", "string"} else None


def _unescaped(text: str, kinds: frozenset[str]) -> str | None:
    r"""The container that a text is once a level of backslashes is taken off: ``[\"a\"]``."""
    if "\\" not in text or _KINDS.get(text[:1]) not in kinds:
        return None
    try:
        inner: str = JSONDecoder(strict=False).decode(f'"{text}"')
    except ValueError:
        return None
    return inner if _json_kind(inner) in kinds and not _SURROGATE.search(inner) else None


def _json_kind(text: str) -> str | None:
    """Which JSON type ``text`` is, without surrounding blanks; ``None`` if it is not JSON."""
    kind = _KINDS.get(text[:1])
    if kind is None:
        return None
    try:
        _DECODER.decode(text)
    except RecursionError:
        return kind if _is_deep_json(text) else None
    except ValueError:
        return None
    return kind


def _is_deep_json(text: str) -> bool:
    """The same for nesting that the C scanner gives up on: it sees single scalars only."""
    closers: list[str] = []
    at = 0
    try:
        while True:
            at = _skip(text, at)
            if text[at] in "[{":
                closers.append("]" if text[at] == "[" else "}")
                at = _skip(text, at + 1)
                if text[at] != closers[-1]:
                    at = _key(text, at) if closers[-1] == "}" else at
                    continue
            else:
                at = _skip(text, _DECODER.raw_decode(text, at)[1])
            while closers and text[at] == closers[-1]:
                closers.pop()
                at = _skip(text, at + 1)
            if not closers:
                return at == len(text)
            if text[at] != ",":
                return False
            at = _key(text, at + 1) if closers[-1] == "}" else at + 1
    except (ValueError, IndexError):
        return False


def _key(text: str, at: int) -> int:
    """Behind the key and colon that must stand at ``at``."""
    at = _skip(text, at)
    if text[at] != '"':
        raise ValueError("no key")
    at = _skip(text, _DECODER.raw_decode(text, at)[1])
    if text[at] != ":":
        raise ValueError("no colon")
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _number(text: str) -> str:
    if not in_range(text):
        raise ValueError("out of range")
    return text


def _refuse(constant: str) -> str:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_refuse)
"""Decoder that checks numbers without converting integers."""
