"""Codec that converts bare objects to JSON.

A bare object has unquoted keys, and a special delimiter around each string, such as ``<|"|>``:

``{city:<|"|>Paris<|"|>,days:[1,2],dry:true}`` becomes ``{"city": "Paris", "days": [1, 2], "dry": true}``.

Theory of operation:

* The codec is a state machine.  ``_levels`` is a list of the open objects and arrays.  The codec does not
  call itself for nested values, so only memory limits the nesting.  Each character is read once, apart from
  look-aheads of at most ``BOUND``.
* Strings have no escapes, so a string may contain the delimiter itself.  A delimiter closes the
  string only if the text after the delimiter can follow a string (``_closes_string``).  This text is either
  the closing brackets of the open levels, or a comma and the next element (in an object, the next key).
  Templates write no whitespace between this comma and the key.  If there is whitespace, the delimiter closes
  the string only if the text of the key rarely occurs in prose or code.
* The contents of a string are output as they arrive.  Numbers and words are held back until the
  next separator.  Any other text without delimiters is a string, and is output as soon as the
  codec can rule out a number or a word.
* A step stops before any text that may be the beginning of a delimiter or a marker
  (``_certain_end``), so that no other method sees an incomplete delimiter or marker.
* Whitespace and commas are not copied: each element writes its own separator.
* Later input never changes the output so far, so a prefix of the input yields a prefix of the output.

The codec also accepts common mistakes of models: parentheses around the arguments, ``=`` for ``:``,
JSON strings and keys, single quotes, trailing commas, and missing delimiters.  Numbers that are
out of range (``schema/numbers.py``) become strings.  If a key is repeated, the output contains
all of its values, ``diagnostics`` reports the repetition, and clients use the last value.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from ..compiler.argument_codec_base import Codec
from ..scan.character_runs import BOUND, escaped, skip_whitespace
from ..scan.markers import MarkerSet, ValueMarkerSet
from ..schema.null_and_boolean_spellings import LOOSE_WORDS, WORDS
from ..schema.text_to_value import value_by_spelling, word_or_number
from ..schema.tools import UNKNOWN, ValueType
from .json_value import json_kind

_WHITESPACE: Final = frozenset(" \t\r\n")
_CLOSING: Final = re.compile(r"[ \t\r\n\])}]*+")
_CLOSING_STARTS: Final = " \t\r\n])}"
_JSON_RUN: Final = re.compile(r'[^"\\\x00-\x1f]*+')
_JSON_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SINGLE: Final = re.compile(r"'[^'\\\r\n]*+(?:\\.[^'\\\r\n]*+)*+(?P<rest>'|\\?)")
_CLOSER_OF: Final = {"{": "}", "[": "]", "(": ")"}
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

_WORD_PREFIXES: Final = frozenset(word[:i] for word in LOOSE_WORDS for i in range(1, len(word) + 1))
_WORD_STARTS: Final = frozenset(word[0] for word in WORDS)
_NUMBER_STARTS: Final = frozenset("-.0123456789")
_NUMBER_RUN: Final = re.compile(r"[-+.0-9eE]++")

# States, each named after the input that the codec expects next.  They are plain integers, because compiled
# code keeps integers in registers.
_START: Final = 0
_KEY: Final = 1
_VALUE: Final = 2
_ITEM: Final = 3
_NEXT: Final = 4
_STRING: Final = 5
_JSON: Final = 6
_BARE: Final = 7
_EXPECTED: Final = (
    "'{' or '('",
    "a key or a closing bracket",
    "a value",
    "a value or ']'",
    "',' or a closing bracket",
)
# Results of a look-ahead.  _MORE means that the result depends on input that has not arrived.
_NO: Final = 0
_YES: Final = 1
_MORE: Final = 2

_Key: TypeAlias = tuple[str, int, bool, bool]
"""Key as JSON text, position of the value, whether the key is quoted, and whether ``=`` follows the key."""
_NO_ENDS: Final = MarkerSet(())


class _Patterns:
    """Search patterns for a delimiter and the markers that may follow the arguments."""

    __slots__ = ("any", "delimiter", "key", "marker_starts", "run", "whitespace")

    def __init__(self, quote: str, ends: MarkerSet) -> None:
        self.delimiter: Final = ValueMarkerSet((quote,))
        self.any: Final = MarkerSet((quote, *ends.literals))
        """The delimiter and the markers."""
        self.marker_starts: Final = "".join(literal[0] for literal in ends.literals)
        """First characters of the markers."""
        mark = f"{re.escape(quote)}|{ends.full.pattern}"
        self.run: Final = re.compile(rf"(?:(?!{mark})[^,\[\](){{}} \t\r\n])*+")
        """Pattern of text without delimiters, up to a character that may end this text."""
        self.whitespace: Final = re.compile(rf"(?:(?!{mark})[ \t\r\n])*+")
        """Pattern of whitespace in text without delimiters."""
        self.key: Final = re.compile(rf"(?![\s\"'])(?:(?!{mark})[^:=,\[\](){{}}\r\n])++")
        """Pattern of an unquoted key."""


def _certain_end(buf: str, pos: int, markers: MarkerSet) -> int:
    """Return the index of an incomplete marker at the end of the buffer, or else the buffer's length."""
    n = len(buf)
    # An incomplete marker can only be in the last `longest - 1` characters.
    at = max(pos, n - markers.longest + 1)
    while True:
        at, literal = markers.seek(buf, at, False)
        if not literal:
            return n if at < 0 else at
        at += 1


_patterns: Final = lru_cache(maxsize=256)(_Patterns)


class _Level:
    """Object or array whose closing bracket has not been read yet."""

    __slots__ = ("closer", "count", "equals", "keys", "kind", "quoted")

    def __init__(self, closer: str, kind: ValueType) -> None:
        self.closer: Final = closer
        self.kind: Final = kind
        """Type of the object or array, according to the schema."""
        self.keys: set[str] | None = None
        """Keys that have been read; None for arrays, and for objects before the first key."""
        self.count = 0
        """Number of elements so far, including an incomplete one."""
        self.equals = False
        """True if the model wrote ``=`` instead of ``:`` after the last key."""
        self.quoted = False
        """True if the last key was in quotes."""


_OUTSIDE: Final = _Level("", UNKNOWN)
"""Level for text after the arguments.  In this text, ``call:`` looks like a key but begins another call."""


class BareKeyObject(Codec):
    """Codec for a bare object: an object with unquoted keys and with special delimiters around strings.

    :param quote: the delimiter of strings.
    :param ends: markers that may follow the object.  If a marker appears after a string, or in text without
        delimiters, although an object is still open, the model forgot the closing bracket.
    :param kind: type of the arguments, according to the schema.  The text of a string parameter stays
        a string even if it looks like a number.
    """

    __slots__ = (
        "_closers",
        "_ends",
        "_final",
        "_inner_closers",
        "_kind",
        "_levels",
        "_n",
        "_needs_more",
        "_out",
        "_patterns",
        "_quote",
        "_raw",
        "_repair",
        "_spaces",
        "_state",
        "_streams",
    )

    def __init__(
        self, quote: str, ends: MarkerSet = _NO_ENDS, *, kind: ValueType = UNKNOWN, repair: bool = False
    ) -> None:
        super().__init__()
        self._quote: Final = quote
        self._ends: Final = ends
        self._patterns: Final = _patterns(quote, ends)
        self._repair: Final = repair
        self._state = _START
        self._levels: list[_Level] = []
        self._closers: list[str] = []  # Closing brackets of the levels.
        self._kind = kind  # Type of the next value.
        # If _streams is set, the text of the current scalar is output as it arrives.  Otherwise it is
        # collected in _raw.
        self._streams = False
        self._raw: list[str] = []
        self._spaces: list[str] = []  # Whitespace inside or after a string without delimiters.
        self._inner_closers: list[str] = []  # Closing brackets expected inside a string without delimiters.
        # State of the current step, in this order: its output, the end of the text that it may read, its
        # argument `final`, and whether it must stop to wait for more input.
        self._out: list[str] = []
        self._n = 0
        self._final = False
        self._needs_more = False

    def step(self, buf: str, pos: int, final: bool) -> int:
        # Fast path: the whole delta lies inside a string, where markers are ordinary text.
        if self._state == _STRING and self._streams and not final and not pos:
            taken = self._read_string_piece(buf, self._patterns.delimiter)
            if taken >= 0:
                return taken
        self._n = n = len(buf) if final else _certain_end(buf, pos, self._patterns.any)
        self._final = final
        self._needs_more = bool(self.error)
        while pos < n and not self._needs_more and not self.done:
            state = self._state
            if state == _STRING:
                pos = self._read_string(buf, pos)
            elif state == _JSON:
                pos = self._read_json_string(buf, pos)
            elif state == _BARE:
                pos = self._read_bare(buf, pos)
            elif buf[pos] in _WHITESPACE:
                pos += 1
            elif state == _NEXT:
                pos = self._read_next(buf, pos)
            elif state == _KEY:
                pos = self._read_key(buf, pos)
            elif state == _START:
                if buf[pos] in "{(":
                    pos = self._open(buf[pos], pos)
                else:
                    self._fail()
            else:
                pos = self._read_value(buf, pos)
        out = self._out
        self.text = out[0] if len(out) == 1 else "".join(out)
        out.clear()
        return pos

    def close(self) -> bool:
        if self._state not in (_KEY, _ITEM, _NEXT) or not self._levels:
            return False
        self.text = self._pop(len(self._levels))
        self.diagnostics.append(("repaired", f"missing {self.text} added", 0))
        self.error = ""
        self.done = True
        return True

    # -- structure

    def _fail(self) -> None:
        self.error = _EXPECTED[self._state]
        self._needs_more = True

    def _open(self, opener: str, pos: int) -> int:
        closer = _CLOSER_OF[opener]
        self._levels.append(_Level(closer, self._kind))
        self._closers.append(closer)
        self._out.append("[" if opener == "[" else "{")
        self._state = _ITEM if opener == "[" else _KEY
        return pos + 1

    def _pop(self, count: int) -> str:
        """Remove the ``count`` innermost levels, and return their closing brackets in JSON."""
        text = "".join(reversed(self._closers[-count:])).replace(")", "}")
        del self._closers[-count:]
        del self._levels[-count:]
        self._state = _NEXT
        return text

    def _close_level(self, pos: int) -> int:
        self._out.append(self._pop(1))
        self.done = not self._levels
        return pos + 1

    def _read_next(self, buf: str, pos: int) -> int:
        """Read a comma or a closing bracket after a value."""
        char = buf[pos]
        closer = self._closers[-1]
        if char == ",":
            self._state = _ITEM if closer == "]" else _KEY
            return pos + 1
        if char == closer:
            return self._close_level(pos)
        if self._repair and char in self._closers:
            count = 1
            while self._closers[-1 - count] != char:
                count += 1
            missing = self._pop(count)
            self._out.append(missing)
            self.diagnostics.append(("repaired", f"missing {missing} added", pos))
            return self._close_level(pos)
        self._fail()
        return pos

    def _read_key(self, buf: str, pos: int) -> int:
        level = self._levels[-1]
        if buf[pos] == level.closer:
            return self._close_level(pos)
        key_or_answer = self._read_key_at(buf, pos, min(self._n, pos + BOUND))
        if isinstance(key_or_answer, int):
            if key_or_answer == _MORE and self._n - pos < BOUND:
                self._needs_more = True
            else:
                self._fail()
            return pos
        text, end, level.quoted, level.equals = key_or_answer
        self._out.append(f", {text}: " if level.count else f"{text}: ")
        level.count += 1
        key: str = json.loads(text) if "\\" in text else text[1:-1]
        if level.keys is None:
            level.keys = {key}
        elif key in level.keys:
            self.diagnostics.append(("duplicate_argument", key[:80], end))
        else:
            level.keys.add(key)
        self._kind = level.kind.member(key) if level.kind.types else UNKNOWN
        self._state = _VALUE
        return end

    def _read_key_at(self, buf: str, at: int, limit: int) -> _Key | int:
        """Return the key at ``at``; ``_NO`` if there is none, or ``_MORE`` if the key may be incomplete."""
        quote = self._quote
        char = buf[at]
        quoted = True
        if char == '"':
            match = _JSON_STRING.match(buf, at, limit)
            if match is None:
                return _MORE
            end = match.end()
            text = match.group() if json_kind(match.group()) else encode_basestring(match.group()[1:-1])
        elif char == "'" or buf.startswith(quote, at):
            quote = "'" if char == "'" else quote
            close = buf.find(quote, at + len(quote), limit)
            if close < 0:
                return _MORE
            end = close + len(quote)
            text = encode_basestring(buf[at + len(quote) : close])
        else:
            match = self._patterns.key.match(buf, at, limit)
            if match is None:
                return _NO
            end = match.end()
            text = encode_basestring(match.group().rstrip(" \t"))
            quoted = False
        after = min(skip_whitespace(buf, end), limit)
        if after == limit:
            return _MORE
        if buf[after] not in ":=":
            return _NO
        return text, after + 1, quoted, buf[after] == "="

    # -- look-ahead

    def _closes_string(self, buf: str, at: int) -> int:
        """Return whether the text at ``at`` may follow a string: ``_YES``, ``_NO`` or ``_MORE``.

        Closing brackets must match the open levels, innermost first.  After the brackets, there must be a
        comma with the next element, or a marker.  If the brackets end the arguments, any text may follow.
        """
        limit = min(self._n, at + BOUND)
        if at >= limit:
            return _YES if self._final else _MORE
        after = at
        closing = ""
        if buf[at] in _CLOSING_STARTS:
            after = _CLOSING.match(buf, at, limit).end()  # type: ignore[union-attr]
            closing = "".join(buf[at:after].split())
        depth = len(self._closers)
        if closing:
            expected = "".join(reversed(self._closers[-len(closing) :]))
            if not closing.startswith(expected):
                return _NO
        if after == limit:
            # The whole look-ahead consists of whitespace and matching brackets.  Brackets are enough to end
            # the string; whitespace alone is not.
            if limit == at + BOUND:
                return _YES if closing else _NO
            return _YES if self._final else _MORE
        inside = len(closing) < depth
        if buf[after] == ",":
            level = self._levels[depth - 1 - len(closing)] if inside else _OUTSIDE
            return _YES if level.closer == "]" else self._separates(level, buf, after + 1, at + BOUND)
        if inside:
            return _YES if self._ends.literal_at(buf, after) else _NO
        # If a delimiter directly follows the brackets, this delimiter closes the string, and the brackets
        # belong to the string.
        return _NO if buf.startswith(self._quote, after) else _YES

    def _separates(self, level: _Level, buf: str, at: int, bound: int) -> int:
        """Return whether the comma before ``at`` ends a string in an object: ``_YES``, ``_NO`` or ``_MORE``.

        The comma ends the string if another key or the end of the object follows.
        """
        limit = min(self._n, bound)
        after = min(skip_whitespace(buf, at), limit)
        key_or_answer: _Key | int = _MORE
        if after < limit:
            if buf[after] == level.closer or self._ends.literal_at(buf, after):
                return _YES
            key_or_answer = self._read_key_at(buf, after, limit)
        if isinstance(key_or_answer, int):
            if key_or_answer == _NO or limit == bound:
                return _NO
            return _YES if self._final else _MORE
        text, _, quoted, equals = key_or_answer
        if equals and not level.equals:
            return _NO  # more likely a keyword argument in code inside the string: f("x", end="")
        if after == at:
            return _YES
        # After a comma and whitespace, text such as `and he said:` or `"y": 1` is more likely part of the
        # string than a key of the object.
        return _YES if (level.quoted if quoted else " " not in text and "\t" not in text) else _NO

    # -- values

    def _read_value(self, buf: str, pos: int) -> int:
        char = buf[pos]
        level = self._levels[-1]
        item = self._state == _ITEM
        if item and char == "]":
            return self._close_level(pos)
        if char in self._patterns.marker_starts and self._ends.literal_at(buf, pos):
            self._fail()
            return pos
        if not item and char in (",", level.closer):
            # The value is an empty string.  A detokenizer has removed its delimiters.
            self._out.append(value_by_spelling("", self._kind))
            self._state = _NEXT
            return pos
        if char in ",]}" or (char == ")" and self._closers[0] == ")"):
            self._fail()
            return pos
        end = 0
        if char == "'":
            end = self._single_quoted(buf, pos)
            if end < 0:
                self._needs_more = True
                return pos
        if item:
            if level.count:
                self._out.append(", ")
            self._kind = level.kind.items(level.count) if level.kind.types else UNKNOWN
            level.count += 1
        if end:
            self._out.append(encode_basestring(buf[pos + 1 : end - 1].replace("\\'", "'")))
            self._state = _NEXT
            return end
        if char in "{[":
            return self._open(char, pos)
        kind = self._kind.types
        if char == '"':
            self._out.append('"')
            self._state = _JSON
            return pos + 1
        if buf.startswith(self._quote, pos):
            self._begin_scalar(_STRING, streams=True)
            return pos + len(self._quote)
        # Even if the schema wants a string, a word such as `null` is what it looks like.
        may_be_word = char in _WORD_STARTS
        self._begin_scalar(_BARE, streams=bool(kind) and self._kind.is_string and not may_be_word)
        return pos

    def _begin_scalar(self, state: int, *, streams: bool) -> None:
        self._state = state
        self._streams = streams
        if streams:
            self._out.append('"')

    def _single_quoted(self, buf: str, pos: int) -> int:
        """Return the end of the single-quoted string at ``pos``.

        Return 0 if there is no such string, or -1 if the answer depends on input that has not arrived.
        """
        limit = min(self._n, pos + BOUND)
        match = _SINGLE.match(buf, pos, limit)
        if match is None or match["rest"] != "'":
            is_partial = match is not None and match.end() == limit < pos + BOUND
            return -1 if is_partial and not self._final else 0
        answer = self._closes_string(buf, match.end())
        return match.end() if answer == _YES else 0 if answer == _NO else -1

    def _read_string(self, buf: str, pos: int) -> int:
        """Read a string up to the delimiter that closes it."""
        at = pos
        while True:
            at = buf.find(self._quote, at)
            if not 0 <= at < self._n:
                end = _certain_end(buf, pos, self._patterns.delimiter) if self._final else self._n
                self._needs_more = True
                self._write(buf[pos:end])
                return end
            end = at + len(self._quote)
            answer = self._closes_string(buf, end)
            if answer == _NO:
                at += 1
                continue
            self._write(buf[pos:at])
            if answer == _MORE:
                self._needs_more = True
                return at
            self._end_string()
            return end

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._streams:
            self._out.append(escaped(text))
        else:
            self._raw.append(text)

    def _end_string(self) -> None:
        """Output the end of a string whose closing delimiter has been read."""
        self._state = _NEXT
        if self._streams:
            self._out.append('"')
            return
        self._out.append(encode_basestring("".join(self._raw)))
        self._raw.clear()

    def _read_json_string(self, buf: str, pos: int) -> int:
        """Read a string in JSON notation.

        If an escape is invalid in JSON, its backslash becomes part of the text.
        """
        n = self._n
        end = _JSON_RUN.match(buf, pos, n).end()  # type: ignore[union-attr]
        if end > pos:
            self._out.append(buf[pos:end])
        if end == n:
            return end
        char = buf[end]
        if char == '"':
            self._out.append(char)
            self._state = _NEXT
            return end + 1
        if char != "\\":
            self._out.append(escaped(char))
            return end + 1
        escape = _ESCAPE.match(buf, end, n)
        if escape is not None:
            self._out.append(escape.group())
            return escape.end()
        if _ESCAPE_BEGUN.match(buf, end, n).end() == n:  # type: ignore[union-attr]
            self._needs_more = True
            return end
        self._out.append("\\\\")
        return end + 1

    # -- text without delimiters

    def _read_bare(self, buf: str, pos: int) -> int:
        """Read text without an opening delimiter.

        The text ends at a comma, a bracket or a marker, or at a closing delimiter if the model forgot the
        opening one.
        """
        n = self._n
        while pos < n:
            end = min(self._patterns.run.match(buf, pos).end(), n)  # type: ignore[union-attr]
            if end > pos:
                self._add_bare_text(buf[pos:end])
                pos = end
                continue
            if buf.startswith(self._quote, pos):
                answer = self._closes_string(buf, pos + len(self._quote))
                if answer == _MORE:
                    self._needs_more = True
                    return pos
                if answer == _YES:
                    # The model forgot the opening delimiter.
                    for spaces in self._spaces:
                        self._write(spaces)
                    self._spaces.clear()
                    self._inner_closers.clear()
                    self._end_string()
                    return pos + len(self._quote)
            elif self._ends.literal_at(buf, pos):
                break
            elif buf[pos] in _WHITESPACE:
                end = min(self._patterns.whitespace.match(buf, pos).end(), n)  # type: ignore[union-attr]
                self._spaces.append(buf[pos:end])
                pos = end
                continue
            else:
                answer = self._ends_bare_text(buf, pos)
                if answer == _MORE:
                    self._needs_more = True
                    return pos
                if answer == _YES:
                    break
            self._add_bare_text(buf[pos])
            pos += 1
        if pos < n:
            self._state = _NEXT
            self._spaces.clear()
            self._inner_closers.clear()
            self._out.append('"' if self._streams else value_by_spelling("".join(self._raw), self._kind))
            self._raw.clear()
        return pos

    def _ends_bare_text(self, buf: str, pos: int) -> int:
        """Return whether the comma or bracket at ``pos`` ends a value without delimiters."""
        char = buf[pos]
        inner = self._inner_closers
        level = self._levels[-1]
        if char in _CLOSER_OF:
            inner.append(_CLOSER_OF[char])
            return _NO
        if char != ",":
            if inner and inner[-1] == char:
                inner.pop()
                return _NO
            return _NO if char == ")" and self._closers[0] != ")" else _YES
        if level.closer == "]":
            return _NO if inner else _YES
        wants_string = bool(self._kind.types) and self._kind.is_string
        if not self._streams and not wants_string:
            if word_or_number("".join(self._raw)):
                return _YES
            self._make_string()
        return self._separates(level, buf, pos + 1, pos + BOUND)

    def _add_bare_text(self, text: str) -> None:
        """Add text to a value without delimiters; the value may turn out to be a string."""
        if not self._streams:
            raw = self._raw
            first = raw[0] if raw else text
            if self._spaces:
                scalar = False
            elif first[0] in _NUMBER_STARTS:
                scalar = _NUMBER_RUN.fullmatch(text) is not None
            else:
                scalar = "".join(raw) + text in _WORD_PREFIXES
            if scalar:
                raw.append(text)
                return
            self._make_string()
        for spaces in self._spaces:
            self._write(spaces)
        self._spaces.clear()
        self._write(text)

    def _make_string(self) -> None:
        """Treat the current value as a string from here on, and output its collected text."""
        self._streams = True
        self._out.append('"')
        for text in self._raw:
            self._write(text)
        self._raw.clear()
