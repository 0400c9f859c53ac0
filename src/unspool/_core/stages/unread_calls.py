"""Detector of unread calls: text of an output that looks like a call of some dialect, but is not a call.

Theory of operation
-------------------

Users see such text in the answer, and the tool is not called.  The reason is usually that the output is in
another dialect, that a server has removed markers, or that the model has changed a marker.  The detector
reports each such text with a diagnostic; it never changes events.

The ledger passes on all text of the output in large pieces, because any work for a single chunk would slow
down prose.  The pieces may be split anywhere.  The detector searches the text for *candidates*:

* the opening marker of a call in any registered dialect, also with small changes such as doubled bars,
* an object that may contain the name of a declared tool,
* a list with a call of a declared tool in Python syntax.

It examines a candidate once the next ``WINDOW`` characters have arrived, or the text has ended, so the
result does not depend on chunking.  Until then, it keeps the text from the candidate on.  A candidate is an
unread call in these cases:

=========  ==========================================================================================
candidate  condition
=========  ==========================================================================================
marker     only markup is between the marker and the name of a declared tool, and arguments follow
marker     the parser of a dialect with this marker reads a complete call
object     it contains the name of a declared tool, and arguments that fit the schema of this tool
list       the parser of ``pythonic`` reads a complete call whose arguments fit the schema
=========  ==========================================================================================

Quoted text, block quotes and code fences are no candidates, because they are about calls.  Reasoning is often
about calls as well, so unread calls in it are reported only if the output has no calls and no content.

The number of candidates that are examined is limited, so the work is linear in the length of the output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...dialects import list_dialects
from ...dialects.parse_templates import (
    Attributes,
    LineFeed,
    Literal,
    Space,
    first_literal,
    only_at_start,
    parse_template,
    reading_pieces,
    template_text,
)
from ...events import CallArgs, CallEnd, CallStart, Diagnostic, Event
from ...policies import DEFAULTS
from ..compile_cache import compiled_dialect
from ..ledger import TextObserver
from ..machine import Machine
from ..schema.mismatch import find_mismatch
from ..schema.tools import Tools

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Channel

WINDOW: Final = 65_536
"""Maximum number of characters of an unread call."""
_BEFORE: Final = 256
"""Number of characters in front of a candidate that show whether it is quoted."""
_LONGEST_TOKEN: Final = 512
"""Maximum number of characters of a match of the patterns below."""
_PIECE: Final = 1024
"""Number of characters that such a parser reads at once."""
_WASTE: Final = 4096
_WASTE_PER_CHARACTER: Final = 4
"""Maximum number of characters that such parsers read in vain, and how it grows with the offset."""
_MOST_EXAMINED: Final = 32
"""Maximum number of candidates of an output that are examined."""
_MOST_REPORTED: Final = 16
"""Maximum number of unread calls of an output that are reported."""
_MOST_PARSED: Final = 6
"""Maximum number of dialects whose parsers try to read the text after a marker."""
_MOST_PATTERNS: Final = 64
"""Maximum number of sets of tools whose patterns are kept."""
_DEEPEST: Final = 4
"""Maximum depth at which an object may contain a call."""
_PARSED: Final = 16_384
"""Maximum number of characters that a parser reads after a marker."""
_SPECIAL: Final = ("<", "[", "{", "]", "```", "~~~")
"""Texts with one of which every candidate and every code fence begins, or which it contains."""

_FENCE: Final = re.compile(r"^[ \t>]{0,16}(?:[-*+] +|\d{1,3}[.)] +)?(```|~~~)", re.MULTILINE)
_OBJECT: Final = re.compile(r'\{\s{0,80}"')
_QUOTES: Final = frozenset("\"'`\u201c\u201d\u2018\u2019\xab\xbb\u201e")
_BARS: Final = re.compile(r"\s*[|｜]+\s*")
_SYNTAX: Final = re.compile(r"[{\"=.:\n]")
_DECODER: Final = json.JSONDecoder()


class UnreadCall(NamedTuple):
    """Text that looks like a call, but is not a call."""

    start: int
    """Offset of the text in the output."""
    text: str
    dialect: str
    """Name of the dialect that the text looks like."""
    name: str
    """Name of the function."""
    channel: Channel

    @property
    def diagnostic(self) -> Diagnostic:
        """Diagnostic that reports the call."""
        detail = f"this looks like a call of {self.name} in the dialect {self.dialect}"
        return Diagnostic("unread_call", detail, self.start, self.start, self.text)


class UnreadCalls(TextObserver):
    """Detector of unread calls in the text of one output."""

    __slots__ = ("_dialect", "_reads_reasoning", "_search", "_tools")

    def __init__(self, dialect: Dialect, tools: Tools, reads_reasoning: bool) -> None:
        """Create a detector for an output in this dialect.

        :param reads_reasoning: whether calls in reasoning are calls.
        """
        super().__init__()
        self._dialect = dialect
        self._tools = tools
        self._reads_reasoning = reads_reasoning
        self._search: _TextSearch | None = None

    def feed(self, channel: Channel, text: str, start: int) -> None:
        """Take more text, which begins at offset ``start`` of the output."""
        if channel == "reasoning" and not self._reads_reasoning:
            return
        if self._search is None:
            self._search = _TextSearch(self._dialect, self._tools)
        self.is_waiting = self._search.feed(channel, text, start)

    def finish(self, *, has_answer: bool) -> list[Event]:
        """End the output, and return a diagnostic for each unread call.

        :param has_answer: whether the output has content or calls.
        """
        if self._search is None:
            return []
        return [
            call.diagnostic for call in self._search.finish() if call.channel == "content" or not has_answer
        ]


class _TextSearch:
    """Search for unread calls."""

    __slots__ = (
        "_at",
        "_base",
        "_channel",
        "_dialect",
        "_end",
        "_examined",
        "_fences",
        "_found",
        "_length",
        "_pieces",
        "_tool_patterns",
        "_tools",
        "_wait",
        "_wasted",
    )

    def __init__(self, dialect: Dialect, tools: Tools) -> None:
        self._dialect = dialect
        self._tools = tools
        self._tool_patterns: _ToolPatterns | None = None
        self._channel: Channel = "content"
        # The kept text: the end of the text that was searched, and the text that was not searched yet.
        self._pieces: list[str] = []
        self._length = 0
        self._base = 0  # offset of the kept text in the output
        self._at = 0  # index in the kept text at which the search continues
        self._end = -1  # offset just past the kept text
        self._wait = 0  # length of the kept text at which the search continues
        self._fences: dict[Channel, str] = {"content": "", "reasoning": ""}  # open code fences
        self._examined = 0
        self._wasted = 0  # number of characters that parsers have read in vain
        self._found: list[UnreadCall] = []

    def feed(self, channel: Channel, text: str, start: int) -> bool:
        """Take more text; return whether a candidate may begin in the part that was not searched yet."""
        if channel != self._channel or start != self._end:
            self._end_run()
            self._channel = channel
            self._base = start
        self._pieces.append(text)
        self._length += len(text)
        self._end = start + len(text)
        if self._length >= self._wait:
            self._continue(final=False)
        return bool(self._wait) or any(special in piece for piece in self._pieces for special in _SPECIAL)

    def finish(self) -> list[UnreadCall]:
        """End the text, and return all unread calls."""
        self._end_run()
        return self._found

    def _end_run(self) -> None:
        """End the text, because other text does not follow directly."""
        if self._pieces:
            self._continue(final=True)
        self._pieces.clear()
        self._length = self._at = self._wait = 0

    def _continue(self, *, final: bool) -> None:
        """Search the kept text, and drop the part of it that is no longer needed."""
        text = "".join(self._pieces)
        # A match must not depend on text that has not arrived yet.
        limit = len(text) if final else max(self._at, len(text) - _LONGEST_TOKEN)
        self._wait = 0
        at = limit
        if len(self._found) < _MOST_REPORTED and any(special in text for special in _SPECIAL):
            at = self._search(text, limit, final=final)
        cut = max(0, at - _BEFORE)
        self._pieces = [text[cut:]]
        self._length = len(text) - cut
        self._base += cut
        self._at = at - cut
        self._wait = max(0, self._wait - cut)

    def _search(self, text: str, limit: int, *, final: bool) -> int:
        """Examine the candidates that start before ``limit``; return the index at which to continue."""
        patterns = self._patterns
        at = self._at
        searches = [
            _Search(pattern, text, limit if any(need in text for need in needs) else -1)
            for pattern, needs in patterns.all
        ]
        objects = _Search(_OBJECT, text, limit) if patterns.quoted_name is not None else None
        while at < limit:
            if self._fences[self._channel]:
                fence = searches[0].next(at)
                if fence is None:
                    return limit
                self._toggle_fence(fence[1])
                at = fence.end()
                continue
            found = [search.next(at) for search in searches]
            obj = self._next_object(objects, text, at, final=final) if objects is not None else None
            match = min((m for m in (*found, obj) if m is not None), key=_start, default=None)
            if match is None:
                return limit
            start = match.start()
            if match is found[0]:
                self._toggle_fence(match[1])
                at = match.end()
            elif _is_quoted(text, start):
                at = start + 1
            elif not final and len(text) - start < WINDOW:
                self._wait = start + WINDOW
                return start
            elif self._examined == _MOST_EXAMINED:
                return limit
            else:
                self._examined += 1
                call = self._read_object(text, start) if match is obj else self._read_marked(text, match)
                at = start + 1
                if call is not None:
                    self._found.append(call)
                    at = start + len(call.text)
                    if len(self._found) == _MOST_REPORTED:
                        return limit
        return max(at, limit) if final else at

    def _toggle_fence(self, fence: str) -> None:
        fences, channel = self._fences, self._channel
        if not fences[channel]:
            fences[channel] = fence
        elif fences[channel] == fence:
            fences[channel] = ""

    @property
    def _patterns(self) -> _ToolPatterns:
        """Patterns for the tools of the request, which few outputs need."""
        if self._tool_patterns is None:
            self._tool_patterns = _tool_patterns(_vocabulary(), tuple(self._tools.names))
        return self._tool_patterns

    # -- objects

    def _next_object(self, objects: _Search, text: str, at: int, *, final: bool) -> re.Match[str] | None:
        """Return the next object that may contain the name of a declared tool."""
        quoted_name = self._patterns.quoted_name
        assert quoted_name is not None  # noqa: S101 - else there is no search for objects
        while True:
            match = objects.next(at)
            if match is None:
                return None
            name = objects.next_of(quoted_name, match.start())
            if name is None:
                if final:
                    return None
                # The name may arrive later.  Skip the objects that are too long already.
                if len(text) - match.start() < WINDOW:
                    return match
                at = max(match.start() + 1, len(text) - WINDOW + 1)
            elif name.start() - match.start() < WINDOW:
                return match
            else:
                at = max(match.start() + 1, name.start() - WINDOW + 1)

    def _read_object(self, text: str, start: int) -> UnreadCall | None:
        """Return the call that an object contains, if its arguments fit the schema of the tool."""
        try:
            value, length = _DECODER.raw_decode(text[start : start + WINDOW])
        except (ValueError, RecursionError):
            return None
        name = self._called_by(value, 0)
        if not name:
            return None
        dialect = self._dialect.name if _has_unmarked_calls(self._dialect) else _OBJECT_DIALECT
        return UnreadCall(self._base + start, text[start : start + length], dialect, name, self._channel)

    def _called_by(self, value: Any, depth: int) -> str:
        """Return the name of the declared tool that a JSON value calls, or an empty string."""
        if depth > _DEEPEST:
            return ""
        if isinstance(value, list):
            return next(filter(None, (self._called_by(item, depth + 1) for item in value)), "")
        if not isinstance(value, dict):
            return ""
        vocabulary = self._patterns.vocabulary
        for key in vocabulary.name_keys:
            name = value.get(key)
            if isinstance(name, str) and self._tools.declares(name):
                for args_key in vocabulary.args_keys:
                    if args_key in value and self._fits(name, value[args_key]):
                        return name
        if len(value) == 1:
            ((name, arguments),) = value.items()
            if self._tools.declares(name) and arguments and self._fits(name, arguments):
                return str(name)
        return next(filter(None, (self._called_by(item, depth + 1) for item in value.values())), "")

    def _fits(self, name: str, arguments: Any) -> bool:
        """Return whether arguments fit the schema of a declared tool and have no other keys."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return False
        if not isinstance(arguments, dict):
            return False
        known = self._tools.keys(name)
        if known is not None and not known and arguments:
            return False
        return (known is None or set(arguments).issubset(known)) and not find_mismatch(
            self._tools, name, json.dumps(arguments)
        )

    # -- markers

    def _read_marked(self, text: str, match: re.Match[str]) -> UnreadCall | None:
        """Return the call that begins with a marker, a list or a phrase, if there is one."""
        patterns, start = self._patterns, match.start()
        vocabulary = patterns.vocabulary
        if match.re is patterns.phrase:
            is_word = bool(start) and (text[start - 1].isalnum() or text[start - 1] in "._")
            owner = vocabulary.phrases[match["phrase"]]
            return None if is_word else self._named(text, start, match, owner)
        if match.re is patterns.list_of_calls:
            pythonic = vocabulary.pythonic
            call = None if pythonic is None else self._parsed(text, start, (pythonic,))
            # Code may contain a list of calls without arguments.
            has_arguments = call is not None and call[1] != "{}"
            return (
                call[0] if call is not None and has_arguments and self._fits(call[0].name, call[1]) else None
            )
        owners = vocabulary.openers[_normal_form(match.group())]
        # The dialect of the output comes first.
        owners = tuple(sorted(owners, key=lambda owner: owner.name != self._dialect.name))
        call = self._parsed(text, start, owners[:_MOST_PARSED])
        if call is not None:
            return call[0]
        head = None if patterns.head is None else patterns.head.match(text, match.end())
        # At the end of the output, a name alone is not enough: `Use <tool_call> now`
        if head is None or not (head["arguments"] or _SYNTAX.search(text, match.end(), head.start("name"))):
            return None
        return self._named(text, start, head, owners[0])

    def _named(self, text: str, start: int, match: re.Match[str], dialect: Dialect) -> UnreadCall:
        """Return a call that is known only up to the name in a match."""
        whole = text[start : match.end("name")]
        return UnreadCall(self._base + start, whole, dialect.name, match["name"], self._channel)

    def _parsed(self, text: str, start: int, dialects: Sequence[Dialect]) -> tuple[UnreadCall, str] | None:
        """Return the complete call that one of the dialects reads at an index, and its arguments."""
        window = text[start : start + _PARSED]
        for dialect in dialects:
            if self._wasted > _WASTE + _WASTE_PER_CHARACTER * (self._base + start):
                return None
            name, arguments, length = _first_call(dialect, self._tools, window)
            if not name:
                self._wasted += length
            else:
                whole = window[:length]
                return UnreadCall(self._base + start, whole, dialect.name, name, self._channel), arguments
        return None


class _Search:
    """Search for the matches of a pattern, each of which is found only once."""

    __slots__ = ("_has_other", "_limit", "_match", "_other", "_pattern", "_text")

    def __init__(self, pattern: re.Pattern[str], text: str, limit: int) -> None:
        self._pattern = pattern
        self._text = text
        self._limit = limit
        self._match: re.Match[str] | None = None
        self._other: re.Match[str] | None = None
        self._has_other = True

    def next(self, at: int) -> re.Match[str] | None:
        """Return the first match that starts at ``at`` or later, but before the limit."""
        if self._limit < 0:
            return None
        if self._match is None or self._match.start() < at:
            self._match = self._pattern.search(self._text, at)
            if self._match is None or self._match.start() >= self._limit:
                self._limit = -1
                return None
        return self._match

    def next_of(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """Return the first match of another pattern that starts at ``at`` or later."""
        if self._has_other and (self._other is None or self._other.start() < at):
            self._other = pattern.search(self._text, at)
            self._has_other = self._other is not None
        return self._other


def _start(match: re.Match[str]) -> int:
    return match.start()


def _is_quoted(text: str, at: int) -> bool:
    """Return whether text is quoted, by the text in front of it in the same line."""
    line = text[max(text.rfind("\n", 0, at) + 1, at - _BEFORE) : at]
    return (
        line[-1:] in _QUOTES
        or line.count("`") % 2 == 1
        or line.lstrip().startswith(">")
        or line.count("<code>") > line.count("</code>")
    )


def _first_call(dialect: Dialect, tools: Tools, text: str) -> tuple[str, str, int]:
    """Return the name, the arguments and the end of the call with which a text begins.

    If the parser of the dialect does not read a complete call there, the name is empty, and the last value is
    the number of characters that it has read.
    """
    compiled = compiled_dialect(dialect, True, tools.declared)
    machine = Machine(
        compiled,
        tools,
        DEFAULTS,
        base=0,
        keep_raw=False,
        new_id=_no_id,
        remove_calls=False,
    )
    name, arguments = "", ""
    is_marked, is_closed = False, True
    reader = _PieceReader(machine, text)
    for event in reader.events():
        if isinstance(event, Diagnostic):
            is_closed = is_closed and event.kind != "missing_closer"
        elif isinstance(event, CallStart):
            # A call whose name is not in the text is raw code, or a guess.
            if event.start or event.name_start == event.name_end or not tools.could_be(event.name):
                break
            name = event.name
            is_marked = text[event.name_start - 1] in "\"'="
        elif not name:
            break  # something else begins here
        elif isinstance(event, CallArgs):
            arguments += event.json
        elif isinstance(event, CallEnd):
            # A word after a marker is not a call, as in "between <tool_call> and </tool_call>".
            is_call = arguments != "{}" or (is_closed and (is_marked or tools.declares(name)))
            if event.status == "complete" and is_call:
                return name, arguments, event.end
            break
    return "", "", reader.length


class _PieceReader:
    """Reader of a text in pieces, because the beginning of the text is usually enough."""

    __slots__ = ("_machine", "_text", "length")

    def __init__(self, machine: Machine, text: str) -> None:
        self._machine = machine
        self._text = text
        self.length = 0
        """Number of characters that were read."""

    def events(self) -> Iterator[Event]:
        """Yield the events of the text."""
        while self.length < len(self._text):
            piece = self._text[self.length : self.length + _PIECE]
            self.length += len(piece)
            events = self._machine.feed(piece)
            yield from events
            if not events and not self._machine.call_open:
                return  # the head of a call is shorter
        yield from self._machine.finish(None)


def _no_id(_: str, index: int) -> str:
    return f"call_{index}"


# -- the markers of all dialects


class _Vocabulary(NamedTuple):
    """Markers and words with which calls begin in any registered dialect."""

    openers: Mapping[str, tuple[Dialect, ...]]
    """Map from the normal form of each opening marker to the dialects that use it."""
    opener: re.Pattern[str]
    """Pattern of all opening markers that contain punctuation, also with small changes."""
    words: str
    """Pattern of a word that may be between an opening marker and the name."""
    phrases: Mapping[str, Dialect]
    """Map from texts in front of a name, which are ordinary text in other contexts, to their dialects."""
    name_keys: tuple[str, ...]
    args_keys: tuple[str, ...]
    pythonic: Dialect | None


_last_vocabulary: tuple[list[Dialect], _Vocabulary] | None = None


def _vocabulary() -> _Vocabulary:
    """Return the vocabulary of all registered dialects, which rarely change."""
    global _last_vocabulary  # noqa: PLW0603 - a cache with one entry; comparing lists is faster than hashing
    dialects = list(list_dialects())
    last = _last_vocabulary
    if last is None or last[0] != dialects:
        last = _last_vocabulary = dialects, _vocabulary_of(dialects)
    return last[1]


def _vocabulary_of(dialects: Sequence[Dialect]) -> _Vocabulary:
    """Collect the vocabulary of these dialects."""
    openers: dict[str, list[Dialect]] = {}
    spellings: set[str] = set()
    phrases: dict[str, Dialect] = {}
    words = {"json", "type", "function", "tool", "tools", "call", "calls", "name", "id"}
    name_keys: dict[str, None] = {}
    args_keys: dict[str, None] = {}
    for dialect in dialects:
        name_keys |= dict.fromkeys(dialect.envelope.name_keys)
        args_keys |= dict.fromkeys(dialect.envelope.args_keys)
        for opener in _openers(dialect):
            if opener[0] in "<[]" and any(map(str.isalpha, opener)):
                spellings.add(opener)
                known = openers.setdefault(_normal_form(opener), [])
                if dialect not in known:
                    known.append(dialect)
            elif (len(opener) > 4 or "=" in opener) and not opener.isalnum() and "`" not in opener:
                for phrase in (opener, opener.split(" ")[-1]):
                    phrases.setdefault(phrase, dialect)
        for form in dialect.names.forms:
            before = form.partition("{name}")[0]
            if before:
                phrases.setdefault(before, dialect)
        for template in (*dialect.section, *dialect.call):
            for piece in parse_template(template_text(template)):
                if isinstance(piece, (Literal, Attributes)):
                    words.update(re.findall(r"[^\W\d_]+", piece.text.replace("▁", " ")))
    words.update(word for key in (*name_keys, *args_keys) for word in key.split("_"))
    return _Vocabulary(
        {form: tuple(sorted(known, key=_rarity)) for form, known in openers.items()},
        re.compile(_pattern_of(map(_changed, spellings)) or "(?!)"),
        "|".join(map(re.escape, sorted(words, key=len, reverse=True))),
        phrases,
        (*name_keys, "tool", "tool_name"),
        (*args_keys, "args", "input"),
        next((dialect for dialect in dialects if dialect.name == "pythonic"), None),
    )


def _rarity(dialect: Dialect) -> int:
    """Return a sort key; dialects of many models come first."""
    return -len(dialect.family.model_names) - len(dialect.family.aliases)


def _openers(dialect: Dialect) -> Iterator[str]:
    """Yield the markers that open sections and calls, without brackets and code fences next to them."""
    for template in (*dialect.section, *dialect.call):
        pieces = [
            piece
            for piece in reading_pieces(template_text(template))
            if not isinstance(piece, Space | LineFeed)
        ]
        opener = first_literal(pieces).strip().removesuffix("[").rstrip()
        if opener:
            yield opener
    if dialect.frame is not None:
        yield from (template_text(opener).strip() for opener in dialect.frame.open)


def _changed(opener: str) -> list[str]:
    """Return patterns that match a marker one after another, also if there are small changes in it.

    The bars may be doubled or in ASCII, and there may be spaces in the marker.
    """
    patterns: list[str] = []
    for part in re.split(r"(\s*[|｜]\s*|[▁_ ]|>$)", opener):
        if part.strip() in ("|", "｜"):
            patterns.append(_CHANGED_BARS)
        elif part in _CHANGED:
            patterns.append(_CHANGED[part])
        else:
            patterns += map(re.escape, part)
    return patterns


_CHANGED_BARS: Final = r"\s?[|｜]{1,2}\s?"
_CHANGED: Final = {"▁": "[▁_ ]?", "_": "[▁_ ]?", " ": "[▁_ ]?", ">": r"\s?>"}
_OPTIONAL: Final = frozenset({"[▁_ ]?"})
_FIRST: Final = {_CHANGED_BARS: r"\s|｜", r"\s?>": r"\s>"}
"""Characters with which matches of these patterns begin, for a character class."""
_FEW: Final = 4


def _pattern_of(sequences: Iterable[Sequence[str]]) -> str:
    """Return a pattern of the longest of several sequences of patterns, without common beginnings in it."""
    branches: dict[str, list[Sequence[str]]] = {}
    may_end = False
    for sequence in sequences:
        if sequence:
            branches.setdefault(sequence[0], []).append(sequence[1:])
        else:
            may_end = True
    if not branches:
        return ""
    ways = "|".join(first + _pattern_of(rests) for first, rests in branches.items())
    ahead = ""
    if len(branches) > _FEW and not may_end and _OPTIONAL.isdisjoint(branches):
        # One look at the next character rejects most text.
        ahead = f"(?=[{''.join(_FIRST.get(first, first) for first in branches)}])"
    return f"{ahead}(?:{ways}){'?' if may_end else ''}"


def _normal_form(opener: str) -> str:
    """Return a marker without the differences that its pattern allows."""
    return re.sub(r"[\s▁_]", "", _BARS.sub("|", opener)).casefold()


class _ToolPatterns:
    """Patterns that depend on the names of the declared tools."""

    __slots__ = ("all", "head", "list_of_calls", "phrase", "quoted_name", "vocabulary")

    def __init__(self, vocabulary: _Vocabulary, tool_names: Sequence[str]) -> None:
        self.vocabulary: Final = vocabulary
        names = "|".join(re.escape(name) for name in sorted(tool_names, key=len, reverse=True) if name)
        self.head: re.Pattern[str] | None = None
        """Pattern of the text after a marker, up to the beginning of the arguments of a declared tool."""
        self.quoted_name: re.Pattern[str] | None = None
        self.list_of_calls: re.Pattern[str] | None = None
        self.phrase: re.Pattern[str] | None = None
        """Pattern of a name after a phrase that announces it, and the beginning of the arguments."""
        self.all: list[tuple[re.Pattern[str], Sequence[str]]] = [
            (_FENCE, ("```", "~~~")),
            (vocabulary.opener, ("<", "[", "]")),
        ]
        """Patterns to search for, each with texts of which one is in every match.

        The first pattern is that of code fences.
        """
        if not names:
            return
        self.head = re.compile(
            rf"""(?:[\s<>|｜▁_\[\]{{}}"'`:=.,/-]|\b(?:{vocabulary.words})(?![^\W_])){{0,120}}?"""
            rf"""(?<![\w-])(?P<name>{names})(?![\w-])[\s"'>:,|｜\])]{{0,40}}"""
            r"""(?:\b(?:json|arguments|parameters|args)\b|[\s"':>|｜]|<[^<>\s]{1,40}>){0,20}?(?P<arguments>[{\[<(]|\Z)""",
        )
        self.quoted_name = re.compile(rf'"(?:{names})"')
        self.list_of_calls = re.compile(rf"\[\s{{0,20}}(?:{names})\(")
        phrases = "|".join(map(re.escape, sorted(vocabulary.phrases, key=len, reverse=True)))
        self.phrase = re.compile(
            rf"(?P<phrase>{phrases})\s?(?P<name>{names})(?::\d{{1,4}})?\s{{0,2}}(?:json)?\s{{0,2}}[{{<]"
        )
        self.all += [(self.list_of_calls, ("[",)), (self.phrase, tuple(vocabulary.phrases))]


_LAST_PATTERNS: Final[dict[tuple[str, ...], _ToolPatterns]] = {}


def _tool_patterns(vocabulary: _Vocabulary, names: tuple[str, ...]) -> _ToolPatterns:
    """Return the patterns for tools; requests often declare the tools of an earlier request."""
    patterns = _LAST_PATTERNS.get(names)
    if patterns is None or patterns.vocabulary is not vocabulary:
        if len(_LAST_PATTERNS) >= _MOST_PATTERNS:
            _LAST_PATTERNS.clear()
        patterns = _LAST_PATTERNS[names] = _ToolPatterns(vocabulary, names)
    return patterns


def _has_unmarked_calls(dialect: Dialect) -> bool:
    """Return whether calls of this dialect may be objects without markers."""
    return "{envelope}" in dialect.call and any(
        only_at_start(section) and template_text(section) == "{calls}" for section in dialect.section
    )


_OBJECT_DIALECT: Final = "generic_json"
"""Dialect of objects without markers."""
