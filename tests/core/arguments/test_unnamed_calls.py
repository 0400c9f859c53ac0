"""Calls without a function name are resolved by their arguments."""

from __future__ import annotations

import pytest

from unspool import CallStart, Dialect, Parser, get_dialect, parse
from unspool.testing import ModelOutput, assert_laws, chunkings


def tool(name: str, *keys: str) -> dict[str, object]:
    properties = {key: {"type": "string"} for key in keys}
    return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}


DIALECT = Dialect(
    name="nameless", call=("<|call|>{name}<|args|>{args}<|end|>", "<|call|>{index}<|args|>{args}<|end|>")
)
WEATHER, MAIL, ANYTHING = tool("weather", "city", "days"), tool("mail", "to", "city"), {"name": "anything"}


@pytest.mark.parametrize(
    ("tools", "arguments", "name"),
    [
        ([MAIL], '{"city": "Oslo", "days": "3"}', "mail"),
        ([WEATHER, MAIL], '{"city": "Oslo", "days": "3"}', "weather"),
        ([WEATHER, MAIL], '{"city": "Oslo"}', None),
        ([WEATHER, MAIL], '{"zip": "1"}', None),
        ([WEATHER, MAIL], "{}", None),
        ([WEATHER, ANYTHING], '{"city": "Oslo"}', None),
        (None, '{"city": "Oslo"}', None),
        ([WEATHER], "[1]", None),
    ],
)
def test_unnamed_call_is_resolved_by_arguments_or_is_text(
    tools: list[dict[str, object]] | None, arguments: str, name: str | None
) -> None:
    text = f"Hi.<|call|>0<|args|>{arguments}<|end|>"
    reading = assert_laws(DIALECT, ModelOutput(text, tools=tools), chunkings(text, splits=9, random=2))
    message = reading.message
    assert message is not None
    if name is None:
        assert message.content is not None
        assert arguments in message.content
        assert not message.tool_calls
    else:
        assert [(call.name, call.arguments) for call in message.tool_calls] == [(name, arguments)]
        assert [diagnostic.kind for diagnostic in message.diagnostics] == ["unnamed_call"]


def test_deeply_nested_arguments_resolve_no_name() -> None:
    deep = '{"city": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert not parse(f"<|call|>0<|args|>{deep}<|end|>", DIALECT, tools=[WEATHER, MAIL]).tool_calls


def test_named_call_does_not_wait_for_arguments() -> None:
    parser = Parser(DIALECT, tools=[WEATHER, MAIL])
    assert isinstance(parser.feed("<|call|>mail<|args|>{")[0], CallStart)


@pytest.mark.parametrize("name", ["glm45", "mistral", "kimi_k2"])
def test_name_needs_a_letter(name: str) -> None:
    head = get_dialect(name).call[0].partition("{name}")[0]
    for what in (".", "12", ":0"):
        assert not parse(f"{head}{what}", name, finish_reason="stop").tool_calls


def test_call_opener_stays_where_calls_are_text() -> None:
    text = "<|tool_calls_section_begin|>x<|tool_call_begin|>"
    assert parse(text, "kimi_k2", tools=[]).content == text
