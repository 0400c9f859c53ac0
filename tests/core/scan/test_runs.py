"""The innermost loops of both builds equal a loop over single characters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unspool._core.scan import character_runs as scan

LETTERS = "ab1_.nuf/\\\"'{} \n\x00\x1f\x7f\x80é日\ud7ff\ud800\udfff\ue000🙂"
texts = st.text(st.sampled_from(LETTERS), max_size=12)
places = st.integers(0, 12)


def end_of_run(text: str, at: int, unit: Callable[[str], bool], sizes: tuple[int, ...]) -> int:
    """Return the position after a run of units of the given sizes."""
    while size := next((size for size in sizes if unit(text[at : at + size])), 0):
        at += size
    return at


def in_json_string(unit: str) -> bool:
    """Return whether the text is one character or one escape of a JSON string."""
    try:
        return len(unit) > 0 and len(json.loads(f'"{unit}"')) == 1 and (unit[0] == "\\" or len(unit) == 1)
    except ValueError:
        return False


@given(texts, places)
@example("ab\\u00e9\\", 2)
def test_json_string_run_ends_at_quotes_and_escapes(text: str, at: int) -> None:
    at = min(at, len(text))
    assert scan.string_run(text, at) == end_of_run(text, at, in_json_string, (1, 2, 6))


@pytest.mark.parametrize("quote", ["'", '"', "'''", '"""'])
@given(text=texts, at=places)
def test_python_string_run_is_equal_json(quote: str, text: str, at: int) -> None:
    def same(unit: str) -> bool:
        return unit != quote[0] and unit != "\\/" and in_json_string(unit)

    at = min(at, len(text))
    assert scan.same_run(text, at, quote) == end_of_run(text, at, same, (1, 2))


@pytest.mark.parametrize("stops", ["'\\", '"\\', "'\\{}", '"\\{}'])
@given(text=texts, at=places)
def test_run_ends_at_stop_characters(stops: str, text: str, at: int) -> None:
    at = min(at, len(text))
    assert scan.run_until(text, at, stops) == end_of_run(
        text, at, lambda unit: unit != "" and unit not in stops, (1,)
    )


@given(texts, places)
def test_word_run_excludes_surrogates(text: str, at: int) -> None:
    def in_word(unit: str) -> bool:
        if unit.isascii():
            return unit.isalnum() or unit in tuple("_.")
        return not "\ud800" <= unit <= "\udfff"

    at = min(at, len(text))
    assert scan.word_run(text, at) == end_of_run(text, at, in_word, (1,))
    assert [scan.in_word(char) for char in text] == [in_word(char) for char in text]


@given(texts, places)
def test_whitespace_is_json_whitespace(text: str, at: int) -> None:
    text, at = text.replace("a", "\t").replace("b", "\r"), min(at, len(text))
    assert scan.skip_whitespace(text, at) == end_of_run(text, at, lambda unit: unit in tuple(" \t\r\n"), (1,))


@pytest.mark.parametrize(
    "pattern", [r"[^\s<>{}'\ud800-\udfff]+", r"[^\s/\ud800][^\n{}]*", "[0-9]*", r"[\W\d]*"]
)
@given(texts, places)
@example("a/é日 \n", 0)
@example("/a", 0)
def test_alphabet_matches_its_pattern(pattern: str, text: str, at: int) -> None:
    at = min(at, len(text))
    alphabet = scan.Alphabet(pattern)
    match = alphabet.pattern.match(text, at)
    assert alphabet.run(text, at) == (match.end() if match is not None else at)
