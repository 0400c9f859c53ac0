r"""Codecs that convert Python literals to JSON: the arguments of a call, or a single value.

``(city='Paris', days=[1, 2], dry=True)`` becomes ``{"city": "Paris", "days": [1, 2], "dry": true}``.

Theory of operation:

* Each codec is a state machine.  The open brackets are stored in a list, not on the call stack, so only
  memory limits the nesting.  Each character is read once, apart from look-aheads of at most ``BOUND``.
* The contents of a string are output as they arrive.  The closing quote is held back, because an
  adjacent string may continue the string.  An escape sequence is held back until it is complete.
* Numbers and words (*atoms* below) are held back until the next character: ``1`` may become
  ``1.5``, and ``r`` may be the prefix of a string.
* The meaning of ``(`` and ``{`` depends on the separator after the first element: ``(1)`` is a
  number, ``(1,)`` a list, ``{'a'}`` a list, ``{'a': 1}`` an object.  Until the separator arrives, the output
  is held back, with an empty entry in place of the JSON bracket (``_mark`` and ``_decide``).
* Whitespace is not copied.  A comma only sets a flag.  The comma is written when the next element begins, so
  a trailing comma is never written.
* Later input never changes the output so far, so a prefix of the input yields a prefix of the output.

The codecs accept more than Python: ``true``, ``false`` and ``null``, leading zeros, line breaks in any
string, unknown escapes (copied unchanged), unquoted keys, and unquoted words as strings.  Numbers that
are out of range (``schema/numbers.py``) become strings.  If an argument is repeated, only its
first value is output.  If a dict key is repeated, all values are output, and clients use the last one.
``diagnostics`` reports both kinds of repetition.

The option ``loose`` is for templates that do not escape strings.  For example, in ``x='print('a')'`` only the
last quote closes the string.  In this notation a quote ends a string only if the text after the quote can
follow a string.  This text is either the closing bracket of the container, or a comma and the next element
(in arguments, a comma and ``key=``).  The closing bracket of the arguments must be followed by the end of the
list of calls, the end of the input, a marker, or another call.
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
from ..compiler.argument_codec_base import Value
from ..mypyc_types import i64
from ..scan.character_runs import BOUND, escaped, in_word, run_until, same_run, word_run
from ..schema.null_and_boolean_spellings import WORDS
from ..schema.numbers import MOST_DIGITS, number_to_json
from .json_value import Keys, add_key

if TYPE_CHECKING:
    from ..schema.tools import Tools

_WHITESPACE: Final = " \t\r\n\f"
_SPACE: Final = re.compile(r"[ \t\r\n\f]*+")
_QUOTES: Final = "'\""
_PREFIXES: Final = frozenset(("r", "b", "u", "f", "rb", "br", "rf", "fr"))
_PREFIX_LETTERS: Final = "rbufRBUF"
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<partial>(?:[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}"
    r"|N(?:\{[A-Za-z0-9 -]{0,90})?|\r)\Z)"
    r"|(?P<octal>[0-7]{1,3})|x(?P<byte>[0-9a-fA-F]{2})|u(?P<half>[0-9a-fA-F]{4})|U(?P<full>[0-9a-fA-F]{8})"
    r"|N\{(?P<name>[A-Za-z0-9 -]{1,90})\}|(?P<continued>\r\n?)|(?P<other>.))"
)
_SIMPLE_ESCAPES: Final = {
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
"""Map from the character after a backslash to the JSON text of the escape."""

_ATOM_CHARACTERS: Final = r"0-9A-Za-z_\x80-\ud7ff\ue000-\U0010ffff"
"""Characters that an atom may contain, as in a regular expression's ``[...]``.

This is a superset of the characters in identifiers, so complete words are checked with ``str.isidentifier``.
"""
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in ("inf", "nan", "Infinity", "NaN")
)
_NUMBER_STARTS: Final = "+-.0123456789"
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_RADIX: Final = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]++|[oO][0-7]++|[bB][01]++)")
_GROUPING: Final = re.compile(r"(?<=[0-9a-fA-FxXoO])_(?=[0-9a-fA-F])")
_AFTER_WORD: Final = ",)]}:"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

# Constants of the state machine.  They are plain integers, because compiled code keeps integers in registers.
#
# States, named after what the codec expects next.  The last two only select an error message.
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
# Roles of a string or an atom.  _AS_ARGUMENT means either the name of an argument or a positional value.
_AS_VALUE: Final = 0
_AS_KEY: Final = 1
_AS_ARGUMENT: Final = 2
# Kinds of open brackets: the parenthesis of the call (_CALL), the brace of an object whose members become the
# arguments (_MEMBERS), and containers.  _PAREN and _BRACE are undecided until the first separator, which
# turns them into one of the other kinds.
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
# Answers to the question whether a quote closes a string in loose notation.  _MORE means that the answer
# depends on input that has not arrived.
_NO: Final = 0
_YES: Final = 1
_MORE: Final = 2

_LOOSE_NAME: Final = re.compile(f"[{_ATOM_CHARACTERS}]++")
_LOOSE_FUNCTION: Final = re.compile(r"[^\s<>{}()\[\]\"'|｜,=]++")
_LOOSE_STARTS: Final = frozenset("'\"[({+-.0123456789")


class PythonValue(Value):
    """Codec for one Python literal."""

    __slots__ = (
        "_atom",
        "_comma",
        "_discards",
        "_held",
        "_key",
        "_key_from",
        "_loose",
        "_marks",
        "_may_continue",
        "_numeric",
        "_objects",
        "_out",
        "_prefix",
        "_quote",
        "_role",
        "_simple",
        "_sink",
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
        self._simple = False  # The last value is a scalar, so it may turn out to be a dict key.
        # _out is output that is final.  _held is output that is held back, and _marks are the indices of its
        # undecided brackets.  New output is appended to _sink, which is one of these two lists.
        self._out: list[str] = []
        self._held: list[str] = []
        self._marks: list[int] = []
        self._sink = self._out
        self._discards = False  # The argument repeats an earlier one, so its value is not output.
        # The next three attributes: the keys of each open dict; the index in the output at which the current
        # key begins, or -1; and the part of the current key that earlier steps have output.
        self._objects: Final[list[Keys]] = []
        self._key_from: i64 = -1
        self._key: list[str] = []
        # State of the current string or atom.
        self._role = _AS_VALUE
        self._quote = ""
        self._prefix = ""
        self._stops = ""  # Characters that cannot be copied unchanged from the string.
        self._may_continue = False  # A string has just ended, and an adjacent string may continue it.
        self._atom: list[str] = []
        self._numeric = False

    def step(self, buf: str, pos: int, final: bool) -> int:  # noqa: C901 - one branch for each state
        n = len(buf)
        # Fast path: the whole delta lies inside a string, and none of it has to be escaped for JSON.
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
                after = self._read_special(buf, pos, final)
            elif state == _ATOM:
                end = word_run(buf, pos)
                if end > pos:
                    self._atom.append(buf[pos:end])
                    pos = end
                    if pos == n:
                        break
                after = self._after_atom(buf, pos, final)
            elif ord(buf[pos]) <= 0x20 and buf[pos] in _WHITESPACE:
                after = pos + 1
            elif state == _NEXT:
                after = self._read_next(buf[pos], pos)
            elif state <= _ITEM:
                after = self._begin_value(buf, pos, final)
            elif state == _STRING_END:
                after = self._after_string(buf, pos, final)
            elif state == _KEY:
                after = self._begin_key(buf, pos, final)
            elif state == _ATOM_END:
                after = self._end_atom(buf, pos)
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
            # An unquoted word may be truncated here, so it is not accepted as a string.
            text = _literal_to_json("".join(self._atom))
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
            self._end_string(0)
        missing = [_CLOSERS[bracket] for bracket in reversed(self._stack)]
        while self._stack:
            self._close_bracket()
        self.diagnostics.append(("repaired", f"missing {''.join(missing)} added", 0))
        self.error = ""
        self._flush()
        return True

    # -- output

    def _flush(self) -> None:
        """Move the output that is final to ``text``."""
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
        """Write the pending comma, which is not a trailing comma because another element follows."""
        if self._comma:
            self._comma = False
            self._sink.append(", ")

    def _mark(self) -> None:
        """Start to hold back output, beginning with an empty entry for an undecided bracket."""
        self._sink = self._held
        self._marks.append(len(self._held))
        self._held.append("")

    def _decide(self, text: str, *, drop: bool = False) -> None:
        """Fill the last empty entry with ``text``, or, if ``drop``, remove the entry and all later output."""
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

    # -- structure: each method returns the position up to which it has read, or -1 to stop the step

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

    def _read_next(self, char: str, pos: int) -> int:
        """Read the comma, colon or closing bracket after a value."""
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
            self._end_key("".join(self._held[self._marks[-1] + 1 :]), pos)
            self._decide("{")
            self._sink.append(": ")
            self._state = _VALUE
        else:
            return self._fail(_NEXT)
        return pos + 1

    def _close_bracket(self) -> None:
        """Close the innermost bracket.

        If the kind of the bracket was undecided, decide now: it is a list, an object, or parentheses around a
        single value, which are removed.
        """
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
        self._end_value(simple=False)

    def _end_value(self, *, simple: bool) -> None:
        self._simple = simple
        self._state = _NEXT
        if not self._stack:
            self.done = True
        elif self._discards and len(self._stack) == 1:
            self._discards = False
            self._decide("", drop=True)

    # -- strings

    def _begin_string(self, buf: str, pos: int, final: bool, prefix: str) -> int:
        quote = buf[pos]
        available = len(buf) - pos
        if available == 1 or buf[pos + 1] == quote:
            if available <= 2 and not final:  # may be the beginning of a triple quote
                return -1
            if buf.startswith(quote * 3, pos):
                quote *= 3
        self._atom.clear()
        if self._may_continue:
            self._may_continue = False
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

    def _read_special(self, buf: str, pos: int, final: bool) -> int:
        """Read a backslash, a quote, or a brace of an f-string."""
        char = buf[pos]
        if char == "\\":
            return self._read_escape(buf, pos)
        if char in _QUOTES:
            quote = self._quote
            closes = _YES
            if not buf.startswith(quote, pos):
                closes = _MORE if quote.startswith(buf[pos : pos + 3]) else _NO
            elif self._loose and self._stack:
                closes = self._ends_loose_string(buf, pos + len(quote), final)
            if closes == _YES:
                self._state = _STRING_END
                self._may_continue = True
                if self._loose or not self._stack:
                    self._end_string(pos + len(quote))
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

    def _read_escape(self, buf: str, pos: int) -> int:
        if pos + 1 == len(buf):
            return -1
        if "r" in self._prefix:
            # A brace after the backslash is read separately, because an f-string doubles it.
            end = pos + (1 if buf[pos + 1] in "{}" else 2)
            self._sink.append(escaped(buf[pos:end]))
            return end
        simple = _SIMPLE_ESCAPES.get(buf[pos + 1])
        if simple is not None:
            self._sink.append(simple)
            return pos + 2
        escape = _ESCAPE.match(buf, pos)
        assert escape is not None  # noqa: S101 - any character may follow
        if escape.lastgroup == "partial":
            return -1
        self._sink.append(_escape_to_json(escape))
        return escape.end()

    def _after_string(self, buf: str, pos: int, final: bool) -> int:
        """Continue with an adjacent string or its possible prefix; if neither follows, end the string."""
        char = buf[pos]
        if char in _QUOTES:
            return self._begin_string(buf, pos, final, "")
        if char in _PREFIX_LETTERS:
            self._numeric = False
            self._state = _ATOM
            return pos
        self._end_string(pos)
        return pos

    def _end_string(self, pos: int) -> None:
        self._may_continue = False
        self._sink.append('"')
        if self._role == _AS_KEY:
            self._state = _COLON
            self._end_key("".join(self._key) + "".join(self._sink[self._key_from :]), pos)
            self._key.clear()
            self._key_from = -1
        else:
            self._end_value(simple=True)

    def _end_key(self, text: str, at: int) -> None:
        """Record a complete dict key, given as a JSON string."""
        key: str = json.loads(text) if "\\" in text else text[1:-1]
        if add_key(self._objects, key):
            self.diagnostics.append(("duplicate_argument", key[:80], at))

    def _ends_loose_string(self, buf: str, at: int, final: bool) -> int:
        """Return whether the quote before ``at`` ends a string in loose notation, given the text after it.

        The string ends if the text at ``at`` is a closing bracket, a comma with another element, or (if the
        string is a key) a colon.
        """
        limit = at + BOUND
        n = min(len(buf), limit)
        undecided = _NO if len(buf) >= limit else _YES if final else _MORE
        top = self._stack[-1]
        at = _skip_whitespace(buf, at, n)
        if at == n:
            return undecided
        char = buf[at]
        if char == ":":
            return _YES if self._role == _AS_KEY or top == _BRACE else _NO
        if self._role == _AS_KEY:
            return _NO
        if char == ",":
            at = _skip_whitespace(buf, at + 1, n)
            if at == n:
                return undecided
            char = buf[at]
            if char != _CLOSERS[top]:
                return self._begins_element(buf, at, n, undecided)
        if char != _CLOSERS[top]:
            return _NO
        return _fits_after_call(buf, at + 1, n, undecided) if top == _CALL else _YES

    def _begins_element(self, buf: str, at: int, n: int, undecided: int) -> int:
        """Return whether the text at ``at``, which follows a comma, begins another element."""
        top = self._stack[-1]
        char = buf[at]
        if top != _CALL and (char in _QUOTES or (char in _LOOSE_STARTS and top >= _LIST)):
            return _YES
        name = _LOOSE_NAME.match(buf, at, n)
        if name is None or not name.group().isidentifier():
            return _NO
        at = name.end() if top >= _LIST else _skip_whitespace(buf, name.end(), n)
        if at == n:
            return undecided
        if top >= _LIST:
            return _YES if name.group() in WORDS else _NO
        if buf[at] != "=" or top != _CALL:
            return _YES if buf[at] == ":" else _NO
        if at + 1 == n:
            return undecided
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

    def _after_atom(self, buf: str, pos: int, final: bool) -> int:
        """Process the first character that cannot belong to the number or word before it."""
        char = buf[pos]
        if self._numeric and char in "+-" and self._atom[-1][-1] in "eE":
            self._numeric = False  # a number has at most one exponent
            self._atom.append(char)
            return pos + 1
        if char in _QUOTES:
            prefix = "".join(self._atom).lower()
            if prefix in _PREFIXES:
                if self._role == _AS_ARGUMENT and not self._take_positional(pos):
                    return self._fail(_NAME)
                return self._begin_string(buf, pos, final, prefix)
        if char in _WHITESPACE and self._stack:
            self._state = _ATOM_END
            return pos
        return self._end_atom(buf, pos)

    def _joined_atom(self) -> str:
        atom = self._atom
        return atom[0] if len(atom) == 1 else "".join(atom)

    def _take_positional(self, pos: int) -> bool:
        """Treat a word that looked like the name of an argument as a positional argument.

        Return False if a positional argument is not allowed here.
        """
        raise NotImplementedError

    def _end_atom(self, buf: str, pos: int) -> int:
        """Convert a complete number or word, whose role depends on the next non-whitespace character."""
        char = buf[pos]
        if self._may_continue:
            return self._fail(_NEXT)
        text = self._joined_atom()
        value = _literal_to_json(text)
        if not value and self._stack and char in _AFTER_WORD and _is_word(text):
            value = encode_basestring(text)
        if not value:
            return self._fail(_ATOM)
        if self._role == _AS_KEY and char != ":":
            return self._fail(_COLON)
        if self._role == _AS_ARGUMENT and not self._take_positional(pos):
            return self._fail(_NAME)
        if value[0] == '"' and char != ":":
            self.diagnostics.append(("coerced_to_string", text[:80], pos))
        self._atom.clear()
        self._separate()
        if self._role == _AS_KEY:
            value = value if value[0] == '"' else f'"{value}"'
            self._sink.append(value)
            self._end_key(value, pos)
            self._state = _COLON
        else:
            self._sink.append(value)
            self._end_value(simple=True)
        return pos


class PythonArguments(PythonValue):
    """Codec for the arguments of a call, from the opening to the closing parenthesis.

    If the only argument is an object, its members become the arguments.
    """

    __slots__ = ("_function", "_has_object", "_named", "_seen", "_tools")

    def __init__(self, *, loose: bool = False, tools: Tools | None = None, function: str = "") -> None:
        """Create a codec.

        :param loose: true for the notation in which strings are not escaped.  In this notation positional
            arguments are errors, because in ``('a', 'b')`` the text ``, 'b'`` could belong to the first
            string.
        :param tools: tools of the request, whose schemas give the names of positional arguments, in order.
            Without tools a positional argument is an error.
        """
        super().__init__(loose=loose)
        self._state = _OPEN
        self._tools: Final = None if loose else tools
        self._function: Final = function
        self._seen: set[str] = set()
        self._named = False
        self._has_object = False  # an object replaced the arguments, so no other argument may follow

    def _begin_key(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if self._stack[-1] != _CALL or char == ")":
            return super()._begin_key(buf, pos, final)
        if char == "{" and not self._seen and not self._has_object:
            self._stack.append(_MEMBERS)
            self._objects.append(None)
            self._has_object = True
            return pos + 1
        if self._has_object:
            return self._fail(_END)
        if char in _QUOTES or char in "[({":
            if not self._take_positional(pos):
                return self._fail(_NAME)
            self._state = _VALUE
            return pos
        if char in "+-" or in_word(char):
            return self._begin_atom(_AS_ARGUMENT, char, pos)
        return self._fail(_NAME)

    def _end_atom(self, buf: str, pos: int) -> int:
        if self._role == _AS_ARGUMENT and buf[pos] in "=:":
            name = self._joined_atom()
            if not name.isidentifier():
                return self._fail(_NAME)
            self._atom.clear()
            self._named = True
            self._begin_argument(name, pos)
            self._sink.append(f'"{name}": ')
            self._state = _VALUE
            return pos + 1
        return super()._end_atom(buf, pos)

    def _take_positional(self, pos: int) -> bool:
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
            self.diagnostics.append(("duplicate_argument", name, pos))
            self._discards = True
            self._mark()
        self._seen.add(name)
        self._separate()


def _skip_whitespace(buf: str, at: int, end: int) -> int:
    """Return the position after any whitespace at ``at``."""
    return _SPACE.match(buf, at, end).end()  # type: ignore[union-attr]


def _fits_after_call(buf: str, at: int, n: int, undecided: int) -> int:
    """Return whether the text after a closing parenthesis can follow a call."""
    at = _skip_whitespace(buf, at, n)
    if at == n:
        return undecided
    if buf[at] == ",":
        at = _skip_whitespace(buf, at + 1, n)
        function = _LOOSE_FUNCTION.match(buf, at, n)
        if function is not None:
            at = _skip_whitespace(buf, function.end(), n)
            return undecided if at == n else _YES if buf[at] == "(" else _NO
        if at == n:
            return undecided
    has_space = False
    if buf[at] == "]":
        at += 1
        if at == n:
            return undecided
        has_space = buf[at] in _WHITESPACE
    return _YES if has_space or buf[at] == "<" or _SURROGATE.match(buf[at]) else _NO


def _escape_to_json(escape: re.Match[str]) -> str:
    """Return the JSON form of an escape sequence in a Python string.  Copy an unknown escape unchanged."""
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
            # A surrogate stays an escape, so that both halves of a pair still form one character in JSON.
            return f"\\u{code:04x}"
        if code <= sys.maxunicode:
            char = chr(code)
    return escaped(char)


def _is_word(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _literal_to_json(text: str) -> str:
    """Return JSON for a number, or for a word such as ``True`` or ``null``.

    Numbers that JSON cannot express become strings.  For any other text, return an empty string.
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
        # Converting a long number takes quadratic time, and Python itself rejects very long numbers.
        number = str(int(digits, 0)) if len(digits) <= BOUND else None
    else:
        return ""
    return encode_basestring(text) if number is None else number
