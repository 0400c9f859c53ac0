"""Escaping of control characters, so that untrusted text can be printed to a terminal safely."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Escape the characters that control a terminal or the direction of text, except tabs and newlines.

    The escapes are those of JSON, so JSON text keeps its meaning.

    >>> print(visible("\x1b[2Jgone\x9b0m \u202egpj.exe"))
    \u001b[2Jgone\u009b0m \u202egpj.exe
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
