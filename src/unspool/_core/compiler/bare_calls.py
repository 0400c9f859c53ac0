"""Bare calls: calls that are JSON objects without any marker, in the output of any dialect.

Models that should write markers around their calls sometimes write only the object, perhaps in a Markdown
code fence, and detokenizers remove markers that are special tokens.  Under the policy ``bare_calls``, every
dialect also accepts the templates below, as if they were part of ``also_accepts``.  Because ordinary answers
may contain objects as well, such a call counts only if

* the request declares its function,
* the function's name and the opening brace of the arguments follow within ``LONGEST_HEAD`` characters, and
* the call is at the beginning of the answer (``alone``) or of a line (``declared``), outside code fences.
"""

from __future__ import annotations

import re
from typing import Final

from ...dialects._declaration import Dialect, Envelope
from ...dialects._placed_templates import Section
from ..scan.character_runs import BOUND

LONGEST_HEAD: Final = 2 * BOUND
"""Maximum length of a bare call's text up to the opening brace of the arguments."""

CODE_FENCES: Final = ("```", "~~~")
"""Markers around a block of code in Markdown."""
CODE_FENCE: Final = re.compile("|".join(CODE_FENCES))

_FENCED: Final = [
    f"{fence}{tag}\n{calls}\n{fence}"
    for fence in CODE_FENCES
    for tag in ("json", "")
    for calls in ("[{calls}]", "{calls}")
]

BARE_CALLS: Final = Dialect(
    name="bare",
    section=tuple(
        Section(text, only_at_start=True, declared_only=True) for text in ("[{calls}]", "{calls}", *_FENCED)
    ),
    call=("{envelope}",),
    separators=(",", ";"),
    envelope=Envelope(name_keys=("name", "tool_name"), args_keys=("arguments", "parameters", "args")),
    reasoning=(),
)
"""Templates of bare calls.  The dialect is not registered."""


def fence_of(literal: str) -> str:
    """Return the code fence with which a literal begins, or an empty string."""
    return literal[:3] if literal.startswith(CODE_FENCES) else ""
