"""Text that looks like a call of some dialect, but is not a call: the diagnostic ``unread_call``."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import string
import textwrap
from collections.abc import Iterator
from random import Random

import pytest

import unspool
from unspool import Diagnostic, Message, Parser, Policies, get_dialect, list_dialects, parse
from unspool._core.ledger import TEXT_BLOCK
from unspool._core.stages.unread_calls import WINDOW
from unspool.parser import ToolList
from unspool.testing import POLICIES, ModelOutput, assert_laws, chunkings, run_parser
from unspool.testing._every_policy_has_effect_law import SampleCall
from unspool.wire import ChatStream

NAMES = [dialect.name for dialect in list_dialects()]
each_dialect = pytest.mark.parametrize("name", NAMES)


def tool(function: str, **types: str) -> dict[str, object]:
    properties = {key: {"type": type_} for key, type_ in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(types)[:1]}
    return {"type": "function", "function": {"name": function, "parameters": parameters}}


TOOLS = (tool("get_weather", city="string", days="integer"), tool("bash", command="string"), tool("now"))
OBJECT = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'


def unread(message: Message) -> list[Diagnostic]:
    return [diagnostic for diagnostic in message.diagnostics if diagnostic.kind == "unread_call"]


def found(text: str, dialect: str = "hermes", tools: ToolList | None = TOOLS) -> list[str]:
    """Return the texts that are reported in an output."""
    message = parse(text, dialect, tools=tools)
    for diagnostic in unread(message):
        assert text[diagnostic.start : diagnostic.end] == diagnostic.raw
    return [diagnostic.raw for diagnostic in unread(message)]


# -- in every dialect

SAMPLES = {
    dialect.name: SampleCall(dialect).write()
    for dialect in list_dialects()
    if SampleCall(dialect).capabilities.calls
    and SampleCall(dialect).capabilities.payload != "code"
    and not dialect.names.fixed
}
UNNOTICED = {
    "beam": "a header begins with words",
    "command_r": "the calls are in a code fence",
    "functionary_v32": "the name is a line of its own, without a marker",
}
"""Dialects whose calls look like ordinary text, with the reason."""


@each_dialect
def test_call_of_another_dialect_is_read_or_reported(name: str) -> None:
    rng = Random(name)  # noqa: S311 - reproducible, not secret
    for writer in rng.sample(sorted(SAMPLES.keys() - UNNOTICED.keys()), 8):
        text = f"Let me look.\n{SAMPLES[writer]}"
        message = run_parser(name, ModelOutput(text, TOOLS)).message
        assert message is not None
        has_call = bool(get_dialect(name).call) or get_dialect(name).frame is not None
        if not message.tool_calls and has_call:
            kinds = {diagnostic.kind for diagnostic in message.diagnostics}
            assert kinds & {"unread_call", "malformed_call", "broken_header"}, text


PIECES = (
    "\n", "```\n", "```json\n", "`", '"', " ", "Sure. ", "> ", "word " * 60, "x" * 900, "\n\n", '{"a": ', "<",
    OBJECT, '[get_weather(city="Oslo")]', "call:get_weather{", '{"a": 1}', "functions.get_weather:0{",
    '<｜｜DSML｜｜invoke name="get_weather">',
)  # fmt: skip


@each_dialect
def test_reports_obey_laws(name: str) -> None:
    rng = Random(name)  # noqa: S311 - reproducible, not secret
    for number in range(5):
        pieces = (
            rng.choice(PIECES) if rng.random() < 0.6 else rng.choice(sorted(SAMPLES.values()))
            for _ in range(rng.randint(1, 8))
        )
        text = "".join(pieces) * rng.choice((1, 1, 1, 9))
        case = ModelOutput(
            text, rng.choice((TOOLS, TOOLS, None)), policies=rng.choice(list(POLICIES.values()))
        )
        assert_laws(name, case, chunkings(text, splits=0, random=2, seed=number))


# -- markers, objects, lists


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (f"<tool_call>\n{OBJECT}\n</tool_call>", "hermes"),
        ('[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}', "mistral"),
        ('<minimax:tool_call><invoke name="now"></invoke></minimax:tool_call>', "minimax_m2"),
        ('<｜｜DSML｜｜tool_calls>\n<｜｜DSML｜｜invoke name="bash"><', "deepseek"),
        ("< | DSML | tool_calls>\n< | DSML | invoke name='bash'>\n<", "deepseek"),
        ('<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Oslo"}', "kimi"),
        ('functions.get_weather:0{"city": "Oslo"}', "kimi"),
        ("call:bash{command: ls}", "gemma"),
        ('assistantcommentary to=functions.get_weather json{"city": "Oslo"}', "harmony"),
        ('<|channel|>commentary to=functions.get_weather<|message|>{"city": "Oslo"}', "harmony"),
        ('[get_weather(city="Oslo")]', "pythonic"),
        (OBJECT, "generic_json"),
        ('{"tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]}', "generic_json"),
        ('{"get_weather": {"city": "Oslo"}}', "generic_json"),
    ],
)
def test_leak_is_reported_with_place_and_dialect(text: str, dialect: str) -> None:
    # The dialect `jamba` has none of these markers.
    whole = f"Let me look.\n{text}\nDone."
    (diagnostic,) = unread(parse(whole, "jamba", tools=TOOLS))
    assert diagnostic.start == whole.index(text)
    assert diagnostic.raw.startswith(text) or text.startswith(diagnostic.raw)
    assert dialect in diagnostic.detail


@pytest.mark.parametrize(
    "text",
    [
        f"`{OBJECT}`",
        f"Write `<tool_call>{OBJECT}</tool_call>` to call.",
        f'"{OBJECT}"',
        f"```json\n{OBJECT}\n```",
        "Look:\n\n~~~\n[TOOL_CALLS]get_weather[ARGS]{}\n~~~\n",
        f"> {OBJECT}",
        f"<code>{OBJECT}</code>",
        "The <tool_call> tag wraps an object with the name and the arguments of get_weather.",
        "Models write <function=bash> and then <parameter=command>.",
        "Use the <tool_call> tag.",
        "Wrap it in <tool_call> and",
        "Put it between <tool_call> and </tool_call>.",
        "You call it with <tool_call> now",
        "With <|python_tag|> Llama begins a call, for example of bash or now.",
        '{"name": "Alice", "arguments": {}}',
        '{"name": "get_weather"}',
        '{"name": "get_weather", "arguments": {"town": "Oslo"}}',
        '{"name": "get_weather", "arguments": {"city": 3}}',
        '{"answer": "now"}',
        "[now()] and [bash(1)]",
        "See bash(1) and [now](https://example.org).",
        "I call: bash now.",
    ],
)
def test_text_about_calls_is_not_reported(text: str) -> None:
    assert found(text, "jamba") == []
    assert found(text, "pythonic") == []


def test_text_after_a_code_fence_is_reported() -> None:
    assert found(f"```\ncode\n```\n{OBJECT}") == [OBJECT]
    assert found(f"```\n~~~\n{OBJECT}") == []


def test_request_without_tools_has_no_reports() -> None:
    assert found(f"<tool_call>{OBJECT}</tool_call>", "mistral", tools=[]) == []


def test_marked_calls_are_reported_if_tools_are_unknown() -> None:
    text = f"<tool_call>{OBJECT}</tool_call>"
    assert found(text, "mistral", tools=None) == [text]
    assert found(OBJECT, tools=None) == []


def test_dialects_without_calls_have_no_reports() -> None:
    assert found(OBJECT, "passthrough") == []
    assert found(OBJECT, "kimi") == []


def test_each_unread_call_is_reported_once() -> None:
    call = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
    assert len(found("\n".join([call] * 3))) == 3
    assert len(found(f"<tool_calls>[{OBJECT}, {OBJECT}]</tool_calls>")) == 2


def test_report_in_reasoning_needs_an_output_without_answer() -> None:
    call = "[TOOL_CALLS]now[ARGS]{}"
    assert found(f"<think>Hm. {call}") == [call]
    assert found(f"<think>Hm. {call}</think>\n\n") == [call]
    assert found(f"<think>Hm. {call}</think>Hi.") == []
    assert found(f"<think>Hm. {call}</think><tool_call>{OBJECT}</tool_call>") == []
    message = parse(f"<think>{call}", "hermes", tools=TOOLS, policies=Policies(calls_in_reasoning="text"))
    assert unread(message) == []


def test_broken_call_is_not_reported_twice() -> None:
    for policy in ("text", "call", "drop"):
        text = "<tool_call>" + OBJECT.replace('"Oslo"', "'Oslo'") + "</tool_call>"
        message = parse(text, "hermes", tools=TOOLS, policies={"malformed_call": policy})
        assert [diagnostic.kind for diagnostic in message.diagnostics] == ["malformed_call"]
    call = OBJECT.replace("get_weather", "other")
    message = parse(
        f"<tool_call>{call}</tool_call>", "hermes", tools=TOOLS, policies={"unknown_tool": "text"}
    )
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["unknown_tool"]


# -- long outputs


@pytest.mark.parametrize("distance", [0, TEXT_BLOCK - 20, TEXT_BLOCK, 3 * TEXT_BLOCK + 7, WINDOW + 100])
def test_leak_is_reported_anywhere(distance: int) -> None:
    text = "Some words.\n" * (distance // 12) + OBJECT + "\nand more." * 900
    for size in (1, 7, 5000, len(text)):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        message = run_parser("hermes", ModelOutput(text, TOOLS), chunks).message
        assert message is not None
        (diagnostic,) = unread(message)
        assert diagnostic.raw == OBJECT
        assert diagnostic.start == text.index(OBJECT)


def test_long_arguments_are_part_of_the_report_up_to_a_limit() -> None:
    def call(size: int) -> str:
        return OBJECT.replace("Oslo", "x" * size)

    assert found("Hm. " + call(WINDOW - 100)) == [call(WINDOW - 100)]
    assert found("Hm. " + call(WINDOW)) == []


# -- prose


def docstrings() -> Iterator[str]:
    """Yield paragraphs of the documentation of the standard library."""
    for module in (argparse, inspect, json, logging, re, string, textwrap, unspool):
        for value in vars(module).values():
            text = inspect.getdoc(value)
            if text:
                yield from re.split(r"\n\s*\n", text)


def test_prose_has_no_reports() -> None:
    everyday = [tool(name, query="string") for name in ("search", "read", "open", "get", "name", "function")]
    for number, paragraph in enumerate(docstrings()):
        dialect = ("hermes", "mistral", "pythonic")[number % 3]
        assert not unread(parse(paragraph, dialect, tools=everyday)), paragraph


# -- in streams


def test_event_has_an_empty_span_before_the_end() -> None:
    parser = Parser("mistral", tools=TOOLS)
    events = parser.feed(f"Hm. <tool_call>{OBJECT}</tool_call>") + parser.finish()
    diagnostic = events[-2]
    assert isinstance(diagnostic, Diagnostic)
    assert (diagnostic.kind, diagnostic.start, diagnostic.end) == ("unread_call", 4, 4)
    assert diagnostic.raw == f"<tool_call>{OBJECT}</tool_call>"
    encoder = ChatStream(parser)
    assert "unread" not in str(encoder.feed(events))
