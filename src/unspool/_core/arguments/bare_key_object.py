"""Bare objects: keys without quotes, strings between delimiters, written as JSON.

``{city:<|"|>Paris<|"|>,days:[1,2],dry:true}`` becomes ``{"city": "Paris",
"days": [1, 2], "dry": true}``.  Theory of operation:

* Between delimiters nothing is escaped, so a string may hold its own delimiter.
  One closes the string only where what may follow a string does follow: a comma
  (and in an object the next key), or the brackets that are open.  Whatever
  stands there in the style that templates write, without white space, counts; in
  a looser style only what hardly occurs in prose or code does.
* The contents of a string are handed on while they arrive.  Numbers and words
  wait for what stands behind them.  Text without delimiters that is neither is a
  string, and is handed on as soon as that is certain.
* What may be the beginning of a delimiter or of a marker is out of sight until
  more input shows what it is, so the rest of the code never meets half of one.
* White space and commas are not copied: each element brings its own separator.
* Brackets are a list, not a call stack.  Every character is looked at once, but
  for look-aheads of at most ``BOUND``.

Models also write parentheses around the arguments, ``=`` for ``:``, JSON strings
and keys, single quotes, a comma too many, or forget a delimiter.  All that is
read.  Numbers that are not in range (``schema/numbers.py``) become strings.  A key that an object
has twice is noted; the last value counts.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from ..compiler.codec import Codec
from ..scan.markers import MarkerSet, ValueMarkerSet
from ..scan.runs import BOUND, escaped, skip_whitespace
from ..schema.keywords import LOOSE_WORDS
from ..schema.tools import UNKNOWN, ValueType
from ..schema.typed_values import spelling, spelt_value
from .json_value import json_kind

_BLANKS: Final = frozenset(" \t\r\n")
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
_NUMBER_STARTS: Final = frozenset("-.0123456789")
_NUMBER_RUN: Final = re.compile(r"[-+.0-9eE]++")

# What is expected next.
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
# Answers of a look-ahead.
_NO: Final = 0
_YES: Final = 1
_MORE: Final = 2

_Key: TypeAlias = tuple[str, int, bool, bool]
"""JSON text of a key, where its value begins, whether it is in quotes, whether ``=`` follows it."""
_NO_ENDS: Final = MarkerSet(())


class _Marks:
    """What depends on the delimiter and the markers only."""

    __slots__ = ("any", "blanks", "delimiter", "end_starts", "key", "run")

    def __init__(self, quote: str, ends: MarkerSet) -> None:
        self.delimiter: Final = ValueMarkerSet((quote,))
        self.any: Final = MarkerSet((quote, *ends.literals))
        """Delimiters and markers."""
        self.end_starts: Final = "".join(literal[0] for literal in ends.literals)
        """First characters of the markers."""
        mark = f"{re.escape(quote)}|{ends.full.pattern}"
        self.run: Final = re.compile(rf"(?:(?!{mark})[^,\[\](){{}} \t\r\n])*+")
        """Text without delimiters: as far as it needs no thought."""
        self.blanks: Final = re.compile(rf"(?:(?!{mark})[ \t\r\n])*+")
        """White space in it."""
        self.key: Final = re.compile(rf"(?![\s\"'])(?:(?!{mark})[^:=,\[\](){{}}\r\n])++")
        """A bare key."""


def _certain(buf: str, pos: int, watch: MarkerSet) -> int:
    """How far the text is certain: behind that, one of the literals may have begun."""
    n = len(buf)
    at = max(pos, n - watch.longest + 1)
    while True:
        at, literal = watch.seek(buf, at, False)
        if not literal:
            return n if at < 0 else at
        at += 1


_marks: Final = lru_cache(maxsize=256)(_Marks)


class _Level:
    """An object or array that is open."""

    __slots__ = ("closer", "count", "equals", "keys", "kind", "quoted")

    def __init__(self, closer: str, kind: ValueType) -> None:
        self.closer: Final = closer
        self.kind: Final = kind
        """What its schema says."""
        self.keys: set[str] | None = None
        """The keys of an object that has any."""
        self.count = 0
        """How many elements have begun."""
        self.equals = False
        """The last key was followed by ``=``."""
        self.quoted = False
        """The last key was in quotes."""


_OUTSIDE: Final = _Level("", UNKNOWN)
"""Behind the arguments, where the head of another call looks like a key: ``call:``."""


class BareObject(Codec):
    """An object in bare notation.

    ``quote``: the delimiter of strings.  ``ends``: markers that may follow the
    object; where one stands behind a string, or in text without delimiters, a
    bracket was forgotten.  ``kind``: what the schema says of the arguments; a
    string stays one however it is spelt.
    """

    __slots__ = (
        "_blanks",
        "_closers",
        "_ends",
        "_final",
        "_inner",
        "_kind",
        "_levels",
        "_marks",
        "_n",
        "_need",
        "_out",
        "_quote",
        "_raw",
        "_repair",
        "_state",
        "_streams",
    )

    def __init__(
        self, quote: str, ends: MarkerSet = _NO_ENDS, *, kind: ValueType = UNKNOWN, repair: bool = False
    ) -> None:
        super().__init__()
        self._quote: Final = quote
        self._ends: Final = ends
        self._marks: Final = _marks(quote, ends)
        self._repair: Final = repair
        self._state = _START
        self._levels: list[_Level] = []
        self._closers: list[str] = []  # of the levels
        self._kind = kind  # of the value that comes next
        # The scalar that is being read: handed on at once, or kept.
        self._streams = False
        self._raw: list[str] = []
        self._blanks: list[str] = []  # inside a bare string, or behind it
        self._inner: list[str] = []  # closers of brackets inside a bare string
        # The step that is under way.
        self._out: list[str] = []
        self._n = 0
        self._final = False
        self._need = False

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read on; see the base class."""
        # Inside a string, markers are text.
        if self._state == _STRING and self._streams and not final and not pos:
            taken = self._read_string_piece(buf, self._marks.delimiter)
            if taken >= 0:
                return taken
        self._n = n = len(buf) if final else _certain(buf, pos, self._marks.any)
        self._final = final
        self._need = bool(self.error)
        while pos < n and not self._need and not self.done:
            state = self._state
            if state == _STRING:
                pos = self._read_string(buf, pos)
            elif state == _JSON:
                pos = self._read_json_string(buf, pos)
            elif state == _BARE:
                pos = self._read_bare(buf, pos)
            elif buf[pos] in _BLANKS:
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
        """Repair: supply the closing brackets that are missing."""
        if self._state not in (_KEY, _ITEM, _NEXT) or not self._levels:
            return False
        self.text = self._pop(len(self._levels))
        self.notes.append(("repaired", f"missing {self.text} added", 0))
        self.error = ""
        self.done = True
        return True

    # -- structure

    def _fail(self) -> None:
        self.error = _EXPECTED[self._state]
        self._need = True

    def _open(self, opener: str, pos: int) -> int:
        closer = _CLOSER_OF[opener]
        self._levels.append(_Level(closer, self._kind))
        self._closers.append(closer)
        self._out.append("[" if opener == "[" else "{")
        self._state = _ITEM if opener == "[" else _KEY
        return pos + 1

    def _pop(self, count: int) -> str:
        """JSON for the closers of the innermost levels, which are over."""
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
        """What follows a value."""
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
            self.notes.append(("repaired", f"missing {missing} added", pos))
            return self._close_level(pos)
        self._fail()
        return pos

    def _read_key(self, buf: str, pos: int) -> int:
        level = self._levels[-1]
        if buf[pos] == level.closer:
            return self._close_level(pos)
        found = self._key(buf, pos, min(self._n, pos + BOUND))
        if isinstance(found, int):
            if found == _MORE and self._n - pos < BOUND:
                self._need = True
            else:
                self._fail()
            return pos
        text, end, level.quoted, level.equals = found
        self._out.append(f", {text}: " if level.count else f"{text}: ")
        level.count += 1
        key: str = json.loads(text) if "\\" in text else text[1:-1]
        if level.keys is None:
            level.keys = {key}
        elif key in level.keys:
            self.notes.append(("duplicate_argument", key[:80], end))
        else:
            level.keys.add(key)
        self._kind = level.kind.member(key) if level.kind.types else UNKNOWN
        self._state = _VALUE
        return end

    def _key(self, buf: str, at: int, limit: int) -> _Key | int:
        """The key at ``at``, with its separator; else whether more input could make it one."""
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
            match = self._marks.key.match(buf, at, limit)
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

    def _closes(self, buf: str, at: int) -> int:
        """Whether what stands at ``at`` can follow a string."""
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
            if limit == at + BOUND:
                return _YES if closing else _NO
            return _YES if self._final else _MORE
        inside = len(closing) < depth
        if buf[after] == ",":
            level = self._levels[depth - 1 - len(closing)] if inside else _OUTSIDE
            return _YES if level.closer == "]" else self._separates(level, buf, after + 1, at + BOUND)
        if inside:
            return _YES if self._ends.literal_at(buf, after) else _NO
        # If the string goes on behind the brackets, they belong to it.
        return _NO if buf.startswith(self._quote, after) else _YES

    def _separates(self, level: _Level, buf: str, at: int, bound: int) -> int:
        """Whether the comma before ``at`` ends a string in an object: another key follows, or nothing."""
        limit = min(self._n, bound)
        after = min(skip_whitespace(buf, at), limit)
        found: _Key | int = _MORE
        if after < limit:
            if buf[after] == level.closer or self._ends.literal_at(buf, after):
                return _YES
            found = self._key(buf, after, limit)
        if isinstance(found, int):
            if found == _NO or limit == bound:
                return _NO
            return _YES if self._final else _MORE
        text, _, quoted, equals = found
        if equals and not level.equals:
            return _NO  # f("x", end="")
        if after == at:
            return _YES
        # Behind white space, `and he said:` and `"y": 1` are more likely part of the string.
        return _YES if (level.quoted if quoted else " " not in text and "\t" not in text) else _NO

    # -- values

    def _read_value(self, buf: str, pos: int) -> int:
        char = buf[pos]
        level = self._levels[-1]
        item = self._state == _ITEM
        if item and char == "]":
            return self._close_level(pos)
        if char in self._marks.end_starts and self._ends.literal_at(buf, pos):
            self._fail()
            return pos
        if not item and char in (",", level.closer):
            # Delimiters that were lost, with nothing between them.
            self._out.append(spelt_value("", self._kind))
            self._state = _NEXT
            return pos
        if char in ",]}" or (char == ")" and self._closers[0] == ")"):
            self._fail()
            return pos
        end = 0
        if char == "'":
            end = self._single_quoted(buf, pos)
            if end < 0:
                self._need = True
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
        self._begin_scalar(_BARE, streams=bool(kind) and self._kind.is_string)
        return pos

    def _begin_scalar(self, state: int, *, streams: bool) -> None:
        self._state = state
        self._streams = streams
        if streams:
            self._out.append('"')

    def _single_quoted(self, buf: str, pos: int) -> int:
        """Behind the string in single quotes at ``pos``; 0: it is none; -1: more input is needed."""
        limit = min(self._n, pos + BOUND)
        match = _SINGLE.match(buf, pos, limit)
        if match is None or match["rest"] != "'":
            begun = match is not None and match.end() == limit < pos + BOUND
            return -1 if begun and not self._final else 0
        answer = self._closes(buf, match.end())
        return match.end() if answer == _YES else 0 if answer == _NO else -1

    def _read_string(self, buf: str, pos: int) -> int:
        """Text up to the delimiter that closes it."""
        at = pos
        while True:
            at = buf.find(self._quote, at)
            if not 0 <= at < self._n:
                end = _certain(buf, pos, self._marks.delimiter) if self._final else self._n
                self._need = True
                self._data(buf[pos:end])
                return end
            end = at + len(self._quote)
            answer = self._closes(buf, end)
            if answer == _NO:
                at += 1
                continue
            self._data(buf[pos:at])
            if answer == _MORE:
                self._need = True
                return at
            self._string_ends()
            return end

    def _data(self, text: str) -> None:
        if not text:
            return
        if self._streams:
            self._out.append(escaped(text))
        else:
            self._raw.append(text)

    def _string_ends(self) -> None:
        """A delimiter closed the string."""
        self._state = _NEXT
        if self._streams:
            self._out.append('"')
            return
        self._out.append(encode_basestring("".join(self._raw)))
        self._raw.clear()

    def _read_json_string(self, buf: str, pos: int) -> int:
        """A string as JSON writes it; what JSON would not accept stands for itself."""
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
            self._need = True
            return end
        self._out.append("\\\\")
        return end + 1

    # -- text without delimiters

    def _read_bare(self, buf: str, pos: int) -> int:
        """Text up to the comma or bracket behind it, or to a delimiter that closes it nevertheless."""
        n = self._n
        while pos < n:
            end = min(self._marks.run.match(buf, pos).end(), n)  # type: ignore[union-attr]
            if end > pos:
                self._bare_text(buf[pos:end])
                pos = end
                continue
            if buf.startswith(self._quote, pos):
                answer = self._closes(buf, pos + len(self._quote))
                if answer == _MORE:
                    self._need = True
                    return pos
                if answer == _YES:
                    # The opening delimiter was forgotten.
                    for blank in self._blanks:
                        self._data(blank)
                    self._blanks.clear()
                    self._inner.clear()
                    self._string_ends()
                    return pos + len(self._quote)
            elif self._ends.literal_at(buf, pos):
                break
            elif buf[pos] in _BLANKS:
                end = min(self._marks.blanks.match(buf, pos).end(), n)  # type: ignore[union-attr]
                self._blanks.append(buf[pos:end])
                pos = end
                continue
            else:
                answer = self._bare_ends(buf, pos)
                if answer == _MORE:
                    self._need = True
                    return pos
                if answer == _YES:
                    break
            self._bare_text(buf[pos])
            pos += 1
        if pos < n:
            self._state = _NEXT
            self._blanks.clear()
            self._inner.clear()
            self._out.append('"' if self._streams else spelt_value("".join(self._raw), self._kind))
            self._raw.clear()
        return pos

    def _bare_ends(self, buf: str, pos: int) -> int:
        """Whether the comma or bracket at ``pos`` ends the value."""
        char = buf[pos]
        inner = self._inner
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
        if not self._streams:
            if spelling("".join(self._raw)):
                return _YES
            self._becomes_string()
        return self._separates(level, buf, pos + 1, pos + BOUND)

    def _bare_text(self, text: str) -> None:
        """Text that belongs to the value, which may make it a string."""
        if not self._streams:
            raw = self._raw
            first = raw[0] if raw else text
            if self._blanks:
                scalar = False
            elif first[0] in _NUMBER_STARTS:
                scalar = _NUMBER_RUN.fullmatch(text) is not None
            else:
                scalar = "".join(raw) + text in _WORD_PREFIXES
            if scalar:
                raw.append(text)
                return
            self._becomes_string()
        for blank in self._blanks:
            self._data(blank)
        self._blanks.clear()
        self._data(text)

    def _becomes_string(self) -> None:
        self._streams = True
        self._out.append('"')
        for text in self._raw:
            self._data(text)
        self._raw.clear()
