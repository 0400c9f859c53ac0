"""The programs that start real engines, as far as they can be tested without one."""

from __future__ import annotations

import re

import pytest

from engine_transformers import BEGIN, DIALECTS, END, KINDS, PAGE, _difference
from engine_wires import Answer
from unspool.models import to_response_template

RIGHT = Answer(content="Let me see.", calls=[("now", '{"n": 3}')], finish="tool_calls")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_transformers_is_tried_with_expressible_templates(dialect: str) -> None:
    assert to_response_template(dialect, anchor="x")["fields"]["tool_calls"]


def test_docs_have_a_row_for_each_dialect() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", table, re.MULTILINE)
    assert [dialect for dialect, _ in rows] == list(DIALECTS)
    for _, cells in rows:
        assert len(cells.split("|")) == 1 + 2 * len(KINDS)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(content="Let me see.", calls=[("now", '{"n": "3"}')]), "numbers as strings"),
        (
            Answer(content="Let me see.", calls=[*RIGHT.calls, ("go", "{}")]),
            "broken call sent as complete",
        ),
        (Answer(content="Let me see. <tool", calls=RIGHT.calls), "markup as text"),
        (Answer(content="<tool_call>", calls=RIGHT.calls), "markup in place of text"),
        (Answer(content="", calls=RIGHT.calls), "text lost"),
        (Answer(content="Let me see.", calls=[("later", "{}")]), "other calls"),
    ],
)
def test_differences_are_named(answer: Answer, words: str) -> None:
    assert _difference(answer, RIGHT) == words
