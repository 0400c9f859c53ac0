"""Limits of renderings: time, memory and length, and the errors of a rendering that reaches one.

The defaults apply to each ``ChatTemplate`` that is created without limits of its own.
``_jinja_environment.py`` checks length and time while a template runs.  ``_render_process.py``
has the system enforce time and memory, and ``_render_pool.py`` kills a process that exceeds its time.
"""

from __future__ import annotations

from typing import Final

DEFAULT_MAX_LENGTH: Final = 1 << 24
"""Maximum length of a rendering in characters."""
DEFAULT_MAX_SECONDS: Final = 10.0
"""Maximum processor time of a rendering."""
DEFAULT_MAX_MEGABYTES: Final = 512
"""Maximum memory of a rendering, in addition to that of the process before it."""

MAX_SECONDS: Final = 86_400
"""Largest value of ``max_seconds``."""
MAX_MEGABYTES: Final = 1 << 20
"""Largest value of ``max_megabytes``."""

MAX_SOURCE: Final = 1 << 20
"""Maximum length of a template in characters, ten times that of the longest known template."""
MAX_RANGE: Final = 100_000
"""Maximum length of a ``range()`` in a template."""
MAX_EXPONENT: Final = 64
"""Maximum exponent of a power in a template."""
PROBING_RENDERINGS: Final = 5
"""Time limit of all probes of one template, in multiples of ``max_seconds``."""
MAX_GROWTH: Final = 64 << 20
"""Maximum growth in bytes of a process that is kept for further jobs."""


class Limit(Exception):
    """A rendering reaches one of its limits."""


def out_of_time(seconds: float) -> Limit:
    """Return the error for a rendering that takes too long."""
    return Limit(f"rendering takes longer than {seconds:g} seconds (max_seconds)")


def out_of_memory(megabytes: int) -> Limit:
    """Return the error for a rendering that takes too much memory."""
    return Limit(f"rendering takes more than {megabytes} megabytes of memory (max_megabytes)")


def too_long(length: int) -> Limit:
    """Return the error for a rendering that writes too much text."""
    return Limit(f"more than {length} characters of output (max_length)")
