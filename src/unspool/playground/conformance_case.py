"""What is seen, as a case of the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..conformance._cases import (
    CallReference,
    FunctionCall,
    Part,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
)
from ..conformance._scenarios import capabilities_of
from ..message import BrokenCall, Message, TextPart
from .options import Setup

_GROUP: Final = "playground"
_FRAGMENTS: Final = ("cut_head", "cut_marker")
"""Problems of an output that ends inside a marker, or behind one."""


def case(request: Mapping[str, Any]) -> dict[str, Any]:
    """The case: as JSON, as a line of the files that ``unspool conformance`` reads, and for people.

    What must come out is what comes out now, with the policies that everybody has: a case knows
    no others.  Nor does it know requests whose tools are not known: those that are called are declared.
    """
    setup = Setup.of(request)
    setup = setup.with_tools(_called(setup) if setup.tools is None else setup.tools)
    found = _case(setup)
    return {"case": found.to_json(), "line": found.to_line(), "text": found.to_text()}


def _called(setup: Setup) -> list[Any]:
    names = dict.fromkeys(call.name for call in _read(setup).tool_calls)
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names
    ]


def _read(setup: Setup) -> Message:
    parser = setup.parser()
    return parser.message(parser.feed(setup.text) + parser.finish(setup.finish_reason))


def _case(setup: Setup) -> TestCase:
    message = _read(setup)
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
    words = capabilities_of(dialect)
    own = words.carries_ids and not any(diagnostic.kind == "bad_id" for diagnostic in message.diagnostics)
    for call in message.tool_calls:
        yield ToolCall(FunctionCall(call.name, call.arguments), call.id if own else None, words.verbatim)


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
