"""Encoders that convert arguments from JSON text to the notation of a dialect.

The codecs in ``_core/arguments`` parse the result back to the same values.  ``render`` and the property tests
rely on this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final, TypeAlias

from ...errors import UsageError
from ..arguments.json_value import json_kind, object_members
from ..arguments.raw_code import CLOSING, KEY, OPENING
from ..schema.null_and_boolean_spellings import JSON_TO_PYTHON

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def encode_arguments(notation: str, arguments: str, dialect: Dialect) -> str:
    """Convert arguments from JSON text to a notation."""
    if notation == "bare":
        return encode_bare(arguments, dialect.values.quote)
    if notation == "code":
        return encode_code(arguments)
    return arguments if notation == "json" else encode_python(arguments)


# -- raw text


def encode_code(arguments: str) -> str:
    r"""Return the value of the argument ``code``, which must be the only argument.

    >>> encode_code('{"code": "print(1)\\n"}')
    'print(1)\n'
    """
    members = object_members(arguments)
    if members is None or [key for key, _ in members] != [KEY] or not members[0][1].startswith('"'):
        raise UsageError(
            f"arguments of a raw code call must have the form {OPENING}...{CLOSING}, got {arguments[:80]!r}"
        )
    text: str = json.loads(members[0][1])
    return text


# -- Python

_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')
_PYTHON_TOKENS: Final = {**JSON_TO_PYTHON, ",": ", ", ":": ": "}


def encode_python(arguments: str) -> str:
    r"""Return a JSON object as the arguments of a Python call.

    Keys become keywords.  If a key is not an identifier, or is repeated, a dict with all arguments becomes
    the only argument.

    >>> encode_python('{"city": "Paris", "days": [1, null], "dry": true}')
    '(city="Paris", days=[1, None], dry=True)'
    >>> encode_python('{"content-type": "text"}')
    '({"content-type": "text"})'
    """
    kind = json_kind(arguments)
    if kind != "{":
        found = f"a JSON value that begins with {kind}" if kind else "not JSON"
        raise UsageError(f"arguments must be a JSON object to be written as Python keywords, got {found}")
    out: list[str] = []
    keys: list[int] = []
    depth = 0
    for piece in _JSON_TOKEN.findall(arguments):
        if piece[0] == '"':
            out.append(_encode_string(piece))
            continue
        if piece in "[{":
            depth += 1
        elif piece in "]}":
            depth -= 1
        elif piece == ":" and depth == 1:
            keys.append(len(out) - 1)
        out.append(_PYTHON_TOKENS.get(piece, piece))
    names = [out[at][1:-1] for at in keys]
    if not all(map(str.isidentifier, names)) or len(set(names)) < len(names):
        return f"({''.join(out)})"
    for at in keys:
        out[at] = out[at][1:-1]
        out[at + 1] = "="
    return f"({''.join(out[1:-1])})"


def _encode_string(token: str) -> str:
    """Convert a JSON string to a Python string literal without unnecessary escapes."""
    if "\\" not in token:
        return token
    text = encode_basestring(json.loads(token))
    return _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)


def python_literal(value: str) -> str:
    """Convert a JSON value to a Python literal.

    >>> python_literal('{"a": [true, null]}')
    '{"a": [True, None]}'
    """
    return "".join(
        _encode_string(piece) if piece[0] == '"' else _PYTHON_TOKENS.get(piece, piece)
        for piece in _JSON_TOKEN.findall(value)
    )


# -- bare objects


def encode_bare(arguments: str, quote: str) -> str:
    r"""Convert arguments to bare notation, with sorted keys and no whitespace, as in chat templates.

    A string or key that contains the delimiter is written as a JSON string, because between delimiters it
    could not be parsed.  A key is written between delimiters if it contains a character that could end the
    key or belong to a marker.

    >>> encode_bare('{"n": 1, "city": "Paris", "in:ner": [null, true]}', '<|"|>')
    '{city:<|"|>Paris<|"|>,<|"|>in:ner<|"|>:[None,true],n:1}'
    """
    if json_kind(arguments) != "{":
        raise UsageError(f"arguments must be a JSON object, got {arguments[:80]!r}")
    return "".join(_flatten(_tree(arguments, quote)))


_Tree: TypeAlias = "list[str | _Tree]"

_PLAIN_KEY: Final = re.compile(r"[\w$@./+-]++(?: [\w$@./+-]++)*")
_TOKEN: Final = re.compile(
    r"[ \t\r\n,:]*+"
    r'(?:(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<open>[{\[])|(?P<close>[}\]])|[^ \t\r\n,\]}]++)'
)


class _OpenValue:
    """Object or array that is being written."""

    __slots__ = ("is_array", "key", "members")

    def __init__(self, *, is_array: bool) -> None:
        self.is_array = is_array
        self.key: str | None = None
        self.members: dict[str | int, str | _Tree] = {}

    def add(self, value: str | _Tree) -> None:
        self.members[len(self.members) if self.key is None else self.key] = value
        self.key = None

    def tree(self, quote: str) -> _Tree:
        keys = list(self.members)
        if not self.is_array:
            keys.sort(key=lambda key: str(key).lower())  # the order of Jinja's dictsort filter
        tree: _Tree = ["[" if self.is_array else "{"]
        for number, key in enumerate(keys):
            if number:
                tree.append(",")
            if isinstance(key, str):
                tree += [_encode_key(key, quote), ":"]
            tree.append(self.members[key])
        tree.append("]" if self.is_array else "}")
        return tree


def _tree(arguments: str, quote: str) -> _Tree:
    """Convert valid JSON text to bare notation; return the pieces of the result as nested lists."""
    stack = [_OpenValue(is_array=True)]
    at = 0
    while len(stack) > 1 or not at:
        token = _TOKEN.match(arguments, at)
        assert token is not None  # noqa: S101 - the text was checked
        at = token.end()
        top = stack[-1]
        string = token["string"]
        if token["open"]:
            stack.append(_OpenValue(is_array=token["open"] == "["))
        elif token["close"]:
            stack.pop()
            stack[-1].add(top.tree(quote))
        elif string and not top.is_array and top.key is None:
            top.key = json.loads(string)
        elif string:
            value = json.loads(string)
            top.add(quote + value + quote if _fits(value, quote) else string)
        else:
            word = token.group().lstrip(" \t\r\n,:")
            top.add(JSON_TO_PYTHON["null"] if word == "null" else word)  # Jinja prints null as None
    return [*stack[0].members.values()]


def _flatten(tree: _Tree) -> Iterator[str]:
    """Yield the strings in nested lists, without recursion because the lists may be deeply nested."""
    stack: list[Iterator[str | _Tree]] = [iter(tree)]
    while stack:
        piece = next(stack[-1], None)
        if piece is None:
            stack.pop()
        elif isinstance(piece, str):
            yield piece
        else:
            stack.append(iter(piece))


def _fits(text: str, quote: str) -> bool:
    """Return whether ``text`` can be written between delimiters: it must not contain a delimiter."""
    return quote != '"' and (text + quote).find(quote) == len(text) and not _SURROGATE.search(text)


def _encode_key(key: str, quote: str) -> str:
    if _PLAIN_KEY.fullmatch(key) and quote not in key:
        return key
    return quote + key + quote if _fits(key, quote) else json.dumps(key)
