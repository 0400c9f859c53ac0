"""Parser names that engine plug-ins register, and the engine's own names that they replace."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from ..dialects._registry import list_dialects

DETECTED: Final = "unspool"
"""The parser name for the dialect that is detected from the served model's chat template and tokenizer."""
REPLACE: Final = "UNSPOOL_REPLACE"
"""The environment variable that lists the engine's own parser names to replace; ``all`` replaces all."""


def parser_names() -> dict[str, str]:
    """Return the names that a plug-in adds, each with the dialect that it stands for."""
    return {f"{DETECTED}_{dialect.name}": dialect.name for dialect in list_dialects()}


def names_to_replace(own: Iterable[str]) -> tuple[str, ...]:
    """Return those of the engine's own names that the user wants to be read by unspool."""
    requested = _requested_names()
    return tuple(name for name in own if name in requested or requested == {"all"})


def unknown_names(own: Iterable[str]) -> tuple[str, ...]:
    """Return the names that the user wants to replace but the engine does not have."""
    return tuple(sorted(_requested_names() - {"all", *own}))


def _requested_names() -> set[str]:
    return {name.strip() for name in os.environ.get(REPLACE, "").split(",")} - {""}
