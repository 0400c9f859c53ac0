"""Scenarios, and drafts that render a scenario in one dialect.

A scenario consists of the parts of a message in order, and optionally of an *edit* that introduces a fault. A
draft consists of the rendered output and of the expected parts. The rendered output is a list of pieces, each
labelled with its kind (such as ``open`` or ``payload``). An edit may change the output and the expected
parts. This module does not run a parser.

The expected result is derived from the parts with these rules:

- Calls, reasoning and content are returned unchanged and in order.
- Two segments of a channel are separated by whitespace. The expected text contains one newline, but the
  comparison accepts any whitespace.
- If the prompt contains the beginning of the answer (``Prompt.echo`` of the dialect), the expected text
  starts with this beginning.
- The finish reason is ``tool_calls`` if there is a complete call; otherwise it is the finish reason that the
  backend reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...message import Part as RenderPart
from ...message import TextPart
from ...message import ToolCall as RenderCall
from ...testing import RenderedPiece, render_pieces
from ..case_format import (
    CallReference,
    FinishReason,
    FunctionCall,
    Part,
    StartState,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
)
from .dialect_capabilities import Capabilities
from .sample_parts import TOOLS, Call, Reasoning, ScenarioPart


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """Call in the expected result."""

    call: Call
    id: str | None
    """Id that the model writes; None if the dialect has no ids."""


ExpectedPart: TypeAlias = TextSegment | ExpectedCall | Unfinished
"""Part of the expected result."""


@dataclass(slots=True)
class Draft:
    """Scenario rendered in a dialect, with the expected result."""

    capabilities: Capabilities
    pieces: list[RenderedPiece]
    order: list[ExpectedPart]
    tools: tuple[dict[str, Any], ...] = TOOLS
    tool_choice: str | dict[str, Any] = "auto"
    start: StartState = "content"
    prompt: str | None = None
    finish_reason: FinishReason = "stop"
    finish: FinishReason | None = None
    """Expected finish reason, if it differs from the rule in the module's docstring."""
    any_finish: bool = False
    """True if several finish reasons are correct."""
    n: int = 1
    guided_json: bool = False
    """True if the calls are plain JSON instead of the dialect's own format."""

    @property
    def text(self) -> str:
        """The whole text that the model writes."""
        return "".join(piece.text for piece in self.pieces)

    def call_text(self, part: int) -> str:
        """Return the text of a call, including the separators and closing section markers after the call."""
        numbers = [i for i, piece in enumerate(self.pieces) if piece.part == part]
        first, last = numbers[0], numbers[-1]
        while last + 1 < len(self.pieces) and self.pieces[last + 1].kind in ("separator", "section_close"):
            last += 1
        return "".join(piece.text for piece in self.pieces[first : last + 1])

    def find(self, kind: str, part: int | None = None) -> int:
        """Return the index of the first piece of this kind, or -1; ``part`` limits the search to one part."""
        for number, piece in enumerate(self.pieces):
            if piece.kind == kind and part in (None, piece.part):
                return number
        return -1


DraftEdit: TypeAlias = Callable[[Draft], str | None]
"""Function that introduces a fault into a draft, or returns the reason why that is impossible."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Parts of a message, and optionally a fault, that the suite tests in every dialect."""

    group: str
    name: str
    """Name of the scenario, which is unique in its group."""
    parts: Sequence[ScenarioPart]
    rule: str
    """Description of the rule from which the expected result follows."""
    requirements: Sequence[str] = ()
    """Required capabilities, in addition to the capabilities that the parts require."""
    edit: DraftEdit | None = None

    @property
    def full_name(self) -> str:
        """Group and name, which are unique in the suite."""
        return f"{self.group}/{self.name}"

    def case(self, capabilities: Capabilities) -> TestCase | str:
        """Return the case for a dialect, or the reason why the scenario is not applicable."""
        missing = capabilities.explain_missing(capabilities.requirements(self.parts) | set(self.requirements))
        if missing:
            return missing
        draft = make_draft(self.parts, capabilities)
        obstacle = self.edit(draft) if self.edit is not None else None
        return obstacle or self._build_case(draft)

    def _build_case(self, draft: Draft) -> TestCase:
        capabilities = draft.capabilities
        calls: list[ToolCall] = []
        order: list[Part] = []
        for part in draft.order:
            if isinstance(part, ExpectedCall):
                order.append(CallReference(len(calls)))
                calls.append(_expected_tool_call(part, capabilities, guided_json=draft.guided_json))
            else:
                order.append(part)
        finish = draft.finish or ("tool_calls" if calls else draft.finish_reason)
        return TestCase(
            scenario_name=self.full_name,
            dialect=capabilities.dialect.name,
            group=self.group,
            rule=self.rule,
            model_output=draft.text,
            expected_tools_called=bool(calls),
            expected_tool_calls=tuple(calls),
            expected_content=_join_channel(order, "content"),
            expected_reasoning=_join_channel(order, "reasoning"),
            expected_order=tuple(order),
            expected_finish_reason=None if draft.any_finish else finish,
            tools=draft.tools,
            tool_choice=draft.tool_choice,
            start=draft.start,
            prompt=draft.prompt,
            finish_reason=draft.finish_reason,
            n=draft.n,
        )


def make_draft(parts: Sequence[ScenarioPart], capabilities: Capabilities) -> Draft:
    """Render the parts in a dialect, and derive the expected parts."""
    order: list[ExpectedPart] = []
    call_count = 0
    for part in parts:
        if isinstance(part, Call):
            order.append(
                ExpectedCall(
                    part, make_id(capabilities, part.name, call_count) if capabilities.carries_ids else None
                )
            )
            call_count += 1
        elif isinstance(part, Reasoning):
            order.append(TextSegment("reasoning", part.text))
        else:
            order.append(TextSegment("content", part))
    _echo(order, capabilities.dialect.habits.echo)
    return Draft(
        capabilities, render_pieces(capabilities.dialect, tuple(to_render_parts(parts, capabilities))), order
    )


def _echo(order: list[ExpectedPart], echo: str) -> None:
    first = order[0] if order else None
    if isinstance(first, TextSegment) and first.channel == "content":
        order[0] = TextSegment("content", echo + first.text)
    elif echo:
        order.insert(0, TextSegment("content", echo))


def to_render_parts(parts: Sequence[ScenarioPart], capabilities: Capabilities) -> Iterator[RenderPart]:
    """Convert the parts to the input of ``render``; text after other text or a call starts on a new line."""
    number = 0
    has_text = False
    for part in parts:
        if isinstance(part, Call):
            yield RenderCall(make_id(capabilities, part.name, number), part.name, part.json)
            number += 1
        elif isinstance(part, Reasoning):
            yield TextPart("reasoning", part.text)
        else:
            on_new_line = not capabilities.framed and (has_text or (number and not capabilities.wrapped))
            yield TextPart("content", f"\n{part}" if on_new_line else part)
            has_text = True


def make_id(capabilities: Capabilities, name: str, number: int) -> str:
    """Generate a call id in the dialect's format; every run generates the same id."""
    dialect = capabilities.dialect
    random = "abcdefghijklmnopqrstuvwxyz"[number:][: dialect.id_format.length]
    pattern = dialect.id_format.pattern.replace("{index}", str(number + dialect.habits.first_index))
    return pattern.replace("{random}", random).replace("{name}", name)


def _expected_tool_call(expected: ExpectedCall, capabilities: Capabilities, *, guided_json: bool) -> ToolCall:
    function = FunctionCall(expected.call.name, expected_arguments(expected.call, capabilities))
    return ToolCall(function, expected.id, capabilities.verbatim or guided_json)


def expected_arguments(call: Call, capabilities: Capabilities) -> str:
    """Return the expected arguments as JSON, with the keys in the order in which the dialect writes them."""
    return (
        Call(call.name, _sort_keys(call.arguments)).json
        if capabilities.sorts_keys and not call.spelling
        else call.json
    )


def _sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, list) else value


def _join_channel(order: Sequence[Part], channel: str) -> str | None:
    texts = [part.text for part in order if isinstance(part, TextSegment) and part.channel == channel]
    return "\n".join(texts) or None
