"""JSON, passed through verbatim by a strict scanner.

Strictness costs nothing and finds an error where it is: a scanner that only
counts brackets would run over the closing marker of a broken call and swallow
the rest of the output.  Nesting is a list, not a call stack, so its depth is
bounded by memory only.

With ``repair`` the scanner also reads what models write instead of JSON (rules
J12: trailing commas, single quotes and Python's literals, control characters
inside strings, brackets that are missing) and writes JSON, with a note for
each repair.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Final, NoReturn

from .._events import Status
from .._scan import escaped, string_run
from .base import Value

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_LIST_GAP: Final = re.compile(r"[ \t\r\n,]*")
_SINGLE_RUN: Final = re.compile(r"[^'\"\\\x00-\x1f]*")
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[ \t\r\n,\]}])")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')
_SPACED: Final = {",": ", ", ":": ": "}
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_PYTHON_WORDS: Final = {"T": ("True", "true"), "F": ("False", "false"), "N": ("None", "null")}
_DIGITS: Final = frozenset("0123456789")
_TOKEN_STARTS: Final = frozenset("\"'{[-0123456789tfnTFN")
_BLANKS: Final = frozenset(" \t\r\n")

# What the scanner expects next.
_START: Final = 0
_VALUE: Final = 1
_ITEM_OR_END: Final = 2
_KEY_OR_END: Final = 3
_KEY: Final = 4
_COLON: Final = 5
_NEXT: Final = 6
_STRING: Final = 7
_NUMBER_PART: Final = 8
_WORD: Final = 9
_EXPECTED: Final = (
    "a JSON value",
    "a JSON value",
    "a JSON value or ']'",
    "a string key or '}'",
    "a string key",
    "':'",
    "',' or a closing bracket",
    "'\"'",
    "a digit",
    "true, false or null",
)
# Number automaton: state -> what a digit, '.', 'e' or a sign leads to.
_MINUS: Final = 0
_ZERO: Final = 1
_INTEGER: Final = 2
_POINT: Final = 3
_FRACTION: Final = 4
_E: Final = 5
_SIGN: Final = 6
_EXPONENT: Final = 7
_NUMBER_ENDS: Final = frozenset((_ZERO, _INTEGER, _FRACTION, _EXPONENT))
_ON_DIGIT: Final = (_INTEGER, -1, _INTEGER, _FRACTION, _FRACTION, _EXPONENT, _EXPONENT, _EXPONENT)


class JsonValue(Value):
    """One JSON value."""

    __slots__ = (
        "_comma",
        "_number",
        "_out",
        "_quote",
        "_repair",
        "_stack",
        "_state",
        "_word",
        "_word_at",
    )

    def __init__(self, repair: bool = False) -> None:
        super().__init__()
        self._repair = repair
        self._state = _START
        self._stack: list[str] = []
        self._out: list[str] = []
        self._quote = '"'
        self._word = ""
        self._word_at = 0
        self._number = 0
        # Under repair a comma, and white space after a value, wait for what follows.
        self._comma: list[str] = []

    def step(self, buf: str, pos: int, final: bool) -> int:
        n = len(buf)
        start = pos
        tries = _TRIES
        while pos < n and not self.done:
            state = self._state
            if state == _STRING:
                if self._quote == '"':
                    pos = string_run(buf, pos)
                    if pos == n:
                        break
                    char = buf[pos]
                    if char == '"':
                        pos += 1
                        self._string_ends()
                        continue
                else:
                    pos = _SINGLE_RUN.match(buf, pos).end()  # type: ignore[union-attr]
                    if pos == n:
                        break
                    char = buf[pos]
                    if char == "'":
                        self._replace(buf, start, pos, '"')
                        pos += 1
                        start = pos
                        self._string_ends()
                        continue
                    if char == '"':
                        self._replace(buf, start, pos, '\\"')
                        pos += 1
                        start = pos
                        continue
                if char == "\\":
                    if pos + 1 == n and not final:
                        break
                    escape = _ESCAPE.match(buf, pos)
                    if escape is not None:
                        pos = escape.end()
                        continue
                    if not final and _ESCAPE_BEGUN.match(buf, pos):
                        break
                    if self._repair and pos + 1 < n and buf[pos + 1] == "'":
                        self._replace(buf, start, pos, "'")
                        pos += 2
                        start = pos
                        continue
                    self.error = "a valid escape sequence"
                    break
                if not self._repair:
                    self.error = "an escape sequence instead of a control character"
                    break
                self._replace(buf, start, pos, escaped(char))
                self.notes.append(("repaired", "control character inside a string escaped", pos))
                pos += 1
                start = pos
                continue
            if state == _NUMBER_PART:
                pos = self._scan_number(buf, pos)
                if self.error or pos == n:
                    break
                continue
            if state == _WORD:
                pos = self._scan_word(buf, pos)
                if self._word_at == len(self._word):
                    spelling = _PYTHON_WORDS.get(self._word[0])
                    if spelling is not None:
                        self._out.append(spelling[1])
                        start = pos
                    self._value_ends()
                    continue
                if self._word[0] in _PYTHON_WORDS:
                    start = pos
                if pos < n:
                    self.error = _EXPECTED[_WORD]
                break
            if buf[pos] in _BLANKS:
                blank = pos
                pos = _SPACE.match(buf, pos).end()  # type: ignore[union-attr]
                if state == _START:
                    start = pos
                elif self._comma or (self._repair and state == _NEXT):
                    self._replace(buf, start, blank, "")
                    self._comma.append(buf[blank:pos])
                    start = pos
                continue
            char = buf[pos]
            if self._comma and (char in _TOKEN_STARTS or (state == _NEXT and char in ",}]")):
                self._out.append("".join(self._comma))
                self._comma.clear()
                start = pos
            if state == _NEXT:
                if char == ",":
                    if self._repair:
                        self._replace(buf, start, pos, "")
                        self._comma.append(",")
                        start = pos + 1
                    self._state = _KEY if self._stack[-1] == "}" else _VALUE
                    pos += 1
                elif char == self._stack[-1]:
                    pos += 1
                    self._stack.pop()
                    self._value_ends()
                elif self._repair and char in "}]":
                    pos, start = self._close_mismatch(buf, start, pos)
                else:
                    self.error = _EXPECTED[_NEXT]
                    break
                continue
            if state == _COLON:
                if char != ":":
                    self.error = _EXPECTED[_COLON]
                    break
                pos += 1
                self._state = _VALUE
                continue
            if char == '"':
                if not self.kind:
                    self.kind = char
                pos += 1
                self._quote = '"'
                # A key is told from a value by what is expected behind it.
                self._begin_string(state)
                continue
            if char == "'" and self._repair:
                if not self.kind:
                    self.kind = '"'
                self._replace(buf, start, pos, '"')
                self.notes.append(("repaired", "single quotes replaced", pos))
                pos += 1
                start = pos
                self._quote = "'"
                self._begin_string(state)
                continue
            if char in "}]" and self._stack and char == self._stack[-1]:
                if state in (_ITEM_OR_END, _KEY_OR_END) or self._comma:
                    if self._comma:
                        self._comma.clear()
                        self.notes.append(("repaired", "trailing comma removed", pos))
                        start = pos
                    pos += 1
                    self._stack.pop()
                    self._value_ends()
                    continue
                self.error = _EXPECTED[state]
                break
            if state in (_KEY, _KEY_OR_END):
                self.error = _EXPECTED[state]
                break
            if not self.kind:
                self.kind = char
            if char in "{[" and tries and n - pos > _SHORT:
                end = _behind_whole_value(buf, pos)
                if end:
                    pos = end
                    self._value_ends()
                    continue
                tries -= 1
            if char == "{":
                self._stack.append("}")
                self._state = _KEY_OR_END
                pos += 1
            elif char == "[":
                self._stack.append("]")
                self._state = _ITEM_OR_END
                pos += 1
            elif char in _DIGITS or char == "-":
                whole = _NUMBER.match(buf, pos)
                if whole is not None:
                    pos = whole.end()
                    self._value_ends()
                    continue
                self._number = _MINUS if char == "-" else _ZERO if char == "0" else _INTEGER
                self._state = _NUMBER_PART
                pos += 1
            elif char in _WORDS:
                self._word = _WORDS[char]
                self._word_at = 0
                self._state = _WORD
            elif self._repair and char in _PYTHON_WORDS:
                self._replace(buf, start, pos, "")
                start = pos
                self.notes.append(("repaired", "Python literal replaced", pos))
                self._word = _PYTHON_WORDS[char][0]
                self._word_at = 0
                self._state = _WORD
            else:
                self.error = _EXPECTED[state]
                break
        if self._out:
            self._replace(buf, start, pos, "")
            self.text = "".join(self._out)
            self._out.clear()
        else:
            self.text = buf[start:pos]
        return pos

    def passing(self, text: str) -> int:
        if self._state != _STRING or self._quote != '"':
            return -1
        end = string_run(text, 0)
        if end == len(text):
            self.text = text
        elif end == len(text) - 1 and text[end] == "\\":
            self.text = text[:end]
        else:
            return -1
        return end

    def finish(self) -> Status:
        self.text = ""
        if self._state == _NUMBER_PART and not self._stack and self._number in _NUMBER_ENDS:
            self.done = True
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        if self._state == _NUMBER_PART and self._number in _NUMBER_ENDS:
            self._state = _NEXT
        if not (self._state in (_NEXT, _ITEM_OR_END, _KEY_OR_END) or self._comma) or not self._stack:
            return False
        self.text = "".join(reversed(self._stack))
        self.notes.append(("repaired", f"missing {self.text} added", 0))
        self._stack.clear()
        self._comma.clear()
        self.error = ""
        self.done = True
        return True

    def _replace(self, buf: str, start: int, pos: int, text: str) -> None:
        """The run from ``start`` to ``pos`` is verbatim, then comes ``text``."""
        if pos > start:
            self._out.append(buf[start:pos])
        if text:
            self._out.append(text)

    def _begin_string(self, state: int) -> None:
        self._word_at = 1 if state in (_KEY, _KEY_OR_END) else 0
        self._state = _STRING

    def _string_ends(self) -> None:
        if self._word_at:
            self._state = _COLON
        else:
            self._value_ends()

    def _value_ends(self) -> None:
        self._state = _NEXT
        if not self._stack:
            self.done = True

    def _close_mismatch(self, buf: str, start: int, pos: int) -> tuple[int, int]:
        """A closing bracket of the wrong kind: supply those that are missing before it."""
        char = buf[pos]
        missing = ""
        while self._stack and self._stack[-1] != char:
            missing += self._stack.pop()
        self._replace(buf, start, pos, missing)
        self.notes.append(("repaired", f"missing {missing} added", pos))
        if self._stack:
            self._stack.pop()
            self._out.append(char)
            pos += 1
        self._value_ends()
        return pos, pos

    def _scan_word(self, buf: str, pos: int) -> int:
        word, at = self._word, self._word_at
        while pos < len(buf) and at < len(word) and buf[pos] == word[at]:
            pos += 1
            at += 1
        self._word_at = at
        return pos

    def _scan_number(self, buf: str, pos: int) -> int:
        state = self._number
        while pos < len(buf):
            char = buf[pos]
            after = -1
            if char in _DIGITS:
                after = _ON_DIGIT[state]
                if state == _MINUS and char == "0":
                    after = _ZERO
            elif char == ".":
                after = _POINT if state in (_ZERO, _INTEGER) else -1
            elif char in "eE":
                after = _E if state in (_ZERO, _INTEGER, _FRACTION) else -1
            elif char in "+-":
                after = _SIGN if state == _E else -1
            elif state in _NUMBER_ENDS:
                self._value_ends()
                return pos
            if after < 0:
                self.error = _EXPECTED[_NUMBER_PART] if state not in _NUMBER_ENDS else _EXPECTED[_NEXT]
                return pos
            self._number = state = after
            pos += 1
        return pos


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_WHOLE: Final = json.JSONDecoder(parse_constant=_refuse)
_SHORT: Final = 64
"""Input of no more than this is not worth a look ahead."""
_TRIES: Final = 3
"""How often a step looks ahead in vain; each look may go over all of its input."""


def _behind_whole_value(buf: str, pos: int) -> int:
    """Behind the value at ``pos`` if all of it is there and in order, else 0: the scanner shall look.

    The standard library reads at the speed of C what the scanner would accept, and nothing else.
    """
    try:
        return _WHOLE.raw_decode(buf, pos)[1]
    except (ValueError, RecursionError):
        return 0


def json_kind(text: str) -> str:
    """First character of the one JSON value that ``text`` is, or nothing if it is not one."""
    value = JsonValue()
    end = value.step(text, 0, True)
    if value.error or (not value.done and value.finish() != "complete"):
        return ""
    return value.kind if not text[end:].strip(" \t\r\n") else ""


def object_members(text: str) -> list[tuple[str, str]] | None:
    """Keys and the source text of their values, or None if this is not a JSON object."""
    if json_kind(text) != "{":
        return None
    members: list[tuple[str, str]] = []
    at = text.index("{") + 1
    while True:
        at = _LIST_GAP.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            return members
        key, at = _value_at(text, at)
        value, at = _value_at(text, text.index(":", at) + 1)
        members.append((json.loads(key), value))


def array_items(text: str) -> list[str] | None:
    """The source text of the items, or None if this is not a JSON array."""
    if json_kind(text) != "[":
        return None
    items: list[str] = []
    at = text.index("[") + 1
    while True:
        at = _LIST_GAP.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "]":
            return items
        item, at = _value_at(text, at)
        items.append(item)


def _value_at(text: str, at: int) -> tuple[str, int]:
    """The value that begins at ``at``, and where it ends; the text is known to be JSON."""
    value = JsonValue()
    end = value.step(text, at, True)
    return value.text, end


def canonical_json(text: str) -> str:
    r"""The same value as Python's encoder would space it; numbers keep their spelling.

    >>> canonical_json('{"a":1.0,"b" : [1e999,"\u00e9"]}')
    '{"a": 1.0, "b": [1e999, "é"]}'
    """
    out: list[str] = []
    for token in _TOKEN.findall(text):
        if token[0] == '"':
            out.append(encode_basestring(json.loads(token)))
        else:
            out.append(_SPACED.get(token, token))
    return "".join(out)
