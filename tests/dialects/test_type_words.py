"""Words of a dialect's own for the types of values in tagged parameters."""

from __future__ import annotations

import json

import pytest

from unspool import Dialect, parse
from unspool.dialects import Habits

WORDS = ("text", "amount", "flag", "nothing", "list", "map")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("word", "text", "value"),
    [
        ("text", "true", "true"),
        ("text", "3", "3"),
        ("amount", "3", 3),
        ("flag", "true", True),
        ("nothing", "null", None),
        ("list", "", []),
        ("map", "", {}),
    ],
)
def test_own_word_for_a_type_decides(word: str, text: str, value: object, *, nested: bool) -> None:
    dialect = Dialect(
        "typed",
        call=("<call {name}>{params}</call>",),
        param=('<arg key="{key}" kind="{type}">{value}</arg>',),
        habits=Habits(type_words=WORDS, nested=nested),
    )
    (call,) = parse(f'<call f><arg key="a" kind="{word}">{text}</arg></call>', dialect).tool_calls
    assert json.loads(call.arguments) == {"a": value}
