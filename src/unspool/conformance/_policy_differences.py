"""Excuses: where other parsers differ by a policy that is as good as ours.

Each of them changes what a case expects to what the policy would give.  If the answer
fits the changed case, the difference is a choice and not a fault, and the report says
which choice.  White space, spelling of JSON, generated ids and finish reasons, which
many parsers leave to their servers, are never faults by themselves.

unspool gets none of them: it is held to its own policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ._cases import (
    CallAt,
    FunctionCall,
    Part,
    Stretch,
    TestCase,
    ToolCall,
    Unfinished,
)
from ._compare import Difference, differences
from ._delta_reader import Rebuilt
from ._scenarios import able
from ._scenarios.capabilities import reasoning_markers


@dataclass(frozen=True, slots=True)
class Excuse:
    """A policy of others, and why it is as good as ours."""

    reason: str
    expects: Callable[[TestCase], TestCase | None]
    """The case as the policy has it; None: it says nothing about this case."""


def excuse(case: TestCase, stream: Rebuilt) -> str:
    """Which policies make an answer a legitimate one; empty if none do."""
    for reason, variant in [("", case), *_variants(case)]:
        reasons = [_tolerated(difference) for difference in differences(variant, stream)]
        if all(reasons):
            return "; ".join(dict.fromkeys(filter(None, [reason, *reasons])))
    return ONE_BLOCK if _reasons_late(case) else ""


def _variants(case: TestCase) -> Iterator[tuple[str, TestCase]]:
    found: list[tuple[str, TestCase]] = []
    for entry in EXCUSES:
        variant = entry.expects(case)
        if variant is not None:
            found.append((entry.reason, variant))
    yield from found


ONE_BLOCK: Final = "reasoning is read in one block at the beginning, and only there"
"""For cases that a parser is not made for, so that what comes out of them says nothing about it."""


def _reasons_late(case: TestCase) -> bool:
    order = case.expected_order
    leading = next((n for n, part in enumerate(order) if not _is_reasoning(part)), len(order))
    return any(map(_is_reasoning, order[leading:]))


def _tolerated(difference: Difference) -> str:
    if difference.name == "whitespace":
        return "white space, or the spelling of JSON, is not kept"
    if difference.name == "finish":
        return "the finish reason is its server's to decide"
    if difference.name == "arguments" and difference.detail.startswith("id "):
        return "ids are its server's to give"
    return ""


# -- variants


def with_order(case: TestCase, order: Iterable[Part]) -> TestCase:
    """The case with another order of what must come out; its calls and texts follow from that."""
    calls = []
    parts: list[Part] = []
    for part in order:
        if isinstance(part, CallAt):
            calls.append(case.expected_tool_calls[part.index])
            parts.append(CallAt(len(calls) - 1))
        else:
            parts.append(part)
    return replace(
        case,
        expected_order=tuple(parts),
        expected_tool_calls=tuple(calls),
        expected_tools_called=bool(calls),
        expected_content=_joined(parts, "content"),
        expected_reasoning=_joined(parts, "reasoning"),
        expected_finish_reason=None,
    )


def _joined(parts: Iterable[Part], channel: str) -> str | None:
    texts = [part.text for part in parts if isinstance(part, Stretch) and part.channel == channel]
    return "\n".join(texts) or None


def _first_call(case: TestCase) -> int:
    for number, part in enumerate(case.expected_order):
        if isinstance(part, CallAt):
            return number
    return len(case.expected_order)


def _is_content(part: Part) -> bool:
    return isinstance(part, Stretch) and part.channel == "content"


def _no_text_behind_calls(case: TestCase) -> TestCase | None:
    first = _first_call(case)
    kept = [p for i, p in enumerate(case.expected_order) if i < first or not _is_content(p)]
    return with_order(case, kept) if len(kept) < len(case.expected_order) else None


def _no_text_beside_calls(case: TestCase) -> TestCase | None:
    kept = [part for part in case.expected_order if not _is_content(part)]
    return (
        with_order(case, kept)
        if case.expected_tools_called and len(kept) < len(case.expected_order)
        else None
    )


def _no_unfinished(case: TestCase) -> TestCase | None:
    kept = [part for part in case.expected_order if not isinstance(part, Unfinished)]
    return with_order(case, kept) if case.group == "malformed" or "broken" in case.scenario_name else None


def _repaired(case: TestCase) -> TestCase | None:
    """A broken call as it was meant."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for part in case.expected_order:
        if isinstance(part, CallAt):
            parts.append(CallAt(len(calls)))
            calls.append(case.expected_tool_calls[part.index])
        elif isinstance(part, Unfinished) and part.kind == "malformed" and part.name:
            parts.append(CallAt(len(calls)))
            calls.append(ToolCall(FunctionCall(part.name, part.arguments)))
        else:
            parts.append(part)
    if len(calls) == len(case.expected_tool_calls):
        return None
    return replace(
        case,
        expected_order=tuple(parts),
        expected_tool_calls=tuple(calls),
        expected_tools_called=True,
        expected_finish_reason=None,
    )


def _cut_as_text(case: TestCase) -> TestCase | None:
    """A truncated call as the text that it is."""
    if not any(isinstance(part, Unfinished) and part.kind == "truncated" for part in case.expected_order):
        return None
    return replace(
        case,
        expected_order=tuple(
            replace(part, kind="fragment") if isinstance(part, Unfinished) else part
            for part in case.expected_order
        ),
        expected_finish_reason=None,
    )


def _unknown_dropped(case: TestCase) -> TestCase | None:
    declared = {tool["function"]["name"] for tool in case.tools}
    calls = case.expected_tool_calls
    known = [
        part
        for part in case.expected_order
        if not isinstance(part, CallAt) or calls[part.index].function.name in declared
    ]
    return with_order(case, known) if len(known) < len(case.expected_order) else None


def _markup_stripped(case: TestCase) -> TestCase | None:
    if case.tool_choice != "none":
        return None
    return with_order(case, case.expected_order[:-1])


def _opened_by_the_prompt(case: TestCase) -> TestCase | None:
    """What stands before a stray closer of reasoning is reasoning."""
    if (
        "opener of reasoning" not in case.scenario_name
        and "closer of reasoning in text" not in case.scenario_name
    ):
        return None
    order = list(case.expected_order)
    for number, part in enumerate(order):
        if isinstance(part, Stretch) and part.channel == "content":
            order[number] = Stretch("reasoning", part.text)
            return with_order(case, order)
    return None


def _reasoning_keeps_calls(case: TestCase) -> TestCase | None:
    """A call inside reasoning, closed or not, is reasoning."""
    if not case.scenario_name.startswith(("missing/closer of reasoning, then", "order/inside reasoning")):
        return None
    thought = case.expected_order[0]
    if not case.expected_tools_called or not isinstance(thought, Stretch):
        return None
    behind = case.model_output.partition(thought.text)[2]
    kept, closer, _ = behind.partition(reasoning_markers(able(case.dialect))[1])
    answer = [part for part in case.expected_order if _is_content(part)] if closer else []
    return with_order(case, [Stretch("reasoning", (thought.text + kept).rstrip()), *answer])


def _reasoning_comes_first(case: TestCase) -> TestCase | None:
    """A request with reasoning on is answered with reasoning first: text before it belongs to it."""
    order = list(case.expected_order)
    first = next((n for n, part in enumerate(order) if _is_reasoning(part)), 0)
    if not any(map(_is_content, order[:first])):
        return None
    for number, part in enumerate(order[:first]):
        if isinstance(part, Stretch):
            order[number] = Stretch("reasoning", part.text)
    return with_order(case, order)


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, Stretch) and part.channel == "reasoning"


def _markers_are_text(case: TestCase) -> TestCase | None:
    """A request with reasoning off is answered without: a marker of reasoning is text."""
    stray = "closer of reasoning in text" in case.scenario_name or "opener of reasoning" in case.scenario_name
    if not stray or case.expected_tools_called or case.expected_reasoning:
        return None
    return with_order(case, [Stretch("content", case.model_output.strip())])


EXCUSES: Final = (
    Excuse("text behind the first call is dropped", _no_text_behind_calls),
    Excuse("text beside calls is dropped", _no_text_beside_calls),
    Excuse("a broken call is dropped", _no_unfinished),
    Excuse("a broken call is repaired", _repaired),
    Excuse("a call that was cut off is text", _cut_as_text),
    Excuse("a call of an undeclared tool is dropped", _unknown_dropped),
    Excuse("markup is stripped where no call was welcome", _markup_stripped),
    Excuse("a stray closer means that the prompt opened the reasoning", _opened_by_the_prompt),
    Excuse("a call inside reasoning is reasoning", _reasoning_keeps_calls),
    Excuse("with reasoning on, text before it is part of it", _reasoning_comes_first),
    Excuse("with reasoning off, its markers are text", _markers_are_text),
)
