"""The JSON codec: the result does not depend on chunks, and only JSON is accepted."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import Policies, parse
from unspool._core.arguments.json_value import JsonValue, duplicate_keys, object_members
from unspool.testing._linear_time_law import assert_linear

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
)
DAMAGE = st.sampled_from(
    [
        *('"', "\\", ",", "}", "]", "NaN", "-Infinity", "\x01", "01", "'", ":", "\\u12", "\\ud800", "1e"),
        *(
            "/**/",
            '"padding": [], ',
            ', "\\u0070adding": 0',
            "1e999",
            "9e307",
            "1" * 310 + "e-9",
            "1" * 310 + ".0",
        ),
    ]
)


def read(pieces: Sequence[str], *, repair: bool) -> tuple[str, str, bool, list[str]]:
    """Return the JSON text, the error, whether it is complete, and the diagnostics."""
    value = JsonValue(repair)
    out = []
    pending = ""
    for piece in pieces:
        pending += piece
        pending = pending[value.step(pending, 0, final=False) :]
        out.append(value.text)
        if value.done or value.error:
            break
    return "".join(out), value.error, value.done, [kind for kind, _, _ in value.diagnostics]


@st.composite
def damaged_json(draw: st.DrawFn) -> str:
    # The padding exceeds the lookahead of the fast path for complete values.
    text = json.dumps({"padding": "x" * 64, "value": draw(VALUES)}, ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(DAMAGE) + text[at + draw(st.integers(0, 1)) :]
    return text + draw(st.sampled_from(["", " ", "}", "x"]))


@given(text=damaged_json(), repair=st.booleans())
def test_whole_value_equals_character_by_character(text: str, repair: bool) -> None:
    assert read([text], repair=repair) == read(list(text), repair=repair)


@given(text=damaged_json(), size=st.integers(1, 9), repair=st.booleans())
def test_chunking_does_not_matter(text: str, size: int, repair: bool) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert read(pieces, repair=repair) == read([text], repair=repair)


@given(value=VALUES)
def test_json_passes_verbatim(value: object) -> None:
    text = json.dumps([value], indent=1)
    assert read([text], repair=False) == (text, "", True, [])


@pytest.mark.parametrize("depth", [100, 100_000])
def test_depth_does_not_recurse(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert read([text], repair=False) == (text, "", True, [])


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_python_only_syntax_is_an_error(constant: str) -> None:
    text = json.dumps({"padding": "x" * 64})[:-1] + f', "n": {constant}}}'
    assert read([text], repair=False)[1]


NUMBERS = ["-0", "1.10", "1e2", "1E+05", "1e308", str(2**70), "9" * 400, "-" + "9" * 4300, "0." + "1" * 4298]
OUT_OF_RANGE = [
    "1e999",
    "-1E400",
    "1e309",
    "9" * 310 + ".0",
    "1" + "0" * 4300,
    "-" + "9" * 4301,
    "0." + "1" * 4299,
]


def shown(text: str) -> str:
    return f"{text[:8]}({len(text)})"


@pytest.mark.parametrize("number", NUMBERS, ids=shown)
def test_number_in_range_keeps_its_spelling(number: str) -> None:
    text = f'{{"padding": "{"x" * 64}", "n": [{number}]}}'
    for pieces in ([text], list(text), ["[", number, "]"], ["[", f"{number}]"]):
        assert read(pieces, repair=False) == ("".join(pieces), "", True, [])


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("number", OUT_OF_RANGE, ids=shown)
def test_number_out_of_range_is_an_error_at_its_position(number: str, repair: bool) -> None:
    text = f'{{"padding": "{"x" * 64}", "n": [{number}]}}'
    end = text.index(number) + min(len(number), 4300 + number.startswith("-"))
    for size in (1, 7, 4000, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        outcome = read(pieces, repair=repair)
        assert outcome == (text[:end], "a finite number of at most 4,300 digits", False, [])


def test_number_out_of_range_is_not_repaired() -> None:
    value = JsonValue(repair=True)
    value.step('{"n": 1e999<', 0, final=False)
    assert value.error
    assert not value.close()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"a": 1, "a": 2}', ["a"]),
        ('{"a": 1, "b": 2, "a": 3, "b": 4, "a": 5}', ["a", "b", "a"]),
        ('{"a": {"b": 1, "b": 2}, "c": [{"d": 0, "d": 0}]}', ["b", "d"]),
        ('{"\\u0061": 1, "a": 2, "": 3, "": 4}', ["a", ""]),
        ('{"\\ud83d\\ude00": 1, "😀": 2}', ["😀"]),
        ('{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}], "c": "a"}', []),
    ],
)
def test_key_given_twice_is_noted(text: str, keys: list[str]) -> None:
    assert duplicate_keys(text) == keys
    for repair in (False, True):
        for spelling in (text, json.dumps("x" * 64).join(["[", f", {text}]"])):
            assert read([spelling], repair=repair) == (spelling, "", True, ["duplicate_argument"] * len(keys))
            assert read(list(spelling), repair=repair) == read([spelling], repair=repair)


def test_repaired_key_given_twice_is_noted() -> None:
    text = """{'a"b': 1, "a\\"b": {'c': 2,}, "c\td": 3, 'c\\td': 4, 'a"b': 5"""
    for pieces in ([text], list(text)):
        value = JsonValue(repair=True)
        pending = ""
        for piece in pieces:
            pending += piece
            pending = pending[value.step(pending, 0, final=False) :]
        keys = [detail for kind, detail, _ in value.diagnostics if kind == "duplicate_argument"]
        assert keys == ['a"b', "c\td", 'a"b']
        assert value.close()


def test_last_member_of_a_key_counts() -> None:
    assert object_members('{"a": 1, "b": 2, "\\u0061": [3]}') == [("a", "[3]"), ("b", "2")]


@pytest.mark.parametrize(
    "unit", ['{"k": ', "k", '"k": 0, ', '"\\u006b": {}, '], ids=["deep", "long", "repeated", "escaped"]
)
def test_key_tracking_is_linear(unit: str) -> None:
    begin = '{"' if unit == "k" else "{" if unit[0] == '"' else ""
    assert_linear(lambda size: read(list(begin + unit * (size // len(unit))), repair=False), 4_000)


@pytest.mark.parametrize(
    ("body", "arguments"),
    [('{"a": [1, 2', '{"a": [1, 2]}'), ('{"a": [1, ', '{"a": [1]}'), ('{"a": ', None), ("[1", None)],
)
def test_repair_adds_brackets_only_where_they_suffice(body: str, arguments: str | None) -> None:
    call = f"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{body}<｜tool▁call▁end｜>"
    message = parse(
        f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>",
        "deepseek_v3_1",
        policies=Policies(malformed_call="repair"),
    )
    assert [call.arguments for call in message.tool_calls] == ([] if arguments is None else [arguments])
    kind = "malformed_call" if arguments is None else "repaired"
    assert [diagnostic.kind for diagnostic in message.diagnostics] == [kind]
