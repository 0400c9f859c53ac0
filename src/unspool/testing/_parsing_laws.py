"""Property tests of parser runs; for example, all chunkings must lead to equal events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import zip_longest
from os.path import commonprefix
from typing import Any, Final, NoReturn

from .._core.compiler.match_program_types import PUNCTUATION
from .._core.stages.partial_arguments import PartialArguments
from ..dialects import Dialect, find
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
from ..policies import Policies
from ._parser_runs import (
    ModelOutput,
    ParseRun,
    as_model_output,
    chunkings,
    comparable,
    markers,
    run_parser,
    without_ids,
)


def assert_tiles(run: ParseRun) -> None:
    """Assert that the spans of the events cover the input in order without overlaps, and match its text."""
    text = run.case.text
    at = 0
    started: dict[int, int] = {}
    for event in run.events:
        if isinstance(event, Diagnostic):
            if not 0 <= event.start == event.end <= len(text):
                run.fail("tiling", f"{event} must be an empty span inside the input")
            continue
        if event.start != at or event.end < at:
            run.fail("tiling", f"{event} must start at {at}")
        at = event.end
        covered = text[event.start : event.end]
        if isinstance(event, Text | Markup) and event.text != covered:
            if event.start == event.end == 0 and event.text == run.dialect.habits.echo:
                continue  # an event for text that the prompt already contains
            run.fail("tiling", f"{event} covers {covered!r}")
        elif isinstance(event, CallStart):
            started[event.index] = event.start
        elif isinstance(event, CallEnd) and event.status != "complete":
            covered = text[started[event.index] : event.end]
            # The raw text of a call that started in the prompt is longer than the call's span in the output.
            if event.raw != covered and not (run.case.prompt and event.raw.endswith(covered)):
                run.fail("tiling", f"{event} must have the raw text {covered!r}")
    if at != len(text):
        run.fail("tiling", f"the events end at {at}, the input at {len(text)}")


def assert_places(run: ParseRun) -> None:
    """Assert that the name and arguments of each call have correct spans inside the call, without overlap."""
    arguments = _arguments(run.events)
    head: CallStart | None = None
    for event in run.events:
        if isinstance(event, CallStart):
            head = event
            _assert_name_in_place(run, event)
        elif isinstance(event, CallEnd) and head is not None:
            _assert_arguments_in_place(run, head, event, arguments.get(event.index, ""))


def _assert_name_in_place(run: ParseRun, head: CallStart) -> None:
    if not head.start <= head.name_start <= head.name_end <= head.end:
        run.fail("places", f"the name {head.name_start}:{head.name_end} is outside {head}")
    span_text = run.case.text[head.name_start : head.name_end]
    # An escaped name differs from the text, and so does a name that started in the prompt.
    if span_text not in ("", head.name) and not (set(span_text) & {"\\", "&"} or run.case.prompt):
        run.fail("places", f"the span of the name of {head} contains {span_text!r}")


def _assert_arguments_in_place(run: ParseRun, head: CallStart, tail: CallEnd, joined: str) -> None:
    start, end = tail.args_start, tail.args_end
    span_text = run.case.text[start:end]
    if not head.start <= start <= end <= tail.start:
        run.fail("places", f"the arguments {start}:{end} are outside the call that ends with {tail}")
    if start < head.name_end and head.name_start < end:
        run.fail("places", f"the name overlaps the arguments {span_text!r}")
    if run.case.prompt:  # the prompt may contain the beginning of the arguments
        return
    # Only JSON's whitespace is checked, because other control characters are errors anyway.
    if span_text[:1] in tuple(" \t\n\r"):
        run.fail("places", f"the span of the arguments starts with whitespace: {span_text!r}")
    if tail.status != "complete":
        return
    # Only a call without arguments, or with code that is only whitespace, may have an empty span.
    values = json.loads(joined).values()
    if not span_text and any(not isinstance(value, str) or value.strip() for value in values):
        run.fail("places", f"the arguments {joined!r} have an empty span")
    if span_text.startswith('{"') and is_json(span_text) and span_text != joined:
        # Some texts are both JSON and Python literals. If the parser has read such a text as Python, it has
        # converted the arguments to JSON, so only the values must be equal.
        same = "\\" in span_text or json.loads(span_text) == json.loads(joined)
        if not (same and _reads_python(run.dialect)):
            run.fail("places", f"the arguments are {joined!r}, but their span contains {span_text!r}")


def _reads_python(spec: Dialect) -> bool:
    """Return whether the dialect reads arguments that are Python literals."""
    return spec.args in ("python", "loose") or any(":python}" in template for template in spec.call)


def assert_order(run: ParseRun) -> None:
    """Assert that calls start, receive arguments and end one at a time, and that ``Finish`` is last."""
    index, is_open = -1, False
    for event in run.events:
        if isinstance(event, CallStart):
            if is_open or event.index != index + 1 or not event.name or not event.id:
                run.fail("order", f"{event} after call {index}, {'open' if is_open else 'closed'}")
            index, is_open = event.index, True
        elif isinstance(event, CallArgs | CallEnd):
            if not is_open or event.index != index:
                run.fail("order", f"{event} while no call {event.index} is open")
            is_open = isinstance(event, CallArgs)
        elif isinstance(event, Text) and is_open:
            run.fail("order", f"{event} inside call {index}")
    if is_open or not isinstance(run.events[-1], Finish):
        run.fail("order", f"the stream ends with {run.events[-1]}, call {index} open: {is_open}")
    if any(isinstance(event, Finish) for event in run.events[:-1]):
        run.fail("order", "two Finish events")


def assert_hold_bound(run: ParseRun) -> None:
    """Assert that ``pending`` counts all characters without an event, and is at most ``max_pending``."""
    for number, feed in enumerate(run.feeds):
        if run.case.prompt is None and feed.pending < feed.fed - feed.covered:
            missing = feed.fed - feed.covered
            run.fail(
                "hold-back",
                f"{feed.pending} pending after chunk {number}, but {missing} characters have no event",
            )
        if feed.max_pending is not None and feed.pending > feed.max_pending:
            run.fail(
                "hold-back",
                f"{feed.pending} pending after chunk {number}, more than max_pending={feed.max_pending}",
            )


def assert_argument_prefixes(run: ParseRun, whole: ParseRun | None = None) -> None:
    """Assert that the arguments sent so far are a prefix of the final arguments.

    The final arguments of a complete call must be JSON.

    :param whole: the run in one chunk; its arguments are the final arguments.
    """
    final = _arguments((whole or run).events)
    sent: dict[int, str] = {}
    for event in run.events:
        if isinstance(event, CallArgs):
            sent[event.index] = sent.get(event.index, "") + event.json
            if not final.get(event.index, "").startswith(sent[event.index]):
                run.fail(
                    "arguments", f"sent {sent[event.index]!r}, not a prefix of {final.get(event.index)!r}"
                )
        elif isinstance(event, CallEnd) and event.status == "complete":
            arguments = sent.get(event.index, "")
            if arguments != final.get(event.index, "") or not is_json(arguments):
                run.fail("arguments", f"call {event.index} is complete with the arguments {arguments!r}")


def assert_partial_arguments(run: ParseRun) -> None:
    """Assert that ``PartialArguments`` shows only what the final arguments contain, and all of it at the end.

    The values of a call must grow: strings and lists at their ends, and objects by new keys.  Repeated keys
    are an exception, because the last value replaces all earlier ones.
    """
    arguments = _arguments(run.events)
    repeats = {index for index, text in arguments.items() if _repeats_key(text)}
    partial = PartialArguments()
    before: dict[int, Any] = {}
    for event in run.events:
        partial.feed([event])
        if not isinstance(event, CallStart | CallArgs | CallEnd):
            continue
        index = event.index
        value = partial.value(index)
        if index not in repeats and not _grows(before.get(index, {}), value):
            run.fail("partial arguments", f"{before[index]!r} became {value!r} at {event}")
        before[index] = deepcopy(value)
        status = event.status if isinstance(event, CallEnd) else "open"
        if partial.status(index) != status:
            run.fail("partial arguments", f"the status is {partial.status(index)} at {event}")
        if status == "complete" and value != json.loads(arguments.get(index) or "{}"):
            run.fail("partial arguments", f"{arguments[index]} became {value!r}")


def _repeats_key(text: str) -> bool:
    repeated = False

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated |= len({key for key, _ in pairs}) < len(pairs)
        return dict(pairs)

    with suppress(ValueError):
        json.loads(text, object_pairs_hook=read)
    return repeated


def _grows(before: object, after: object) -> bool:
    """Return whether a value contains all of an earlier value, at the same places."""
    pairs = [(before, after)]
    while pairs:
        small, large = pairs.pop()
        if type(small) is not type(large):
            return False
        if isinstance(small, dict) and isinstance(large, dict):
            if list(large)[: len(small)] != list(small):
                return False
            pairs += [(value, large[key]) for key, value in small.items()]
        elif isinstance(small, list) and isinstance(large, list):
            if len(large) < len(small):
                return False
            pairs += zip(small, large, strict=False)
        elif isinstance(small, str) and isinstance(large, str):
            if not large.startswith(small):
                return False
        elif small != large:
            return False
    return True


def _arguments(events: Iterable[Event]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, CallArgs):
            found.setdefault(event.index, []).append(event.json)
    return {index: "".join(pieces) for index, pieces in found.items()}


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def is_json(text: str) -> bool:
    """Return whether a text is a single JSON value."""
    try:
        json.loads(text, parse_constant=_reject_constant, parse_int=str)
    except RecursionError:
        return True  # the text is nested too deeply for Python's JSON parser
    except ValueError:
        return False
    return True


def assert_chunking_invariant(
    dialect: str | Dialect,
    case: str | ModelOutput,
    ways: Iterable[Sequence[str]] | None = None,
    *,
    each: Callable[[ParseRun, ParseRun], None] | None = None,
) -> ParseRun:
    """Assert that all chunkings of a text lead to equal events and equal messages.

    :param ways: the chunkings to try, by default those of :func:`chunkings`.
    :param each: function that makes further assertions; it receives each run, and the run in one chunk.
    :return: the run that parsed the text in one chunk.
    """
    case = as_model_output(case)
    whole = run_parser(dialect, case)
    if each is not None:
        each(whole, whole)
    for chunks in chunkings(case.text) if ways is None else ways:
        if len(chunks) == 1:
            continue
        other = run_parser(dialect, case, chunks)
        why = difference(whole, other)
        if why:
            smallest = _fewest_chunks(whole, list(chunks))
            smallest.fail("chunking", difference(whole, smallest))
        if each is not None:
            each(other, whole)
    return whole


def difference(whole: ParseRun, other: ParseRun) -> str:
    """Return a description of the first difference between two runs of one text; empty if there is none."""
    text = whole.case.text
    pairs = zip_longest(comparable(whole.events, text), comparable(other.events, text))
    for number, (expected, got) in enumerate(pairs):
        if expected != got:
            return f"event {number}\n    at once:   {expected}\n    in chunks: {got}"
    expected_message, message = without_ids(whole.message, text), without_ids(other.message, text)
    if expected_message != message:
        return f"the message\n    at once:   {expected_message}\n    in chunks: {message}"
    return ""


def _fewest_chunks(whole: ParseRun, chunks: list[str]) -> ParseRun:
    """Join chunks while the run still differs from ``whole``; return the run with the fewest chunks."""
    found = run_parser(whole.dialect, whole.case, chunks)
    at = 0
    while at + 1 < len(chunks):
        joined = [*chunks[:at], chunks[at] + chunks[at + 1], *chunks[at + 2 :]]
        run = run_parser(whole.dialect, whole.case, joined)
        if difference(whole, run):
            chunks, found = joined, run
        else:
            at += 1
    return found


def assert_laws(
    dialect: str | Dialect, case: str | ModelOutput, ways: Iterable[Sequence[str]] | None = None
) -> ParseRun:
    """Assert the laws chunking, tiling, places, order, hold-back and arguments for one text."""
    return assert_chunking_invariant(dialect, case, ways, each=_assert_run_laws)


def _assert_run_laws(run: ParseRun, whole: ParseRun) -> None:
    assert_tiles(run)
    assert_places(run)
    assert_order(run)
    assert_hold_bound(run)
    assert_argument_prefixes(run, whole)


@dataclass(slots=True)
class _Call:
    """Tool call, assembled from its events."""

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
    """Return the common prefix of two texts."""
    return commonprefix((one, other))  # noqa: RUF071 - the texts are not paths


def assert_cuts(dialect: str | Dialect, case: str | ModelOutput) -> None:
    """Assert that an output is parsed as truncated if it stops early, at any position.

    The text in the message of the shorter output must also be in the message of the complete output. So the
    message contains no part of a marker, and no markup of an unfinished call. Two exceptions are accepted:

    - words at the beginning of a marker, because they may also be ordinary text;
    - an opening brace, if the calls of the dialect have no other opening marker.

    A call in the shorter output is complete only if it has all of its final arguments. It is malformed only
    if it is also malformed in the complete output.
    """
    case = as_model_output(case)
    whole = run_parser(dialect, case)
    calls = _calls(whole.events)
    dialect_markers = markers(dialect)
    for at in range(len(case.text)):
        part = run_parser(dialect, replace(case, text=case.text[:at], finish_reason="length"))
        for index, call in _calls(part.events).items():
            final = calls.get(index)
            same = final is not None and (
                final.status == "malformed" or (final.name, final.arguments) == (call.name, call.arguments)
            )
            if call.status == "complete" and not same:
                part.fail("cuts", f"{call} is complete, but the complete output has {final}")
            if call.status == "malformed" and (final is None or final.status != "malformed"):
                part.fail("cuts", f"{call} is malformed, but the complete output has {final}")
        if part.message is None or whole.message is None:
            continue
        for channel in ("content", "reasoning"):
            shown = (getattr(part.message, channel) or "").rstrip()
            extra = shown[len(_common(shown, getattr(whole.message, channel) or "")) :].strip()
            if PUNCTUATION.search(extra) and (
                extra[0] != "{" or any(mark in extra for mark in dialect_markers)
            ):
                part.fail("cuts", f"{extra!r} is {channel}, but not in the complete output")


POLICIES: Final[Mapping[str, Policies]] = {
    "default": Policies(),
    "repair": Policies(malformed_call="repair"),
    "keep": Policies(malformed_call="call", truncated_call="call"),
    "commit_call": Policies(commit="call"),
    "commit_call_repair": Policies(commit="call", malformed_call="repair", truncated_call="text"),
    "reasoning_text": Policies(calls_in_reasoning="text", after_calls="drop"),
    "first_close": Policies(close_in_value="first", schemaless_value="json", unknown_tool="text"),
    "strip": Policies(no_tools="drop", call_ids="generated", arguments="canonical"),
    "strict": Policies.preset("strict"),
    "blanks": Policies(whitespace_around_calls="text", after_calls="text"),
}
"""Sets of policies that together use every value of every policy, keyed by a name for test reports."""


def assert_never_raises(
    dialect: str | Dialect, case: str | ModelOutput, chunks: Sequence[str] | None = None
) -> None:
    """Assert that parsing an output raises no error under any policy.

    Strict policies may raise ``MalformedOutput``, but only while a message is built.
    """
    case = as_model_output(case)
    for name, policies in POLICIES.items():
        for tools in (case.tools, None, ()):
            changed = replace(case, policies=policies, tools=tools)
            try:
                run_parser(dialect, changed, chunks)
            except Exception as error:  # noqa: BLE001 - any exception breaks the law
                run = ParseRun(find(dialect), changed, chunks or [case.text], [], None, [])
                try:
                    run.fail("no error", f"{type(error).__name__}: {error} (policies {name})")
                except AssertionError as report:
                    raise report from error
