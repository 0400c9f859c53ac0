"""A scenario, and a draft of it in one dialect.

A scenario is something to say, in order, and possibly something that goes wrong
with it.  Its draft in a dialect is the text in labelled pieces together with what
must come out; a *twist* changes both.  Nothing here asks a parser.

What must come out follows from what was meant, by these rules:

- Calls, reasoning and content come out as they were meant, in their order.
- Content behind a call is dropped where the dialect says so (``after_calls``).
- White space between two stretches of a channel is a joint: one line break here,
  and compared as such.
- Where the prompt holds the beginning of what clients want to see, it comes first
  (``echo``).
- The finish reason is ``tool_calls`` if a call is complete, else what the backend
  said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...message import Part as RenderPart
from ...message import TextPart
from ...message import ToolCall as RenderCall
from .._cases import (
    CallAt,
    FinishReason,
    FunctionCall,
    Part,
    Start,
    Stretch,
    TestCase,
    ToolCall,
    Unfinished,
)
from .capabilities import Able
from .message_parts import TOOLS, Call, Say, Thought
from .rendering import Wording, sketch


@dataclass(frozen=True, slots=True)
class Meant:
    """A call that must come out."""

    call: Call
    id: str | None
    """The id that the model writes, if it does."""


Outcome: TypeAlias = Stretch | Meant | Unfinished
"""A part of what must come out."""


@dataclass(slots=True)
class Draft:
    """A scenario in the words of a dialect."""

    able: Able
    pieces: list[Wording]
    order: list[Outcome]
    tools: tuple[dict[str, Any], ...] = TOOLS
    tool_choice: str | dict[str, Any] = "auto"
    start: Start = "content"
    prompt: str | None = None
    finish_reason: FinishReason = "stop"
    finish: FinishReason | None = None
    """What a client is told, where the rule does not say it."""
    any_finish: bool = False
    """Several finish reasons are right."""
    n: int = 1
    guided: bool = False
    """The calls are JSON, whatever the dialect."""

    @property
    def text(self) -> str:
        """What the model writes."""
        return "".join(piece.text for piece in self.pieces)

    def around(self, part: int) -> str:
        """The text of a call, with the markers that it shares with its neighbours."""
        numbers = [i for i, piece in enumerate(self.pieces) if piece.part == part]
        first, last = numbers[0], numbers[-1]
        while last + 1 < len(self.pieces) and self.pieces[last + 1].role in ("separator", "section_close"):
            last += 1
        return "".join(piece.text for piece in self.pieces[first : last + 1])

    def find(self, role: str, part: int | None = None) -> int:
        """The number of the first piece in this role (of this part); -1: there is none."""
        for number, piece in enumerate(self.pieces):
            if piece.role == role and part in (None, piece.part):
                return number
        return -1


Twist: TypeAlias = Callable[[Draft], str | None]
"""What goes wrong: changes the draft, or says why it cannot in this dialect."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to show."""

    group: str
    name: str
    """Unique in its group."""
    parts: Sequence[Say]
    rule: str
    """What must come out, and by which rule, for people."""
    needs: Sequence[str] = ()
    """What it takes beside what its parts take; see ``Able.lacks``."""
    twist: Twist | None = None

    @property
    def full_name(self) -> str:
        """Unique in the suite."""
        return f"{self.group}/{self.name}"

    def case(self, able: Able) -> TestCase | str:
        """The case in a dialect, or why there is none."""
        why = able.why_not(able.needs(self.parts) | set(self.needs))
        if why:
            return why
        draft = make_draft(self.parts, able)
        obstacle = self.twist(draft) if self.twist is not None else None
        return obstacle or self._case(draft)

    def _case(self, draft: Draft) -> TestCase:
        able = draft.able
        calls: list[ToolCall] = []
        order: list[Part] = []
        for part in draft.order:
            if isinstance(part, Meant):
                order.append(CallAt(len(calls)))
                calls.append(_expected(part, able, guided=draft.guided))
            else:
                order.append(part)
        finish = draft.finish or ("tool_calls" if calls else draft.finish_reason)
        return TestCase(
            scenario_name=self.full_name,
            dialect=able.dialect.name,
            group=self.group,
            rule=self.rule,
            model_output=draft.text,
            expected_tools_called=bool(calls),
            expected_tool_calls=tuple(calls),
            expected_content=_joined(order, "content"),
            expected_reasoning=_joined(order, "reasoning"),
            expected_order=tuple(order),
            expected_finish_reason=None if draft.any_finish else finish,
            tools=draft.tools,
            tool_choice=draft.tool_choice,
            start=draft.start,
            prompt=draft.prompt,
            finish_reason=draft.finish_reason,
            n=draft.n,
        )


def make_draft(parts: Sequence[Say], able: Able) -> Draft:
    """The parts in the words of the dialect, and what must come out of them."""
    order: list[Outcome] = []
    called = 0
    for part in parts:
        if isinstance(part, Call):
            order.append(Meant(part, native_id(able, part.name, called) if able.carries_ids else None))
            called += 1
        elif isinstance(part, Thought):
            order.append(Stretch("reasoning", part.text))
        elif not (called and able.dialect.after_calls == "drop"):
            order.append(Stretch("content", part))
    _echo(order, able.dialect.prompt.echo)
    return Draft(able, sketch(able.dialect, tuple(rendered(parts, able))), order)


def _echo(order: list[Outcome], echo: str) -> None:
    first = order[0] if order else None
    if isinstance(first, Stretch) and first.channel == "content":
        order[0] = Stretch("content", echo + first.text)
    elif echo:
        order.insert(0, Stretch("content", echo))


def rendered(parts: Sequence[Say], able: Able) -> Iterator[RenderPart]:
    """The parts as ``render`` takes them; text behind other text or a call begins a line."""
    number = 0
    said = False
    for part in parts:
        if isinstance(part, Call):
            yield RenderCall(native_id(able, part.name, number), part.name, part.json)
            number += 1
        elif isinstance(part, Thought):
            yield TextPart("reasoning", part.text)
        else:
            line = not able.framed and (said or (number and not able.wrapped))
            yield TextPart("content", f"\n{part}" if line else part)
            said = True


def native_id(able: Able, name: str, number: int) -> str:
    """An id in the dialect's format, the same every time."""
    dialect = able.dialect
    random = "abcdefghijklmnopqrstuvwxyz"[number:][: dialect.id_format.length]
    pattern = dialect.id_format.pattern.replace("{index}", str(number + dialect.names.first_index))
    return pattern.replace("{random}", random).replace("{name}", name)


def _expected(meant: Meant, able: Able, *, guided: bool) -> ToolCall:
    function = FunctionCall(meant.call.name, arguments_of(meant.call, able))
    return ToolCall(function, meant.id, able.verbatim or guided)


def arguments_of(call: Call, able: Able) -> str:
    """The arguments as JSON, with the keys in the order in which the dialect writes them."""
    return Call(call.name, _sorted(call.arguments)).json if able.sorts and not call.spelling else call.json


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _joined(order: Sequence[Part], channel: str) -> str | None:
    texts = [part.text for part in order if isinstance(part, Stretch) and part.channel == channel]
    return "\n".join(texts) or None
