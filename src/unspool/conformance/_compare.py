"""Comparing what must come out with what did, and naming the difference.

=============  ================================================================
``match``      there is none
``error``      nothing came out: the parser raised, died, took too long, or broke
               a rule of streams
``merge``      things ran together: two calls in one, two words without a blank
``loss``       text or a call is missing
``leak``       something came out that should not: markup in the text, text in
               the wrong channel or twice, a call that was none
``arguments``  the right call with other arguments, or another id than the model's
``order``      all of it, in another order
``whitespace`` the same but for blanks, or for the spelling of JSON
``finish``     the same, with another finish reason
=============  ================================================================

If several apply, the first one in this table names the difference.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args

from ..wire._poisoned_calls import remove_poison
from ._cases import (
    CallAt,
    Channel,
    ExtractedToolCallInformation,
    Stretch,
    TestCase,
    ToolCall,
    Unfinished,
    order_lines,
)
from ._delta_reader import Reached, Rebuilt, visible

DifferenceClass: TypeAlias = Literal[
    "match", "error", "merge", "loss", "leak", "arguments", "order", "whitespace", "finish"
]
CLASSES: Final[tuple[DifferenceClass, ...]] = get_args(DifferenceClass)
"""All of them; after ``match``, the worst first."""


def worse(one: str, other: str) -> str:
    """The worse of two classes."""
    rank: dict[str, int] = {name: number or len(CLASSES) for number, name in enumerate(CLASSES)}
    return min((one, other), key=rank.__getitem__)


@dataclass(frozen=True, slots=True)
class Difference:
    """How an answer differs from what was expected."""

    name: DifferenceClass
    """Its class."""
    detail: str = ""
    """What exactly, for people."""


MATCH: Final = Difference("match")


def compare(case: TestCase, stream: Rebuilt) -> Difference:
    """The difference between what a case expects and what came out."""
    found = differences(case, stream)
    return min(found, key=lambda one: CLASSES.index(one.name), default=MATCH)


def differences(case: TestCase, stream: Rebuilt) -> list[Difference]:
    """All of them."""
    actual = stream.message
    aligned = _Aligned(case, actual)
    found = [*aligned.found]
    shown = dict(aligned.shown)  # which unfinished pieces came out as calls
    order: list[tuple[Channel | Literal["call"], str]] = []
    for channel in get_args(Channel):
        found += _Text(case, actual, channel, shown).found
    for number, part in enumerate(case.expected_order):
        if isinstance(part, Stretch):
            order.append((part.channel, part.text))
        elif isinstance(part, CallAt) or shown.get(number):
            order.append(("call", ""))
    if all(one.name in ("whitespace", "arguments") for one in found):
        # What came out besides is an unfinished piece, whose place is not at issue.
        found += _order(order, stream.reached) if not _has_extra_text(case, actual) else []
    finish = case.expected_finish_reason
    if finish == "stop" and actual.finish_reason == "tool_calls" and any(shown.values()):
        finish = "tool_calls"  # a malformed call is a call to a client that was sent it
    if actual.finish_reason is not None and finish is not None and actual.finish_reason != finish:
        found.append(Difference("finish", f"finish_reason {actual.finish_reason}, expected {finish}"))
    return found


# -- calls


class _Aligned:
    """Which call is which."""

    def __init__(self, case: TestCase, actual: ExtractedToolCallInformation) -> None:
        self.found: list[Difference] = []
        self.shown: dict[int, bool] = {}
        calls = list(actual.tool_calls)
        expected = [
            (number, part)
            for number, part in enumerate(case.expected_order)
            if isinstance(part, CallAt) or (isinstance(part, Unfinished) and part.name)
        ]
        wanted = sum(isinstance(part, CallAt) for _, part in expected)
        at = 0
        for number, part in expected:
            got = calls[at] if at < len(calls) else None
            if isinstance(part, Unfinished):
                self.shown[number] = got is not None and _begins(part, got)
                at += self.shown[number]
                if got is not None and self.shown[number] and _runs_as_other(part, got):
                    self.found.append(Difference("leak", f"a broken call that clients run: {_spelt(got)}"))
            elif isinstance(part, CallAt):
                want = case.expected_tool_calls[part.index]
                if got is None:
                    self._missing(want, calls)
                    continue
                at += 1
                self._compare(want, got)
        for extra in calls[at:]:
            self.found.append(Difference("leak", f"a call that was none: {_spelt(extra)}"))
        if len(calls) > wanted + sum(self.shown.values()) or len(calls) < wanted:
            # The pairs are guesses then, so that their differences say little.
            self.found = [one for one in self.found if one.name not in ("arguments", "whitespace")] or [
                Difference("loss", f"{len(calls)} calls, expected {wanted}")
            ]

    def _missing(self, want: ToolCall, calls: Sequence[ToolCall]) -> None:
        inside = want.function.arguments.strip("{} ")
        merged = inside and any(
            inside in call.function.arguments and call.function.arguments != want.function.arguments
            for call in calls
        )
        joined = any(
            want.function.name in call.function.name and want.function.name != call.function.name
            for call in calls
        )
        if merged or joined:
            self.found.append(Difference("merge", f"a call ran into another: {_spelt(want)}"))
        else:
            self.found.append(Difference("loss", f"no call {_spelt(want)}"))

    def _compare(self, want: ToolCall, got: ToolCall) -> None:
        if want.function.name != got.function.name:
            self.found.append(Difference("loss", f"no call {_spelt(want)}, but {_spelt(got)}"))
            return
        if want.function.arguments != got.function.arguments:
            self._arguments(want, got)
        if want.id is not None and got.id is not None and want.id != got.id:
            self.found.append(Difference("arguments", f"id {got.id!r}, the model wrote {want.id!r}"))

    def _arguments(self, want: ToolCall, got: ToolCall) -> None:
        expected, found = json_value(want.function.arguments), json_value(got.function.arguments)
        if expected != found:
            detail = f"{got.function.name}: {got.function.arguments}, expected {want.function.arguments}"
            self.found.append(Difference("arguments", detail))
        elif want.verbatim:
            detail = f"{got.function.name}: {got.function.arguments}, written {want.function.arguments}"
            self.found.append(Difference("whitespace", detail))


def _begins(part: Unfinished, call: ToolCall) -> bool:
    """Whether the call may be what a stream shows of the unfinished one."""
    if part.kind == "fragment" or call.function.name != part.name:
        return False
    sent, whole = _squeezed(remove_poison(call.function.arguments)), _squeezed(part.arguments)
    if part.kind == "malformed":  # what was sent before the error, and no repair of it
        return (whole.startswith(sent) and sent != whole) or sent in _squeezed(part.raw)
    return whole.startswith(sent)


def _runs_as_other(part: Unfinished, call: ToolCall) -> bool:
    """Whether clients take its arguments for whole, and they are not: none are read as an empty object."""
    arguments = call.function.arguments.strip() or "{}"
    if not arguments.startswith("{"):
        return False
    kind, value = json_value(arguments)
    return kind == "JSON" and (kind, value) != json_value(part.arguments)


def json_value(text: str) -> tuple[str, object]:
    """The value of JSON text, in which 1, 1.0, "1" and true differ, as does the order of keys.

    Text that is no JSON is a value of its own.
    """
    try:
        # Numbers stay text: digits count, and Python refuses to read an integer of 5,000 digits.
        value = json.loads(
            text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
            object_pairs_hook=lambda pairs: ("object", *pairs),
        )
    except (ValueError, RecursionError):
        return ("not JSON", text)
    return ("JSON", _typed(value))


class _Number(str):
    """A number, as it is written."""

    __slots__ = ()


def _typed(value: Any) -> object:
    """The value with the types of its members, which Python's ``==`` does not tell apart."""
    if isinstance(value, _Number):
        return ("number", _plain_number(value))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_typed, value))
    return (type(value).__name__, value)


def _plain_number(text: str) -> str:
    """``1.50`` is ``1.5``, and ``1e2`` is ``1E+2``; an integer stays one."""
    if re.fullmatch(r"-?\d+", text):
        return text
    mantissa, _, exponent = text.lower().partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = exponent.lstrip("+").lstrip("0") if not exponent.startswith("-") else exponent
    return f"{mantissa}e{power}" if power else f"{mantissa}."


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _spelt(call: ToolCall) -> str:
    return f"{call.function.name} {call.function.arguments}"


# -- text


class _Text:
    """The text of one channel: every stretch in turn, and what stands between them."""

    def __init__(
        self,
        case: TestCase,
        actual: ExtractedToolCallInformation,
        channel: Channel,
        shown: dict[int, bool],
    ) -> None:
        self.found: list[Difference] = []
        self.channel = channel
        text = (actual.content if channel == "content" else actual.reasoning) or ""
        self.text = text
        at = 0
        allowed: list[Unfinished] = []
        owed = False
        before = ""
        for number, part in enumerate(case.expected_order):
            if isinstance(part, Unfinished):
                if not shown.get(number):
                    allowed.append(part)
                    owed = owed or (part.kind == "malformed" and channel == "content")
            elif isinstance(part, Stretch) and part.channel == channel:
                start, end = self._find(part.text, at)
                if start < 0:
                    self._add("loss", f"no {_short(part.text)!r} in {_short(text[at:])!r}")
                    return
                self._gap(text[at:start], allowed, first=not before, last=False)
                if before and start == at:
                    self._add("merge", f"no blank between {before[-20:]!r} and {part.text[:20]!r}")
                owed = owed and not text[at:start].strip()
                allowed, before, at = [], part.text, end
        owed = owed and not text[at:].strip()
        self._gap(text[at:], allowed, first=not before, last=True)
        mended = len(actual.tool_calls) > len(case.expected_tool_calls) + sum(shown.values())
        if owed and not mended:
            self._add("loss", "the broken call is neither a call nor text")

    def _add(self, name: DifferenceClass, detail: str) -> None:
        self.found.append(Difference(name, f"{self.channel}: {detail}"))

    def _gap(self, gap: str, allowed: Sequence[Unfinished], *, first: bool, last: bool) -> None:
        """What stands between two stretches: blanks, or what was left unfinished there."""
        rest = gap.strip()
        if not rest:
            if gap and (first or last) and not allowed:
                self._add("whitespace", f"{gap!r} at the {'end' if last else 'beginning'}")
            return
        if not any(_is_raw(rest, part) for part in allowed):
            self._add("leak", repr(rest))

    def _find(self, wanted: str, at: int) -> tuple[int, int]:
        """Where a stretch stands, behind ``at``; if need be with other white space in it."""
        start = self.text.find(wanted, at)
        if start >= 0:
            return start, start + len(wanted)
        loose = re.compile(r"\s*".join(map(re.escape, wanted.split())))
        found = loose.search(self.text, at)
        if found is None or not wanted.strip():
            return -1, -1
        self._add("whitespace", f"{_short(found[0])!r}, expected {_short(wanted)!r}")
        return found.span()


def _is_raw(text: str, part: Unfinished) -> bool:
    """Whether a text may be what is left of an unfinished piece."""
    rest, raw = _squeezed(text), _squeezed(part.raw)
    if part.kind == "fragment":  # some of its markers may have vanished
        characters = iter(raw)
        return all(character in characters for character in rest)
    return part.kind == "malformed" and rest in raw


def _has_extra_text(case: TestCase, actual: ExtractedToolCallInformation) -> bool:
    """Whether an unfinished piece came out as text."""
    return any(
        visible([got or ""]) != visible([want or ""])
        for got, want in (
            (actual.content, case.expected_content),
            (actual.reasoning, case.expected_reasoning),
        )
    )


# -- order


def _order(
    parts: Sequence[tuple[Channel | Literal["call"], str]], reached: Sequence[Reached]
) -> list[Difference]:
    """Whether every state of the stream is one that the expected order passes through."""
    path = [(0, 0, 0)]
    for kind, text in parts:
        content, reasoning, calls = path[-1]
        length = visible([text])
        path.append(
            (content + length, reasoning, calls)
            if kind == "content"
            else (content, reasoning + length, calls)
            if kind == "reasoning"
            else (content, reasoning, calls + 1)
        )
    at = 0
    for state in reached:
        point = (state.content, state.reasoning, state.calls)
        while at < len(path) - 1 and not _between(path[at], point, path[at + 1]):
            at += 1
        if at == len(path) - 1 and point != path[-1]:
            kinds = " ".join(kind for kind, _ in parts)
            return [Difference("order", f"expected {kinds}; after a delta it was {_said(state)}")]
    return []


def _between(low: Sequence[int], point: Sequence[int], high: Sequence[int]) -> bool:
    return all(a <= b <= c for a, b, c in zip(low, point, high, strict=True))


def _said(state: Reached) -> str:
    return f"{state.reasoning} characters of reasoning, {state.content} of content, {state.calls} calls"


# -- for people


def diff(case: TestCase, actual: ExtractedToolCallInformation | None) -> str:
    """Expected and actual, a line for each part, as a diff; equal lines are kept."""
    got = order_lines(actual) if actual is not None else []
    if actual is not None and actual.finish_reason is None:
        got += [line for line in order_lines(case.expected) if line.startswith("finish")]
    wanted = order_lines(case.expected)
    lines: list[str] = []
    # By lines only: looking for likeness inside them takes minutes for long arguments.
    for _, a, b, c, d in difflib.SequenceMatcher(None, wanted, got, autojunk=False).get_opcodes():
        if wanted[a:b] == got[c:d]:
            lines += [f"  {line}" for line in wanted[a:b]]
        else:
            lines += [f"- {line}" for line in wanted[a:b]] + [f"+ {line}" for line in got[c:d]]
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-90:]}"


def _squeezed(text: str) -> str:
    return "".join(text.split())
