"""Conversion of a parameter's text to a JSON value, according to its schema.

This module is used for all notations that do not show the type of a value, such as
``<parameter=days>3</parameter>``.  Three rules apply:

* The result is JSON text without loss of information.  Digits are copied, not converted to a number, and
  the text of objects and arrays is unchanged.
* Numbers are in range: finite, and short enough for clients (``numbers.py``).
* Text that does not match its schema becomes a string.  No text is removed.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from json.encoder import encode_basestring
from typing import Final

from .null_and_boolean_spellings import LOOSE_WORDS, PYTHON_TO_JSON, WORDS
from .numbers import in_range, number_to_json, schema_number_to_json
from .python_to_json import python_to_json
from .tools import CONTAINERS, ValueType

_WHITESPACE: Final = " \t\n\r\f\v"
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
"""Map from the first character of a JSON value to its type."""
_STRINGS: Final = ("string", "str", "raw", "true")
"""Attribute values that declare a string, such as ``type="str"`` or ``string="true"``."""
_EMPTY: Final = {"dict": "{}", "object": "{}", "list": "[]", "array": "[]"}
"""Map from a type that an attribute declares, such as ``type="list"``, to an empty value of this type."""
_TYPED_WORDS: Final = frozenset({"null", "boolean"})
_NUMBER_STARTS: Final = frozenset("-.0123456789")


class Slot:
    """Conversion of a parameter's text, according to its schema and the attributes of its tag."""

    __slots__ = ("_declared", "_kind", "_python_values", "streams")

    def __init__(
        self, kind: ValueType, declared: str, *, untyped_is_string: bool, python_values: bool
    ) -> None:
        """Select the conversion, before the value arrives.

        :param kind: type according to the schema.
        :param declared: type that an attribute of the tag declares, or an empty string.
        :param untyped_is_string: whether a value without any type is a string.
        :param python_values: whether to accept Python literals; see :func:`coerce`.
        """
        self._kind: Final = kind
        self._declared: Final = declared
        self._python_values: Final = python_values
        by_schema = kind.is_string if kind.types else untyped_is_string
        self.streams: Final = declared in _STRINGS if declared else by_schema
        """True if the value is certainly a string, whose text can be output as it arrives."""

    def value(self, raw: str) -> tuple[str, str]:
        """Return JSON for a value's complete text, and the kind of a diagnostic (empty if there is none)."""
        kind, declared = self._kind, self._declared
        text = raw.strip(" \t\r\n")
        if not text and declared in _EMPTY:
            return _EMPTY[declared], ""
        found = _json_kind(text) if declared or not kind.types else None
        if found == "string":
            if declared:
                return text, ""
        elif declared and found in _TYPED_WORDS:
            # The model has decided against a string, so the text is not a string even if the schema wants
            # one.
            return text, ""
        elif found is not None and not (kind.types and kind.is_string):
            return text, ""
        if not kind.types:
            return quote(raw), ""
        value, fits = coerce(raw, kind, self._python_values)
        if fits:
            return value, ""
        decoded = _unescape_container(text, kind.types & CONTAINERS)
        return (decoded, "slip") if decoded is not None else (value, "coerced_to_string")


def is_text(kind: ValueType, declared: str) -> bool:
    """Return whether a value is certainly a string.  Markup inside such a value is part of the string."""
    return declared in _STRINGS or kind.types == {"string"}


def value_by_spelling(text: str, kind: ValueType) -> str:
    """Return JSON for unquoted text in a notation with quoted strings.

    True, false and null are what they look like, because a string would be quoted.  The schema determines the
    type of all other values.  If the text does not match its schema, text that looks like a number becomes a
    number, and any other text becomes a string.
    """
    word = WORDS.get(text)
    if word is not None:
        return word
    value = word_or_number(text)
    types = kind.types
    if not types or kind.is_any or (value == "null" and "null" in types):
        return value or quote(text)
    coerced, fits = coerce(text, kind, python_values=False)
    return coerced if fits or value is None else value


def word_or_number(text: str) -> str | None:
    """Return JSON for a number, or for any spelling of true, false or null; None for other text."""
    return LOOSE_WORDS.get(text) or (number_to_json(text) if text and text[0] in _NUMBER_STARTS else None)


def coerce(raw: str, kind: ValueType, python_values: bool) -> tuple[str, bool]:
    """Return ``raw`` as JSON text, and whether the value matches the schema.

    :param python_values: whether to accept Python literals such as ``True``, ``None`` and ``{'k': 1}``.

    >>> coerce("007", ValueType({"type": "integer"}), False)
    ('7', True)
    >>> coerce("seven", ValueType({"type": "integer"}), False)
    ('"seven"', False)
    """
    if kind.is_string:
        return quote(raw), True
    text = raw.strip(_WHITESPACE)
    value = _json_value(text, kind)
    if value is None and python_values:
        value = _python_value(text, kind.types)
    if value is not None:
        return value, True
    return quote(raw), "string" in kind.types


def quote(text: str) -> str:
    """Return ``text`` as a JSON string with the fewest escapes."""
    return encode_basestring(text)


def _json_value(text: str, kind: ValueType) -> str | None:
    """Return JSON for ``text`` in a type that the schema allows, or None if only a string is possible."""
    types = kind.types
    if kind.is_any:
        return text if _json_kind(text) not in (None, "string") else None
    if "string" in types and _PADDED.match(text):
        return None  # probably a phone number or postal code, whose leading zeros must not be lost
    word = text.lower()
    if "null" in types and word == "null":
        return word
    if word in ("0", "1") and "boolean" in types and types <= {"boolean", "null"}:
        return "true" if word == "1" else "false"
    if "boolean" in types and word in ("true", "false"):
        return word
    number = schema_number_to_json(text, types)
    if number is not None:
        return number
    if not text and types <= CONTAINERS:
        return "{}" if "object" in types else "[]"
    return text if _json_kind(text) in types & CONTAINERS else None


def _python_value(text: str, types: frozenset[str]) -> str | None:
    value = PYTHON_TO_JSON.get(text)
    if value is None and text.startswith(("{", "[", "(")):
        value = python_to_json(text)
    # In Python "(5)" is a number, but the model is unlikely to mean a number.
    return value if value and _KINDS[value[0]] in types - {"number", "string"} else None


def _unescape_container(text: str, kinds: frozenset[str]) -> str | None:
    r"""Return the object or array in text that is escaped once too often, such as ``[\"a\"]``; else None."""
    if "\\" not in text or _KINDS.get(text[:1]) not in kinds:
        return None
    try:
        inner: str = JSONDecoder(strict=False).decode(f'"{text}"')
    except ValueError:
        return None
    return inner if _json_kind(inner) in kinds and not _SURROGATE.search(inner) else None


def _json_kind(text: str) -> str | None:
    """Return the JSON type of ``text``, or ``None`` if it is not JSON or begins with whitespace."""
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
    """Return whether ``text`` is JSON, even if it is nested too deeply for the standard library's decoder.

    The loop reads the brackets, and the decoder reads one scalar at a time.
    """
    closers: list[str] = []
    at = 0
    try:
        while True:
            at = _after_whitespace(text, at)
            if text[at] in "[{":
                closers.append("]" if text[at] == "[" else "}")
                at = _after_whitespace(text, at + 1)
                if text[at] != closers[-1]:
                    at = _after_key(text, at) if closers[-1] == "}" else at
                    continue
            else:
                at = _after_whitespace(text, _DECODER.raw_decode(text, at)[1])
            while closers and text[at] == closers[-1]:
                closers.pop()
                at = _after_whitespace(text, at + 1)
            if not closers:
                return at == len(text)
            if text[at] != ",":
                return False
            at = _after_key(text, at + 1) if closers[-1] == "}" else at + 1
    except (ValueError, IndexError):
        return False


def _after_key(text: str, at: int) -> int:
    """Return the position after the key and colon at ``at``; raise ``ValueError`` if either is missing."""
    at = _after_whitespace(text, at)
    if text[at] != '"':
        raise ValueError("expected a key in quotes")
    at = _after_whitespace(text, _DECODER.raw_decode(text, at)[1])
    if text[at] != ":":
        raise ValueError("expected a colon after the key")
    return at + 1


def _after_whitespace(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _in_range(text: str) -> str:
    if not in_range(text):
        raise ValueError("number out of range")
    return text


def _reject(constant: str) -> str:
    raise ValueError(f"{constant} is not valid JSON")


_DECODER: Final = JSONDecoder(parse_int=_in_range, parse_float=_in_range, parse_constant=_reject)
"""Decoder that checks the range of numbers without converting them."""
