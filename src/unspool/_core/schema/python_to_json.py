"""Conversion of complete Python literals to JSON: ``{'k': (1, None)}`` becomes ``{"k": [1, null]}``.

Models write such values if their chat templates print values with Python's ``str()``.  The conversion is
stricter than the codec for Python arguments (``arguments/python_literal.py``), because here the caller
can still treat text that is not a literal as a string.

One loop reads the tokens, and keeps the open brackets in a list, not on the call stack.  Therefore only
memory limits the nesting.  All repetitions in the patterns are possessive, so the running time is linear.
Digits are copied, and never converted to a number.
"""

from __future__ import annotations

import json
import re
from typing import Final

from .null_and_boolean_spellings import WORDS
from .numbers import number_to_json

_ESCAPE = r"\\(?:[^xuUN]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U(?:0010|000[0-9a-fA-F])[0-9a-fA-F]{4})"
# (?>...*) is used instead of *+ for the reason in _core/scan/character_runs.py.
_TOKEN: Final = re.compile(
    rf"""[ \t\n\r\f]*+(?:
      (?P<open>[\[({{])
    | (?P<close>[\])}}])
    | (?P<comma>,)
    | (?P<colon>:)
    | (?P<word>True|true|False|false|None|null)
    | (?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)
    | (?P<long>'''[^'\\]*+(?>(?:(?:{_ESCAPE}|(?!''')')[^'\\]*+)*)'''
              |\"\"\"[^"\\]*+(?>(?:(?:{_ESCAPE}|(?!\"\"\")")[^"\\]*+)*)\"\"\")
    | (?P<short>'[^'\\\n\r]*+(?>(?:{_ESCAPE}[^'\\\n\r]*+)*)'
               |"[^"\\\n\r]*+(?>(?:{_ESCAPE}[^"\\\n\r]*+)*)")
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_TO_ESCAPE: Final = re.compile(rf'\\[0-7]{{1,3}}|{_ESCAPE}|["\x00-\x1f]')

_SIMPLE_ESCAPES: Final = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}

# Kinds of open brackets.  `paren` and `brace` are undecided until a separator: (1) is a number and (1,) is
# a tuple.  The kind of a dict alternates between `pair` after a colon and `key` after a comma.
_KIND_OF_OPENER: Final = {"[": "list", "(": "paren", "{": "brace"}
_AFTER_COMMA: Final = {
    "list": "list",
    "paren": "tuple",
    "tuple": "tuple",
    "brace": "set",
    "set": "set",
    "pair": "key",
}
_AFTER_COLON: Final = {"brace": "pair", "key": "pair"}
# Map to pairs of JSON brackets.  Each key consists of Python's closing bracket, the kind of the bracket, and
# whether a value precedes the closing bracket.
_JSON_BRACKETS: Final = {
    ("]", "list", True): ("[", "]"),
    ("]", "list", False): ("[", "]"),
    (")", "paren", True): ("", ""),
    (")", "paren", False): ("[", "]"),
    (")", "tuple", True): ("[", "]"),
    (")", "tuple", False): ("[", "]"),
    ("}", "brace", True): ("[", "]"),
    ("}", "brace", False): ("{", "}"),
    ("}", "set", True): ("[", "]"),
    ("}", "set", False): ("[", "]"),
    ("}", "pair", True): ("{", "}"),
    ("}", "key", False): ("{", "}"),
}


def python_to_json(text: str) -> str | None:
    r"""Return JSON for a Python literal, or ``None`` if ``text`` is not one.

    Tuples and sets become arrays, and keys become strings.  JSON's ``true``, ``false`` and ``null`` are
    accepted as well.  The function rejects strings with prefixes, adjacent strings, ``\N{...}``, and
    numbers that are not decimal.

    >>> python_to_json("{'k': (True, 1.), 2: {None, 'x'}}")
    '{"k": [true, 1.0], "2": [null, "x"]}'
    """
    out: list[str] = []
    kinds: list[str] = []
    openers: list[int] = []
    complete = False  # the last token completed a value
    at = 0
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        role = token.lastgroup or ""
        source = token[role]
        if role == "end":
            return "".join(out) if complete and not kinds else None
        if role == "close":
            brackets = _JSON_BRACKETS.get((source, kinds[-1] if kinds else "", complete))
            if brackets is None:
                return None
            if out[-1] == ", ":
                out.pop()
            kinds.pop()
            out[openers.pop()] = brackets[0]
            out.append(brackets[1])
            complete = True
        elif role in ("comma", "colon"):
            after = _AFTER_COMMA if role == "comma" else _AFTER_COLON
            kind_after = after.get(kinds[-1]) if kinds else None
            if kind_after is None or not complete:
                return None
            if role == "colon":
                if openers[-1] != len(out) - 2 and out[-2] != ", ":
                    return None  # a container cannot be a key
                if not out[-1].startswith('"'):
                    out[-1] = f'"{out[-1]}"'
            kinds[-1] = kind_after
            out.append(", " if role == "comma" else ": ")
            complete = False
        elif complete:
            return None
        elif role == "open":
            kinds.append(_KIND_OF_OPENER[source])
            openers.append(len(out))
            out.append("")
        else:
            value = _scalar(role, source)
            if value is None:
                return None
            out.append(value)
            complete = True


def _scalar(role: str, source: str) -> str | None:
    """Return JSON for the source text of a word, number or string, or ``None`` if it has no equivalent."""
    if role == "word":
        return WORDS[source]
    if role == "number":
        return number_to_json(source)
    quotes = 3 if role == "long" else 1
    return f'"{_TO_ESCAPE.sub(_escape, source[quotes:-quotes])}"'


def _escape(match: re.Match[str]) -> str:
    """Return the JSON form of a Python escape, or of a character that must be escaped in JSON."""
    source = match[0]
    kind = source[1:2]
    if source[0] != "\\":
        char = source
    elif kind == "u":
        return source  # a surrogate stays an escape, so that both halves of a pair still form one character
    elif kind in "xU":
        char = chr(int(source.lstrip("\\xU"), 16))
    elif kind in "01234567":
        char = chr(int(source[1:], 8))
    else:
        char = _SIMPLE_ESCAPES.get(kind, source)
    return json.dumps(char)[1:-1]
