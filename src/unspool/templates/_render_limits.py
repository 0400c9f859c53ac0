"""Limits on the time, memory and length of renderings, and errors for renderings that exceed a limit.

The defaults apply to a ``ChatTemplate`` that is created without other limits.
``_jinja_environment.py`` checks length and time while a template runs.  ``_render_process.py``
lets the system enforce the limits on time and memory, and ``_render_pool.py`` kills a process that runs too
long.
"""

from __future__ import annotations

from typing import Final

DEFAULT_MAX_LENGTH: Final = 1 << 24
"""Default for the maximum length of a rendering, in characters."""
DEFAULT_MAX_SECONDS: Final = 10.0
"""Default for the maximum processor time of a rendering, in seconds."""
DEFAULT_MAX_MEGABYTES: Final = 512
"""Default for the maximum memory of a rendering, in megabytes.  The memory that the process used before the
rendering does not count."""

MAX_SECONDS: Final = 86_400
"""Largest value of ``max_seconds``."""
MAX_MEGABYTES: Final = 1 << 20
"""Largest value of ``max_megabytes``."""

MAX_SOURCE: Final = 1 << 20
"""Maximum length of a template in characters: ten times the length of the longest known template."""
MAX_RANGE: Final = 100_000
"""Maximum length of a ``range()`` in a template."""
MAX_EXPONENT: Final = 64
"""Maximum exponent for the operator ``**`` in a template."""
PROBING_RENDERINGS: Final = 5
"""Time limit for all probes of one template together, as a multiple of ``max_seconds``."""
MAX_GROWTH: Final = 64 << 20
"""Maximum growth of a child process, in bytes; a process that exceeds it ends after its job."""


class Limit(Exception):
    """Raised if a rendering reaches one of its limits."""


def out_of_time(seconds: float) -> Limit:
    """Return the error for a rendering that exceeds its time limit."""
    return Limit(f"rendering takes longer than {seconds:g} seconds (max_seconds)")


def out_of_memory(megabytes: int) -> Limit:
    """Return the error for a rendering that exceeds its memory limit."""
    return Limit(f"rendering takes more than {megabytes} megabytes of memory (max_megabytes)")


def too_long(length: int) -> Limit:
    """Return the error for a rendering that exceeds its length limit."""
    return Limit(f"more than {length} characters of output (max_length)")
