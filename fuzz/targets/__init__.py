"""Registry of the targets: each is a module with a function ``run`` and seed inputs."""

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
"""Names of all targets; ``builds`` needs both builds."""


def target(name: str) -> Target:
    """Return the function to call with each input."""
    found: Target = import_module(f"{__name__}.{name}").run
    return found


def head(name: str) -> int | None:
    """Return the number of bytes in front of an input's JSON, or None if it is not JSON."""
    found: int | None = getattr(import_module(f"{__name__}.{name}"), "HEAD", None)
    return found


def seeds(name: str) -> Iterable[bytes]:
    """Return the seed inputs, derived from the repository's vectors and examples."""
    found: Iterable[bytes] = import_module(f"{__name__}.{name}").seeds()
    return found
