"""The start state: what the end of the prompt says about the beginning of the output.

One rule covers an injected ``<think>``, a closed ``<think></think>``, a
prefilled answer, a prefilled call and the header of a framed message: run the
machine over the tail of the prompt.  Not over all of it, because tool
instructions are full of markup: only over the turn that the prompt ends with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ._grammar import Grammar

_CONTROL_TOKEN: Final = re.compile(r"<[|｜][^<>\s]*[|｜]>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>|</?s>")
_CONTROL_STARTS: Final = "<["
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


@lru_cache(maxsize=1024)
def usual_tail(grammar: Grammar) -> str:
    """The tail where no prompt is given: of what the dialect says a prompt ends with."""
    return relevant_tail(grammar.dialect.start, grammar)


def relevant_tail(prompt: str, grammar: Grammar) -> str:
    """The part of the prompt that the machine must read before the output."""
    if not prompt:
        return ""
    text = prompt[-_REACH:]
    return _framed_tail(text, grammar) if grammar.frame is not None else _turn(text, grammar)


def _turn(text: str, grammar: Grammar) -> str:
    """The turn that the prompt ends with, from its first marker on."""
    dialect = grammar.dialect
    border = _behind_foreign(text, grammar)
    for marker in (*dialect.stop, *dialect.turn):
        at = text.rfind(marker)
        if at >= 0:
            border = max(border, at + len(marker))
    places = [at for at in (text.find(literal, border) for literal in grammar.markers) if at >= 0]
    return text[min(places) :] if places else ""


def _behind_foreign(text: str, grammar: Grammar) -> int:
    """Behind the last control token that is none of the dialect's; it is near the end, as a rule."""
    last = {first: text.rfind(first) for first in _CONTROL_STARTS}
    while True:
        at = max(last.values())
        if at < 0:
            return 0
        match = _CONTROL_TOKEN.match(text, at)
        if match is not None and not grammar.knows(match.group()):
            return match.end()
        last[text[at]] = text.rfind(text[at], 0, at)


def _framed_tail(text: str, grammar: Grammar) -> str:
    """The message that the prompt ends with: its own markers tell where it begins."""
    dialect = grammar.dialect
    start = -1
    for literal in grammar.markers:
        start = max(start, text.rfind(literal))
    if start < 0:
        return ""
    # The longest marker that begins there, or a little earlier.
    for literal in grammar.markers:
        at = text.rfind(literal)
        if at >= 0 and at < start < at + len(literal):
            start = at
    tail = text[_header(text, start, grammar) :]
    own = [literal for literal in grammar.markers if tail.startswith(literal)]
    behind = tail[max(map(len, own)) :]
    if any(marker in behind for marker in (*dialect.stop, *dialect.turn)):
        return ""
    foreign = (match.group() for match in _CONTROL_TOKEN.finditer(behind))
    return "" if any(not grammar.knows(token) for token in foreign) else tail
