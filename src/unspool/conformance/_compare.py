"""Comparison of the expected message with the actual message, and classes of differences.

=============  ================================================================
``match``      no difference
``error``      there is no message: the parser raised an exception, exited, exceeded
               the time limit, or violated a streaming rule
``merge``      separate parts were joined: two calls became one, or the whitespace
               between two words is missing
``loss``       text or a call is missing
``leak``       unexpected output: markup in the text, duplicated text, text in the
               wrong channel, or a call that the model did not make
``arguments``  the call is right, but its arguments or its id are different
``order``      the parts are complete, but their order is different
``whitespace`` only whitespace or the formatting of JSON is different
``finish``     only the finish reason is different
=============  ================================================================

If several classes apply, the first of them in this table is reported.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args

from ..wire import remove_poison
from ._delta_reader import DecodedStream, StreamPosition, count_visible
from .case_format import (
    CallReference,
    Channel,
    ExtractedToolCallInformation,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
    order_lines,
)

DifferenceClass: TypeAlias = Literal[
    "match", "error", "merge", "loss", "leak", "arguments", "order", "whitespace", "finish"
]
CLASSES: Final[tuple[DifferenceClass, ...]] = get_args(DifferenceClass)
"""All classes: first ``match``, then the others from most to least severe."""


def worse(one: str, other: str) -> str:
    """Return the more severe of two classes of differences."""
    rank: dict[str, int] = {name: number or len(CLASSES) for number, name in enumerate(CLASSES)}
    return min((one, other), key=rank.__getitem__)


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between a parser's answer and the expected message."""

    name: DifferenceClass
    """Class of the difference."""
    detail: str = ""
    """Readable description of the difference."""


MATCH: Final = Difference("match")


def compare(case: TestCase, stream: DecodedStream) -> Difference:
    """Return the most severe difference between the expected message of a case and the answer."""
    all_differences = differences(case, stream)
    return min(all_differences, key=lambda one: CLASSES.index(one.name), default=MATCH)


def differences(case: TestCase, stream: DecodedStream) -> list[Difference]:
    """Return all differences between the expected message of a case and the answer."""
    actual = stream.message
    alignment = _CallAlignment(case, actual)
    all_differences = [*alignment.differences]
    # True for each unfinished part that the parser returned as a call.
    sent_as_calls = dict(alignment.sent_as_calls)
    order: list[tuple[Channel | Literal["call"], str]] = []
    for channel in get_args(Channel):
        all_differences += _TextComparison(case, actual, channel, sent_as_calls).differences
    for number, part in enumerate(case.expected_order):
        if isinstance(part, TextSegment):
            order.append((part.channel, part.text))
        elif isinstance(part, CallReference) or sent_as_calls.get(number):
            order.append(("call", ""))
    if all(one.name in ("whitespace", "arguments") for one in all_differences):
        # The order is checked only if no unfinished part was returned as text, because such text may be
        # anywhere.
        all_differences += (
            _compare_order(order, stream.positions) if not _has_extra_text(case, actual) else []
        )
    finish = case.expected_finish_reason
    if finish == "stop" and actual.finish_reason == "tool_calls" and any(sent_as_calls.values()):
        finish = "tool_calls"  # accepted, because the client has received a part of a malformed call
    if actual.finish_reason is not None and finish is not None and actual.finish_reason != finish:
        all_differences.append(
            Difference("finish", f"finish_reason {actual.finish_reason}, expected {finish}")
        )
    return all_differences


# -- calls


class _CallAlignment:
    """Assignment of the parser's calls to the expected calls and the unfinished parts of a case.

    The parser's calls and the expected parts are processed in order. If the next expected part is a call, the
    parser's next call is assigned to it. If the next expected part is unfinished, the parser's next call is
    assigned to it only if the call is an acceptable result for this part (see ``_may_be_sent_as``). Otherwise
    the parser has removed the unfinished part or returned it as text, so the parser's call is compared with
    the next expected part.
    """

    def __init__(self, case: TestCase, message: ExtractedToolCallInformation) -> None:
        self.differences: list[Difference] = []
        self.sent_as_calls: dict[int, bool] = {}
        """True if the parser returned an unfinished part as a call, keyed by the part's index in the expected
        order."""
        calls = list(message.tool_calls)
        parts = [
            (number, part)
            for number, part in enumerate(case.expected_order)
            if isinstance(part, CallReference) or (isinstance(part, Unfinished) and part.name)
        ]
        expected_count = sum(isinstance(part, CallReference) for _, part in parts)
        at = 0
        for number, part in parts:
            actual = calls[at] if at < len(calls) else None
            if isinstance(part, Unfinished):
                self.sent_as_calls[number] = actual is not None and _may_be_sent_as(part, actual)
                at += self.sent_as_calls[number]
                if actual is not None and self.sent_as_calls[number] and _runs_as_other(part, actual):
                    detail = f"clients can run a broken call: {_format_call(actual)}"
                    self.differences.append(Difference("leak", detail))
            elif isinstance(part, CallReference):
                expected = case.expected_tool_calls[part.index]
                if actual is None:
                    self._add_missing(expected, calls)
                    continue
                at += 1
                self._compare(expected, actual)
        for extra in calls[at:]:
            self.differences.append(Difference("leak", f"unexpected call: {_format_call(extra)}"))
        if len(calls) > expected_count + sum(self.sent_as_calls.values()) or len(calls) < expected_count:
            # With a wrong number of calls, calls may be assigned to the wrong parts. So ignore differences
            # within calls.
            reliable = [one for one in self.differences if one.name not in ("arguments", "whitespace")]
            count_detail = f"{len(calls)} calls, expected {expected_count}"
            self.differences = reliable or [Difference("loss", count_detail)]

    def _add_missing(self, expected: ToolCall, calls: Sequence[ToolCall]) -> None:
        """Record a missing call: ``merge`` if another call contains its name or arguments, else ``loss``."""
        inside = expected.function.arguments.strip("{} ")
        merged = inside and any(
            inside in call.function.arguments and call.function.arguments != expected.function.arguments
            for call in calls
        )
        joined = any(
            expected.function.name in call.function.name and expected.function.name != call.function.name
            for call in calls
        )
        if merged or joined:
            detail = f"call merged with another: {_format_call(expected)}"
            self.differences.append(Difference("merge", detail))
        else:
            self.differences.append(Difference("loss", f"missing call {_format_call(expected)}"))

    def _compare(self, expected: ToolCall, actual: ToolCall) -> None:
        if expected.function.name != actual.function.name:
            detail = f"missing call {_format_call(expected)}, got {_format_call(actual)}"
            self.differences.append(Difference("loss", detail))
            return
        if expected.function.arguments != actual.function.arguments:
            self._compare_arguments(expected, actual)
        if expected.id is not None and actual.id is not None and expected.id != actual.id:
            detail = f"id {actual.id!r}, but the model wrote {expected.id!r}"
            self.differences.append(Difference("arguments", detail))

    def _compare_arguments(self, expected: ToolCall, actual: ToolCall) -> None:
        arguments = f"{actual.function.name}: {actual.function.arguments}"
        if json_value(expected.function.arguments) != json_value(actual.function.arguments):
            detail = f"{arguments}, expected {expected.function.arguments}"
            self.differences.append(Difference("arguments", detail))
        elif expected.verbatim:
            detail = f"{arguments}, the model wrote {expected.function.arguments}"
            self.differences.append(Difference("whitespace", detail))


def _may_be_sent_as(part: Unfinished, call: ToolCall) -> bool:
    """Return whether a stream may send this call for a truncated or malformed part of the output."""
    if part.kind == "fragment" or call.function.name != part.name:
        return False
    sent, whole = (
        _remove_whitespace(remove_poison(call.function.arguments)),
        _remove_whitespace(part.arguments),
    )
    if part.kind == "malformed":  # a stream may send only the text before the error, not repaired arguments
        return (whole.startswith(sent) and sent != whole) or sent in _remove_whitespace(part.raw)
    return whole.startswith(sent)


def _runs_as_other(part: Unfinished, call: ToolCall) -> bool:
    """Return whether a client could run the call with arguments that the model did not write.

    Clients treat empty arguments as an empty object.
    """
    arguments = call.function.arguments.strip() or "{}"
    if not arguments.startswith("{"):
        return False
    kind, value = json_value(arguments)
    return kind == "JSON" and (kind, value) != json_value(part.arguments)


def json_value(text: str) -> tuple[str, object]:
    """Parse JSON text to a value that can be compared strictly.

    For example, 1, 1.0, "1" and true have four different values. Objects with the same members in a different
    order are also different. Text that is not JSON equals only the same text.
    """
    try:
        # Numbers are compared as text, because floats would lose digits, and Python refuses to parse an
        # integer with 5,000 digits.
        value = json.loads(
            text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_reject_constant,
            object_pairs_hook=lambda pairs: ("object", *pairs),
        )
    except (ValueError, RecursionError):
        return ("not JSON", text)
    return ("JSON", _with_types(value))


class _Number(str):
    """JSON number, stored as the text that the model wrote."""

    __slots__ = ()


def _with_types(value: Any) -> object:
    """Add the types of all members to a value, because Python's ``==`` ignores types (``1 == True``)."""
    if isinstance(value, _Number):
        return ("number", _normalize_number(value))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_with_types, value))
    return (type(value).__name__, value)


def _normalize_number(text: str) -> str:
    """Normalize a number: ``1.50`` equals ``1.5``, ``1e2`` equals ``1E+2``; an integer stays an integer."""
    if re.fullmatch(r"-?\d+", text):
        return text
    mantissa, _, exponent = text.lower().partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = exponent.lstrip("+").lstrip("0") if not exponent.startswith("-") else exponent
    return f"{mantissa}e{power}" if power else f"{mantissa}."


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _format_call(call: ToolCall) -> str:
    return f"{call.function.name} {call.function.arguments}"


# -- text


class _TextComparison:
    """Comparison of the text in one channel with the expected segments.

    The expected segments are looked up from left to right. Between two segments, there may be whitespace and
    the raw text of unfinished parts; any other text is a leak. A malformed call that the parser did not
    return as a call must be in the content, at least in part.
    """

    def __init__(
        self,
        case: TestCase,
        actual: ExtractedToolCallInformation,
        channel: Channel,
        sent_as_calls: dict[int, bool],
    ) -> None:
        self.differences: list[Difference] = []
        self.channel = channel
        text = (actual.content if channel == "content" else actual.reasoning) or ""
        self.text = text
        at = 0
        allowed: list[Unfinished] = []
        raw_text_required = False
        before = ""
        for number, part in enumerate(case.expected_order):
            if isinstance(part, Unfinished):
                if not sent_as_calls.get(number):
                    allowed.append(part)
                    raw_text_required = raw_text_required or (
                        part.kind == "malformed" and channel == "content"
                    )
            elif isinstance(part, TextSegment) and part.channel == channel:
                start, end = self._find(part.text, at)
                if start < 0:
                    self._add("loss", f"{_shorten(part.text)!r} is not in {_shorten(text[at:])!r}")
                    return
                self._check_gap(text[at:start], allowed, first=not before, last=False)
                if before and start == at:
                    self._add("merge", f"no whitespace between {before[-20:]!r} and {part.text[:20]!r}")
                raw_text_required = raw_text_required and not text[at:start].strip()
                allowed, before, at = [], part.text, end
        raw_text_required = raw_text_required and not text[at:].strip()
        self._check_gap(text[at:], allowed, first=not before, last=True)
        repaired = len(actual.tool_calls) > len(case.expected_tool_calls) + sum(sent_as_calls.values())
        if raw_text_required and not repaired:
            self._add("loss", "the broken call is missing as a call and as text")

    def _add(self, name: DifferenceClass, detail: str) -> None:
        self.differences.append(Difference(name, f"{self.channel}: {detail}"))

    def _check_gap(self, gap: str, allowed: Sequence[Unfinished], *, first: bool, last: bool) -> None:
        """Check that a gap between two segments contains only whitespace and the text of unfinished parts."""
        rest = gap.strip()
        if not rest:
            if gap and (first or last) and not allowed:
                self._add("whitespace", f"{gap!r} at the {'end' if last else 'beginning'}")
            return
        if not any(_is_raw(rest, part) for part in allowed):
            self._add("leak", repr(rest))

    def _find(self, segment: str, at: int) -> tuple[int, int]:
        """Return the span of a segment after ``at``; if there is no exact match, ignore whitespace."""
        start = self.text.find(segment, at)
        if start >= 0:
            return start, start + len(segment)
        loose = re.compile(r"\s*".join(map(re.escape, segment.split())))
        match = loose.search(self.text, at)
        if match is None or not segment.strip():
            return -1, -1
        self._add("whitespace", f"{_shorten(match[0])!r}, expected {_shorten(segment)!r}")
        return match.span()


def _is_raw(text: str, part: Unfinished) -> bool:
    """Return whether the text may be an unfinished part from which the parser has removed markers."""
    rest, raw = _remove_whitespace(text), _remove_whitespace(part.raw)
    if part.kind == "fragment":  # the parser may have removed some markers
        characters = iter(raw)
        return all(character in characters for character in rest)
    return part.kind == "malformed" and rest in raw


def _has_extra_text(case: TestCase, actual: ExtractedToolCallInformation) -> bool:
    """Return whether the parser returned an unfinished part of the output as text."""
    return any(
        count_visible([actual_text or ""]) != count_visible([expected_text or ""])
        for actual_text, expected_text in (
            (actual.content, case.expected_content),
            (actual.reasoning, case.expected_reasoning),
        )
    )


# -- order


def _compare_order(
    parts: Sequence[tuple[Channel | Literal["call"], str]], positions: Sequence[StreamPosition]
) -> list[Difference]:
    """Use the position after each delta to check that the parts arrived in the expected order."""
    path = [(0, 0, 0)]
    for kind, text in parts:
        content, reasoning, calls = path[-1]
        length = count_visible([text])
        path.append(
            (content + length, reasoning, calls)
            if kind == "content"
            else (content, reasoning + length, calls)
            if kind == "reasoning"
            else (content, reasoning, calls + 1)
        )
    at = 0
    for state in positions:
        point = (state.content, state.reasoning, state.calls)
        while at < len(path) - 1 and not _between(path[at], point, path[at + 1]):
            at += 1
        if at == len(path) - 1 and point != path[-1]:
            kinds = " ".join(kind for kind, _ in parts)
            return [Difference("order", f"expected {kinds}; after a delta it was {_format_position(state)}")]
    return []


def _between(low: Sequence[int], point: Sequence[int], high: Sequence[int]) -> bool:
    return all(a <= b <= c for a, b, c in zip(low, point, high, strict=True))


def _format_position(state: StreamPosition) -> str:
    return f"{state.reasoning} characters of reasoning, {state.content} of content, {state.calls} calls"


# -- readable differences


def diff(case: TestCase, actual: ExtractedToolCallInformation | None) -> str:
    """Return a complete diff between the expected and the actual message, with one line for each part."""
    actual_lines = order_lines(actual) if actual is not None else []
    if actual is not None and actual.finish_reason is None:
        actual_lines += [line for line in order_lines(case.expected) if line.startswith("finish")]
    expected_lines = order_lines(case.expected)
    lines: list[str] = []
    # Only whole lines are compared, because searching for similar text inside long arguments takes minutes.
    for _, a, b, c, d in difflib.SequenceMatcher(
        None, expected_lines, actual_lines, autojunk=False
    ).get_opcodes():
        if expected_lines[a:b] == actual_lines[c:d]:
            lines += [f"  {line}" for line in expected_lines[a:b]]
        else:
            lines += [f"- {line}" for line in expected_lines[a:b]] + [
                f"+ {line}" for line in actual_lines[c:d]
            ]
    return "\n".join(lines)


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-90:]}"


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())
