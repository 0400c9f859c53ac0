"""Calls that were found in outputs, and the text around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ...dialects import Dialect, Envelope, Habits, Notation, Values
from .common_text import MOST, common_prefix, common_suffix
from .outputs import Output
from .placeholder_characters import ID, INDEX

_WORD: Final = r"[\w.:-]*\w"
"""Pattern of an id or a number."""
_DEFAULT: Final = Dialect("default")
"""Dialect with the default value of every field."""
_FEW: Final = 0.03
"""Share of calls below which the text next to a call is chance."""


class FoundCall(NamedTuple):
    """A call in an output.  Its *core* is the text from the first to the last value that varies."""

    name: str
    start: int
    """Start of the core."""
    end: int
    """End of the core."""
    values: int = 1
    """Number of arguments.  A call without arguments may be a mention of the tool in a sentence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls of all outputs, found under one assumption about how calls are written."""

    notation: str
    """Name of the assumption, for the evidence."""
    calls: tuple[tuple[FoundCall, ...], ...]
    """The calls of each output."""
    core: str
    """Core of a call, with placeholder characters."""
    args: Notation = "json"
    """Notation of the arguments."""
    envelope: Envelope = _DEFAULT.envelope
    """Keys of the object with the name and the arguments."""
    values: Values = _DEFAULT.values
    """Format of values."""
    habits: Habits = _DEFAULT.habits
    """Habits of the family."""
    param: str = ""
    """Text of a parameter, with placeholder characters."""
    first_index: int = 0
    """Number of the first call, if the core contains the number of the call."""

    @property
    def count(self) -> int:
        """Number of all calls."""
        return sum(map(len, self.calls))

    def where_calls_are(self) -> int:
        """Return the number of outputs that have calls."""
        return sum(map(bool, self.calls))


class Hole(NamedTuple):
    """A position in texts that are equal otherwise, at which each has a word of its own."""

    before: str
    after: str
    words: tuple[str | None, ...]
    """The word of each text; None for a text that is not like the others."""

    @property
    def varies(self) -> bool:
        """True if there is a hole; False if the texts are equal."""
        return any(self.words)


def find_hole(texts: Sequence[str]) -> Hole | None:
    """Return the only position at which most texts differ by a word, or None if they differ in more."""
    if not texts:
        return None
    text, count = Counter(texts).most_common(1)[0]
    usual = count >= MOST * len(texts)
    share = 1.0 if usual else MOST
    before = re.sub(r"[\w.-]*$", "", common_prefix(texts, share))
    after = re.sub(r"^[\w.-]*", "", common_suffix(texts, share))
    if usual:
        # If few outputs have two calls, most of the numbers of calls are equal.
        pattern = re.compile(re.escape(before) + r"(\d{1,2})" + re.escape(after))
        numbers = [match[1] if (match := pattern.fullmatch(each)) else "" for each in texts]
        if count < len(texts) and all(numbers):
            return Hole(before, after, tuple(numbers))
        return Hole(text, "", tuple("" if each == text else None for each in texts))
    pattern = re.compile(re.escape(before) + rf"({_WORD})" + re.escape(after))
    matches = [pattern.fullmatch(each) for each in texts]
    if sum(match is not None for match in matches) < MOST * len(texts):
        return None
    return Hole(before, after, tuple(match[1] if match else None for match in matches))


def placeholder_of(words: Sequence[Sequence[str]]) -> tuple[str, int]:
    """Return the placeholder for the words in a hole, and the number of the first call.

    The placeholder is ``INDEX`` for numbers that count the calls, and otherwise ``ID``.

    :param words: the words of the calls of each output.
    """
    for first in (0, 1):
        if all(
            list(row) == [str(number) for number in range(first, first + len(row))] for row in words
        ) and any(len(row) > 1 for row in words):
            return INDEX, first
    if all(word.isdigit() and len(word) < 3 for row in words for word in row):
        return INDEX, 0
    return ID, 0


def without_mentions(reading: Reading, outputs: Sequence[Output]) -> Reading:
    """Return the calls without those that are mentions of a tool in a sentence.

    Calls with arguments show what stands next to a call.  A call without arguments counts if the same text
    stands next to it.
    """
    texts_before: Counter[str] = Counter()
    afters: Counter[str] = Counter()
    for output, calls in zip(outputs, reading.calls, strict=True):
        for call in calls:
            if call.values:
                texts_before[_symbols_before(output.text, call.start)] += 1
                afters[_symbols_after(output.text, call.end)] += 1
    few = max(2, round(_FEW * texts_before.total()))
    kept = tuple(
        tuple(
            call
            for call in calls
            if call.values
            or (
                texts_before[_symbols_before(output.text, call.start)] >= few
                and afters[_symbols_after(output.text, call.end)] >= few
            )
        )
        for output, calls in zip(outputs, reading.calls, strict=True)
    )
    return replace(reading, calls=kept)


def _symbols_before(text: str, at: int) -> str:
    """Return the symbols directly before an offset, or a few characters if there are none."""
    found = re.search(r"[^\w\s.!?,]\W*$", text[max(at - 20, 0) : at])
    return found[0] if found else text[max(at - 3, 0) : at]


def _symbols_after(text: str, at: int) -> str:
    """Return the first symbol after an offset, with the whitespace before it, or a few characters."""
    found = re.match(r"\s*[^\w\s.!?][^\w\s]?", text[at : at + 20])
    return found[0] if found else text[at : at + 3]
