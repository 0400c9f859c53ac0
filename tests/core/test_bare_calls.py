"""Calls that are JSON objects without any marker, under the policy ``bare_calls``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Literal

import pytest

from unspool import Message, Policies, get_dialect, list_dialects, parse, render
from unspool._core.compiler.bare_calls import LONGEST_HEAD
from unspool.events import FinishReason
from unspool.parser import ToolList
from unspool.policies import as_policies
from unspool.testing import POLICIES, ModelOutput, assert_laws, chunkings, markers

CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    },
)
DIALECTS = [dialect.name for dialect in list_dialects() if dialect.call]
each_dialect = pytest.mark.parametrize("name", DIALECTS)

Choice = Literal["off", "alone", "declared"]


def read(
    text: str,
    choice: str,
    dialect: str = "hermes",
    tools: ToolList | None = TOOLS,
    finish_reason: FinishReason | None = None,
) -> Message:
    policies = {"bare_calls": choice}
    return parse(text, dialect, tools=tools, policies=policies, finish_reason=finish_reason)


def kinds(message: Message) -> list[str]:
    return [diagnostic.kind for diagnostic in message.diagnostics]


# -- in every dialect


@each_dialect
@pytest.mark.parametrize("choice", ["alone", "declared"])
@pytest.mark.parametrize("text", [CALL, f"```json\n{CALL}\n```", f"\n {CALL}\n{CALL}"])
def test_object_at_the_start_is_a_call(name: str, choice: Choice, text: str) -> None:
    dialect = get_dialect(name)
    if dialect.frame is not None:
        text = render(Message(content="HERE"), name, check=False).partition("HERE")[0] + text
        text = text.removeprefix(dialect.prompt.start)
    case = ModelOutput(text, TOOLS, policies=Policies(bare_calls=choice))
    message = assert_laws(name, case, chunkings(text, splits=0, random=2)).message
    assert message is not None
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ] * text.count("name")
    assert message.content is None


@each_dialect
def test_object_in_a_line_is_a_call_if_declared(name: str) -> None:
    text = f"Let me look.\n{CALL}"
    for choice, number in (("off", 0), ("alone", 0), ("declared", 1)):
        message = assert_laws(
            name, ModelOutput(text, TOOLS, policies=as_policies({"bare_calls": choice}))
        ).message
        assert message is not None
        assert len(message.tool_calls) == number, choice
        assert ("bare_call" in kinds(message)) == bool(number)


@each_dialect
def test_pieces_of_objects_obey_laws(name: str) -> None:
    rng = Random(name)  # noqa: S311 - reproducible, not secret
    for number in range(8):
        text = "".join(_pieces(rng, name))
        policies = rng.choice(list(POLICIES.values()))
        case = ModelOutput(
            text,
            TOOLS,
            policies=replace(policies, bare_calls=rng.choice(("alone", "declared"))),
            finish_reason=rng.choice((None, "stop", "length")),
        )
        assert_laws(name, case, chunkings(text, splits=0, random=2, seed=number))


def _pieces(rng: Random, name: str) -> Iterator[str]:
    own = markers(name)
    pieces = (
        CALL,
        "\n",
        "```json\n",
        "```",
        "```python\n",
        "~~~",
        "{",
        '"name": "get_weather"',
        ", ",
        "x" * 300,
    )
    more = (
        '"arguments": {',
        "}",
        "[",
        "]",
        "Sure. ",
        "\n\n",
        " ",
        "`",
        '"',
        ":",
        '{"arguments": {"city": "x"}, ',
    )
    for _ in range(rng.randint(1, 9)):
        yield rng.choice(own if own and rng.random() < 0.25 else pieces + more)


# -- examples


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "get_weather"}',  # no arguments
        '{"name": "get_weather", "arguments": "{}"}',  # no object
        '{"name": "get_weather", "arguments": null}',
        '{"name": "Alice", "arguments": {}}',  # not declared
        '{"name": "get_weather", "city": "Oslo"}',
        f"`{CALL}`",
        f"```python\n{CALL}\n```",
        f"```yaml\n\n{CALL}\n```",
        f"Say {CALL}",
        f"- {CALL}",
    ],
)
@pytest.mark.parametrize("choice", ["alone", "declared"])
def test_other_text_stays_text(text: str, choice: Choice) -> None:
    message = read(text, choice)
    assert not message.tool_calls
    assert message.content == text


def test_block_of_code_stays_text_up_to_its_end() -> None:
    code = f"```python\nx = [\n{CALL}\n]\n```\n"
    for text in (code, f"Look:\n{code}", f"See ```this``` and\n{code}"):
        message = read(text + CALL, "declared")
        assert len(message.tool_calls) == 1
        assert message.content is not None
        assert message.content == text.rstrip()


@pytest.mark.parametrize("choice", ["alone", "declared"])
def test_no_tools_means_no_bare_calls(choice: Choice) -> None:
    offers: tuple[ToolList | None, ...] = ([], None)
    for tools in offers:
        assert read(CALL, choice, tools=tools).content == CALL


def test_head_is_short() -> None:
    for spaces in (300, 400):
        gap = " " * spaces
        text = f'{{"name": {gap}"get_weather", "arguments": {gap}{{"city": "Oslo"}}}}'
        within = text.index('{"city') < LONGEST_HEAD
        assert len(read(text, "alone").tool_calls) == (1 if within else 0)
    long = json.dumps({"arguments": {"city": "x" * LONGEST_HEAD}, "name": "get_weather"})
    assert read(long, "alone").content == long


def test_incomplete_object_is_text_before_the_arguments_and_a_call_after() -> None:
    for end in range(1, len(CALL) - 1):
        message = read(CALL[:end], "alone", finish_reason="length")
        if end <= CALL.index('{"city"'):
            assert message.content == CALL[:end]
            assert not message.diagnostics
        else:
            assert kinds(message) == ["bare_call", "truncated_call"]


def test_text_that_ends_with_a_quote_is_not_cut() -> None:
    for text in ("Use `", "So ``", "Look:\n```", "It is {", "So [", "~", "```js"):
        for choice in ("alone", "declared"):
            assert read(text, choice, finish_reason="length").content == text


def test_arguments_that_do_not_fit_are_a_schema_mismatch() -> None:
    message = read('{"name": "get_weather", "arguments": {"city": 3}}', "alone")
    assert kinds(message) == ["bare_call", "schema_mismatch"]
    assert len(message.tool_calls) == 1


def test_reasoning_before_the_object_does_not_count_as_text() -> None:
    message = read(f"<think>Hm.</think>\n\n{CALL}", "alone")
    assert message.reasoning == "Hm."
    assert len(message.tool_calls) == 1


def test_object_in_reasoning_stays_reasoning() -> None:
    for choice in ("alone", "declared"):
        message = read(f"<think>{CALL}\n{CALL}</think>Hi.", choice)
        assert message.reasoning == f"{CALL}\n{CALL}"
        assert not message.tool_calls


def test_object_as_the_body_of_a_message_is_a_call() -> None:
    for text in (CALL, f"```json\n{CALL}\n```"):
        message = read(f"<|channel|>final<|message|>{text}", "alone", "harmony")
        assert len(message.tool_calls) == 1, text
        assert message.content is None
