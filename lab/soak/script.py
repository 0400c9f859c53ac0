"""Script of a soak test: questions and outputs that upstream and client both know.

Every request carries a mark, from which both sides derive the output. All words of an output
carry its mark, so a word with another mark in an answer belongs to another request.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any, Final

MARK: Final = re.compile(r"q\d{8}q")
ASKED: Final = re.compile(r"(q\d{8}q) fault=(\w+)")
TOOLS: Final = ("get_weather", "search", "now")

FAULTS: Final[dict[str, int]] = {
    "none": 60,
    "slow": 6,
    "die": 4,
    "half_close": 4,
    "garbage": 3,
    "broken_event": 3,
    "huge": 2,
    "silent": 1,
    "comments": 1,
    "redirect": 3,
    "refuse_429": 2,
    "refuse_503": 2,
    "refuse_500": 2,
    "reject_400": 2,
    "web_page": 2,
    "packed": 1,
    "no_http": 2,
    "second_answer": 2,
}
"""Faults of an upstream, with their frequency."""
HARMLESS: Final = ("none", "slow", "second_answer")
"""Faults that clients must not notice."""


@dataclass(frozen=True)
class Output:
    """Output of the model for a mark."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    pieces: tuple[str, ...]
    """Complete output in the dialect ``hermes``, in chunks."""

    @property
    def raw(self) -> str:
        """Complete output."""
        return "".join(self.pieces)


def mark_of(number: int) -> str:
    """Return the mark of a request."""
    return f"q{number:08d}q"


def output_of(mark: str) -> Output:
    """Return the output for a mark."""
    chance = random.Random(mark)  # noqa: S311 - the same on both sides
    words = iter(range(1000))

    def said(count: int) -> str:
        return " ".join(
            f"{mark}.{next(words)}{chance.choice(['', ',', ' é', ' 日本', ' <', ' {'])}" for _ in range(count)
        )

    reasoning = said(chance.randint(2, 12)) if chance.random() < 0.4 else ""
    text = said(chance.randint(1, 40)) if chance.random() < 0.9 else ""
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2)) or (0 if text else 1)):
        arguments = {"city": said(chance.randint(1, 4)), "days": chance.randint(0, 99)}
        calls.append((chance.choice(TOOLS), arguments))
    raw = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
    raw += text
    for name, arguments in calls:
        inner = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        raw += f"\n<tool_call>\n{inner}\n</tool_call>"
    pieces: list[str] = []
    while raw:
        size = chance.randint(1, 12)
        pieces.append(raw[:size])
        raw = raw[size:]
    return Output(reasoning, text, tuple(calls), tuple(pieces))


def question(mark: str, fault: str) -> str:
    """Return the question for a mark and a fault."""
    return f"{mark} fault={fault}"


def parse_question(prompt: str) -> tuple[str, str]:
    """Return the mark and the fault at the end of a prompt."""
    found = ASKED.findall(prompt)
    return found[-1] if found else ("", "none")
