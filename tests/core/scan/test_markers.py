"""Marker search, compared with a slow reference implementation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unspool._core.scan.character_runs import escaped
from unspool._core.scan.markers import MarkerSet, ValueMarkerSet

LITERALS = st.lists(st.text("<ab|é\n", min_size=1, max_size=5), max_size=5)
TEXTS = st.text("<ab|éß\n.", max_size=12)


def slow_seek(literals: list[str], text: str, at: int, final: bool) -> tuple[int, str]:
    """Return the position and marker by the definition of ``MarkerSet.seek``."""
    for place in range(at, len(text)):
        rest = text[place:]
        if not final and any(len(rest) < len(literal) and literal.startswith(rest) for literal in literals):
            return place, ""
        standing = [literal for literal in literals if rest.startswith(literal)]
        if standing:
            return place, max(standing, key=len)
    return -1, ""


@given(LITERALS, TEXTS, st.integers(0, 4), st.booleans(), st.booleans())
@example(literals=["é<"], text="ß", at=0, final=False, long=False)
@example(literals=["\n<a", "<a"], text="b\n", at=0, final=False, long=True)
@example(literals=["\n<a", "<a"], text="\n<b\n<a", at=0, final=False, long=True)
def test_seek_finds_markers_and_partial_markers(
    literals: list[str], text: str, at: int, final: bool, long: bool
) -> None:
    at = min(at, len(text))
    if long:  # longer than the compiled build searches in its loop
        text = "." * 80 + text
    assert MarkerSet(literals).seek(text, at, final) == slow_seek(literals, text, at, final)


@given(LITERALS, st.text("<ab|é\n[.", max_size=12), st.text("<ab[", min_size=1, max_size=3))
def test_single_character_marker_yields_to_a_longer_one(
    literals: list[str], text: str, excluded: str
) -> None:
    match = MarkerSet([*literals, "["], {"[": excluded}).seek(text, 0, False)
    # An excluded marker is like ordinary text; at the end of the buffer the next character is still unknown.
    plain = "".join("." if one == "[" and following in excluded else one for one, following in pairwise(text))
    at, literal = slow_seek([*literals, "["], plain + text[-1:], 0, False)
    assert match == (at, "" if literal == "[" and at == len(text) - 1 else literal)


@given(LITERALS, st.lists(TEXTS, min_size=1))
def test_reach_ends_where_a_marker_may_begin(literals: list[str], texts: list[str]) -> None:
    watch = MarkerSet(literals)
    for text in texts * 2:  # the second pass uses the cache
        at, literal = watch.seek(text, 0, False)
        assert watch.reach(text) == (-1 if literal else len(text) if at < 0 else at)


def test_reach_cache_is_bounded() -> None:
    watch = MarkerSet(["<tool_call>", "[TOOL"])
    for number in range(5_000):
        watch.reach(f"<{number}")
        watch.reach(f"<{number}{'x' * 1_000}")
    assert len(watch._reaches) <= 1_024
    # The compiled build rejects most texts in its loop, without the cache.
    assert max(map(len, watch._reaches), default=0) < 100


@given(LITERALS, st.text('<ab|é\n."\\\x1f', max_size=12), st.booleans())
def test_verbatim_text_is_passed_unchanged(literals: list[str], text: str, long: bool) -> None:
    watch = ValueMarkerSet(literals)
    if long:  # longer than the compiled build searches in its loop
        text += "." * 80
    has_first_character = any(literal[0] in text for literal in literals)
    assert watch.verbatim(text) == (not has_first_character and escaped(text) == text)


@given(LITERALS, st.lists(st.text('<ab|é\n."\\\x1f', max_size=12), min_size=1))
def test_value_piece_ends_where_a_marker_may_begin(literals: list[str], texts: list[str]) -> None:
    watch = ValueMarkerSet(literals)
    for text in texts * 2:  # the second pass uses the cache
        at, literal = watch.seek(text, 0, False)
        piece = watch.piece(text)
        if literal:
            assert piece is None
        else:
            certain = text if at < 0 else text[:at]
            assert piece is not None
            assert (piece.length, piece.json) == (len(certain), escaped(certain))


def test_value_piece_cache_is_bounded() -> None:
    watch = ValueMarkerSet(["</value>"])
    for number in range(5_000):
        watch.piece(f"<{number}")
        watch.piece(f"<{number}{'x' * 1_000}")
    assert len(watch._pieces) <= 1_024
    assert max(map(len, watch._pieces)) < 100


@given(LITERALS, TEXTS, st.integers(0, 12), st.sampled_from(["", "a", "<b"]))
def test_literal_at_prefers_the_longest(literals: list[str], text: str, at: int, excluded: str) -> None:
    standing = [literal for literal in [*literals, "|"] if text.startswith(literal, at)]
    if text[at + 1 : at + 2] and text[at + 1] in excluded:
        standing = [literal for literal in standing if literal != "|"]
    watch = MarkerSet([*literals, "|"], {"|": excluded} if excluded else {})
    assert watch.literal_at(text, at) == max(standing, key=len, default="")


@pytest.mark.parametrize("text", ["", "x", "<", "<tool"])
def test_empty_marker_set_finds_nothing(text: str) -> None:
    watch = MarkerSet(())
    assert watch.reach(text) == len(text)
    assert watch.seek(text, 0, False) == (-1, "")
