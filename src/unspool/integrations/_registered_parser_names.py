"""Parser names that plug-ins add to an engine, or that they take over from the engine's own parsers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from ..dialects import list_dialects

DETECTED: Final = "unspool"
"""The parser name for which the dialect is detected from the model's chat template and tokenizer."""
REPLACE: Final = "UNSPOOL_REPLACE"
"""Environment variable that lists the engine's own parser names to replace; ``all`` replaces all of them."""


def parser_names() -> dict[str, str]:
    """Return the parser names that a plug-in adds, with the dialect for each name."""
    return {f"{DETECTED}_{dialect.name}": dialect.name for dialect in list_dialects()}


def names_to_replace(own: Iterable[str]) -> tuple[str, ...]:
    """Return the engine's own parser names that the user wants to give to unspool's parsers."""
    requested = _requested_names()
    return tuple(name for name in own if name in requested or requested == {"all"})


def unknown_names(own: Iterable[str]) -> tuple[str, ...]:
    """Return the parser names that the user wants to replace but the engine does not have."""
    return tuple(sorted(_requested_names() - {"all", *own}))


def _requested_names() -> set[str]:
    return {name.strip() for name in os.environ.get(REPLACE, "").split(",")} - {""}
