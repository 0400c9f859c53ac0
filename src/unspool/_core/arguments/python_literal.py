r"""Python literals, written as JSON: the arguments of a call, or one value.

``(city='Paris', days=[1, 2], dry=True)`` becomes ``{"city": "Paris", "days":
[1, 2], "dry": true}``.  Theory of operation:

* The contents of a string are handed on while they arrive.  Numbers and words
  wait for what stands behind them: ``1`` may become ``1.5``, and ``r`` a
  prefix.  The closing quote waits as well, for another string next to it.
* What a ``(`` or ``{`` is, the separator behind its first element shows: ``(1)``
  is 1, ``(1,)`` a list, ``{'a'}`` a list, ``{'a': 1}`` an object.  Until then
  the output is held, with a gap for the JSON bracket.
* White space is not copied, so a comma is only a flag that waits for an element.
* Brackets are a list, not a call stack; every character is looked at once, but
  for a look-ahead of at most ``BOUND``.

More is accepted than Python would: JSON's words, leading zeros, line breaks
inside any string, unknown escapes (they stand for themselves), bare keys, and
bare words as strings.  Numbers that are not in range (``schema/numbers.py``) become strings.
An argument that is given twice counts the first time, a key of a dict the last; both are noted.

``loose`` is for templates that write strings without escaping them.  There a
quote ends a string only where what follows can follow a string: the bracket
that closes its container, or a comma and the next element (in arguments a comma
and ``key=``).  Behind the bracket that closes the arguments the list of calls,
a marker or the input must end, or another call follow: ``x='print('a')'`` has
one closing quote only.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from contextlib import suppress
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final

from ...events import Status
from ..compiler.codec import Value
from ..mypyc_types import i64
from ..scan.runs import BOUND, escaped, in_word, run_until, same_run, word_run
from ..schema.keywords import WORDS
from ..schema.number_range import MOST_DIGITS
from ..schema.python_to_json import number_to_json
from .json_value import Keys, is_repeated

if TYPE_CHECKING:
    from ..schema.tools import Tools

_BLANKS: Final = " \t\r\n\f"
_SPACE: Final = re.compile(r"[ \t\r\n\f]*+")
_QUOTES: Final = "'\""
_PREFIXES: Final = frozenset(("r", "b", "u", "f", "rb", "br", "rf", "fr"))
_PREFIX_LETTERS: Final = "rbufRBUF"
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<begun>(?:[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}"
    r"|N(?:\{[A-Za-z0-9 -]{0,90})?|\r)\Z)"
    r"|(?P<octal>[0-7]{1,3})|x(?P<byte>[0-9a-fA-F]{2})|u(?P<half>[0-9a-fA-F]{4})|U(?P<full>[0-9a-fA-F]{8})"
    r"|N\{(?P<name>[A-Za-z0-9 -]{1,90})\}|(?P<continued>\r\n?)|(?P<other>.))"
)
_ESCAPED: Final = {
    "\\": "\\\\",
    "'": "'",
    '"': '\\"',
    "a": "\\u0007",
    "b": "\\b",
    "f": "\\f",
    "n": "\\n",
    "r": "\\r",
    "t": "\\t",
    "v": "\\u000b",
    "\n": "",
}
"""By the character behind a backslash: how JSON writes what both stand for."""

_ATOM_CHARACTERS: Final = r"0-9A-Za-z_\x80-\ud7ff\ue000-\U0010ffff"
"""More than identifiers may hold; ``str.isidentifier`` judges the whole."""
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in ("inf", "nan", "Infinity", "NaN")
)
_NUMBER_STARTS: Final = "+-.0123456789"
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_RADIX: Final = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]++|[oO][0-7]++|[bB][01]++)")
_GROUPING: Final = re.compile(r"(?<=[0-9a-fA-FxXoO])_(?=[0-9a-fA-F])")
_BEHIND_WORD: Final = ",)]}:"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

# What is expected next; the last two are for messages only.
_VALUE: Final = 0
_ITEM: Final = 1
_OPEN: Final = 2
_KEY: Final = 3
_COLON: Final = 4
_NEXT: Final = 5
_STRING: Final = 6
_STRING_END: Final = 7
_ATOM: Final = 8
_ATOM_END: Final = 9
_NAME: Final = 10
_END: Final = 11
_EXPECTED: Final = (
    "a value",
    "a value or a closing bracket",
    "'('",
    "a key or a closing bracket",
    "':'",
    "',' or a closing bracket",
    "a string without placeholders",
    "a string",
    "a literal",
    "a literal",
    "an argument's name or ')'",
    "')'",
)
# What a string or an atom stands for; an argument is a name or a value.
_AS_VALUE: Final = 0
_AS_KEY: Final = 1
_AS_ARGUMENT: Final = 2
# Brackets that are open: the call's own, an object in place of its arguments, and
# the containers; the last two are undecided.
_CALL: Final = 0
_MEMBERS: Final = 1
_DICT: Final = 2
_LIST: Final = 3
_TUPLE: Final = 4
_SET: Final = 5
_PAREN: Final = 6
_BRACE: Final = 7
_CLOSERS: Final = ")}}])})}"
_JSON_CLOSERS: Final = ("}", "", "}", "]", "]", "]")
# Whether a quote closes a loose string.
_NO: Final = 0
_YES: Final = 1
_MORE: Final = 2

_LOOSE_NAME: Final = re.compile(f"[{_ATOM_CHARACTERS}]++")
_LOOSE_FUNCTION: Final = re.compile(r"[^\s<>{}()\[\]\"'|｜,=]++")
_LOOSE_STARTS: Final = frozenset("'\"[({+-.0123456789")


class PythonValue(Value):
    """One Python literal."""

    __slots__ = (
        "_atom",
        "_comma",
        "_held",
        "_key",
        "_key_from",
        "_loose",
        "_marks",
        "_numeric",
        "_objects",
        "_out",
        "_pending",
        "_prefix",
        "_quote",
        "_role",
        "_simple",
        "_sink",
        "_skips",
        "_stack",
        "_state",
        "_stops",
    )

    def __init__(self, *, loose: bool = False) -> None:
        super().__init__()
        self._loose: Final = loose
        self._state: i64 = _VALUE
        self._stack: list[int] = []
        self._comma = False
        self._simple = False  # the last value is no container, so it may be a key
        # Output: what is certain, and what is held, with marks where a bracket is undecided.
        self._out: list[str] = []
        self._held: list[str] = []
        self._marks: list[int] = []
        self._sink = self._out
        self._skips = False  # the argument was given before
        # The dicts that are open; of a key that is being read, where it begins in the output, and what of
        # it is gone.
        self._objects: Final[list[Keys]] = []
        self._key_from: i64 = -1
        self._key: list[str] = []
        # The string or atom that is being read.
        self._role = _AS_VALUE
        self._quote = ""
        self._prefix = ""
        self._stops = ""  # what needs thought in the string
        self._pending = False  # the string may go on in another one next to it
        self._atom: list[str] = []
        self._numeric = False

    def step(self, buf: str, pos: int, final: bool) -> int:  # noqa: C901 - a branch for each state
        n = len(buf)
        if not pos and self._state == _STRING and not self._marks and not self._prefix and self._key_from < 0:
            end: i64 = same_run(buf, 0, self._quote)
            if end == n or (end == n - 1 and buf[end] == "\\" and not final):
                self.text = buf[:end]
                return end
        while pos < n and not self.done:
            state = self._state
            if state == _STRING:
                end = run_until(buf, pos, self._stops)
                if end > pos:
                    self._sink.append(escaped(buf[pos:end]))
                    pos = end
                    if pos == n:
                        break
                after = self._special(buf, pos, final)
            elif state == _ATOM:
                end = word_run(buf, pos)
                if end > pos:
                    self._atom.append(buf[pos:end])
                    pos = end
                    if pos == n:
                        break
                after = self._behind_atom(buf, pos, final)
            elif ord(buf[pos]) <= 0x20 and buf[pos] in _BLANKS:
                after = pos + 1
            elif state == _NEXT:
                after = self._next(buf[pos], pos)
            elif state <= _ITEM:
                after = self._begin_value(buf, pos, final)
            elif state == _STRING_END:
                after = self._behind_string(buf, pos, final)
            elif state == _KEY:
                after = self._begin_key(buf, pos, final)
            elif state == _ATOM_END:
                after = self._atom_ends(buf, pos)
            elif state == _COLON and buf[pos] == ":":
                self._sink.append(": ")
                self._state = _VALUE
                after = pos + 1
            elif state == _OPEN and buf[pos] == "(":
                self._stack.append(_CALL)
                self._sink.append("{")
                self._state = _KEY
                after = pos + 1
            else:
                after = self._fail(state)
            if after < 0:
                break
            pos = after
        self._flush()
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if not self._stack and self._state in (_ATOM, _ATOM_END) and not cut:
            # At the end of the input a word may be cut, so it must be a literal.
            text = _constant("".join(self._atom))
            if text:
                self._atom.clear()
                self._sink.append(text)
                self.done = True
                self._flush()
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        self.text = ""
        state = self._state
        if not self._stack or state not in (_NEXT, _ITEM, _KEY, _STRING_END):
            return False
        if state == _STRING_END:
            if self._role == _AS_KEY:
                return False
            self._string_ends(0)
        missing = [_CLOSERS[bracket] for bracket in reversed(self._stack)]
        while self._stack:
            self._close_bracket()
        self.notes.append(("repaired", f"missing {''.join(missing)} added", 0))
        self.error = ""
        self._flush()
        return True

    # -- output

    def _flush(self) -> None:
        out = self._out
        if self._key_from >= 0 and not self._marks:
            self._key += out[self._key_from :]
            self._key_from = 0
        if len(out) == 1:
            self.text = out.pop()
        else:
            self.text = "".join(out)
            out.clear()
        if not self.kind:
            self.kind = self.text[:1]

    def _separate(self) -> None:
        """An element begins: the comma before it was not a trailing one."""
        if self._comma:
            self._comma = False
            self._sink.append(", ")

    def _mark(self) -> None:
        """From here on the output is held."""
        self._sink = self._held
        self._marks.append(len(self._held))
        self._held.append("")

    def _decide(self, text: str, *, drop: bool = False) -> None:
        """Fill the last gap, or ``drop`` what came since."""
        mark = self._marks.pop()
        if drop:
            del self._held[mark:]
        else:
            self._held[mark] = text
        if not self._marks:
            self._out += self._held
            self._held.clear()
            self._sink = self._out

    def _fail(self, state: int) -> int:
        self.error = _EXPECTED[state]
        return -1

    # -- structure: each method returns how far it got, or -1 to stop

    def _begin_value(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char == "[":
            self._separate()
            stack = self._stack
            n = len(buf)
            end = pos
            while end < n and buf[end] == "[":
                stack.append(_LIST)
                end += 1
            self._sink.append(buf[pos:end])
            self._state = _ITEM
            return end
        if char in _QUOTES:
            self._role = _AS_VALUE
            return self._begin_string(buf, pos, final, "")
        if char in "({":
            self._separate()
            self._mark()
            self._stack.append(_PAREN if char == "(" else _BRACE)
            self._state = _ITEM
            return pos + 1
        if char in "+-" or in_word(char):
            return self._begin_atom(_AS_VALUE, char, pos)
        if self._state == _ITEM and char == _CLOSERS[self._stack[-1]]:
            self._close_bracket()
            return pos + 1
        return self._fail(self._state)

    def _begin_key(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in _QUOTES:
            self._role = _AS_KEY
            return self._begin_string(buf, pos, final, "")
        if char == _CLOSERS[self._stack[-1]]:
            self._close_bracket()
            return pos + 1
        if char in "+-" or in_word(char):
            return self._begin_atom(_AS_KEY, char, pos)
        return self._fail(_KEY)

    def _next(self, char: str, pos: int) -> int:
        top = self._stack[-1]
        if char == _CLOSERS[top]:
            self._close_bracket()
        elif char == ",":
            if top >= _PAREN:
                self._stack[-1] = _TUPLE if top == _PAREN else _SET
                self._decide("[")
            self._comma = True
            self._state = _KEY if top in (_CALL, _MEMBERS, _DICT) else _ITEM
        elif char == ":" and top == _BRACE and self._simple:
            if not self._sink[-1].endswith('"'):
                self._sink[-1] = f'"{self._sink[-1]}"'
            self._stack[-1] = _DICT
            self._objects.append(None)
            self._key_ends("".join(self._held[self._marks[-1] + 1 :]), pos)
            self._decide("{")
            self._sink.append(": ")
            self._state = _VALUE
        else:
            return self._fail(_NEXT)
        return pos + 1

    def _close_bracket(self) -> None:
        top = self._stack.pop()
        if top in (_DICT, _MEMBERS):
            self._objects.pop()
        if top < _PAREN:
            self._sink.append(_JSON_CLOSERS[top])
        elif self._state == _NEXT:
            self._sink.append("" if top == _PAREN else "]")
            self._decide("" if top == _PAREN else "[")
        else:
            self._sink.append("]" if top == _PAREN else "}")
            self._decide("[" if top == _PAREN else "{")
        self._comma = False
        self._value_ends(simple=False)

    def _value_ends(self, *, simple: bool) -> None:
        self._simple = simple
        self._state = _NEXT
        if not self._stack:
            self.done = True
        elif self._skips and len(self._stack) == 1:
            self._skips = False
            self._decide("", drop=True)

    # -- strings

    def _begin_string(self, buf: str, pos: int, final: bool, prefix: str) -> int:
        quote = buf[pos]
        known = len(buf) - pos
        if known == 1 or buf[pos + 1] == quote:
            if known <= 2 and not final:
                return -1
            if buf.startswith(quote * 3, pos):
                quote *= 3
        self._atom.clear()
        if self._pending:
            self._pending = False
        else:
            self._separate()
            if self._role == _AS_KEY:
                self._key_from = len(self._sink)
            self._sink.append('"')
        self._quote = quote
        self._prefix = prefix
        self._stops = quote[0] + ("\\{}" if "f" in prefix else "\\")
        self._state = _STRING
        return pos + len(quote)

    def _special(self, buf: str, pos: int, final: bool) -> int:
        """A backslash, a quote, or a brace of an f-string."""
        char = buf[pos]
        if char == "\\":
            return self._escape(buf, pos)
        if char in _QUOTES:
            quote = self._quote
            closes = _YES
            if not buf.startswith(quote, pos):
                closes = _MORE if quote.startswith(buf[pos : pos + 3]) else _NO
            elif self._loose and self._stack:
                closes = self._closes(buf, pos + len(quote), final)
            if closes == _YES:
                self._state = _STRING_END
                self._pending = True
                if self._loose or not self._stack:
                    self._string_ends(pos + len(quote))
                return pos + len(quote)
            if closes == _MORE:
                return -1
            self._sink.append('\\"' if char == '"' else char)
            return pos + 1
        if pos + 1 == len(buf):
            return -1
        if buf[pos + 1] != char:
            return self._fail(_STRING)
        self._sink.append(char)
        return pos + 2

    def _escape(self, buf: str, pos: int) -> int:
        if pos + 1 == len(buf):
            return -1
        if "r" in self._prefix:
            end = pos + (1 if buf[pos + 1] in "{}" else 2)  # braces are doubled in an f-string
            self._sink.append(escaped(buf[pos:end]))
            return end
        simple = _ESCAPED.get(buf[pos + 1])
        if simple is not None:
            self._sink.append(simple)
            return pos + 2
        escape = _ESCAPE.match(buf, pos)
        assert escape is not None  # noqa: S101 - any character may follow
        if escape.lastgroup == "begun":
            return -1
        self._sink.append(_escaped(escape))
        return escape.end()

    def _behind_string(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in _QUOTES:
            return self._begin_string(buf, pos, final, "")
        if char in _PREFIX_LETTERS:
            self._numeric = False
            self._state = _ATOM
            return pos
        self._string_ends(pos)
        return pos

    def _string_ends(self, pos: int) -> None:
        self._pending = False
        self._sink.append('"')
        if self._role == _AS_KEY:
            self._state = _COLON
            self._key_ends("".join(self._key) + "".join(self._sink[self._key_from :]), pos)
            self._key.clear()
            self._key_from = -1
        else:
            self._value_ends(simple=True)

    def _key_ends(self, text: str, at: int) -> None:
        """A key of a dict is complete; ``text``: the JSON string that it comes to."""
        key: str = json.loads(text) if "\\" in text else text[1:-1]
        if is_repeated(self._objects, key):
            self.notes.append(("duplicate_argument", key[:80], at))

    def _closes(self, buf: str, at: int, final: bool) -> int:
        """Whether a loose string ends here: what stands at ``at`` can follow a string."""
        limit = at + BOUND
        n = min(len(buf), limit)
        unknown = _NO if len(buf) >= limit else _YES if final else _MORE
        top = self._stack[-1]
        at = _skip(buf, at, n)
        if at == n:
            return unknown
        char = buf[at]
        if char == ":":
            return _YES if self._role == _AS_KEY or top == _BRACE else _NO
        if self._role == _AS_KEY:
            return _NO
        if char == ",":
            at = _skip(buf, at + 1, n)
            if at == n:
                return unknown
            char = buf[at]
            if char != _CLOSERS[top]:
                return self._element_follows(buf, at, n, unknown)
        if char != _CLOSERS[top]:
            return _NO
        return _call_ends(buf, at + 1, n, unknown) if top == _CALL else _YES

    def _element_follows(self, buf: str, at: int, n: int, unknown: int) -> int:
        """Whether the next element begins behind a comma."""
        top = self._stack[-1]
        char = buf[at]
        if top != _CALL and (char in _QUOTES or (char in _LOOSE_STARTS and top >= _LIST)):
            return _YES
        name = _LOOSE_NAME.match(buf, at, n)
        if name is None or not name.group().isidentifier():
            return _NO
        at = name.end() if top >= _LIST else _skip(buf, name.end(), n)
        if at == n:
            return unknown
        if top >= _LIST:
            return _YES if name.group() in WORDS else _NO
        if buf[at] != "=" or top != _CALL:
            return _YES if buf[at] == ":" else _NO
        if at + 1 == n:
            return unknown
        return _NO if buf[at + 1] == "=" else _YES

    # -- numbers and words

    def _begin_atom(self, role: int, char: str, pos: int) -> int:
        self._role = role
        self._numeric = char in _NUMBER_STARTS
        self._state = _ATOM
        if char not in "+-":
            return pos
        self._atom.append(char)
        return pos + 1

    def _behind_atom(self, buf: str, pos: int, final: bool) -> int:
        """The run of an atom's characters is over."""
        char = buf[pos]
        if self._numeric and char in "+-" and self._atom[-1][-1] in "eE":
            self._numeric = False  # there is one exponent at most
            self._atom.append(char)
            return pos + 1
        if char in _QUOTES:
            prefix = "".join(self._atom).lower()
            if prefix in _PREFIXES:
                if self._role == _AS_ARGUMENT and not self._take_position(pos):
                    return self._fail(_NAME)
                return self._begin_string(buf, pos, final, prefix)
        if char in _BLANKS and self._stack:
            self._state = _ATOM_END
            return pos
        return self._atom_ends(buf, pos)

    def _whole_atom(self) -> str:
        atom = self._atom
        return atom[0] if len(atom) == 1 else "".join(atom)

    def _take_position(self, pos: int) -> bool:
        """What was taken for an argument's name is its value.  False: that cannot be."""
        raise NotImplementedError

    def _atom_ends(self, buf: str, pos: int) -> int:
        """The next character that is not blank shows what an atom is."""
        char = buf[pos]
        if self._pending:
            return self._fail(_NEXT)
        text = self._whole_atom()
        value = _constant(text)
        if not value and self._stack and char in _BEHIND_WORD and _is_word(text):
            value = encode_basestring(text)
        if not value:
            return self._fail(_ATOM)
        if self._role == _AS_KEY and char != ":":
            return self._fail(_COLON)
        if self._role == _AS_ARGUMENT and not self._take_position(pos):
            return self._fail(_NAME)
        if value[0] == '"' and char != ":":
            self.notes.append(("coerced_to_string", text[:80], pos))
        self._atom.clear()
        self._separate()
        if self._role == _AS_KEY:
            value = value if value[0] == '"' else f'"{value}"'
            self._sink.append(value)
            self._key_ends(value, pos)
            self._state = _COLON
        else:
            self._sink.append(value)
            self._value_ends(simple=True)
        return pos


class PythonArguments(PythonValue):
    """The arguments of a call, from the opening parenthesis to the one that closes it.

    An object as the only argument stands for its members.
    """

    __slots__ = ("_function", "_named", "_only", "_seen", "_tools")

    def __init__(self, *, loose: bool = False, tools: Tools | None = None, function: str = "") -> None:
        """``tools``: these give names to arguments that come without, in order; else that is an error.

        Not if ``loose``: there ``, 'b'`` goes on with the string before it.
        """
        super().__init__(loose=loose)
        self._state = _OPEN
        self._tools: Final = None if loose else tools
        self._function: Final = function
        self._seen: set[str] = set()
        self._named = False
        self._only = False  # there was an object, so nothing else may come

    def _begin_key(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if self._stack[-1] != _CALL or char == ")":
            return super()._begin_key(buf, pos, final)
        if char == "{" and not self._seen and not self._only:
            self._stack.append(_MEMBERS)
            self._objects.append(None)
            self._only = True
            return pos + 1
        if self._only:
            return self._fail(_END)
        if char in _QUOTES or char in "[({":
            if not self._take_position(pos):
                return self._fail(_NAME)
            self._state = _VALUE
            return pos
        if char in "+-" or in_word(char):
            return self._begin_atom(_AS_ARGUMENT, char, pos)
        return self._fail(_NAME)

    def _atom_ends(self, buf: str, pos: int) -> int:
        if self._role == _AS_ARGUMENT and buf[pos] in "=:":
            name = self._whole_atom()
            if not name.isidentifier():
                return self._fail(_NAME)
            self._atom.clear()
            self._named = True
            self._begin_argument(name, pos)
            self._sink.append(f'"{name}": ')
            self._state = _VALUE
            return pos + 1
        return super()._atom_ends(buf, pos)

    def _take_position(self, pos: int) -> bool:
        tools = self._tools
        if self._named or tools is None:
            return False
        names = tools.keys(self._function)
        count = len(self._seen)
        if names is None or count >= len(names):
            return False
        self._role = _AS_VALUE
        name = names[count]
        self._begin_argument(name, pos)
        self._sink.append(f"{encode_basestring(name)}: ")
        return True

    def _begin_argument(self, name: str, pos: int) -> None:
        if name in self._seen:
            self.notes.append(("duplicate_argument", name, pos))
            self._skips = True
            self._mark()
        self._seen.add(name)
        self._separate()


def _skip(buf: str, at: int, end: int) -> int:
    """Behind white space."""
    return _SPACE.match(buf, at, end).end()  # type: ignore[union-attr]


def _call_ends(buf: str, at: int, n: int, unknown: int) -> int:
    """Whether what stands behind a parenthesis can follow a call."""
    at = _skip(buf, at, n)
    if at == n:
        return unknown
    if buf[at] == ",":
        at = _skip(buf, at + 1, n)
        function = _LOOSE_FUNCTION.match(buf, at, n)
        if function is not None:
            at = _skip(buf, function.end(), n)
            return unknown if at == n else _YES if buf[at] == "(" else _NO
        if at == n:
            return unknown
    blank = False
    if buf[at] == "]":
        at += 1
        if at == n:
            return unknown
        blank = buf[at] in _BLANKS
    return _YES if blank or buf[at] == "<" or _SURROGATE.match(buf[at]) else _NO


def _escaped(escape: re.Match[str]) -> str:
    """An escape sequence as JSON writes what it stands for; an unknown one stands for itself."""
    kind = escape.lastgroup or ""
    source = escape[kind]
    char = escape.group()
    if kind == "continued":
        char = ""
    elif kind == "name":
        with suppress(KeyError):
            char = unicodedata.lookup(source)
    elif kind != "other":
        code = int(source, 8 if kind == "octal" else 16)
        if 0xD800 <= code <= 0xDFFF:
            return f"\\u{code:04x}"  # so that two halves of a pair meet again
        if code <= sys.maxunicode:
            char = chr(code)
    return escaped(char)


def _is_word(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _constant(text: str) -> str:
    """JSON for a number or one of Python's or JSON's words; nothing if it is neither.

    What JSON has no number for becomes a string.
    """
    word = WORDS.get(text)
    if word is not None:
        return word
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return text if len(text) <= MOST_DIGITS else encode_basestring(text)
    if text in _NOT_FINITE:
        return encode_basestring(text)
    if text[0] not in _NUMBER_STARTS:
        return ""
    digits = _GROUPING.sub("", text) if "_" in text else text
    if _DECIMAL.fullmatch(digits):
        number = number_to_json(digits)
    elif _RADIX.fullmatch(digits):
        # Longer ones than anybody writes take quadratic time, and Python refuses them.
        number = str(int(digits, 0)) if len(digits) <= BOUND else None
    else:
        return ""
    return encode_basestring(text) if number is None else number
