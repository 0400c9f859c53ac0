"""The start state: what the end of the prompt says about the beginning of the output.

One rule covers an injected ``<think>``, a closed ``<think></think>``, a
prefilled answer, a prefilled call and the header of a framed message: run the
machine over the tail of the prompt.  Not over all of it, because tool
instructions are full of markup: from the last marker on, and only if no marker
of a turn follows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ._grammar import Grammar

_CONTROL_TOKEN: Final = re.compile(r"<[|｜][^<>\s]*[|｜]>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>|</?s>")
_REACH: Final = 65536
"""How far back to look."""


def _header(text: str, start: int, grammar: Grammar) -> int:
    """Where the header begins whose last marker stands at ``start``."""
    frame = grammar.frame
    if frame is None or not frame.ends:
        return start
    border = max(text.rfind(end, 0, start) for end in frame.ends)
    heads = (text.find(opener, border + 1, start) for opener in frame.openers)
    return min((at for at in heads if at >= 0), default=start)


def relevant_tail(prompt: str, grammar: Grammar) -> str:
    """The part of the prompt that the machine must read before the output."""
    text = prompt[-_REACH:]
    dialect = grammar.dialect
    start = -1
    for literal in grammar.markers:
        start = max(start, text.rfind(literal))
    # The longest marker that begins there, or a little earlier.
    if start < 0:
        return ""
    for literal in grammar.markers:
        at = text.rfind(literal)
        if at >= 0 and at < start < at + len(literal):
            start = at
    start = _header(text, start, grammar)
    tail = text[start:]
    own = [literal for literal in grammar.markers if tail.startswith(literal)]
    behind = tail[max(map(len, own)) :]
    for marker in (*dialect.stop, *dialect.turn):
        if marker in behind:
            return ""
    foreign = (match.group() for match in _CONTROL_TOKEN.finditer(behind))
    return "" if any(not grammar.knows(token) for token in foreign) else tail
