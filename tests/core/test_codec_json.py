"""JSON as a codec: whatever the pieces, the same is read, and only JSON is."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool._core.payload.json import JsonValue

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
)
DAMAGE = st.sampled_from(
    ['"', "\\", ",", "}", "]", "NaN", "-Infinity", "\x01", "01", "'", ":", "\\u12", "\\ud800", "1e", "/**/"]
)


def read(pieces: Sequence[str], *, repair: bool) -> tuple[str, str, bool, list[str]]:
    """The JSON text that came out, the error, whether it is complete, and the notes."""
    value = JsonValue(repair)
    out = []
    held = ""
    for piece in pieces:
        held += piece
        held = held[value.step(held, 0, final=False) :]
        out.append(value.text)
        if value.done or value.error:
            break
    return "".join(out), value.error, value.done, [kind for kind, _, _ in value.notes]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    # Long enough for the look ahead that whole values are read with.
    text = json.dumps({"padding": "x" * 64, "value": draw(VALUES)}, ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(DAMAGE) + text[at + draw(st.integers(0, 1)) :]
    return text + draw(st.sampled_from(["", " ", "}", "x"]))


@given(text=damaged(), repair=st.booleans())
def test_a_whole_value_is_read_as_its_characters_are(text: str, repair: bool) -> None:
    assert read([text], repair=repair) == read(list(text), repair=repair)


@given(text=damaged(), size=st.integers(1, 9), repair=st.booleans())
def test_pieces_lead_to_the_same(text: str, size: int, repair: bool) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert read(pieces, repair=repair) == read([text], repair=repair)


@given(value=VALUES)
def test_json_passes_verbatim(value: object) -> None:
    text = json.dumps([value], indent=1)
    assert read([text], repair=False) == (text, "", True, [])


@pytest.mark.parametrize("depth", [100, 100_000])
def test_depth_costs_no_stack(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert read([text], repair=False) == (text, "", True, [])


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_only_python_reads_is_an_error(constant: str) -> None:
    text = json.dumps({"padding": "x" * 64})[:-1] + f', "n": {constant}}}'
    assert read([text], repair=False)[1]


def test_digits_beyond_what_an_int_may_have_survive() -> None:
    text = '{"n": ' + "9" * 10_000 + "}"
    assert read([text], repair=False) == (text, "", True, [])
