"""Export of the output on the page as a case for the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..conformance.case_format import (
    CallReference,
    FunctionCall,
    Part,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
)
from ..conformance.scenarios import capabilities_of
from ..message import BrokenCall, Message, TextPart
from .request_fields import Setup

_GROUP: Final = "playground"
_FRAGMENTS: Final = ("cut_head", "cut_marker")
"""Kinds of diagnostics for an output that ends inside a marker or directly after it."""


def make_case(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output as a conformance case in three forms: JSON, a line of JSON Lines, and readable text.

    A case cannot contain policies, so the expected result is that of parsing with the default policies.  A
    case must have tools, so if the request has none, the case declares the functions that the output calls.
    """
    setup = Setup.of(request)
    setup = setup.with_tools(_called_tools(setup) if setup.tools is None else setup.tools)
    case = _case(setup)
    return {"case": case.to_json(), "line": case.to_line(), "text": case.to_text()}


def _called_tools(setup: Setup) -> list[Any]:
    names = dict.fromkeys(call.name for call in _parse(setup).tool_calls)
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names
    ]


def _parse(setup: Setup) -> Message:
    parser = setup.parser()
    return parser.message(parser.feed(setup.text) + parser.finish(setup.finish_reason))


def _case(setup: Setup) -> TestCase:
    message = _parse(setup)
    calls = list(_calls(message, setup.dialect.name))
    order = [*_order(message), *_fragments(message)]
    unfinished = any(isinstance(part, Unfinished) for part in order)
    return TestCase(
        scenario_name=f"{_GROUP}/{setup.dialect.name}",
        dialect=setup.dialect.name,
        group=_GROUP,
        model_output=setup.text,
        expected_tools_called=bool(calls),
        expected_tool_calls=tuple(calls),
        expected_content=_text(order, "content"),
        expected_reasoning=_text(order, "reasoning"),
        expected_order=tuple(order),
        expected_finish_reason=None if unfinished else message.finish_reason,
        tools=tuple(setup.tools or ()),
        start="reasoning" if setup.parser().start_channel == "reasoning" else "content",
        prompt=setup.prompt,
        finish_reason=setup.finish_reason or "stop",
    )


def _calls(message: Message, dialect: str) -> Iterator[ToolCall]:
    capabilities = capabilities_of(dialect)
    has_ids = capabilities.carries_ids and not any(
        diagnostic.kind == "bad_id" for diagnostic in message.diagnostics
    )
    for call in message.tool_calls:
        function = FunctionCall(call.name, call.arguments)
        yield ToolCall(function, call.id if has_ids else None, capabilities.verbatim)


def _order(message: Message) -> Iterator[Part]:
    number = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            yield TextSegment(part.channel, part.text)
        elif isinstance(part, BrokenCall):
            yield Unfinished(part.status, part.raw, part.name, part.arguments)
        else:
            yield CallReference(number)
            number += 1


def _fragments(message: Message) -> Iterator[Part]:
    for diagnostic in message.diagnostics:
        if diagnostic.kind in _FRAGMENTS and diagnostic.raw:
            yield Unfinished("fragment", diagnostic.raw)


def _text(order: Sequence[Part], channel: str) -> str | None:
    texts = [part.text for part in order if isinstance(part, TextSegment) and part.channel == channel]
    return "".join(texts) or None
