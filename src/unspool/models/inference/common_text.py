"""Text that several texts have in common.

A model does not always write its own format correctly, so a text counts as common if most of the texts have
it, not only if all have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

MOST: Final = 0.8
"""Share of texts that must agree."""
MARKER: Final = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]|◁[^◁▷\s]{1,40}▷|⟦[^⟦⟧\s]{1,40}⟧")
"""Pattern for text that looks like a complete marker."""
_WORD: Final = re.compile(r"\w")


def common_prefix(texts: Sequence[str], share: float = MOST) -> str:
    """Return the longest text with which most of the texts begin."""
    group = list(texts)
    at = 0
    while group:
        counts = Counter(text[at] for text in group if len(text) > at)
        if not counts:
            break
        character, count = counts.most_common(1)[0]
        if count < share * len(texts) or count < 1:
            break
        group = [text for text in group if len(text) > at and text[at] == character]
        at += 1
    return group[0][:at] if group else ""


def common_suffix(texts: Sequence[str], share: float = MOST) -> str:
    """Return the longest text with which most of the texts end."""
    return common_prefix([text[::-1] for text in texts], share)[::-1]


def most_common(texts: Sequence[str]) -> str:
    """Return the text that occurs most often; of several, the first."""
    return Counter(texts).most_common(1)[0][0] if texts else ""


def is_boundary(text: str, at: int) -> bool:
    """Return whether a marker may begin or end at an offset: it does not split a word or a tag."""
    if at in (0, len(text)):
        return True
    before, after = text[at - 1], text[at]
    if _WORD.match(before) and _WORD.match(after):
        return False
    inside = max(text.rfind(opener, 0, at) for opener in "<⟦◁") > max(
        text.rfind(closer, 0, at) for closer in ">⟧▷"
    )
    return not inside or after.isspace() or before.isspace()


def has_marker(text: str) -> bool:
    """Return whether a text could be a marker: it has at least two characters besides letters and spaces.

    A single bracket or a colon is not enough, unless the text has a word, too.
    """
    bare = text.strip()
    symbols = [c for c in bare if not c.isalnum() and not c.isspace()]
    return len(bare) > 1 and bool(symbols) and (len(symbols) > 1 or len(bare) > 3)


def shared_substrings(texts: Sequence[str], share: float = MOST) -> Iterator[str]:
    """Yield the maximal texts that most of the texts contain, in the order of the shortest text."""
    if not texts:
        return
    usual = sorted(texts, key=len)
    # The shortest text may be one of the few that are not like the others.
    for sample in usual[: 1 + int(len(usual) * (1 - share))]:
        found = list(_shared_with(sample, usual, share))
        if any(has_marker(text) for text in found):
            yield from found
            return


def _shared_with(sample: str, texts: Sequence[str], share: float) -> Iterator[str]:
    needed = share * len(texts)

    def shared(text: str) -> bool:
        return sum(text in each for each in texts) >= needed

    end = 0
    for start in range(len(sample)):
        end = max(end, start)
        begin = end
        while end < len(sample) and shared(sample[start : end + 1]):
            end += 1
        if end > begin:
            yield sample[start:end]
