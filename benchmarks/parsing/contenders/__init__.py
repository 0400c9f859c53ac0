"""Contenders, with one module for each.

Each module has ``VERSION`` and ``reader(dialect, scenario)``, which returns None if the
contender does not claim to support the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..workloads import Answer

ROOT: Final = Path(__file__).resolve().parents[3]
"""Folder of the checkout, with the environments and vocabularies of the peers."""

Start: TypeAlias = Callable[[], tuple[Callable[[Any], Any], Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Reader:
    """Adapter of a contender for one dialect."""

    start: Start
    """Function that creates a parser; it returns one function for deltas and one for the end."""
    answer: Callable[[list[Any]], Answer] | None = None
    """Function from all results to the answer; None if the results hold no answer."""
    prepare: Callable[[Sequence[str]], list[Any]] = list
    """Function that converts deltas for the parser; not measured, because the engine does that."""
    whole: Callable[[Any], Any] | None = None
    """Function that parses a complete output and returns the only result."""
