"""The laws of a reading: how it is cut, what it accounts for, what it holds back, and what may not happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from os.path import commonprefix
from typing import Final, NoReturn

from .._core.compiler.programs import SIGN
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    Markup,
    Status,
    Text,
)
from ..policies import STRICT, Policies
from ._outputs import (
    Case,
    Reading,
    as_case,
    chunkings,
    comparable,
    markers,
    read,
    without_ids,
)


def assert_tiles(reading: Reading) -> None:
    """The spans of the events cover the input, in order, once, and text is what its span says."""
    text = reading.case.text
    at = 0
    started: dict[int, int] = {}
    for event in reading.events:
        if isinstance(event, Diagnostic):
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


def assert_places(reading: Reading) -> None:
    """A name and arguments stand where their call says, inside it and apart from each other."""
    arguments = _arguments(reading.events)
    head: CallStart | None = None
    for event in reading.events:
        if isinstance(event, CallStart):
            head = event
            _assert_name_in_place(reading, event)
        elif isinstance(event, CallEnd) and head is not None:
            _assert_arguments_in_place(reading, head, event, arguments.get(event.index, ""))


def _assert_name_in_place(reading: Reading, head: CallStart) -> None:
    if not head.start <= head.name_start <= head.name_end <= head.end:
        reading.fail("places", f"the name is not in {head}: {head.name_start}:{head.name_end}")
    written = reading.case.text[head.name_start : head.name_end]
    # One that is escaped, or that the prompt began, is written otherwise.
    if written not in ("", head.name) and not (set(written) & {"\\", "&"} or reading.case.prompt):
        reading.fail("places", f"{head} has its name where {written!r} stands")


def _assert_arguments_in_place(reading: Reading, head: CallStart, tail: CallEnd, said: str) -> None:
    start, end = tail.args_start, tail.args_end
    written = reading.case.text[start:end]
    if not head.start <= start <= end <= tail.start:
        reading.fail("places", f"the arguments are not in the call that {tail} ends: {start}:{end}")
    if start < head.name_end and head.name_start < end:
        reading.fail("places", f"{written!r} are the arguments, and the name stands in them")
    if reading.case.prompt:  # which may have begun them
        return
    if written[:1] in tuple(" \t\n\r"):  # what JSON calls blank; other controls are mistakes
        reading.fail("places", f"{written!r} are the arguments, and begin with a blank")
    if tail.status != "complete":
        return
    if not written and any(json.loads(said).values()):  # nothing written is no arguments, or empty code
        reading.fail("places", f"{said!r} are the arguments, and stand nowhere")
    if written.startswith('{"') and is_json(written) and written != said:
        # Python's literals are spelt as JSON; these happen to be JSON, which only their end shows.
        same = "\\" in written or json.loads(written) == json.loads(said)
        if not (same and _reads_python(reading.dialect)):
            reading.fail("places", f"{said!r} are the arguments, and {written!r} is written")


def _reads_python(spec: Dialect) -> bool:
    """Return whether arguments may be written as Python's literals."""
    return spec.args in ("python", "loose") or any(":python}" in template for template in spec.call)


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
    """``Parser.pending`` counts what no event accounts for, and is within ``Parser.max_pending``."""
    for number, feed in enumerate(reading.feeds):
        if reading.case.prompt is None and feed.pending < feed.taken - feed.covered:
            missing = feed.taken - feed.covered
            reading.fail(
                "hold-back", f"held={feed.pending} after chunk {number}, but {missing} characters are missing"
            )
        if feed.max_pending is not None and feed.pending > feed.max_pending:
            reading.fail("hold-back", f"held={feed.pending} > bound={feed.max_pending} after chunk {number}")


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
            if arguments != final.get(event.index, "") or not is_json(arguments):
                reading.fail("arguments", f"call {event.index} is complete, its arguments are {arguments!r}")


def _arguments(events: Iterable[Event]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, CallArgs):
            found.setdefault(event.index, []).append(event.json)
    return {index: "".join(pieces) for index, pieces in found.items()}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
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
    case = as_case(case)
    whole = read(dialect, case)
    if each is not None:
        each(whole, whole)
    for chunks in chunkings(case.text) if ways is None else ways:
        if len(chunks) == 1:
            continue
        other = read(dialect, case, chunks)
        why = difference(whole, other)
        if why:
            smallest = _fewest_chunks(whole, list(chunks))
            smallest.fail("chunking", difference(whole, smallest))
        if each is not None:
            each(other, whole)
    return whole


def difference(whole: Reading, other: Reading) -> str:
    """Return the first difference between two readings of one text, for people; empty if there is none."""
    text = whole.case.text
    pairs = zip_longest(comparable(whole.events, text), comparable(other.events, text))
    for number, (expected, got) in enumerate(pairs):
        if expected != got:
            return f"event {number}\n    at once:   {expected}\n    in chunks: {got}"
    expected_message, message = without_ids(whole.message, text), without_ids(other.message, text)
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
        if difference(whole, reading):
            chunks, found = joined, reading
        else:
            at += 1
    return found


def assert_laws(
    dialect: str | Dialect, case: str | Case, ways: Iterable[Sequence[str]] | None = None
) -> Reading:
    """Every law that holds for a single text: chunking, tiling, places, order, hold-back, arguments."""
    return assert_chunking_invariant(dialect, case, ways, each=_laws_of_a_reading)


def _laws_of_a_reading(reading: Reading, whole: Reading) -> None:
    assert_tiles(reading)
    assert_places(reading)
    assert_order(reading)
    assert_hold_bound(reading)
    assert_argument_prefixes(reading, whole)


@dataclass(slots=True)
class _Call:
    """A call as its events tell it."""

    name: str
    arguments: str = ""
    status: Status = "truncated"


def _calls(events: Iterable[Event]) -> dict[int, _Call]:
    found: dict[int, _Call] = {}
    for event in events:
        if isinstance(event, CallStart):
            found[event.index] = _Call(event.name)
        elif isinstance(event, CallArgs):
            found[event.index].arguments += event.json
        elif isinstance(event, CallEnd):
            found[event.index].status = event.status
    return found


def _common(one: str, other: str) -> str:
    """What both begin with."""
    return commonprefix((one, other))  # noqa: RUF071 - not of paths


def assert_cuts(dialect: str | Dialect, case: str | Case) -> None:
    """Wherever generation is stopped, the output is cut there, and nothing else is wrong with it.

    What is shown of it is shown of the whole output, too: no half of a marker, no markup of a call that
    was begun.  A call is complete only with all the arguments that it has in the end, and malformed
    only if it is in the end.  Words may be text, even those that a marker begins with; so may be a brace,
    where nothing else marks a call.
    """
    case = as_case(case)
    whole = read(dialect, case)
    calls = _calls(whole.events)
    marks = markers(dialect)
    for at in range(len(case.text)):
        part = read(dialect, replace(case, text=case.text[:at], finish_reason="length"))
        for index, call in _calls(part.events).items():
            final = calls.get(index)
            same = final is not None and (
                final.status == "malformed" or (final.name, final.arguments) == (call.name, call.arguments)
            )
            if call.status == "complete" and not same:
                part.fail("cuts", f"{call} is complete; in the end it is {final}")
            if call.status == "malformed" and (final is None or final.status != "malformed"):
                part.fail("cuts", f"{call} is only cut; in the end it is {final}")
        if part.message is None or whole.message is None:
            continue
        for channel in ("content", "reasoning"):
            shown = (getattr(part.message, channel) or "").rstrip()
            more = shown[len(_common(shown, getattr(whole.message, channel) or "")) :].strip()
            if SIGN.search(more) and (more[0] != "{" or any(mark in more for mark in marks)):
                part.fail("cuts", f"{more!r} is {channel}; it is no text of the whole output")


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
    "blanks": Policies(whitespace_around_calls="keep", after_calls="content"),
}
"""Policies that between them exercise every choice, under names for test reports."""


def assert_never_raises(
    dialect: str | Dialect, case: str | Case, chunks: Sequence[str] | None = None
) -> None:
    """Whatever the model wrote, and whatever the policies, nothing raises.

    Of strict policies: nothing but ``MalformedOutput``, and only when folding.
    """
    case = as_case(case)
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
