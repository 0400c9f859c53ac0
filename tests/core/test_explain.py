"""Explanations: the dialect parses the shown example as the page says."""

from __future__ import annotations

import re

import pytest

from unspool import Dialect, Message, Parser, get_dialect, list_dialects
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS, calls_of, example
from unspool.dialects import Envelope, explain

NAMES = [dialect.name for dialect in list_dialects()]


def parse_slowly(text: str, name: str) -> Message:
    """Parse a text that arrives character by character."""
    dialect = get_dialect(name)
    parser = Parser(dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)
    fold = parser.fold()
    for character in text:
        fold.feed(parser.feed(character))
    fold.feed(parser.finish())
    return fold.message


@pytest.mark.parametrize("name", NAMES)
def test_explain_example_is_read_as_described(name: str) -> None:
    page = explain(name)
    shown = re.search(r"^~~~~text\n(.*?)\n~~~~$", page, re.DOTALL | re.MULTILINE)
    assert shown is not None
    message = parse_slowly(shown[1], name)
    lines = page.partition("## What the parser returns\n\n")[2].partition("\n\n")[0].splitlines()
    expected = []
    if message.reasoning:
        expected.append(f"- reasoning: `{message.reasoning}`")
    if message.content:
        expected.append(f"- content: `{message.content}`")
    expected += [f"- call of `{call.name}`: `{call.arguments}`" for call in message.tool_calls]
    assert lines == expected
    assert not message.diagnostics


@pytest.mark.parametrize("name", NAMES)
def test_example_contains_exactly_what_the_dialect_supports(name: str) -> None:
    dialect = get_dialect(name)
    _, message = example(dialect)
    assert message.reasoning in (None, EXAMPLE.reasoning)
    assert message.content in (None, f"{dialect.habits.echo}{EXAMPLE.content}")
    if dialect.call or dialect.frame is not None:
        assert calls_of(message) == calls_of(EXAMPLE)
    if dialect.reasoning:
        assert message.reasoning == EXAMPLE.reasoning


@pytest.mark.parametrize("name", NAMES)
def test_example_without_reasoning_has_none(name: str) -> None:
    dialect = get_dialect(name)
    text, message = example(dialect, reasoning=False)
    assert message.reasoning is None
    assert str(EXAMPLE.reasoning) not in text
    if dialect.call or dialect.frame is not None:
        assert calls_of(message) == calls_of(EXAMPLE)


@pytest.mark.parametrize("name", ["generic_json", "llama3_json", "llama4_json", "watt", "xlam"])
def test_example_leaves_out_content_that_would_hide_calls(name: str) -> None:
    assert str(EXAMPLE.content) not in example(get_dialect(name))[0]


def test_example_may_contain_backticks() -> None:
    text, _ = example(get_dialect("command_r"))
    assert "```" in text
    assert f"~~~~text\n{text}\n~~~~\n" in explain("command_r")


def test_id_after_arguments_is_shown() -> None:
    late = Envelope(name_keys=("fn",), args_keys=("with",), id_keys=("ref",), order=("name", "args", "id"))
    dialect = Dialect("late", call=("<run>{envelope}</run>",), envelope=late, request="hermes")
    assert '"fn": "get_weather"' in explain(dialect)
