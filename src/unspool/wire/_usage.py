"""Token counts of a response, in the format of each API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a response.

    The encoders accept this class, or a mapping in the format of Chat Completions, Responses or Messages.
    """

    input_tokens: int = 0
    """Number of tokens in the prompt."""
    output_tokens: int = 0
    """Number of tokens that the model generated, including reasoning."""
    cached_tokens: int = 0
    """Number of prompt tokens that came from a cache."""
    reasoning_tokens: int = 0
    """Number of output tokens that are reasoning."""
    duration: int = 0
    """Duration of the request in nanoseconds, which only Ollama's API reports; 0 if unknown."""

    @classmethod
    def from_mapping(cls, counts: Mapping[str, object]) -> Usage:
        """Return the counts in a ``usage`` object of Chat Completions, Responses or Messages.

        >>> Usage.from_mapping({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12})
        Usage(input_tokens=7, output_tokens=5, cached_tokens=0, reasoning_tokens=0, duration=0)
        """
        if not {"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"} & counts.keys():
            raise UsageError(
                "usage has no counts: pass a Usage, or a mapping with prompt_tokens and completion_tokens, "
                "or with input_tokens and output_tokens"
            )
        details = [
            part
            for end in ("prompt", "completion", "input", "output")
            if isinstance(part := counts.get(f"{end}_tokens_details"), Mapping)
        ]
        return cls(
            _count(counts, "prompt_tokens", "input_tokens"),
            _count(counts, "completion_tokens", "output_tokens"),
            sum(_count(part, "cached_tokens") for part in details)
            or _count(counts, "cache_read_input_tokens"),
            sum(_count(part, "reasoning_tokens") for part in details),
        )

    def to_chat(self) -> dict[str, object]:
        """Return the ``usage`` object of Chat Completions."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }

    def to_responses(self) -> dict[str, object]:
        """Return the ``usage`` object of Responses."""
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": self.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.input_tokens + self.output_tokens,
        }

    def to_messages(self) -> dict[str, object]:
        """Return the ``usage`` object of Messages."""
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}

    def to_ollama(self) -> dict[str, object]:
        """Return the token counts as fields of the last object in an Ollama response."""
        counts: dict[str, object] = {
            "prompt_eval_count": self.input_tokens,
            "eval_count": self.output_tokens,
        }
        if not self.duration:
            return counts
        # Servers rarely measure how long the prompt took, so the whole duration counts as generation.
        return {
            "total_duration": self.duration,
            "load_duration": 0,
            **counts,
            "prompt_eval_duration": 0,
            "eval_duration": self.duration,
        }


AnyUsage: TypeAlias = Usage | Mapping[str, object]
"""Token counts, or a mapping as for :meth:`Usage.from_mapping`."""


def as_usage(usage: AnyUsage) -> Usage:
    """Convert token counts to ``Usage``, from any form that the encoders accept."""
    if isinstance(usage, Usage):
        return usage
    if isinstance(usage, Mapping):
        return Usage.from_mapping(usage)
    raise UsageError(f"usage must be a Usage or a mapping, not {type(usage).__name__}")


def _count(counts: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int):
            return value
    return 0
