"""Rulings: where unspool does not do what a scenario expects, and why.

A ruling is a decision that stands.  A *defect* is none: it is a fault that is known,
so that the suite can stay strict until it is mended.  The tests hold both to it:
one that is not needed any more must go.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from .model import TestCase


@dataclass(frozen=True, slots=True)
class Ruling:
    """Some cases, and why they come out otherwise."""

    name: str
    scenarios: tuple[str, ...]
    """Patterns of scenario names."""
    classes: tuple[str, ...]
    """The classes of difference that it covers."""
    reason: str
    dialects: tuple[str, ...] = ("*",)
    """Patterns of dialect names."""
    defect: bool = False

    def covers(self, case: TestCase, difference: str) -> bool:
        """Whether the ruling is about this."""
        return (
            difference in self.classes
            and any(fnmatchcase(case.dialect, pattern) for pattern in self.dialects)
            and any(fnmatchcase(case.scenario_name, pattern) for pattern in self.scenarios)
        )


_WRAPPED: Final = ("cohere", "cohere_cofl", "ernie45", "hunyuan_a13b", "inkling", "kimi_k3", "solar_open")

RULINGS: Final[tuple[Ruling, ...]] = (
    Ruling(
        "calls in one run",
        ("order/*call-reasoning-call*",),
        ("loss",),
        "calls that count only at the beginning come in one run: JSON behind a call and reasoning is text",
        ("generic_json", "xlam"),
    ),
    Ruling(
        "line breaks behind late reasoning",
        ("order/*text-reasoning",),
        ("whitespace",),
        "line breaks behind reasoning are kept where content came before it and none follows",
        defect=True,
    ),
    Ruling(
        "cut behind the head",
        ("truncation/behind the head of the *",),
        ("leak",),
        "an output cut behind the head of a tagged call is a complete call without arguments",
        defect=True,
    ),
    Ruling(
        "cut in a nested key",
        ("truncation/in the second key*",),
        ("leak",),
        "an output cut in the tag of a further parameter is a complete call without it",
        ("cohere_cofl", "minimax_m3"),
        defect=True,
    ),
    Ruling(
        "cut in a key",
        ("truncation/in the first key*", "truncation/behind the first key*", "truncation/in the second key*"),
        ("leak",),
        "an output cut in the tag of a parameter is a malformed call, and thus text, not a truncated one",
        defect=True,
    ),
    Ruling(
        "cut in the closing tag",
        (
            "truncation/in the marker that ends the call*",
            "truncation/in the marker that ends the second call",
        ),
        ("leak",),
        "if the output ends in the closing tag of a call, the tags before it are streamed as part of a value",
        defect=True,
    ),
    Ruling(
        "text before a wrapper",
        ("missing/opener of reasoning", "unknown/no tools at all: a call behind text"),
        ("merge",),
        "blanks between text and the wrapper of an answer are dropped, so that words run together",
        _WRAPPED,
        defect=True,
    ),
    Ruling(
        "a stray closer drops the rest",
        ("orphans/the closer of * in text",),
        ("loss",),
        "a stray closer counts as a call, behind which this dialect drops text",
        ("kimi_k2",),
        defect=True,
    ),
    Ruling(
        "stray closers in a namespace",
        ("orphans/*",),
        ("leak",),
        "the namespace in front of a stray closer vanishes as furniture, and the tag behind it is text",
        ("minimax_m3",),
        defect=True,
    ),
    Ruling(
        "a broken call behind a message of reasoning",
        ("malformed/behind reasoning: *",),
        ("loss",),
        "the raw text of a broken call goes back to the channel of the message before it, which is reasoning",
        ("beam", "harmony", "muse_glimmer"),
        defect=True,
    ),
)
"""What is ruled, and what is known to be wrong; of several that cover a case the first counts."""
