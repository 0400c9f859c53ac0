"""Result types of a detection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...dialects import Dialect
from ..convert.python_source import python_source

Begins: TypeAlias = Literal["content", "reasoning", "header"]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Properties of reasoning in a chat template."""

    key: str = ""
    """The message key from which the template reads the reasoning of earlier turns.

    The value is ``parts`` if reasoning is one of the content parts, and empty if the template does not render
    reasoning.
    """
    opener: str = ""
    """The marker that opens reasoning."""
    closer: str = ""
    """The marker that closes reasoning."""
    seed: str = ""
    """The reasoning opener at the end of a default prompt; empty if there is none."""
    begins: Begins = "content"
    """The channel in which the output begins after a default prompt."""
    switches: tuple[str, ...] = ()
    """Template variables that turn reasoning on or off."""
    read: bool = True
    """True if the dialect can parse all reasoning that the template renders."""

    def __bool__(self) -> bool:
        return bool(self.key or self.opener or self.seed)


@dataclass(frozen=True, slots=True)
class Detection:
    """The detected dialect of a model, and the evidence for it."""

    dialect: Dialect | None
    """The dialect; None if no dialect parses the calls that the template renders.  If the template renders
    reasoning but no calls, the dialect is ``passthrough`` combined with the reasoning format of another
    dialect."""
    renders_calls: bool
    """True if the template renders tool calls."""
    renders_reasoning: bool
    """True if the template renders the reasoning of earlier turns."""
    confidence: float
    """Confidence that this dialect is right and not the runner-up, from 0 to 1."""
    evidence: tuple[str, ...]
    """Sentences that describe the evidence for the dialect."""
    runners_up: tuple[str, ...]
    """Other dialects that parse the turn, the likeliest first."""
    reasoning: Reasoning = field(default_factory=Reasoning)
    """Properties of reasoning in the template."""
    turn: str = ""
    """The assistant's turn that the template rendered for the detection."""
    prompt: str = ""
    """The prompt that the template rendered for a request without options."""
    hint: str = ""
    """The dialect of calls that the template mentions but does not render; empty if it mentions none."""
    inferred: bool = False
    """True if the dialect was inferred from the template and is not a registered dialect."""
    warnings: tuple[str, ...] = ()
    """Problems with the template."""
    tried: bool = True
    """True if a chat template was rendered; False if the dialect was chosen by names and markers only."""

    def __repr__(self) -> str:
        name = None if self.dialect is None else self.dialect.name
        shown = [repr(name), f"confidence={self.confidence:.2f}"]
        if self.runners_up:
            shown.append(f"runners_up={self.runners_up[:3]}")
        shown += [key for key in ("inferred", "renders_calls", "renders_reasoning") if getattr(self, key)]
        return f"Detection({', '.join(shown)})"

    @property
    def declaration(self) -> str:
        """The dialect as Python source; empty if no dialect was detected."""
        return "" if self.dialect is None else python_source(self.dialect)

    def to_dict(self) -> dict[str, Any]:
        """Return the detection as JSON values."""
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
