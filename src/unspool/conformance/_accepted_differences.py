"""Policy differences: decisions of other parsers that are as valid as unspool's decisions.

For each policy, a function changes the expected result of a case to the result under that policy. If the
parser's answer matches the changed case, the report names the policy and does not count a fault. Differences
in whitespace, in the formatting of JSON, in generated ids and in finish reasons (which many parsers leave to
their servers) are never faults by themselves.

Policy differences do not apply to unspool itself, which must follow its own policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ._compare import Difference, differences
from ._delta_reader import DecodedStream
from .case_format import (
    CallReference,
    FunctionCall,
    Part,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
)
from .scenarios import capabilities_of
from .scenarios.dialect_capabilities import reasoning_markers


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """Policy that other parsers follow and that the suite accepts."""

    reason: str
    """Description of the policy, as shown in reports."""
    expects: Callable[[TestCase], TestCase | None]
    """Function that returns the case under this policy, or None if the policy does not affect the case."""


def find_reason(case: TestCase, stream: DecodedStream) -> str:
    """Return the reasons for accepting a different answer, or an empty string if there is no such reason."""
    for reason, variant in [("", case), *_variants(case)]:
        reasons = [_accepted_reason(difference) for difference in differences(variant, stream)]
        if all(reasons):
            return "; ".join(dict.fromkeys(filter(None, [reason, *reasons])))
    return ONE_BLOCK if _has_late_reasoning(case) else ""


def _variants(case: TestCase) -> Iterator[tuple[str, TestCase]]:
    variants: list[tuple[str, TestCase]] = []
    for entry in POLICY_DIFFERENCES:
        variant = entry.expects(case)
        if variant is not None:
            variants.append((entry.reason, variant))
    yield from variants


ONE_BLOCK: Final = "reasoning is parsed only in one block at the beginning of the output"
"""Reason for accepting any result of a case that has reasoning after other parts: many parsers expect
reasoning only at the beginning."""


def _has_late_reasoning(case: TestCase) -> bool:
    order = case.expected_order
    leading = next((n for n, part in enumerate(order) if not _is_reasoning(part)), len(order))
    return any(map(_is_reasoning, order[leading:]))


def _accepted_reason(difference: Difference) -> str:
    if difference.name == "whitespace":
        return "whitespace or the spelling of JSON is not kept"
    if difference.name == "finish":
        return "the server decides the finish reason"
    if difference.name == "arguments" and difference.detail.startswith("id "):
        return "the server generates the ids"
    return ""


# -- copies of a case with the result that is expected under another policy


def with_order(case: TestCase, order: Iterable[Part]) -> TestCase:
    """Return a copy of the case that expects these parts, including their calls and their text."""
    calls = []
    parts: list[Part] = []
    for part in order:
        if isinstance(part, CallReference):
            calls.append(case.expected_tool_calls[part.index])
            parts.append(CallReference(len(calls) - 1))
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
    texts = [part.text for part in parts if isinstance(part, TextSegment) and part.channel == channel]
    return "\n".join(texts) or None


def _first_call(case: TestCase) -> int:
    for number, part in enumerate(case.expected_order):
        if isinstance(part, CallReference):
            return number
    return len(case.expected_order)


def _is_content(part: Part) -> bool:
    return isinstance(part, TextSegment) and part.channel == "content"


def _drop_text_after_calls(case: TestCase) -> TestCase | None:
    first = _first_call(case)
    remaining = [p for i, p in enumerate(case.expected_order) if i < first or not _is_content(p)]
    return with_order(case, remaining) if len(remaining) < len(case.expected_order) else None


def _drop_text_next_to_calls(case: TestCase) -> TestCase | None:
    remaining = [part for part in case.expected_order if not _is_content(part)]
    return (
        with_order(case, remaining)
        if case.expected_tools_called and len(remaining) < len(case.expected_order)
        else None
    )


def _drop_broken_calls(case: TestCase) -> TestCase | None:
    remaining = [part for part in case.expected_order if not isinstance(part, Unfinished)]
    return (
        with_order(case, remaining) if case.group == "malformed" or "broken" in case.scenario_name else None
    )


def _repair_broken_calls(case: TestCase) -> TestCase | None:
    """Expect that a malformed call is repaired."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for part in case.expected_order:
        if isinstance(part, CallReference):
            parts.append(CallReference(len(calls)))
            calls.append(case.expected_tool_calls[part.index])
        elif isinstance(part, Unfinished) and part.kind == "malformed" and part.name:
            parts.append(CallReference(len(calls)))
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


def _keep_truncated_calls_as_text(case: TestCase) -> TestCase | None:
    """Expect that a truncated call becomes content."""
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


def _drop_undeclared_calls(case: TestCase) -> TestCase | None:
    declared = {tool["function"]["name"] for tool in case.tools}
    calls = case.expected_tool_calls
    declared_parts = [
        part
        for part in case.expected_order
        if not isinstance(part, CallReference) or calls[part.index].function.name in declared
    ]
    return with_order(case, declared_parts) if len(declared_parts) < len(case.expected_order) else None


def _remove_markup(case: TestCase) -> TestCase | None:
    if case.tool_choice != "none":
        return None
    return with_order(case, case.expected_order[:-1])


def _open_reasoning_in_prompt(case: TestCase) -> TestCase | None:
    """Expect that the text before a stray reasoning closer is reasoning."""
    if (
        "opener of reasoning" not in case.scenario_name
        and "closer of reasoning in text" not in case.scenario_name
    ):
        return None
    order = list(case.expected_order)
    for number, part in enumerate(order):
        if isinstance(part, TextSegment) and part.channel == "content":
            order[number] = TextSegment("reasoning", part.text)
            return with_order(case, order)
    return None


def _keep_calls_in_reasoning(case: TestCase) -> TestCase | None:
    """Expect that a call inside closed or unclosed reasoning is part of the reasoning."""
    if not case.scenario_name.startswith(("missing/closer of reasoning, then", "order/inside reasoning")):
        return None
    thought = case.expected_order[0]
    if not case.expected_tools_called or not isinstance(thought, TextSegment):
        return None
    remainder = case.model_output.partition(thought.text)[2]
    remaining, closer, _ = remainder.partition(reasoning_markers(capabilities_of(case.dialect))[1])
    answer = [part for part in case.expected_order if _is_content(part)] if closer else []
    return with_order(case, [TextSegment("reasoning", (thought.text + remaining).rstrip()), *answer])


def _start_with_reasoning(case: TestCase) -> TestCase | None:
    """Expect that text before reasoning becomes reasoning; some parsers do this if reasoning is enabled."""
    order = list(case.expected_order)
    first = next((n for n, part in enumerate(order) if _is_reasoning(part)), 0)
    if not any(map(_is_content, order[:first])):
        return None
    for number, part in enumerate(order[:first]):
        if isinstance(part, TextSegment):
            order[number] = TextSegment("reasoning", part.text)
    return with_order(case, order)


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, TextSegment) and part.channel == "reasoning"


def _keep_markers_as_text(case: TestCase) -> TestCase | None:
    """Expect that reasoning markers become content; some parsers do this if reasoning is disabled."""
    stray = "closer of reasoning in text" in case.scenario_name or "opener of reasoning" in case.scenario_name
    if not stray or case.expected_tools_called or case.expected_reasoning:
        return None
    return with_order(case, [TextSegment("content", case.model_output.strip())])


POLICY_DIFFERENCES: Final = (
    PolicyDifference("text after the first call is dropped", _drop_text_after_calls),
    PolicyDifference("text next to calls is dropped", _drop_text_next_to_calls),
    PolicyDifference("a broken call is dropped", _drop_broken_calls),
    PolicyDifference("a broken call is repaired", _repair_broken_calls),
    PolicyDifference("a truncated call is text", _keep_truncated_calls_as_text),
    PolicyDifference("a call to an undeclared tool is dropped", _drop_undeclared_calls),
    PolicyDifference("call markup is removed if tool_choice is none", _remove_markup),
    PolicyDifference("a stray closer means that the prompt opened the reasoning", _open_reasoning_in_prompt),
    PolicyDifference("a call inside reasoning is reasoning", _keep_calls_in_reasoning),
    PolicyDifference(
        "if reasoning is enabled, text before the reasoning is part of the reasoning", _start_with_reasoning
    ),
    PolicyDifference("if reasoning is disabled, reasoning markers are text", _keep_markers_as_text),
)
