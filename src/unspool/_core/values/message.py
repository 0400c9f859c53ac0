"""What a whole output amounts to: the values that a fold of the events builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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


Part: TypeAlias = TextPart | ToolCall


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
