"""JSON, passed through verbatim by a strict scanner.

Strictness costs nothing and finds an error where it is: a scanner that only
counts brackets would run over the closing marker of a broken call and swallow
the rest of the output.  Nesting is a list, not a call stack, so its depth is
bounded by memory only.

A number that clients cannot read (``schema/numbers.py``) is an error as well, because
they would run the call with infinity or null instead.  A key that an object has twice
is noted; the text stays what the model wrote, and the last value counts, as in clients.

With ``repair`` the scanner also reads what models write instead of JSON (rules
J12: trailing commas, single quotes and Python's literals, control characters
inside strings, brackets that are missing) and writes JSON, with a note for
each repair.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Final, NoReturn, TypeAlias

from ...events import Status
from ..compiler.codec import Codec, Value
from ..mypyc_types import i64
from ..scan.runs import (
    COMPILED,
    ESCAPED,
    escape_begun,
    escaped,
    skip_whitespace,
    string_reach,
    string_run,
)
from ..schema.keywords import PYTHON_TO_JSON
from ..schema.number_range import FINITE_DIGITS, MOST_DIGITS, in_range

_LIST_GAP: Final = re.compile(r"[ \t\r\n,]*")
_SINGLE_RUN: Final = re.compile(rf"(?:[^'\"\\\x00-\x1f]++|{ESCAPED})*+")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')
_SPACED: Final = {",": ", ", ":": ": "}
_PYTHON_WORDS: Final = {python[0]: (python, word) for python, word in PYTHON_TO_JSON.items()}
_MENDED_KINDS: Final = {"'": '"', **{python: word[1][0] for python, word in _PYTHON_WORDS.items()}}
"""What a value becomes that begins as none does in JSON."""
_TOKEN_STARTS: Final = frozenset("\"'{[-0123456789tfnTFN")
_BLANKS: Final = " \t\r\n"
_NUMBER_IN_RANGE: Final = f"a finite number of at most {MOST_DIGITS:,} digits"

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
_BEGINS: Final = 38
"""Added to the state of a key or number that begins with the character."""

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
_BLOCK: Final = 4096
"""So many characters of a key are kept in one piece that grows; a number is in one piece."""


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
        put(state, "-", _BEGINS + _MINUS)
        put(state, "0", _BEGINS + _ZERO)
        put(state, "123456789", _BEGINS + _INTEGER)
    put(_ITEM_OR_END, "]", _CLOSE)
    put(_KEY_OR_END, '"', _BEGINS + _KEY_STRING)
    put(_KEY_OR_END, "}", _CLOSE)
    put(_KEY, '"', _BEGINS + _KEY_STRING)
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


Keys: TypeAlias = "set[str] | str | None"
"""Keys that an object has so far.  No set is made for one key, which is all that deep nesting has."""


def is_repeated(objects: list[Keys], key: str) -> bool:
    """Return whether the innermost of the open objects has this key already, and remember the key."""
    keys = objects[-1]
    if keys is None:
        objects[-1] = key
        return False
    if isinstance(keys, str):
        keys = objects[-1] = {keys}
    if key in keys:
        return True
    keys.add(key)
    return False


class JsonValue(Value):
    """One JSON value."""

    __slots__ = (
        "_begun",
        "_blocks",
        "_comma",
        "_objects",
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
        self._objects: Final[list[Keys]] = []  # that are open
        # What earlier steps have read of the key or number that is being read, and of a long key before that.
        self._begun = ""
        self._blocks: list[str] | None = None
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
        # What follows a number may make an object of what was given, and clients would run that.
        return self.error != _NUMBER_IN_RANGE

    def step(self, buf: str, pos: int, final: bool) -> int:  # noqa: ARG002 - it ends by itself, or not
        n = len(buf)
        start = pos
        if self._state == _STRING and not pos:
            reach = string_reach(buf)
            if reach == n or escape_begun(buf, reach):
                self.text = buf if reach == n else buf[:reach]
                return reach
            pos = reach
        elif self._state == _START:
            start = pos = skip_whitespace(buf, pos)
            if pos < n:
                char = buf[pos]
                self.kind = _MENDED_KINDS.get(char, char) if self._repair else char
                self._state = _VALUE
        self._tries = _TRIES
        begin = start
        while pos < n and not self.done and not self.error:
            if not self._comma and self._state < _SINGLE_STRING:
                pos = self._read(buf, pos, begin)
                if pos == n or self.done or self.error:
                    break
            if self._state >= _STRING and escape_begun(buf, pos):
                break
            if self._repair:
                if pos > start:
                    self._out.append(buf[start:pos])
                start = begin = pos = self._mend(buf, pos)
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
            self.done = in_range(self._begun)
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        if self._state in _AFTER_A_NUMBER:
            self._state = _NEXT
        if not (self._state in (_NEXT, _ITEM_OR_END, _KEY_OR_END) or self._comma) or not self._stack:
            return False
        if self.error == _NUMBER_IN_RANGE:
            return False
        self.text = ""
        while self._stack:
            self.text += self._pop()
        self.notes.append(("repaired", f"missing {self.text} added", 0))
        self._comma.clear()
        self.error = ""
        self.done = True
        return True

    def _read(self, buf: str, pos: i64, begin: i64) -> i64:  # noqa: C901 - a branch for each kind of move
        """Read JSON, up to its end or to what is not JSON, or not yet.

        :param begin: where the key or number that is being read begins in ``buf``, or goes on.
        """
        n: i64 = len(buf)
        state = self._state
        stack = self._stack
        table = self._table
        objects = self._objects
        while pos < n:
            if state >= _STRING:
                if buf[pos] != '"':
                    pos = string_run(buf, pos)
                    if pos == n or buf[pos] != '"':
                        if state == _KEY_STRING:
                            self._carry(buf[begin:pos])
                        break
                pos += 1
                if state == _KEY_STRING:
                    key = buf[begin : pos - 1]
                    if self._begun:
                        key = self._begun + key
                        self._begun = ""
                    if "\\" in key or self._blocks is not None:
                        key = self._whole_key(key)
                    if objects[-1] is None:
                        objects[-1] = key
                    elif is_repeated(objects, key):
                        self._note_repeated(key, pos)
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
                elif after >= _BEGINS:
                    begin = pos
                    state = after - _BEGINS
                    pos += 1
                    continue
                elif after <= _OPEN_LIST:
                    if COMPILED or n - pos <= _SHORT or not (end := self._behind_whole_value(buf, pos)):
                        pos += 1
                        if after == _OPEN_OBJECT:
                            objects.append(None)
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
                    if state == _EXPONENT or self._begun or pos - begin > FINITE_DIGITS:
                        pos = self._number_ends(buf, begin, pos)
                        if self.error:
                            break
                    state = _NEXT
                elif after == _CLOSE and buf[pos] == stack[-1]:
                    if stack.pop() == "}":
                        objects.pop()
                    state = _NEXT
                    pos += 1
                else:
                    break
            if not stack:
                self.done = True
                break
        else:
            if state > _NEXT:
                if state < _WORD:
                    self._state = state
                    self._begun += buf[begin:pos]
                    return self._short_enough(pos)
                if state == _KEY_STRING:
                    self._begun += buf[begin:pos]
        self._state = state
        return pos

    def _carry(self, text: str) -> None:
        """Keep a piece of a key that later steps go on with."""
        self._begun += text
        if len(self._begun) > _BLOCK:
            self._blocks = self._blocks or []
            self._blocks.append(self._begun)
            self._begun = ""

    def _whole_key(self, key: str) -> str:
        """Return a key with its opening quote and without escapes; the end of one may be given."""
        if self._blocks is not None:
            key = "".join([*self._blocks, key])
            self._blocks = None
        return '"' + str(json.loads(f'{key}"')) if "\\" in key else key

    def _note_repeated(self, key: str, at: int) -> None:
        self.notes.append(("duplicate_argument", key[1:81], at))

    def _pop(self) -> str:
        """End the innermost object or array.  Returns its closing bracket."""
        closer = self._stack.pop()
        if closer == "}":
            self._objects.pop()
        return closer

    def _number_ends(self, buf: str, begin: i64, end: i64) -> i64:
        """A number is complete.  Returns its end, or how far it is short enough."""
        number = self._begun + buf[begin:end]
        self._begun = number
        end = self._short_enough(end)
        if not self.error and not in_range(number):
            self.error = _NUMBER_IN_RANGE
        self._begun = ""
        return end

    def _short_enough(self, end: i64) -> i64:
        """Of the number that has been read up to ``end``: how far it is not too long."""
        excess: i64 = len(self._begun) - MOST_DIGITS - (self._begun[0] == "-")
        if excess <= 0:
            return end
        self.error = _NUMBER_IN_RANGE
        return end - excess

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
        """Return what should stand here instead of this character."""
        state = self._state
        if char in "NI" and state in (_VALUE, _ITEM_OR_END, _MINUS):
            return _NUMBER_IN_RANGE  # NaN or Infinity, which some clients read
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
            end = skip_whitespace(buf, pos)
            self._comma.append(buf[pos:end])
            return end
        if self._comma:
            if state != _NEXT and char == self._stack[-1]:
                self._comma.clear()
                self.notes.append(("repaired", "trailing comma removed", pos))
                self._out.append(self._pop())
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
            self.notes.append(("repaired", "single quotes replaced", pos))
            self._state = _SINGLE_STRING if state in (_VALUE, _ITEM_OR_END) else _SINGLE_KEY
            self._put('"')
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
                self._put(buf[pos:end])
                return end
            if char == "'":
                self._out.append('"')
                if self._state == _SINGLE_KEY:
                    key = self._whole_key(self._begun)
                    self._begun = ""
                    if is_repeated(self._objects, key):
                        self._note_repeated(key, pos + 1)
                    self._state = _COLON
                else:
                    self._value_ends()
                return pos + 1
        if char == '"':
            self._put('\\"')
        elif char != "\\":
            self._put(escaped(char))
            self.notes.append(("repaired", "control character inside a string escaped", pos))
        elif buf.startswith("'", pos + 1):
            self._put("'")
            return pos + 2
        else:
            self.error = self._expected(char)
            return pos
        return pos + 1

    def _put(self, text: str) -> None:
        """Put out a piece of a string, which may be a key."""
        self._out.append(text)
        if self._state in (_KEY_STRING, _SINGLE_KEY):
            self._carry(text)

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
            self.error = _NUMBER_IN_RANGE if word[0] == "N" else _EXPECTED[_PYTHON_WORD]
        return pos

    def _close_mismatch(self, char: str, pos: int) -> int:
        """A closing bracket of the wrong kind: supply those that are missing before it."""
        missing = ""
        while self._stack and self._stack[-1] != char:
            missing += self._pop()
        self._out.append(missing)
        self.notes.append(("repaired", f"missing {missing} added", pos))
        if self._stack:
            self._out.append(self._pop())
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
        return self._value.verbatim

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
            arguments = arguments_in(written, self.notes, pos) if value.done else ""
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


def arguments_in(text: str, notes: list[tuple[str, str, int]], at: int) -> str:
    """Return the arguments that a JSON value other than an object stands for, or nothing.

    What is odd about them is added to ``notes``, with this place.
    """
    if text == "null":
        return "{}"
    inner = text if text[:1] != '"' else json.loads(text).strip()
    value = JsonValue()
    if not _holds(value, inner) or value.kind != "{":
        return "" if inner else "{}"
    notes.extend((kind, detail, at) for kind, detail, _ in value.notes)
    return inner


def duplicate_keys(text: str) -> list[str]:
    """Return the keys that objects in this JSON text have more than once."""
    value = JsonValue()
    _holds(value, text)
    return [detail for _, detail, _ in value.notes]


def _beyond_ascii(state: int) -> int:
    return _NUMBER_ENDS if state in _AFTER_A_NUMBER else _REFUSED


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _check_number(text: str) -> None:
    if (len(text) > FINITE_DIGITS or "e" in text or "E" in text) and not in_range(text):
        raise ValueError("out of range")


def _check_keys(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        raise ValueError("duplicate keys")


_WHOLE: Final = json.JSONDecoder(
    object_pairs_hook=_check_keys,
    parse_float=_check_number,
    parse_int=_check_number,
    parse_constant=_refuse,
)
"""Refuses what the scanner would refuse, or make a note of."""
_SHORT: Final = 64
"""Input of no more than this is not worth a look ahead."""
_TRIES: Final = 3
"""How often a step looks ahead in vain; each look may go over all of its input."""


def json_kind(text: str) -> str:
    """First character of the one JSON value that ``text`` is, or nothing if it is not one."""
    value = JsonValue()
    return value.kind if _holds(value, text) else ""


def _holds(value: JsonValue, text: str) -> bool:
    """Read ``text`` as the value.  Returns whether it is one, with nothing but blanks around it."""
    end = value.step(text, 0, True)
    if value.error or (not value.done and value.finish(cut=False) != "complete"):
        return False
    return not text[end:].strip(_BLANKS)


def object_members(text: str) -> list[tuple[str, str]] | None:
    """Return keys and the source text of their values, or None if this is not a JSON object.

    Of a key that is given twice the last value counts.
    """
    if json_kind(text) != "{":
        return None
    members: dict[str, str] = {}
    at = text.index("{") + 1
    while True:
        at = _LIST_GAP.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            return list(members.items())
        key, at = _value_at(text, at)
        value, at = _value_at(text, text.index(":", at) + 1)
        members[json.loads(key)] = value


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
