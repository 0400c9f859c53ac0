"""Division of the text around calls among the call, the section and the separator.

Text that is repeated around every call belongs to the call.  Text that is there once belongs to the section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .common_text import common_prefix, common_suffix, is_boundary, most_common
from .found_calls import Reading, placeholder_of
from .placeholder_characters import ANY_PLACEHOLDER

_CLOSER = re.compile(r"</[^<>]*>|\[/[^\[\]]*\]|<[^<>]*(?:end|close)[^<>]*>", re.IGNORECASE)


class Layout(NamedTuple):
    """The text around calls, divided into parts, with placeholder characters."""

    opening: str
    """Text before the first call, without the whitespace before it."""
    call: str
    """Text of one call."""
    separator: str
    """Text between two calls."""
    closing: str
    """Text after the last call."""
    glue: str
    """Whitespace between content and calls."""
    first_index: int
    """Number of the first call."""
    starts: tuple[int, ...]
    """Offset at which the calls of each output begin, with the text before the first; -1 without calls."""
    ends: tuple[int, ...]
    """Offset at which the calls of each output end, with the text after the last; -1 without calls."""

    @property
    def opener_text(self) -> str:
        """The text before the first placeholder."""
        return re.split(ANY_PLACEHOLDER, self.opening + self.call, maxsplit=1)[0]


class _Around(NamedTuple):
    """The texts around calls."""

    reading: Reading
    texts: Sequence[str]
    core: str
    first_index: int
    texts_before: Sequence[str]
    afters: Sequence[str]
    gaps: Sequence[str]
    after: str


def layouts(reading: Reading, texts: Sequence[str]) -> Iterator[Layout]:
    """Yield the possible divisions, the likeliest first."""
    calls = [(text, found) for text, found in zip(texts, reading.calls, strict=True) if found]
    plain = [text for text, found in zip(texts, reading.calls, strict=True) if not found]
    texts_before = [text[: found[0].start] for text, found in calls]
    afters = [text[found[-1].end :] for text, found in calls]
    gaps = [text[one.end : other.start] for text, found in calls for one, other in pairwise(found)]
    core, first_index = reading.core, reading.first_index
    head, hole = _word_before(texts_before + gaps, [len(found) for _, found in calls])
    if hole:
        core = f"{hole[0]}{head}{core}"
        first_index = hole[1]
        texts_before, gaps = _cut(texts_before, head), _cut(gaps, head)
    after = _trim_end(common_prefix(afters))
    around = _Around(reading, texts, core, first_index, texts_before, afters, gaps, after)
    for before in _openings(texts_before, plain):
        yield from _divide(around, before)


def _divide(around: _Around, before: str) -> Iterator[Layout]:
    """Yield the layouts with a text before the first call."""
    bare = before.lstrip(" \n")
    spaces = [text[: len(text) - len(bare)] for text in around.texts_before if text.endswith(bare)]
    starts, ends = [], []
    rest = iter(zip(around.texts_before, around.afters, strict=True))
    for text, found in zip(around.texts, around.reading.calls, strict=True):
        if not found:
            starts.append(-1)
            ends.append(-1)
            continue
        text_before, text_after = next(rest)
        starts.append(len(text_before) - (len(bare) if text_before.endswith(bare) else 0))
        kept = len(around.after) if text_after.startswith(around.after) else 0
        ends.append(len(text) - len(text_after) + kept)
    for head, tail, separator in _parts_of_gap(most_common(around.gaps), bare, around.after):
        yield Layout(
            opening=bare[: len(bare) - len(head)] if bare.endswith(head) else "",
            call=head + around.core + tail,
            separator=separator,
            closing=around.after[len(tail) :],
            glue=_glue(spaces),
            first_index=around.first_index,
            starts=tuple(starts),
            ends=tuple(ends),
        )


def _parts_of_gap(gap: str, before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Yield how the text between two calls may be divided: head of the second, tail of the first, separator.

    :param gap: the text between two calls; empty if no output has two.
    """
    if not gap:
        yield before, after, "\n"
        return
    tail = _shared_tail(gap, after)
    head = _shared_head(gap[len(tail) :], before)
    yield head, tail, gap[len(tail) : len(gap) - len(head)]
    # A call may end with text with which the next call begins.
    for end in range(len(tail) - 1, 0, -1):
        if gap[end:].strip() and before.endswith(gap[end:]) and is_boundary(gap, end):
            yield gap[end:], tail[:end], ""


def _word_before(texts: Sequence[str], counts: Sequence[int]) -> tuple[str, tuple[str, int] | None]:
    """Return the text between an id or number and the core, and the placeholder of the id or number.

    :param texts: the texts before first calls, and then those between calls.
    :param counts: the number of calls in each output.
    """
    head = re.sub(r"^[\w.-]*", "", common_suffix(texts))
    if not head.strip():
        return "", None
    rests = [text[: len(text) - len(head)] for text in texts if text.endswith(head)]
    matches = [re.search(r"[\w.:-]*\w$", rest) for rest in rests]
    words = [match[0] for match in matches if match]
    firsts, others = words[: len(counts)], iter(words[len(counts) :])
    counted = all(word.isdigit() for word in words) and len(set(words)) > 1
    if len(words) < len(texts) or not (counted or len(set(firsts)) > 1):
        return "", None
    lead = common_suffix([rest[: len(rest) - len(word)] for rest, word in zip(rests, words, strict=True)])
    lead = lead if lead and not lead[-1].isspace() else ""
    if not re.search(r"[^\w\s]", lead):
        return "", None
    rows = [
        [word, *(next(others) for _ in range(count - 1))] for word, count in zip(firsts, counts, strict=True)
    ]
    return head, placeholder_of(rows)


def _cut(texts: Sequence[str], head: str) -> list[str]:
    """Return the texts up to the id or number."""
    return [re.sub(r"[\w.:-]*\w$", "", text[: len(text) - len(head)]) for text in texts]


def _openings(texts_before: Sequence[str], plain: Sequence[str]) -> Iterator[str]:
    """Yield possible texts before the first call, the likeliest first.

    If most outputs have the same text before the opener, such as the closer of their reasoning, that text is
    not part of the opener.
    """
    before = _trim_start(common_suffix(texts_before), texts_before)
    cuts = [0]
    for match in re.finditer(r"(?<=[>\])▷⟧])\s*(?=\S)|\n(?=\S)", before):
        piece = before[cuts[-1] : match.end()].strip()
        if piece and (_CLOSER.fullmatch(piece) or any(piece in text for text in plain)):
            cuts.append(match.end())
        else:
            break
    for cut in reversed(cuts):
        yield before[cut:]


def _glue(spaces: Sequence[str]) -> str:
    """Return the whitespace between content and calls in most outputs that have content."""
    ends = [re.search(r"\s*$", text) for text in spaces if text.strip()]
    found = [match[0] for match in ends if match]
    return most_common(found)


def _trim_start(common: str, texts: Sequence[str]) -> str:
    """Remove a part of a word or tag from the start of a text with which most texts end."""
    whole = [text for text in texts if text.endswith(common)]
    for start in range(len(common) + 1):
        rest = common[start:]
        if not rest or not _opens(rest) or not is_boundary(common, start):
            continue
        if not rest[0].isalnum() or not any(text[-len(rest) - 1 : -len(rest)].isalnum() for text in whole):
            return rest
    return ""


def _opens(text: str) -> bool:
    """Return whether a text does not begin inside a tag or a word."""
    first = re.search(r"[<>]", text)
    return first is None or first[0] == "<"


def _trim_end(text: str) -> str:
    """Remove a part of a word or tag from the end of a text that is common to several."""
    end = len(text)
    while end and text.rfind("<", 0, end) > text.rfind(">", 0, end):
        end = text.rfind("<", 0, end)
    return text[:end]


def _shared_tail(gap: str, after: str) -> str:
    """Return the closing text of a call: the text that follows both the first and the last call."""
    tail = common_prefix([gap, after], 1)
    while tail and not (is_boundary(gap, len(tail)) and is_boundary(after, len(tail))):
        tail = tail[:-1]
    return tail if tail.strip() else ""


def _shared_head(gap: str, before: str) -> str:
    """Return the opening text of a call: the text that precedes both the first and the second call."""
    head = common_suffix([gap, before], 1)
    while head and not (
        is_boundary(gap, len(gap) - len(head)) and is_boundary(before, len(before) - len(head))
    ):
        head = head[1:]
    return head.lstrip()
