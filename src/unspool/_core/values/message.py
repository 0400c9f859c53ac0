"""What a whole output amounts to: the values that a fold of the events builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .events import Channel, FinishReason


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool."""

    id: str
    """The model's own id, or a generated one in the family's format."""
    name: str
    """The function to call."""
    arguments: str
    """JSON text, exactly as the model wrote it where the dialect carries JSON."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with the output, or had to be guessed."""

    kind: str
    """One of ``NOTE_KINDS``."""
    detail: str
    """The particulars, for people."""
    start: int
    """Where: offset of the first character concerned ..."""
    end: int
    """... and behind the last one."""
    raw: str = ""
    """For a call that did not make it: what the model wrote."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A stretch of content or reasoning, in its place in the output."""

    channel: Channel
    text: str


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call that was announced and did not end well: nothing to run.

    Who reads the stream has seen it begin, so it has its place among the parts,
    whatever the policies make of it in the other fields.
    """

    id: str
    """As in :class:`ToolCall`."""
    name: str
    """The function that was to be called."""
    arguments: str
    """What there is of them, which is not a JSON object or not all of one."""
    status: Literal["malformed", "truncated"]
    """How it ended."""
    raw: str
    """The call exactly as the model wrote it, from its opener on."""
    channel: Channel
    """Where it stands: in the content, or in the reasoning."""
    text: str = ""
    """What of it went back to that channel, if the policy says so."""


Part: TypeAlias = TextPart | ToolCall | BrokenCall
"""What ``Message.parts`` holds."""


@dataclass(frozen=True, slots=True)
class Message:
    """A model's output, taken apart."""

    reasoning: str | None = None
    """All reasoning, or None where there was none."""
    content: str | None = None
    """All text for the user, or None where there was none."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls, in order of appearance."""
    problems: tuple[Problem, ...] = ()
    """What went wrong; empty for a clean output."""
    finish_reason: FinishReason = "stop"
    """``tool_calls`` if there is a complete call and none was cut off."""
    parts: tuple[Part, ...] = ()
    """Text, reasoning and calls in the order of the output, which the flat fields lose."""

    def in_order(self) -> tuple[Part, ...]:
        """The parts; of a message that was made from its flat fields: reasoning, content, calls."""
        if self.parts:
            return self.parts
        parts: list[Part] = []
        if self.reasoning is not None:
            parts.append(TextPart("reasoning", self.reasoning))
        if self.content is not None:
            parts.append(TextPart("content", self.content))
        return (*parts, *self.tool_calls)
