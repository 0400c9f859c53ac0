"""What is found out about a model's dialect, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...dialects._declaration import Dialect
from ..convert.python_source import declaration

Begins: TypeAlias = Literal["content", "reasoning", "header"]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a template does about reasoning."""

    key: str = ""
    """Where it reads the reasoning of earlier turns: a key of the message, ``parts`` of its
    content; empty: nowhere."""
    opener: str = ""
    """What it writes before reasoning, or seeds a prompt with ..."""
    closer: str = ""
    """... and behind it."""
    seed: str = ""
    """What a prompt ends with that opens reasoning, where the request says nothing."""
    begins: Begins = "content"
    """Where an output then begins, as the dialect reads it."""
    switches: tuple[str, ...] = ()
    """Variables that change what a prompt says about reasoning."""
    read: bool = True
    """The dialect reads all of it."""

    def __bool__(self) -> bool:
        return bool(self.key or self.opener or self.seed)


@dataclass(frozen=True, slots=True)
class Detection:
    """What was found out about a template."""

    dialect: Dialect | None
    """The dialect, or None if no dialect reads the calls that the template renders.  Where it
    renders none, but reasons: ``passthrough`` with the reasoning of another."""
    renders_calls: bool
    """Whether the template writes tool calls at all."""
    renders_reasoning: bool
    """Whether the template writes reasoning of earlier turns."""
    confidence: float
    """From 0 to 1: how far the dialect is ahead of the next one."""
    evidence: tuple[str, ...]
    """What speaks for it, a sentence each."""
    runners_up: tuple[str, ...]
    """Other dialects that read the turn, the likelier first."""
    reasoning: Reasoning = field(default_factory=Reasoning)
    """What the template does about reasoning."""
    turn: str = ""
    """The turn that the template rendered."""
    prompt: str = ""
    """A prompt that the template rendered, for a request that says nothing special."""
    hint: str = ""
    """Where the template renders no calls: the dialect that its text speaks of."""
    inferred: bool = False
    """The dialect is not one of the registry's: it was inferred from renderings."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the template."""
    tried: bool = True
    """A chat template was made to write.  Otherwise there was none, and names and markers told."""

    @property
    def declaration(self) -> str:
        """The dialect as a declaration to paste; empty if there is none."""
        return "" if self.dialect is None else declaration(self.dialect)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        reasoning = self.reasoning
        return {
            "dialect": None if self.dialect is None else self.dialect.name,
            "renders_calls": self.renders_calls,
            "renders_reasoning": self.renders_reasoning,
            "confidence": self.confidence,
            "evidence": list(self.evidence),
            "runners_up": list(self.runners_up),
            "reasoning": {name: getattr(reasoning, name) for name in Reasoning.__slots__},
            "hint": self.hint,
            "inferred": self.inferred,
            "declaration": self.declaration if self.inferred else "",
            "warnings": list(self.warnings),
            "tried": self.tried,
            "turn": self.turn,
            "prompt": self.prompt,
        }
