r"""Codec for arguments in JSON.

The codec copies JSON verbatim, but checks it strictly.  A scanner that only counted brackets
could read past the closing marker of a malformed call, and treat the rest of the output as arguments.

Theory of operation:

* ``JsonValue`` is a state machine over characters.  A table, indexed by state and ASCII character, holds the
  next state or an action: open or close a bracket, end a number, reject.  There are states between tokens,
  inside numbers, inside true, false and null, and inside strings.  Inside a string the codec does not use the
  table: a single search finds the end of the string.
* Every accepted character is part of the output, so the output is a slice of the input, and more
  input only appends to it.  Only an escape sequence that is incomplete at the end of the input
  (``\u00``) is held back until the next step.
* The open brackets are stored in a list, not on the call stack.  Therefore only memory limits the nesting.
* A step stops at the first character that JSON does not allow, and sets ``error``.
* A number that clients cannot read (``schema/numbers.py``) is an error as well.  Otherwise
  clients would run the call with infinity or null instead of the number.
* A repeated key is reported in ``diagnostics`` and stays in the text.  Clients use its last value.

With ``repair`` the scanner also accepts common mistakes and outputs valid JSON.  The mistakes are
trailing commas, single quotes, Python literals, control characters in strings, and missing
brackets.  The table rejects all of them, and ``_repair_at`` handles the rejected character.  A
comma is held back until the next token, because it may be a trailing comma.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Final, NoReturn, TypeAlias

from ...events import Status
from ..compiler.argument_codec_base import Codec, Value
from ..mypyc_types import i64
from ..scan.character_runs import (
    COMPILED,
    ESCAPED,
    escape_begun,
    escaped,
    skip_whitespace,
    string_reach,
    string_run,
)
from ..schema.null_and_boolean_spellings import PYTHON_TO_JSON
from ..schema.numbers import FINITE_DIGITS, MOST_DIGITS, in_range

_LIST_GAP: Final = re.compile(r"[ \t\r\n,]*")
_SINGLE_RUN: Final = re.compile(rf"(?:[^'\"\\\x00-\x1f]++|{ESCAPED})*+")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')
_SPACED_SEPARATORS: Final = {",": ", ", ":": ": "}
_PYTHON_WORDS: Final = {python[0]: (python, word) for python, word in PYTHON_TO_JSON.items()}
_REPAIRED_KINDS: Final = {"'": '"', **{python: word[1][0] for python, word in _PYTHON_WORDS.items()}}
"""Map from the first character of a value that the model wrote to the first character of the repaired value,
for example from ``T`` (of ``True``) to ``t``."""
_TOKEN_STARTS: Final = frozenset("\"'{[-0123456789tfnTFN")
_WHITESPACE: Final = " \t\r\n"
_NUMBER_IN_RANGE: Final = f"a finite number of at most {MOST_DIGITS:,} digits"

# States and actions.  They are plain integers because the compiled scanner keeps the state in a machine
# word and uses it as an index; members of an IntEnum would be boxed.
#
# States between tokens, named after what the scanner expects next.
_START: Final = 0
_VALUE: Final = 1
_ITEM_OR_END: Final = 2
_KEY_OR_END: Final = 3
_KEY: Final = 4
_COLON: Final = 5
_NEXT: Final = 6
# States inside a number, named after its last character.
_MINUS: Final = 7
_ZERO: Final = 8
_INTEGER: Final = 9
_POINT: Final = 10
_FRACTION: Final = 11
_E: Final = 12
_SIGN: Final = 13
_EXPONENT: Final = 14
# First of the states inside true, false and null.  There is one state for each letter of these words.
_WORD: Final = 15
# States that the table does not cover.
_PYTHON_WORD: Final = 26
_STRING: Final = 28
_KEY_STRING: Final = 29
_SINGLE_STRING: Final = 30
_SINGLE_KEY: Final = 31
# Actions, for characters that do more than select the next state.
_OPEN_OBJECT: Final = 32
_OPEN_LIST: Final = 33
_CLOSE: Final = 34
_COMMA: Final = 35
_END_NUMBER: Final = 36
_REJECTED: Final = 37
_BEGINS: Final = 38
"""Offset of the actions that begin a key or a number.

``_BEGINS + state`` is the action whose next state is ``state``.
"""

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
"""Length in characters at which a partial key is moved to a list of blocks.

Appending each delta to one string would take quadratic time for a long key.
"""


def _table(*, repair: bool) -> bytes:
    """Return the transition table: the next state or an action for each state and ASCII character."""
    table = bytearray([_REJECTED]) * (_OPEN_OBJECT * _ASCII)

    def put(state: int, characters: str, after: int) -> None:
        for character in characters:
            table[state * _ASCII + ord(character)] = after

    for state in (_VALUE, _ITEM_OR_END, _KEY_OR_END, _KEY, _COLON, _NEXT):
        put(state, _WHITESPACE, state)
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
    if repair:
        # The comma may be a trailing comma, so _repair_at holds back the comma and the whitespace around it.
        put(_NEXT, "," + _WHITESPACE, _REJECTED)
    for state in _AFTER_A_NUMBER:
        put(state, "".join(map(chr, range(_ASCII))), _END_NUMBER)
        put(state, "0123456789.eE+-", _REJECTED)
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
"""Keys of an open object that have been read: None, a single key, or a set of keys.

A single key is not put into a set, to save memory: in deeply nested input, most objects have only one key.
"""


def add_key(objects: list[Keys], key: str) -> bool:
    """Add a key to the innermost open object, and return whether the object already had this key."""
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
    """Codec for one JSON value."""

    __slots__ = (
        "_attempts",
        "_held_comma",
        "_key_blocks",
        "_objects",
        "_out",
        "_partial",
        "_repair",
        "_stack",
        "_state",
        "_table",
        "_word",
        "_word_at",
    )

    def __init__(self, repair: bool = False) -> None:
        super().__init__()
        self._repair: Final = repair
        self._table: Final = _REPAIRING if repair else _STRICT
        self._state: i64 = _START
        self._stack: list[str] = []
        self._attempts = 0
        self._objects: Final[list[Keys]] = []  # Keys of each open object.
        # The part of the current key or number that earlier steps have read.  If the key is long, its first
        # part is in _key_blocks.
        self._partial = ""
        self._key_blocks: list[str] | None = None
        # Only used for repairs: the output of this step, the Python word that is being read, the number of
        # letters read so far, and a comma with whitespace that is held back.
        self._out: list[str] = []
        self._word = ""
        self._word_at = 0
        self._held_comma: list[str] = []

    def restart(self) -> JsonValue:
        """Reset this codec after a complete value, and return it, so that it can read another value."""
        self._state = _START
        self.kind = ""
        self.done = False
        return self

    @property
    def verbatim(self) -> bool:
        # After an out-of-range number, the rest of the model's text must not be copied: it could complete the
        # object, and clients would then run the call.
        return self.error != _NUMBER_IN_RANGE

    def step(self, buf: str, pos: int, final: bool) -> int:  # noqa: ARG002 - a value ends by its own syntax
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
                self.kind = _REPAIRED_KINDS.get(char, char) if self._repair else char
                self._state = _VALUE
        self._attempts = _MAX_ATTEMPTS
        begin = start
        while pos < n and not self.done and not self.error:
            # After a comma that is held back, and in single-quoted strings, only _repair_at can continue.
            if not self._held_comma and self._state < _SINGLE_STRING:
                pos = self._read(buf, pos, begin)
                if pos == n or self.done or self.error:
                    break
            if self._state >= _STRING and escape_begun(buf, pos):
                break
            if self._repair:
                if pos > start:
                    self._out.append(buf[start:pos])
                start = begin = pos = self._repair_at(buf, pos)
            else:
                self.error = self._describe_expected(buf[pos])
        if self.error and self._state == _PYTHON_WORD:
            # The word has turned out not to be True, False or None, so output the letters that were held
            # back.
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
            self.done = in_range(self._partial)
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        if self._state in _AFTER_A_NUMBER:
            self._state = _NEXT
        if not (self._state in (_NEXT, _ITEM_OR_END, _KEY_OR_END) or self._held_comma) or not self._stack:
            return False
        if self.error == _NUMBER_IN_RANGE:
            return False
        self.text = ""
        while self._stack:
            self.text += self._close_innermost()
        self.diagnostics.append(("repaired", f"missing {self.text} added", 0))
        self._held_comma.clear()
        self.error = ""
        self.done = True
        return True

    def _read(self, buf: str, pos: i64, begin: i64) -> i64:  # noqa: C901 - see below
        """Scan JSON until the value ends, the input ends, or a character is invalid.

        This is one function because every delta passes through it: a call for each character or token
        would cost more than the work itself, and the local variables stay in machine registers.

        :param begin: position in ``buf`` where the current key or number begins, or continues after an
            earlier step.
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
                            self._extend_key(buf[begin:pos])
                        break
                pos += 1
                if state == _KEY_STRING:
                    key = buf[begin : pos - 1]
                    if self._partial:
                        key = self._partial + key
                        self._partial = ""
                    if "\\" in key or self._key_blocks is not None:
                        key = self._decode_key(key)
                    if objects[-1] is None:
                        objects[-1] = key
                    elif add_key(objects, key):
                        self._report_repeated_key(key, pos)
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
                    if COMPILED or n - pos <= _SHORT or not (end := self._end_of_whole_value(buf, pos)):
                        pos += 1
                        if after == _OPEN_OBJECT:
                            objects.append(None)
                            stack.append("}")
                            state = _KEY_OR_END
                            continue
                        stack.append("]")
                        state = _ITEM_OR_END
                        while pos < n and buf[pos] == "[":  # a fast path for nested arrays
                            stack.append("]")
                            pos += 1
                        continue
                    pos = end
                    state = _NEXT
                elif after == _COMMA:
                    state = _KEY if stack[-1] == "}" else _VALUE
                    pos += 1
                    continue
                elif after == _END_NUMBER:
                    if state == _EXPONENT or self._partial or pos - begin > FINITE_DIGITS:
                        pos = self._end_number(buf, begin, pos)
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
                    self._partial += buf[begin:pos]
                    return self._limit_number(pos)
                if state == _KEY_STRING:
                    self._partial += buf[begin:pos]
        self._state = state
        return pos

    def _extend_key(self, text: str) -> None:
        """Append text to an incomplete key."""
        self._partial += text
        if len(self._partial) > _BLOCK:
            self._key_blocks = self._key_blocks or []
            self._key_blocks.append(self._partial)
            self._partial = ""

    def _decode_key(self, key: str) -> str:
        """Return a complete key with decoded escapes; the result still begins with the opening quote.

        :param key: the whole key, or the part of it that follows the stored blocks.
        """
        if self._key_blocks is not None:
            key = "".join([*self._key_blocks, key])
            self._key_blocks = None
        return '"' + str(json.loads(f'{key}"')) if "\\" in key else key

    def _report_repeated_key(self, key: str, at: int) -> None:
        self.diagnostics.append(("duplicate_argument", key[1:81], at))

    def _close_innermost(self) -> str:
        """Close the innermost object or array and return its closing bracket."""
        closer = self._stack.pop()
        if closer == "}":
            self._objects.pop()
        return closer

    def _end_number(self, buf: str, begin: i64, end: i64) -> i64:
        """Check a complete number; return the end of the number, or of its valid part if it is too long."""
        number = self._partial + buf[begin:end]
        self._partial = number
        end = self._limit_number(end)
        if not self.error and not in_range(number):
            self.error = _NUMBER_IN_RANGE
        self._partial = ""
        return end

    def _limit_number(self, end: i64) -> i64:
        """Return ``end``, or the end of the number's valid part if the number has too many digits."""
        excess: i64 = len(self._partial) - MOST_DIGITS - (self._partial[0] == "-")
        if excess <= 0:
            return end
        self.error = _NUMBER_IN_RANGE
        return end - excess

    def _end_of_whole_value(self, buf: str, pos: int) -> int:
        """Return the end of the value at ``pos`` if the value is complete and valid, else 0.

        The standard library's decoder accepts exactly what the scanner accepts.  The decoder is written in C,
        so it is faster than the interpreted scanner.  The compiled scanner is faster still, because it does
        not build the value.  The compiled build therefore does not call this method.
        """
        if not self._attempts:
            return 0
        try:
            return _WHOLE.raw_decode(buf, pos)[1]
        except (ValueError, RecursionError):
            self._attempts -= 1
            return 0

    def _describe_expected(self, char: str) -> str:
        """Return a description of what the scanner expected instead of this character."""
        state = self._state
        if char in "NI" and state in (_VALUE, _ITEM_OR_END, _MINUS):
            return _NUMBER_IN_RANGE  # for NaN and Infinity, which are not JSON
        if state >= _STRING:
            return (
                "a valid escape sequence"
                if char == "\\"
                else "an escape sequence instead of a control character"
            )
        return _EXPECTED[_NEXT if state in _AFTER_A_NUMBER else state]

    def _repair_at(self, buf: str, pos: int) -> int:
        """Read the text at ``pos`` that the table rejected, and output the JSON that the model meant.

        Return the position after this text.  Set ``error`` if the mistake cannot be repaired.
        """
        state = self._state
        char = buf[pos]
        if state >= _STRING:
            return self._repair_string(buf, pos)
        if state == _PYTHON_WORD:
            return self._read_python_word(buf, pos)
        if char in _WHITESPACE and (self._held_comma or state == _NEXT):
            end = skip_whitespace(buf, pos)
            self._held_comma.append(buf[pos:end])
            return end
        if self._held_comma:
            if state != _NEXT and char == self._stack[-1]:
                self._held_comma.clear()
                self.diagnostics.append(("repaired", "trailing comma removed", pos))
                self._out.append(self._close_innermost())
                self._end_value()
                return pos + 1
            if char in _TOKEN_STARTS or (state == _NEXT and char in ",}]"):
                self._out += self._held_comma
                self._held_comma.clear()
                return pos
        elif state == _NEXT:
            if char == ",":
                self._held_comma.append(char)
                self._state = _KEY if self._stack[-1] == "}" else _VALUE
                return pos + 1
            if char in "}]":
                return self._repair_closer(char, pos)
        elif char == "'" and state in (_VALUE, _ITEM_OR_END, _KEY_OR_END, _KEY):
            self.diagnostics.append(("repaired", "single quotes replaced", pos))
            self._state = _SINGLE_STRING if state in (_VALUE, _ITEM_OR_END) else _SINGLE_KEY
            self._write_string('"')
            return pos + 1
        elif char in _PYTHON_WORDS and state in (_VALUE, _ITEM_OR_END):
            self._word = _PYTHON_WORDS[char][0]
            self._word_at = 0
            self._state = _PYTHON_WORD
            return pos
        self.error = self._describe_expected(char)
        return pos

    def _repair_string(self, buf: str, pos: int) -> int:
        """Repair an invalid character in a string, or continue to read a single-quoted string."""
        char = buf[pos]
        if self._state >= _SINGLE_STRING:
            end = _SINGLE_RUN.match(buf, pos).end()  # type: ignore[union-attr]
            if end > pos:
                self._write_string(buf[pos:end])
                return end
            if char == "'":
                self._out.append('"')
                if self._state == _SINGLE_KEY:
                    key = self._decode_key(self._partial)
                    self._partial = ""
                    if add_key(self._objects, key):
                        self._report_repeated_key(key, pos + 1)
                    self._state = _COLON
                else:
                    self._end_value()
                return pos + 1
        if char == '"':
            self._write_string('\\"')
        elif char != "\\":
            self._write_string(escaped(char))
            self.diagnostics.append(("repaired", "control character inside a string escaped", pos))
        elif buf.startswith("'", pos + 1):
            self._write_string("'")
            return pos + 2
        else:
            self.error = self._describe_expected(char)
            return pos
        return pos + 1

    def _write_string(self, text: str) -> None:
        """Output text of a string, and store the text if the string is a key."""
        self._out.append(text)
        if self._state in (_KEY_STRING, _SINGLE_KEY):
            self._extend_key(text)

    def _read_python_word(self, buf: str, pos: int) -> int:
        """Continue to read True, False or None, and output its JSON equivalent once it is complete."""
        word, at = self._word, self._word_at
        while pos < len(buf) and at < len(word) and buf[pos] == word[at]:
            pos += 1
            at += 1
        self._word_at = at
        if at == len(word):
            self.diagnostics.append(("repaired", "Python literal replaced", pos))
            self._out.append(_PYTHON_WORDS[word[0]][1])
            self._end_value()
        elif pos < len(buf):
            self.error = _NUMBER_IN_RANGE if word[0] == "N" else _EXPECTED[_PYTHON_WORD]
        return pos

    def _repair_closer(self, char: str, pos: int) -> int:
        """Add the closing brackets that are missing before the mismatched closing bracket at ``pos``."""
        missing = ""
        while self._stack and self._stack[-1] != char:
            missing += self._close_innermost()
        self._out.append(missing)
        self.diagnostics.append(("repaired", f"missing {missing} added", pos))
        if self._stack:
            self._out.append(self._close_innermost())
            pos += 1
        self._end_value()
        return pos

    def _end_value(self) -> None:
        """Change to the state after a value, or finish if the value was the outermost one."""
        self._state = _NEXT
        if not self._stack:
            self.done = True


NO_ARGUMENTS: Final = "an object of arguments"


class JsonArguments(Codec):
    """Codec for the arguments of a call in JSON.

    An object is output as it arrives.  Models also write a string that contains the object, or null for
    an empty object.  These values are held back until they are complete.
    """

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

    def resume(self, buf: str, pos: int) -> int:  # noqa: ARG002 - the inner codec has read it
        value = self._value
        if value.diagnostics:
            self.diagnostics.extend(value.diagnostics)
            value.diagnostics.clear()
        self.text = value.text
        self.error = value.error
        self.done = value.done
        if value.kind == "{" or not value.kind:
            return pos
        self._captured.append(value.text)
        self.text = ""
        if value.done or value.error:
            written = "".join(self._captured)
            arguments = arguments_in(written, self.diagnostics, pos) if value.done else ""
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


def arguments_in(text: str, diagnostics: list[tuple[str, str, int]], at: int) -> str:
    """Return the arguments object that a JSON value represents, or an empty string if there is none.

    A string may contain the object, and null represents an empty object.

    :param text: a JSON value that is not an object.
    :param diagnostics: list to which a diagnostic is added for each repeated key, with the position ``at``.
    """
    if text == "null":
        return "{}"
    inner = text if text[:1] != '"' else json.loads(text).strip()
    value = JsonValue()
    if not _is_value(value, inner) or value.kind != "{":
        return "" if inner else "{}"
    diagnostics.extend((kind, detail, at) for kind, detail, _ in value.diagnostics)
    return inner


def duplicate_keys(text: str) -> list[str]:
    """Return the keys that occur more than once within an object in this JSON text."""
    value = JsonValue()
    _is_value(value, text)
    return [detail for _, detail, _ in value.diagnostics]


def _beyond_ascii(state: int) -> int:
    """Return the action for a non-ASCII character outside a string."""
    return _END_NUMBER if state in _AFTER_A_NUMBER else _REJECTED


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _check_number(text: str) -> None:
    if (len(text) > FINITE_DIGITS or "e" in text or "E" in text) and not in_range(text):
        raise ValueError("number out of range")


def _check_keys(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        raise ValueError("object with a duplicate key")


_WHOLE: Final = json.JSONDecoder(
    object_pairs_hook=_check_keys,
    parse_float=_check_number,
    parse_int=_check_number,
    parse_constant=_reject_constant,
)
"""Decoder that rejects invalid JSON, out-of-range numbers, and objects with repeated keys.

The scanner reads a rejected value again, and reports the problem.
"""
_SHORT: Final = 64
"""Maximum length of a value for which only the scanner is used.

For a longer value, the decoder ``_WHOLE`` is tried first.
"""
_MAX_ATTEMPTS: Final = 3
"""Maximum number of failed decoding attempts per step; each attempt may read the whole input."""


def json_kind(text: str) -> str:
    """Return the first character of the JSON value in ``text``; an empty string if the text is not JSON."""
    value = JsonValue()
    return value.kind if _is_value(value, text) else ""


def _is_value(value: JsonValue, text: str) -> bool:
    """Feed ``text`` to a codec; return whether ``text`` is one JSON value, apart from outer whitespace."""
    end = value.step(text, 0, True)
    if value.error or (not value.done and value.finish(cut=False) != "complete"):
        return False
    return not text[end:].strip(_WHITESPACE)


def object_members(text: str) -> list[tuple[str, str]] | None:
    """Return each key with the source text of its value, or None if ``text`` is not a JSON object.

    If a key is repeated, its last value is returned.
    """
    if json_kind(text) != "{":
        return None
    members: dict[str, str] = {}
    at = text.index("{") + 1
    while True:
        at = _LIST_GAP.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            return list(members.items())
        key, at = _read_value_at(text, at)
        value, at = _read_value_at(text, text.index(":", at) + 1)
        members[json.loads(key)] = value


def array_items(text: str) -> list[str] | None:
    """Return the source text of each item, or None if ``text`` is not a JSON array."""
    if json_kind(text) != "[":
        return None
    items: list[str] = []
    at = text.index("[") + 1
    while True:
        at = _LIST_GAP.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "]":
            return items
        item, at = _read_value_at(text, at)
        items.append(item)


def _read_value_at(text: str, at: int) -> tuple[str, int]:
    """Return the source text of the value at ``at``, and its end; ``text`` must be valid JSON."""
    value = JsonValue()
    end = value.step(text, at, True)
    return value.text, end


def canonical_json(text: str) -> str:
    r"""Return JSON text with the spacing and escapes of Python's encoder; numbers are copied unchanged.

    >>> canonical_json('{"a":1.0,"b" : [1e999,"\u00e9"]}')
    '{"a": 1.0, "b": [1e999, "é"]}'
    """
    out: list[str] = []
    for token in _TOKEN.findall(text):
        if token[0] == '"':
            out.append(encode_basestring(json.loads(token)))
        else:
            out.append(_SPACED_SEPARATORS.get(token, token))
    return "".join(out)
