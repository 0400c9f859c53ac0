"""Testing: the laws that every dialect obeys, as functions.

For this project's own tests and for those of other packages that declare a
dialect.  Start with :func:`check_dialect`:

>>> from unspool import Dialect
>>> from unspool.testing import check_dialect
>>> mine = Dialect("mine", call=("<call>{envelope}</call>",))
>>> check_dialect(mine, ['Hi. <call>{"name": "now", "arguments": {}}</call>'], examples=5)

The laws:

chunking    however an output is cut into pieces, the same events come out
tiling      the spans of the events cover the input, in order, once
order       calls start, get arguments and end, one at a time; ``Finish`` is last
hold-back   what is held is never more than ``Parser.bound``
arguments   what was sent of a call's arguments is a prefix of all of them
no error    whatever the model wrote, ``feed`` and ``finish`` do not raise
policies    each value of a policy shows, where the dialect has what the policy is about
round trip  ``parse(render(message))`` gives the message back

A law that is broken raises ``AssertionError`` with the input to repeat it.

:func:`messages` and what builds on it need `hypothesis`_, which this package
does not install.

.. _hypothesis: https://hypothesis.readthedocs.io
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ._core.ends.parser import Parser, parse
from ._core.ends.render import render
from ._core.payload.json import canonical_json
from ._core.values.errors import MalformedOutput
from ._core.values.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    Markup,
    Note,
    Text,
    normalise,
)
from ._core.values.message import Message, Part, TextPart, ToolCall
from ._core.values.policies import STRICT, Policies
from ._core.words.dialect import Dialect
from ._core.words.pieces import PAYLOADS, Attributes, Hole, literals, parse_template, split_at, split_marks
from .dialects._registry import find

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "POLICIES",
    "Case",
    "Reading",
    "Sample",
    "assert_argument_prefixes",
    "assert_chunking_invariant",
    "assert_hold_bound",
    "assert_laws",
    "assert_never_raises",
    "assert_order",
    "assert_policy",
    "assert_round_trip",
    "assert_tiles",
    "check_dialect",
    "chunkings",
    "comparable",
    "markers",
    "messages",
    "mutate",
    "read",
]

ToolList = Sequence[Mapping[str, object]]


# -- one output and how it was read


@dataclass(frozen=True, slots=True)
class Case:
    """What a model wrote, and the request it answers."""

    text: str
    """The output."""
    tools: ToolList | None = None
    """As for ``Parser``, like the next two."""
    prompt: str | None = None
    policies: Policies | None = None
    finish_reason: FinishReason | None = None
    """As for ``Parser.finish``."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The state of a parser after one ``feed``."""

    taken: int
    """Characters fed so far."""
    covered: int
    """Characters that events account for so far."""
    held: int
    bound: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A case, read in certain chunks."""

    dialect: Dialect
    case: Case
    chunks: Sequence[str]
    events: list[Event]
    """Everything that came out, ``finish`` included."""
    message: Message | None
    """What the events fold to; None if the policies made that an error."""
    feeds: list[Feed]

    def fail(self, law: str, why: str) -> NoReturn:
        """Raise ``AssertionError`` with all that is needed to see it again."""
        __tracebackhide__ = True  # the report is the message, not this frame
        raise self.broken(law, why)

    def broken(self, law: str, why: str) -> AssertionError:
        """The error of a law that this reading breaks."""
        lines = [f"{law}: {why}", f"  dialect: {self.dialect.name}", f"  text:    {self.case.text!r}"]
        if list(self.chunks) != [self.case.text]:
            lines.append(f"  chunks:  {list(self.chunks)!r}")
        for field in ("tools", "prompt", "policies", "finish_reason"):
            value = getattr(self.case, field)
            if value is not None:
                lines.append(f"  {field}: {_changed(value) if isinstance(value, Policies) else repr(value)}")
        return AssertionError("\n".join(lines))


def _changed(policies: Policies) -> str:
    default = Policies()
    fields = [name for name in policies.__slots__ if getattr(policies, name) != getattr(default, name)]
    return ", ".join(f"{name}={getattr(policies, name)}" for name in fields)


def _case(case: str | Case) -> Case:
    return Case(case) if isinstance(case, str) else case


def read(dialect: str | Dialect, case: str | Case, chunks: Sequence[str] | None = None) -> Reading:
    """Read a case with a new parser, in these chunks or at once."""
    case = _case(case)
    parser = Parser(dialect, tools=case.tools, prompt=case.prompt, policies=case.policies)
    chunks = [case.text] if chunks is None else chunks
    portions: list[list[Event]] = []
    feeds: list[Feed] = []
    taken = covered = 0
    for chunk in chunks:
        new = parser.feed(chunk)
        taken += len(chunk)
        for event in new:
            if not isinstance(event, Note):
                covered = event.end
        portions.append(new)
        feeds.append(Feed(taken, covered, parser.held, parser.bound))
    portions.append(parser.finish(case.finish_reason))
    fold = parser.fold()
    message = None
    try:
        for portion in portions:
            fold.push(portion)
        message = fold.message()
    except MalformedOutput:
        if "error" not in (parser.policies.malformed_call, parser.policies.truncated_call):
            raise
    events = [event for portion in portions for event in portion]
    return Reading(parser.dialect, case, chunks, events, message, feeds)


def comparable(events: Iterable[Event], text: str) -> list[Event]:
    """The normalised events, generated ids left out.

    Ids are random unless the model gives them: an id counts if it stands in the text.
    """
    out: list[Event] = []
    for event in normalise(events):
        if isinstance(event, CallStart) and event.id not in text:
            out.append(CallStart(event.index, event.name, "", event.start, event.end))
        else:
            out.append(event)
    return out


def _without_ids(message: Message | None, text: str) -> Message | None:
    """The same message, generated ids left out."""
    if message is None:
        return None

    def anonymous(call: ToolCall) -> ToolCall:
        return call if call.id in text else replace(call, id="")

    return replace(
        message,
        tool_calls=tuple(map(anonymous, message.tool_calls)),
        parts=tuple(anonymous(part) if isinstance(part, ToolCall) else part for part in message.parts),
    )


# -- inputs


def chunkings(text: str, *, seed: int = 0, random: int = 3, splits: int = 64) -> Iterator[list[str]]:
    """Ways to cut a text: whole, into characters, in two, at random.

    :param random: how many random ones; they contain empty chunks, too.
    :param splits: a text no longer than this is cut in two at every place.

    >>> list(chunkings("abc", random=0))
    [['abc'], ['a', 'b', 'c'], ['a', 'bc'], ['ab', 'c']]
    """
    yield [text]
    yield list(text)
    if len(text) <= splits:
        for at in range(1, len(text)):
            yield [text[:at], text[at:]]
    rng = Random(f"{seed} {text}")  # noqa: S311 - reproducible, not secret
    for _ in range(random):
        longest = rng.choice((2, 4, 9, 30))
        cuts = [0]
        while cuts[-1] < len(text):
            cuts.append(min(len(text), cuts[-1] + rng.randint(0, longest)))
        yield [text[a:b] for a, b in pairwise(cuts)]


_TAG: Final = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_/]{3,}\]|```\w*|[{}\[\]\"',:]")
_WORDS: Final = ("Sure. ", "\n\n", " ", "`", '"', "{", "}", "x < y ", "</", "<|", "\\", "é", "\0", "🙂")


def mutate(text: str, rng: Random, markers: Sequence[str] = ()) -> str:
    """The text with something wrong with it.

    It is cut, doubled, put between words, or loses, gains or swaps pieces; what
    it gains are pieces of markers, by default those that it seems to have.
    """
    pieces: Sequence[str] = markers or _TAG.findall(text) or _WORDS
    a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
    kind = rng.randrange(9)
    if kind == 0:  # cut
        return text[:b]
    if kind == 1:
        return text[a:]
    if kind == 2:  # doubled
        return text + rng.choice(("", "\n", " ")) + text
    if kind == 3:  # between words
        return rng.choice(_WORDS) + text + rng.choice(_WORDS)
    if kind == 4:  # something is missing
        return text[:a] + text[min(b, a + rng.randint(1, 12)) :]
    if kind == 5:  # something is there twice
        return text[:b] + text[a:]
    if kind == 6:  # two pieces have changed places
        c = rng.randint(b, len(text))
        return text[:a] + text[b:c] + text[a:b] + text[c:]
    piece = rng.choice(pieces)
    if kind == 7:  # a marker, or a part of one, where none belongs
        piece = piece[: rng.randint(1, len(piece))] if rng.random() < 0.5 else piece
        return text[:a] + piece + text[a:]
    return text[:a] + rng.choice(_WORDS) + text[a:]


def markers(dialect: str | Dialect) -> tuple[str, ...]:
    """Every literal text of a dialect's templates, single characters aside."""
    spec = find(dialect)
    templates = [
        *spec.call,
        *spec.section,
        *spec.param,
        *spec.reasoning,
        *spec.content,
        *spec.drop,
        *spec.stop,
    ]
    if spec.frame is not None:
        templates += [*spec.frame.open, spec.frame.sep, *spec.frame.ends, *spec.frame.fields]
    found = {text for template in templates for text in literals(parse_template(split_marks(template)[1]))}
    # A bracket next to the calls may be forgotten.
    found |= {text.removesuffix("[").removeprefix("]") for text in found}
    return tuple(sorted(text for text in found if len(text.strip()) > 1))


# -- the laws


def assert_tiles(reading: Reading) -> None:
    """The spans of the events cover the input, in order, once, and text is what its span says."""
    text = reading.case.text
    at = 0
    started: dict[int, int] = {}
    for event in reading.events:
        if isinstance(event, Note):
            if not 0 <= event.start == event.end <= len(text):
                reading.fail("tiling", f"{event} is not an empty span of the input")
            continue
        if event.start != at or event.end < at:
            reading.fail("tiling", f"{event} should begin at {at}")
        at = event.end
        covered = text[event.start : event.end]
        if isinstance(event, Text | Markup) and event.text != covered:
            if event.start == event.end == 0 and event.text == reading.dialect.prompt.echo:
                continue  # of the prompt, not of the input
            reading.fail("tiling", f"{event} covers {covered!r}")
        elif isinstance(event, CallStart):
            started[event.index] = event.start
        elif isinstance(event, CallEnd) and event.status != "complete":
            covered = text[started[event.index] : event.end]
            # A call that the prompt began is longer than its span.
            if event.raw != covered and not (reading.case.prompt and event.raw.endswith(covered)):
                reading.fail("tiling", f"{event} should have the raw text {covered!r}")
    if at != len(text):
        reading.fail("tiling", f"the events end at {at}, the input at {len(text)}")


def assert_order(reading: Reading) -> None:
    """Calls start, get arguments and end, one at a time and counted from 0; ``Finish`` comes last."""
    index, is_open = -1, False
    for event in reading.events:
        if isinstance(event, CallStart):
            if is_open or event.index != index + 1 or not event.name or not event.id:
                reading.fail("order", f"{event} after call {index}, {'open' if is_open else 'closed'}")
            index, is_open = event.index, True
        elif isinstance(event, CallArgs | CallEnd):
            if not is_open or event.index != index:
                reading.fail("order", f"{event} while no call {event.index} is open")
            is_open = isinstance(event, CallArgs)
        elif isinstance(event, Text) and is_open:
            reading.fail("order", f"{event} inside call {index}")
    if is_open or not isinstance(reading.events[-1], Finish):
        reading.fail("order", f"the stream ends with {reading.events[-1]}, call {index} open: {is_open}")
    if any(isinstance(event, Finish) for event in reading.events[:-1]):
        reading.fail("order", "two Finish events")


def assert_hold_bound(reading: Reading) -> None:
    """``Parser.held`` counts what no event accounts for, and is within ``Parser.bound``."""
    for number, feed in enumerate(reading.feeds):
        if reading.case.prompt is None and feed.held < feed.taken - feed.covered:
            missing = feed.taken - feed.covered
            reading.fail(
                "hold-back", f"held={feed.held} after chunk {number}, but {missing} characters are missing"
            )
        if feed.bound is not None and feed.held > feed.bound:
            reading.fail("hold-back", f"held={feed.held} > bound={feed.bound} after chunk {number}")


def assert_argument_prefixes(reading: Reading, whole: Reading | None = None) -> None:
    """Argument fragments join to a prefix of the final arguments, which are JSON if the call is complete.

    :param whole: the same case read at once; its arguments count as the final ones.
    """
    final = _arguments((whole or reading).events)
    sent: dict[int, str] = {}
    for event in reading.events:
        if isinstance(event, CallArgs):
            sent[event.index] = sent.get(event.index, "") + event.json
            if not final.get(event.index, "").startswith(sent[event.index]):
                reading.fail(
                    "arguments", f"sent {sent[event.index]!r}, no prefix of {final.get(event.index)!r}"
                )
        elif isinstance(event, CallEnd) and event.status == "complete":
            arguments = sent.get(event.index, "")
            if arguments != final.get(event.index, "") or not _is_json(arguments):
                reading.fail("arguments", f"call {event.index} is complete, its arguments are {arguments!r}")


def _arguments(events: Iterable[Event]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, CallArgs):
            found.setdefault(event.index, []).append(event.json)
    return {index: "".join(pieces) for index, pieces in found.items()}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse, parse_int=str)
    except RecursionError:
        return True  # too deep for this judge
    except ValueError:
        return False
    return True


def assert_chunking_invariant(
    dialect: str | Dialect,
    case: str | Case,
    ways: Iterable[Sequence[str]] | None = None,
    *,
    each: Callable[[Reading, Reading], None] | None = None,
) -> Reading:
    """However the text is cut, the same events and the same message come out.

    :param ways: the chunkings to try, by default those of :func:`chunkings`.
    :param each: called with every reading and the one at once, for further laws.
    :return: the reading of the text at once.
    """
    case = _case(case)
    whole = read(dialect, case)
    if each is not None:
        each(whole, whole)
    for chunks in chunkings(case.text) if ways is None else ways:
        if len(chunks) == 1:
            continue
        other = read(dialect, case, chunks)
        why = _difference(whole, other)
        if why:
            smallest = _fewest_chunks(whole, list(chunks))
            smallest.fail("chunking", _difference(whole, smallest))
        if each is not None:
            each(other, whole)
    return whole


def _difference(whole: Reading, other: Reading) -> str:
    """The first difference between two readings of one text, for people; empty if there is none."""
    text = whole.case.text
    pairs = zip_longest(comparable(whole.events, text), comparable(other.events, text))
    for number, (expected, got) in enumerate(pairs):
        if expected != got:
            return f"event {number}\n    at once:   {expected}\n    in chunks: {got}"
    expected_message, message = _without_ids(whole.message, text), _without_ids(other.message, text)
    if expected_message != message:
        return f"the message\n    at once:   {expected_message}\n    in chunks: {message}"
    return ""


def _fewest_chunks(whole: Reading, chunks: list[str]) -> Reading:
    """A reading that differs from ``whole``, with as few cuts as that takes."""
    found = read(whole.dialect, whole.case, chunks)
    at = 0
    while at + 1 < len(chunks):
        joined = [*chunks[:at], chunks[at] + chunks[at + 1], *chunks[at + 2 :]]
        reading = read(whole.dialect, whole.case, joined)
        if _difference(whole, reading):
            chunks, found = joined, reading
        else:
            at += 1
    return found


def assert_laws(
    dialect: str | Dialect, case: str | Case, ways: Iterable[Sequence[str]] | None = None
) -> Reading:
    """Every law that holds for a single text: chunking, tiling, order, hold-back, arguments."""
    return assert_chunking_invariant(dialect, case, ways, each=_laws_of_a_reading)


def _laws_of_a_reading(reading: Reading, whole: Reading) -> None:
    assert_tiles(reading)
    assert_order(reading)
    assert_hold_bound(reading)
    assert_argument_prefixes(reading, whole)


POLICIES: Final[Mapping[str, Policies]] = {
    "default": Policies(),
    "repair": Policies(malformed_call="repair"),
    "keep": Policies(malformed_call="keep", truncated_call="keep"),
    "commit_call": Policies(commit="call"),
    "commit_call_repair": Policies(commit="call", malformed_call="repair", truncated_call="text"),
    "reasoning_text": Policies(calls_in_reasoning="text", after_calls="drop"),
    "first_close": Policies(close_in_value="first", schemaless_value="json", unknown_tool="text"),
    "strip": Policies(no_tools="strip", call_ids="generated", arguments="canonical"),
    "strict": STRICT,
}
"""Policies that between them exercise every choice, under names for test reports."""


def assert_never_raises(
    dialect: str | Dialect, case: str | Case, chunks: Sequence[str] | None = None
) -> None:
    """Whatever the model wrote, and whatever the policies, nothing raises.

    Of strict policies: nothing but ``MalformedOutput``, and only when folding.
    """
    case = _case(case)
    for name, policies in POLICIES.items():
        for tools in (case.tools, None, ()):
            changed = replace(case, policies=policies, tools=tools)
            try:
                read(dialect, changed, chunks)
            except Exception as error:  # noqa: BLE001 - any at all breaks the law
                reading = Reading(find(dialect), changed, chunks or [case.text], [], None, [])
                try:
                    reading.fail("no error", f"{type(error).__name__}: {error} (policies {name})")
                except AssertionError as report:
                    raise report from error


# -- messages and back


@dataclass(frozen=True, slots=True)
class Sample:
    """A message that a dialect can express, and tools that declare its calls."""

    message: Message
    tools: tuple[dict[str, Any], ...]


def assert_round_trip(dialect: str | Dialect, sample: Sample | Message, tools: ToolList | None = None) -> str:
    """``parse(render(message))`` gives the message back, without problems; returns the rendered text.

    Arguments must come back as the same text where the dialect carries JSON,
    else as the same value, with types and the order of keys.
    """
    spec = find(dialect)
    message, tools = (sample.message, sample.tools) if isinstance(sample, Sample) else (sample, tools)
    text = render(spec, message)
    got = parse(text, spec, tools=tools)
    if any(problem.kind == "late_id" for problem in got.problems):
        # An id behind the arguments counts only where calls are announced whole.
        got = parse(text, spec, tools=tools, policies=Policies(commit="call"))

    def fail(what: str, expected: object, found: object) -> NoReturn:
        why = f"{what}\n    expected: {expected!r}\n    got:      {found!r}"
        Reading(spec, Case(text, tools), [text], [], None, []).fail("round trip", why)

    if got.problems:
        fail("problems", (), got.problems)
    for field in ("reasoning", "content"):
        if getattr(got, field) != getattr(message, field):
            fail(field, getattr(message, field), getattr(got, field))
    ability = _Ability(spec)
    for expected, found in zip_longest(message.tool_calls, got.tool_calls):
        if expected is None or found is None or expected.name != found.name:
            fail("calls", message.tool_calls, got.tool_calls)
        if not ability.same(expected.arguments, found.arguments):
            fail(f"arguments of {expected.name}", expected.arguments, found.arguments)
        if expected.id and expected.id in text and expected.id != found.id:
            fail(f"id of {expected.name}", expected.id, found.id)
    finish = "tool_calls" if message.tool_calls else "stop"
    if got.finish_reason != finish:
        fail("finish_reason", finish, got.finish_reason)
    return text


class _Ability:
    """What a dialect can express."""

    def __init__(self, spec: Dialect) -> None:
        self.spec = spec
        frame = spec.frame
        routes = [route for route in frame.routes if route.header] if frame is not None else []
        into = {route.into for route in routes}
        self.reasoning = bool(spec.reasoning) if frame is None else "reasoning" in into
        self.content = frame is None or "content" in into
        self.calls = bool(spec.call) if frame is None else any(i.startswith("{") for i in into)
        template = spec.call[0] if spec.call else ""
        for route in routes:
            if route.into in ("{args}", "{params}"):
                template = route.into
        self.template = template
        _, payload, _ = split_at(parse_template(template), *PAYLOADS)
        self.payload = payload.field if payload is not None else ""
        self.notation = (payload.notation if payload is not None else "") or spec.args
        self.typed = self.payload == "params"
        self.verbatim = self.payload in ("args", "envelope") and self.notation == "json"
        self.reserved = {
            *spec.names.null_calls,
            *(w for route in routes for w in re.split(r"[=.\s]", route.when)),
        }
        """Names that mean something else than a function."""
        nameless = self.payload == "code" and "{name}" not in template
        self.fixed = spec.names.fixed or ("python" if nameless else "")
        """The one function that it can call."""
        self.anchored = bool(spec.section) and "^" in split_marks(spec.section[0])[0]
        """Calls only where no content came before."""
        self.plain_keys = not self.verbatim
        """Keys of arguments are identifiers."""
        self.markers = markers(spec)

    def same(self, expected: str, found: str) -> bool:
        """Whether arguments came back; 1, 1.0, "1" and true are different values."""
        if self.verbatim:
            return expected == found
        # The templates of models that write bare keys sort them.
        by_name = self.notation == "bare"
        return _spelt(expected, by_name=by_name) == _spelt(found, by_name=by_name)

    def openers(self) -> set[str]:
        """Single characters that may begin a call in running text."""
        found: set[str] = set()
        for section in self.spec.section:
            marks, body = split_marks(section)
            before, _, _ = split_at(parse_template(body), "calls")
            opening = "".join(
                piece.text for piece in before if not isinstance(piece, Hole | Attributes)
            ).strip()
            if len(opening) == 1:
                found.add(opening)
            elif not opening and "^" in marks:
                found.update("{[(")
        return found


def _spelt(arguments: str, *, by_name: bool) -> str:
    return json.dumps(json.loads(arguments), sort_keys=by_name)


def messages(dialect: str | Dialect, *, max_calls: int = 3) -> SearchStrategy[Sample]:
    """Messages that a dialect can express, as a hypothesis strategy.

    Text of any script, quotes, line breaks and markers inside the strings of
    arguments, numbers of any size, nested and empty values, parallel calls,
    reasoning and content.  Kept to what the rules for white space preserve:

    - reasoning does not begin with line breaks and does not end in blanks;
    - content does not begin with blanks if reasoning or calls are there, and
      does not end in blanks before calls;
    - there is no content before calls that may only begin an output;
    - prose does not contain whole markers of the dialect;
    - strings between tags do not contain a closing tag with what may follow it.
    """
    return _Inventor(_Ability(find(dialect))).samples(max_calls)


_CONTROL_TOKEN: Final = re.compile(r"<[|｜][^<>\s]*[|｜]>")
"""Part of a marker, but no longer something that people write."""


class _Inventor:
    """Strategies for what a dialect can express, each built once."""

    def __init__(self, ability: _Ability) -> None:
        from hypothesis import strategies as st

        self.ability = ability
        self.words = st.text(st.characters(codec="utf-8"), max_size=8)
        self.numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40)
        self.strings = self._strings()
        self.prose = self._prose()
        self.anything = st.recursive(
            st.none() | st.booleans() | self.numbers | self.strings,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(self.strings, inner, max_size=3),
            max_leaves=5,
        )
        self.values: dict[str, SearchStrategy[Any]] = {
            "string": self.strings,
            "integer": st.integers() | st.integers(-(10**40), 10**40),
            "number": self.numbers,
            "boolean": st.booleans(),
            "null": st.none(),
            "array": st.lists(self.anything, max_size=3),
            "object": st.dictionaries(self.strings, self.anything, max_size=3),
        }
        """By the type that a schema names, or by the schema."""

    def samples(self, max_calls: int) -> SearchStrategy[Sample]:
        from hypothesis import strategies as st

        ability, spec = self.ability, self.ability.spec
        reasoning = self.prose.map(lambda text: text.lstrip("\r\n").rstrip()).filter(bool)
        trimmed = self.prose.map(str.strip).filter(bool)
        verbatim = self.prose.filter(bool)
        tool_lists = self._tools()

        @st.composite
        def samples(draw: Callable[[SearchStrategy[Any]], Any]) -> Sample:
            tools: tuple[dict[str, Any], ...] = draw(tool_lists) if ability.calls else ()
            calls = [self._call(draw, tools) for _ in range(draw(st.integers(0, max_calls)))] if tools else []
            thought = draw(st.none() | reasoning) if ability.reasoning else None
            content = None
            if ability.content and not (calls and ability.anchored):
                content = draw(st.none() | trimmed if calls or thought is not None else verbatim)
                content = content and spec.prompt.echo + content
            numbered = tuple(
                replace(call, id=spec.id_format.new(call.name, index)) for index, call in enumerate(calls)
            )
            declared = tuple({"type": "function", "function": tool} for tool in tools)
            return Sample(Message(thought, content, numbered), declared)

        return samples()

    def _prose(self) -> SearchStrategy[str]:
        """Text with everything in it but whole markers."""
        from hypothesis import strategies as st

        ability = self.ability
        openers = ability.openers()
        words = ("Hello", "the tool", " ", "\n", "\n\n", ". ", "é", "天気", "🙂", "`x`", '"', "a < b", "{}")
        pieces = [marker[:at] for marker in ability.markers for at in range(1, len(marker))]
        atoms = st.sampled_from(words) | self.words
        if pieces:
            atoms |= st.sampled_from(pieces)

        def is_prose(text: str) -> bool:
            # Nor does a marker that follows begin inside the text.
            whole = any((text + marker).find(marker) < len(text) for marker in ability.markers)
            return not whole and not _CONTROL_TOKEN.search(text) and not openers & set(text)

        return st.lists(atoms, max_size=6).map("".join).filter(is_prose)

    def _strings(self) -> SearchStrategy[str]:
        """Strings with markers, quotes and escapes in them."""
        from hypothesis import strategies as st

        ability = self.ability
        samples = ["Paris", "a b", "\n", " ", "\\n", "é", "東京", "🙂", "5", "null", "", ", ", *"\"'\\{}[]"]
        words = self.words
        quoted = [marker for marker in ability.markers if ability.spec.values.quote not in marker]
        if ability.typed:
            # A closing tag is data unless what may follow it follows.
            quoted = [f"{marker} x" for marker in quoted]
        if ability.notation == "loose":
            # Nothing is escaped, so a quote may well be the end.
            samples = [text for text in samples if not set(text) & set("\"'\\")]
            words = words.filter(lambda text: not set(text) & set("\"'\\"))
        atoms = st.sampled_from(samples) | words
        if ability.spec.values.nested:  # there a parameter inside a value is structure, not data
            heads = [param.partition("{")[0].split(" ")[0] for param in ability.spec.param]
            quoted = [marker for marker in quoted if not marker.startswith(tuple(heads))]
        if quoted:
            atoms |= st.sampled_from(quoted)
        return st.lists(atoms, max_size=4).map("".join)

    def _tools(self) -> SearchStrategy[tuple[dict[str, Any], ...]]:
        """Functions with typed parameters, as a request declares them."""
        from hypothesis import strategies as st

        ability = self.ability
        names = st.sampled_from(("get_weather", "now", "write-file", "f"))
        names |= st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,12}", fullmatch=True)
        if ability.fixed:
            names = st.just(ability.fixed)
        types = ["string", "integer", "number", "boolean", "null"]
        if not ability.spec.values.nested:
            types += ["array", "object"]
        schemas: SearchStrategy[dict[str, Any]] = st.recursive(
            st.sampled_from(types).map(lambda type_: {"type": type_}),
            lambda inner: (
                inner.map(lambda items: {"type": "array", "items": items})
                | self._properties(inner, plain=True).map(lambda p: {"type": "object", "properties": p})
            ),
            max_leaves=4,
        )
        parameters = self._properties(schemas, plain=ability.plain_keys).map(
            lambda properties: {"type": "object", "properties": properties}
        )
        functions: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
            {"name": names.filter(lambda name: name not in ability.reserved), "parameters": parameters}
        )
        return st.lists(functions, min_size=1, max_size=3, unique_by=lambda tool: tool["name"]).map(tuple)

    def _properties(
        self, schemas: SearchStrategy[dict[str, Any]], *, plain: bool
    ) -> SearchStrategy[dict[str, dict[str, Any]]]:
        from hypothesis import strategies as st

        keys = st.sampled_from(("city", "n", "name", "arguments", "file_path", "x1", "id"))
        if self.ability.spec.values.unescape:
            keys |= st.sampled_from(("a&b", 'say "hi"', "x<y", "&quot;"))
        return st.dictionaries(keys if plain else keys | self.words.filter(bool), schemas, max_size=4)

    def _call(self, draw: Callable[[SearchStrategy[Any]], Any], tools: Sequence[dict[str, Any]]) -> ToolCall:
        from hypothesis import strategies as st

        tool = draw(st.sampled_from(tools))
        if self.ability.payload == "code":
            return ToolCall("", tool["name"], json.dumps({"code": draw(self.prose).strip()}))
        properties: dict[str, dict[str, Any]] = tool["parameters"]["properties"]
        given = {key: schema for key, schema in properties.items() if draw(st.booleans())}
        arguments = {key: draw(self._value(schema)) for key, schema in given.items()}
        layouts: tuple[dict[str, Any], ...] = (
            {},
            {"ensure_ascii": False},
            {"separators": (",", ":")},
            {"indent": 1},
        )
        return ToolCall("", tool["name"], json.dumps(arguments, **draw(st.sampled_from(layouts))))

    def _value(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        """Values that a schema allows."""
        from hypothesis import strategies as st

        if len(schema) == 1:
            return self.values[schema["type"]]
        key = json.dumps(schema)
        if key not in self.values:
            if "items" in schema:
                self.values[key] = st.lists(self._value(schema["items"]), max_size=3)
            else:
                members = {name: self._value(member) for name, member in schema["properties"].items()}
                self.values[key] = st.fixed_dictionaries({}, optional=members)
        return self.values[key]


# -- policies


class _Wording:
    """A call in the words of a dialect."""

    name: Final = "get_weather"
    arguments: Final = '{"city": "Oslo", "days": 3}'

    def __init__(self, spec: Dialect) -> None:
        tagged = [template for template in spec.call if "{params}" in template]
        self.ability = _Ability(spec)
        self.params = bool(tagged) or self.ability.payload == "params"
        """Whether a call may have its arguments between tags; then it has."""
        self.spec = replace(spec, call=(*tagged, *spec.call)) if tagged else spec
        self.notation = "params" if self.params else self.ability.notation
        self.id = spec.id_format.new(self.name, 7)

    def call(self, arguments: str = arguments) -> ToolCall:
        return ToolCall(self.id, self.spec.names.fixed or self.name, arguments)

    def write(self, *parts: Part) -> str:
        """The text of a message; by default of one call and nothing else."""
        return render(self.spec, Message(parts=parts or (self.call(),)))

    def tools(self, **types: str) -> ToolList:
        """A request that declares the function, and the parameters of these types."""
        properties = {key: {"type": type_} for key, type_ in types.items()}
        function = {"name": self.call().name, "parameters": {"type": "object", "properties": properties}}
        return ({"type": "function", "function": function},)


class _Outcome:
    """What came of an output, as far as policies decide it."""

    def __init__(self, reading: Reading) -> None:
        message = reading.message
        self.raised = message is None
        self.calls = message.tool_calls if message is not None else ()
        self.arguments = self.calls[0].arguments if len(self.calls) == 1 else ""
        self.content = (message.content if message is not None else None) or ""
        self.reasoning = (message.reasoning if message is not None else None) or ""
        self.problems = {problem.kind for problem in message.problems} if message is not None else set()
        self.sent = [event.json for event in reading.events if isinstance(event, CallArgs)]

    @property
    def called(self) -> bool:
        """There is one call, and it is whole."""
        return _is_json(self.arguments) and not self.problems & {"malformed_call", "truncated_call"}

    @property
    def shown(self) -> bool:
        """There is no call, and the text of one is content."""
        return not self.calls and _Wording.name in self.content

    @property
    def gone(self) -> bool:
        """There is neither."""
        return not self.raised and not self.calls and _Wording.name not in self.content

    def value(self, key: str) -> object:
        """An argument of the call."""
        return json.loads(self.arguments).get(key) if self.called else None


_Shows = Callable[[_Outcome], bool]


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a policy is about, and how each of its values shows."""

    shows: Callable[[_Wording], Mapping[str, _Shows]]
    """What each value makes of the same output."""
    cases: Callable[[_Wording], Iterable[Case]] = lambda wording: (Case(wording.write()),)
    """Outputs; in one of them all values must show."""
    applies: Callable[[_Wording], bool] = lambda _: True
    """Whether a dialect that has calls has the thing."""
    streamed: bool = False
    """It shows only in what is sent meanwhile."""


def _broken_calls(wording: _Wording) -> Iterator[Case]:
    """Something is there that does not belong there, or the other way round."""
    text = wording.write()
    # A closing tag that is not confirmed would be data, and so would be what stands behind it.
    policies = Policies(close_in_value="first")
    for piece in ("}", "]", ")", "{", " !! "):
        for at in range(len(text), 0, -1):
            yield Case(text[:at] + piece + text[at:], policies=policies)
    for at in range(len(text), 0, -1):
        yield Case(text[: at - 1] + text[at:], policies=policies)


def _cut_calls(wording: _Wording) -> Iterator[Case]:
    text = wording.write()
    for at in range(len(text) - 1, 0, -1):
        yield Case(text[:at])


def _odd_spelling(wording: _Wording) -> Iterator[Case]:
    """Arguments without blanks, or with an object in a tag that has none."""
    yield Case(wording.write(wording.call('{"city":"Oslo"}')))
    yield Case(wording.write().replace("3", '{"a":1}'), wording.tools(days="object"))


def _closers_in_value(wording: _Wording) -> Iterator[Case]:
    """A value with the beginning of what follows values."""
    text = wording.write()
    at = text.index("Oslo") + len("Oslo")
    for end in range(at + 1, len(text)):
        value = json.dumps({"city": f"Os{text[at:end]}lo", "days": 3})
        yield Case(wording.write(wording.call(value)), wording.tools(city="string"))


def _numbers_in_tags(wording: _Wording) -> Iterator[Case]:
    """A value that nothing says the type of."""
    text = wording.write()
    yield Case(text)
    attributes = re.findall(r"([\w:.-]+)=[\"']?\{(?:type|string)\}", " ".join(wording.spec.param))
    for attribute in dict.fromkeys(attributes):
        text = re.sub(rf""" {re.escape(attribute)}=("[^"]*"|'[^']*'|[^\s>]*)""", "", text)
    yield Case(text)


_EFFECTS: Final[Mapping[str, _Effect]] = {
    "calls_in_reasoning": _Effect(
        lambda wording: {
            "call": lambda seen: seen.called,
            "text": lambda seen: seen.gone and wording.name in seen.reasoning,
        },
        lambda wording: (Case(wording.write(TextPart("reasoning", f"Hm.{wording.write()}"))),),
        # The header of a call ends the message before it, and text ends the place for anchored calls.
        lambda wording: (
            wording.ability.reasoning and wording.spec.frame is None and not wording.ability.anchored
        ),
    ),
    "unknown_tool": _Effect(
        lambda _: {"forward": lambda seen: seen.called, "text": lambda seen: seen.shown},
        lambda wording: (Case(wording.write(), ({"type": "function", "function": {"name": "other"}},)),),
    ),
    "malformed_call": _Effect(
        lambda wording: {
            "text": lambda seen: seen.shown and "malformed_call" in seen.problems,
            # Where tags are missing nobody knows which.
            "repair": lambda seen: seen.shown if wording.params else seen.called,
            "keep": lambda seen: bool(seen.calls) and "malformed_call" in seen.problems,
            "drop": lambda seen: seen.gone and "malformed_call" in seen.problems,
            "error": lambda seen: seen.raised,
        },
        _broken_calls,
    ),
    "truncated_call": _Effect(
        lambda _: {
            "drop": lambda seen: seen.gone and "truncated_call" in seen.problems,
            "text": lambda seen: seen.shown and "truncated_call" in seen.problems,
            "keep": lambda seen: bool(seen.calls) and "truncated_call" in seen.problems,
            "error": lambda seen: seen.raised,
        },
        _cut_calls,
    ),
    "commit": _Effect(
        lambda _: {
            "name": lambda seen: seen.called and len(seen.sent) > 1,
            "call": lambda seen: seen.called and len(seen.sent) == 1,
        },
        streamed=True,
    ),
    "arguments": _Effect(
        lambda _: {
            "verbatim": lambda seen: seen.called and seen.arguments != canonical_json(seen.arguments),
            "canonical": lambda seen: seen.called and seen.arguments == canonical_json(seen.arguments),
        },
        _odd_spelling,
        # What is no JSON is spelt by us, and in one way.
        lambda wording: wording.notation in ("json", "params"),
    ),
    "after_calls": _Effect(
        lambda wording: {
            "content": lambda seen: seen.called and "Bye." in seen.content,
            "drop": lambda seen: seen.called and "Bye." not in seen.content,
            "dialect": lambda seen: (
                seen.called and ("Bye." in seen.content) == (wording.spec.after_calls == "content")
            ),
        },
        lambda wording: (Case(wording.write(wording.call(), TextPart("content", "Bye."))),),
        lambda wording: wording.ability.content,
    ),
    "close_in_value": _Effect(
        lambda _: {
            "confirmed": lambda seen: str(seen.value("city")).endswith("lo"),
            "first": lambda seen: '"Os"' in "".join(seen.sent),
        },
        _closers_in_value,
        lambda wording: wording.params,
    ),
    "no_tools": _Effect(
        lambda _: {"verbatim": lambda seen: seen.shown, "strip": lambda seen: seen.gone},
        lambda wording: (Case(wording.write(), ()),),
    ),
    "schemaless_value": _Effect(
        lambda _: {
            "string": lambda seen: seen.value("days") == "3",
            "json": lambda seen: seen.value("days") == 3,
        },
        _numbers_in_tags,
        lambda wording: wording.params,
    ),
    "call_ids": _Effect(
        lambda wording: {
            "native": lambda seen: seen.called and seen.calls[0].id == wording.id,
            "generated": lambda seen: seen.called and seen.calls[0].id != wording.id,
        },
        # An id behind the arguments counts only where calls are announced whole.
        lambda wording: (Case(_numbered(wording), policies=Policies(commit="call")),),
        lambda wording: wording.id in _numbered(wording),
    ),
}
"""By the policy.  Those of the wire are not here."""


def _numbered(wording: _Wording) -> str:
    """A call with an id that is not the first that we would give it, if it can have one."""
    spec = wording.spec
    with_id = [template for template in spec.call if "{id}" in template or "{envelope}" in template]
    envelope = replace(spec.envelope, order=("id", "name", "args"))
    spec = replace(spec, call=(*with_id, *spec.call), envelope=envelope)
    text = render(spec, Message(tool_calls=(wording.call(),)))
    return text.replace(spec.id_format.new(wording.name, 0), wording.id)


def assert_policy(dialect: str | Dialect, policy: str) -> Case | None:
    """There is an output in which every value of a policy shows.

    :param policy: the name of a field of ``Policies``, other than those of the wire.
    :return: the output; None if the dialect has nothing that the policy is about.
    """
    spec = find(dialect)
    wording, effect = _Wording(spec), _EFFECTS[policy]
    raw = wording.ability.payload == "code"  # neither malformed nor cut off, and without parameters
    if raw or not wording.ability.calls or not effect.applies(wording):
        return None
    shows = effect.shows(wording)
    fewest: list[Reading] = []
    for case in effect.cases(wording):
        silent: list[Reading] = []
        for value, is_shown in shows.items():
            chosen: dict[str, Any] = {policy: value}
            policies = replace(case.policies or Policies(), **chosen)
            chunks = list(case.text) if effect.streamed else [case.text]
            reading = read(spec, replace(case, policies=policies), chunks)
            if not is_shown(_Outcome(reading)):
                silent.append(reading)
        if not silent:
            return case
        if not fewest or len(silent) < len(fewest):
            fewest = silent
    values = [getattr(reading.case.policies, policy) for reading in fewest]
    raise fewest[0].broken("policies", f"{policy}={' and '.join(values)} makes no difference")


# -- all of it


def check_dialect(
    dialect: str | Dialect,
    texts: Iterable[str | Case] = (),
    *,
    examples: int = 50,
    mutations: int = 20,
    seed: int = 0,
) -> None:
    """Hold a dialect to every law.

    :param texts: outputs of its models, good and bad ones, to judge it by;
        :class:`Case` where the request matters.
    :param examples: how many messages to invent.
    :param mutations: how many broken variants of each text to try.
    """
    from hypothesis import Phase, given, settings

    spec = find(dialect)
    marks = markers(spec)
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    for text in texts:
        case = _case(text)
        assert_laws(spec, case, chunkings(case.text, seed=seed, splits=1000))
        assert_never_raises(spec, case)
        for _ in range(mutations):
            broken = replace(case, text=mutate(case.text, rng, marks))
            assert_laws(spec, broken, chunkings(broken.text, seed=seed, random=2, splits=0))
            assert_never_raises(spec, broken)

    for policy in _EFFECTS:
        assert_policy(spec, policy)

    phases = (Phase.generate, Phase.shrink)  # the report explains itself
    quiet = settings(max_examples=examples, phases=phases, database=None, deadline=None, derandomize=True)

    @quiet
    @given(messages(spec))
    def round_trips(sample: Sample) -> None:
        text = assert_round_trip(spec, sample)
        assert_laws(spec, Case(text, sample.tools), chunkings(text, seed=seed, splits=0))

    round_trips()
