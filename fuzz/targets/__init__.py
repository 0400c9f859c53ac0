"""The targets, by name: each is a module of that name with a function ``run``, and inputs to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Final, TypeAlias

Target: TypeAlias = Callable[[bytes], None]

NAMES: Final = (
    "feed",
    "prompts",
    "wires",
    "ids",
    "tokenizers",
    "conversations",
    "messages",
    "schemas",
    "grammars",
    "dialects",
    "response_templates",
    "templates",
    "sources",
    "bodies",
    "requests",
    "upstreams",
    "reconstruction",
    "builds",
)
"""All of them; ``builds`` needs the compiled build beside the pure one."""


def target(name: str) -> Target:
    """What to call with each input."""
    found: Target = import_module(f"{__name__}.{name}").run
    return found


def head(name: str) -> int | None:
    """How many bytes stand before the JSON of an input; None: it is something else."""
    found: int | None = getattr(import_module(f"{__name__}.{name}"), "HEAD", None)
    return found


def seeds(name: str) -> Iterable[bytes]:
    """Inputs to begin with: from what the repository has of vectors and examples."""
    found: Iterable[bytes] = import_module(f"{__name__}.{name}").seeds()
    return found
