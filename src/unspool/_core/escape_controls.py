"""Text from elsewhere, so that a terminal shows it and does nothing else."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Escape control characters, except tabs and newlines, and those that change the direction of text.

    The escapes are those of JSON, so that what was JSON is still the same JSON.

    >>> print(visible("\x1b[2Jgone\x9b0m \u202egpj.exe"))
    \u001b[2Jgone\u009b0m \u202egpj.exe
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
