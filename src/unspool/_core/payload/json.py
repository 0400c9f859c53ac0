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

from ..schema.words import PYTHON_TO_JSON
from ..search.scan import COMPILED, ESCAPED, behind_space, escape_begun, escaped, string_reach, string_run
from ..syntax.codec import Codec, Value
from ..values.events import Status
from ..values.native import i64

_LIST_GAP: Final = re.compile(r"[ \t\r\n,]*")
_SINGLE_RUN: Final = re.compile(rf"(?:[^'\"\\\x00-\x1f]++|{ESCAPED})*+")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')
_SPACED: Final = {",": ", ", ":": ": "}
_PYTHON_WORDS: Final = {python[0]: (python, word) for python, word in PYTHON_TO_JSON.items()}
_MENDED_KINDS: Final = {"'": '"', **{python: word[1][0] for python, word in _PYTHON_WORDS.items()}}
"""What a value becomes that begins as none does in JSON."""
_TOKEN_STARTS: Final = frozenset("\"'{[-0123456789tfnTFN")
_BLANKS: Final = " \t\r\n"

# What the scanner expects next.
_START: Final = 0
_VALUE: Final = 1
_ITEM_OR_END: Final = 2
_KEY_OR_END: Final = 3
_KEY: Final = 4
_COLON: Final = 5
_NEXT: Final = 6
# Inside a number, by what was last.
_MINUS: Final = 7
_ZERO: Final = 8
_INTEGER: Final = 9
_POINT: Final = 10
_FRACTION: Final = 11
_E: Final = 12
_SIGN: Final = 13
_EXPONENT: Final = 14
# The first of the states inside true, false and null.
_WORD: Final = 15
# Where the table has no say.
_PYTHON_WORD: Final = 26
_STRING: Final = 28
_KEY_STRING: Final = 29
_SINGLE_STRING: Final = 30
_SINGLE_KEY: Final = 31
# What a character does instead of just leading to another state.
_OPEN_OBJECT: Final = 32
_OPEN_LIST: Final = 33
_CLOSE: Final = 34
_COMMA: Final = 35
_NUMBER_ENDS: Final = 36
_REFUSED: Final = 37

_EXPECTED: Final = (
    "a JSON value",
    "a JSON value",
    "a JSON value or ']'",
    "a string key or '}'",
    "a string key",
    "':'",
    "',' or a closing bracket",
    *(["a digit"] * 8),
    *(["true, false or null"] * 12),
)
_AFTER_A_NUMBER: Final = (_ZERO, _INTEGER, _FRACTION, _EXPONENT)
_ASCII: Final = 128


def _table(*, repair: bool) -> bytes:
    """By state and ASCII character: the state that the character leads to, or what it does."""
    table = bytearray([_REFUSED]) * (_OPEN_OBJECT * _ASCII)

    def put(state: int, characters: str, after: int) -> None:
        for character in characters:
            table[state * _ASCII + ord(character)] = after

    for state in (_VALUE, _ITEM_OR_END, _KEY_OR_END, _KEY, _COLON, _NEXT):
        put(state, _BLANKS, state)
    for state in (_VALUE, _ITEM_OR_END):
        put(state, '"', _STRING)
        put(state, "{", _OPEN_OBJECT)
        put(state, "[", _OPEN_LIST)
        put(state, "-", _MINUS)
        put(state, "0", _ZERO)
        put(state, "123456789", _INTEGER)
    put(_ITEM_OR_END, "]", _CLOSE)
    put(_KEY_OR_END, '"', _KEY_STRING)
    put(_KEY_OR_END, "}", _CLOSE)
    put(_KEY, '"', _KEY_STRING)
    put(_COLON, ":", _VALUE)
    put(_NEXT, "}]", _CLOSE)
    put(_NEXT, ",", _COMMA)
    if repair:  # it depends on what comes behind them
        put(_NEXT, "," + _BLANKS, _REFUSED)
    for state in _AFTER_A_NUMBER:
        put(state, "".join(map(chr, range(_ASCII))), _NUMBER_ENDS)
        put(state, "0123456789.eE+-", _REFUSED)
    put(_MINUS, "0", _ZERO)
    put(_MINUS, "123456789", _INTEGER)
    put(_INTEGER, "0123456789", _INTEGER)
    put(_POINT, "0123456789", _FRACTION)
    put(_FRACTION, "0123456789", _FRACTION)
    for state in (_E, _SIGN, _EXPONENT):
        put(state, "0123456789", _EXPONENT)
    put(_E, "+-", _SIGN)
    for state in (_ZERO, _INTEGER):
        put(state, ".", _POINT)
    for state in (_ZERO, _INTEGER, _FRACTION):
        put(state, "eE", _E)
    state = _WORD
    for word in ("true", "false", "null"):
        put(_VALUE, word[0], state)
        put(_ITEM_OR_END, word[0], state)
        for character in word[1:-1]:
            put(state, character, state + 1)
            state += 1
        put(state, word[-1], _NEXT)
        state += 1
    return bytes(table)


_STRICT: Final = _table(repair=False)
_REPAIRING: Final = _table(repair=True)


class JsonValue(Value):
    """One JSON value."""

    __slots__ = (
        "_comma",
        "_out",
        "_repair",
        "_stack",
        "_state",
        "_table",
        "_tries",
        "_word",
        "_word_at",
    )

    def __init__(self, repair: bool = False) -> None:
        super().__init__()
        self._repair: Final = repair
        self._table: Final = _REPAIRING if repair else _STRICT
        self._state: i64 = _START
        self._stack: list[str] = []
        self._tries = 0
        # Under repair: what was read, a word of Python, and a comma and white space that wait.
        self._out: list[str] = []
        self._word = ""
        self._word_at = 0
        self._comma: list[str] = []

    def again(self) -> JsonValue:
        """Itself, for another value; the one before is complete."""
        self._state = _START
        self.kind = ""
        self.done = False
        return self

    @property
    def verbatim(self) -> bool:
        return True

    def step(self, buf: str, pos: int, final: bool) -> int:  # noqa: ARG002 - it ends by itself, or not
        n = len(buf)
        start = pos
        if _STRING <= self._state < _SINGLE_STRING and not pos:
            reach = string_reach(buf)
            if reach == n or escape_begun(buf, reach):
                self.text = buf if reach == n else buf[:reach]
                return reach
            pos = reach
        elif self._state == _START:
            start = pos = behind_space(buf, pos)
            if pos < n:
                char = buf[pos]
                self.kind = _MENDED_KINDS.get(char, char) if self._repair else char
                self._state = _VALUE
        self._tries = _TRIES
        while pos < n and not self.done and not self.error:
            if not self._comma and self._state < _SINGLE_STRING:
                pos = self._read(buf, pos)
                if pos == n or self.done:
                    break
            if self._state >= _STRING and escape_begun(buf, pos):
                break
            if self._repair:
                if pos > start:
                    self._out.append(buf[start:pos])
                start = pos = self._mend(buf, pos)
            else:
                self.error = self._expected(buf[pos])
        if self.error and self._state == _PYTHON_WORD:  # what was taken for the beginning of one is none
            self._out.append(self._word[: self._word_at])
        if self._out:
            self._out.append(buf[start:pos])
            self.text = "".join(self._out)
            self._out.clear()
        else:
            self.text = buf[start:pos]
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if self._state in _AFTER_A_NUMBER and not self._stack and not cut:
            self.done = True
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        if self._state in _AFTER_A_NUMBER:
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

    def _read(self, buf: str, pos: i64) -> i64:  # noqa: C901 - a branch for each kind of move
        """JSON, up to its end or to what is not JSON, or not yet."""
        n: i64 = len(buf)
        state = self._state
        stack = self._stack
        table = self._table
        while pos < n:
            if state >= _STRING:
                if buf[pos] != '"':
                    pos = string_run(buf, pos)
                    if pos == n or buf[pos] != '"':
                        break
                pos += 1
                if state == _KEY_STRING:
                    state = _COLON
                    continue
                state = _NEXT
            else:
                code = ord(buf[pos])
                after = table[state * _ASCII + code] if code < _ASCII else _beyond_ascii(state)
                if after < _OPEN_OBJECT:
                    state = after
                    pos += 1
                    if after != _NEXT:
                        continue
                elif after <= _OPEN_LIST:
                    if COMPILED or n - pos <= _SHORT or not (end := self._behind_whole_value(buf, pos)):
                        pos += 1
                        if after == _OPEN_OBJECT:
                            stack.append("}")
                            state = _KEY_OR_END
                            continue
                        stack.append("]")
                        state = _ITEM_OR_END
                        while pos < n and buf[pos] == "[":  # they come in numbers
                            stack.append("]")
                            pos += 1
                        continue
                    pos = end
                    state = _NEXT
                elif after == _COMMA:
                    state = _KEY if stack[-1] == "}" else _VALUE
                    pos += 1
                    continue
                elif after == _NUMBER_ENDS:
                    state = _NEXT
                elif after == _CLOSE and buf[pos] == stack[-1]:
                    stack.pop()
                    state = _NEXT
                    pos += 1
                else:
                    break
            if not stack:
                self.done = True
                break
        self._state = state
        return pos

    def _behind_whole_value(self, buf: str, pos: int) -> int:
        """Behind the value at ``pos`` if all of it is there and in order, else 0.

        The standard library reads at the speed of C what the scanner would accept, and nothing else;
        it also builds the value, so that it is slower than the scanner where that is compiled.
        """
        if not self._tries:
            return 0
        try:
            return _WHOLE.raw_decode(buf, pos)[1]
        except (ValueError, RecursionError):
            self._tries -= 1
            return 0

    def _expected(self, char: str) -> str:
        """What should stand here instead of this character."""
        state = self._state
        if state >= _STRING:
            return (
                "a valid escape sequence"
                if char == "\\"
                else "an escape sequence instead of a control character"
            )
        return _EXPECTED[_NEXT if state in _AFTER_A_NUMBER else state]

    def _mend(self, buf: str, pos: int) -> int:
        """Read what stands here instead of JSON, and put out what it means."""
        state = self._state
        char = buf[pos]
        if state >= _STRING:
            return self._mend_string(buf, pos)
        if state == _PYTHON_WORD:
            return self._read_python_word(buf, pos)
        if char in _BLANKS and (self._comma or state == _NEXT):
            end = behind_space(buf, pos)
            self._comma.append(buf[pos:end])
            return end
        if self._comma:
            if state != _NEXT and char == self._stack[-1]:
                self._comma.clear()
                self.notes.append(("repaired", "trailing comma removed", pos))
                self._out.append(self._stack.pop())
                self._value_ends()
                return pos + 1
            if char in _TOKEN_STARTS or (state == _NEXT and char in ",}]"):
                self._out += self._comma
                self._comma.clear()
                return pos
        elif state == _NEXT:
            if char == ",":
                self._comma.append(char)
                self._state = _KEY if self._stack[-1] == "}" else _VALUE
                return pos + 1
            if char in "}]":
                return self._close_mismatch(char, pos)
        elif char == "'" and state in (_VALUE, _ITEM_OR_END, _KEY_OR_END, _KEY):
            self._out.append('"')
            self.notes.append(("repaired", "single quotes replaced", pos))
            self._state = _SINGLE_STRING if state in (_VALUE, _ITEM_OR_END) else _SINGLE_KEY
            return pos + 1
        elif char in _PYTHON_WORDS and state in (_VALUE, _ITEM_OR_END):
            self._word = _PYTHON_WORDS[char][0]
            self._word_at = 0
            self._state = _PYTHON_WORD
            return pos
        self.error = self._expected(char)
        return pos

    def _mend_string(self, buf: str, pos: int) -> int:
        char = buf[pos]
        if self._state >= _SINGLE_STRING:
            end = _SINGLE_RUN.match(buf, pos).end()  # type: ignore[union-attr]
            if end > pos:
                self._out.append(buf[pos:end])
                return end
            if char == "'":
                self._out.append('"')
                if self._state == _SINGLE_KEY:
                    self._state = _COLON
                else:
                    self._value_ends()
                return pos + 1
        if char == '"':
            self._out.append('\\"')
        elif char != "\\":
            self._out.append(escaped(char))
            self.notes.append(("repaired", "control character inside a string escaped", pos))
        elif buf.startswith("'", pos + 1):
            self._out.append("'")
            return pos + 2
        else:
            self.error = self._expected(char)
            return pos
        return pos + 1

    def _read_python_word(self, buf: str, pos: int) -> int:
        word, at = self._word, self._word_at
        while pos < len(buf) and at < len(word) and buf[pos] == word[at]:
            pos += 1
            at += 1
        self._word_at = at
        if at == len(word):
            self.notes.append(("repaired", "Python literal replaced", pos))
            self._out.append(_PYTHON_WORDS[word[0]][1])
            self._value_ends()
        elif pos < len(buf):
            self.error = _EXPECTED[_PYTHON_WORD]
        return pos

    def _close_mismatch(self, char: str, pos: int) -> int:
        """A closing bracket of the wrong kind: supply those that are missing before it."""
        missing = ""
        while self._stack and self._stack[-1] != char:
            missing += self._stack.pop()
        self._out.append(missing)
        self.notes.append(("repaired", f"missing {missing} added", pos))
        if self._stack:
            self._out.append(self._stack.pop())
            pos += 1
        self._value_ends()
        return pos

    def _value_ends(self) -> None:
        self._state = _NEXT
        if not self._stack:
            self.done = True


NO_ARGUMENTS: Final = "an object of arguments"


class JsonArguments(Codec):
    """The arguments of a call: an object; or a string that holds one, or null, which wait until they end."""

    __slots__ = ("_captured", "_value")

    def __init__(self, repair: bool = False) -> None:
        super().__init__()
        self._value: Final = JsonValue(repair)
        self._captured: list[str] = []

    @property
    def verbatim(self) -> bool:
        return True

    @property
    def source(self) -> Codec | None:
        return self._value if self._value.kind == "{" else None

    def step(self, buf: str, pos: int, final: bool) -> int:
        return self.resume(buf, self._value.step(buf, pos, final))

    def resume(self, buf: str, pos: int) -> int:  # noqa: ARG002 - the value has read it
        value = self._value
        if value.notes:
            self.notes.extend(value.notes)
            value.notes.clear()
        self.text = value.text
        self.error = value.error
        self.done = value.done
        if value.kind == "{" or not value.kind:
            return pos
        self._captured.append(value.text)
        self.text = ""
        if value.done or value.error:
            written = "".join(self._captured)
            arguments = arguments_in(written) if value.done else ""
            self.text = arguments or written
            if not arguments and not self.error:
                self.error = NO_ARGUMENTS
                self.done = False
        return pos

    def close(self) -> bool:
        value = self._value
        if value.kind != "{" or not value.close():
            return False
        self.resume("", 0)
        return True


def arguments_in(text: str) -> str:
    """The arguments that a JSON value other than an object stands for; nothing if it stands for none."""
    if text == "null":
        return "{}"
    inner = text if text[:1] != '"' else json.loads(text).strip()
    return inner if json_kind(inner) == "{" else "" if inner else "{}"


def _beyond_ascii(state: int) -> int:
    return _NUMBER_ENDS if state in _AFTER_A_NUMBER else _REFUSED


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_WHOLE: Final = json.JSONDecoder(parse_constant=_refuse)
_SHORT: Final = 64
"""Input of no more than this is not worth a look ahead."""
_TRIES: Final = 3
"""How often a step looks ahead in vain; each look may go over all of its input."""


def json_kind(text: str) -> str:
    """First character of the one JSON value that ``text`` is, or nothing if it is not one."""
    value = JsonValue()
    end = value.step(text, 0, True)
    if value.error or (not value.done and value.finish(cut=False) != "complete"):
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
