"""Templates that the parser accepts only at some places of an output.

A template that is accepted at all usual places is written as a string.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """Template of the markup around calls, and where the parser accepts it.

    A section that is accepted everywhere is written as a string.
    """

    text: str
    """Template, with the placeholder ``{calls}``."""
    only_at_start: bool = False
    """True if the section must not follow visible text."""
    declared_only: bool = False
    """True if the section may contain only calls of tools that the request declares."""
    ends_reasoning: bool = False
    """True if the opening marker ends reasoning that was not closed."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Template of the markers around reasoning, and where the parser accepts it.

    A wrapper with the usual rules is written as a string.  By these rules, the opening marker is text in the
    middle of a line, where prose may mention it.  A control token is always a marker.
    """

    text: str
    """Template, with the placeholder ``{text}``."""
    only_at_start: bool = False
    """True if the wrapper must not follow visible text."""
    mid_line: bool = False
    """True if the opening marker is also accepted in the middle of a line."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Marker that begins a message header, and where the parser accepts it.

    A marker that is accepted everywhere is written as a string.
    """

    text: str
    """Marker."""
    only_at_start: bool = False
    """True if the marker begins a header only where a message may begin."""
