"""One file per contender.

Each has ``VERSION`` and ``reader(dialect, scenario)``, which gives None for what the
contender does not claim to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..workloads import Answer

ROOT: Final = Path(__file__).resolve().parents[3]
"""The checkout: environments and vocabularies of the peers are in folders of it."""

Start: TypeAlias = Callable[[], tuple[Callable[[Any], Any], Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Reader:
    """How a contender reads one dialect."""

    start: Start
    """A new parser: what takes a delta, and what ends the output."""
    answer: Callable[[list[Any]], Answer] | None = None
    """What the parser's results say, all of them in order.  None: they say nothing."""
    prepare: Callable[[Sequence[str]], list[Any]] = list
    """The deltas as the parser takes them; not measured, since the engine has done that."""
    whole: Callable[[Any], Any] | None = None
    """Reads a whole output at once; what it gives is the only result."""
