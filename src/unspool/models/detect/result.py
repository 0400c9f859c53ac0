"""Result of a detection, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...dialects._declaration import Dialect
from ..convert.python_source import python_source

Begins: TypeAlias = Literal["content", "reasoning", "header"]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning in a chat template."""

    key: str = ""
    """The message key that holds the reasoning of earlier turns; ``parts`` for parts of the content, empty if
    the template does not render it."""
    opener: str = ""
    """The marker that opens reasoning."""
    closer: str = ""
    """The marker that closes reasoning."""
    seed: str = ""
    """The marker at the end of a prompt that opens reasoning, for a request that does not switch it."""
    begins: Begins = "content"
    """The channel in which an output after such a prompt begins."""
    switches: tuple[str, ...] = ()
    """Template variables that switch reasoning."""
    read: bool = True
    """The dialect reads all reasoning of the template."""

    def __bool__(self) -> bool:
        return bool(self.key or self.opener or self.seed)


@dataclass(frozen=True, slots=True)
class Detection:
    """Dialect of a model, with the evidence."""

    dialect: Dialect | None
    """The dialect; None if no dialect reads the calls that the template renders.  For a template with
    reasoning and without calls, ``passthrough`` with the reasoning of another dialect."""
    renders_calls: bool
    """The template renders tool calls."""
    renders_reasoning: bool
    """The template renders the reasoning of earlier turns."""
    confidence: float
    """The lead of the dialect over the next one, from 0 to 1."""
    evidence: tuple[str, ...]
    """The evidence for the dialect, a sentence each."""
    runners_up: tuple[str, ...]
    """Other dialects that read the turn, the likeliest first."""
    reasoning: Reasoning = field(default_factory=Reasoning)
    """Reasoning in the template."""
    turn: str = ""
    """The turn that the template rendered."""
    prompt: str = ""
    """A prompt that the template rendered, for a request without options."""
    hint: str = ""
    """The dialect whose calls the template's text mentions, if it renders no calls."""
    inferred: bool = False
    """The dialect is not a registered one; it was inferred from the template."""
    warnings: tuple[str, ...] = ()
    """Problems of the template."""
    tried: bool = True
    """A chat template was rendered; otherwise only names and markers were looked at."""

    @property
    def declaration(self) -> str:
        """The dialect as Python source; empty if there is none."""
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
