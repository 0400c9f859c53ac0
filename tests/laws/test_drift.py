"""Changed markers: calls of declared tools are recognised, with a diagnostic, and everything else is text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from unspool import Dialect, Message, Parser, ToolCall, list_dialects, parse, render
from unspool._core.compiler.drift import DRIFTS, LOST_OPENER, NEIGHBOURS_CLOSER, drifted_templates
from unspool.dialects.parse_templates import template_text
from unspool.testing import ModelOutput, assert_laws, chunkings

T = TypeVar("T")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("get_weather", "get_time")
]
OTHER_TOOLS = [{"type": "function", "function": {"name": "ping"}}]
CALLS = Message(
    tool_calls=(
        ToolCall("abcdefghi", "get_weather", '{"city": "Paris"}'),
        ToolCall("abcdefghj", "get_time", '{"city": "Oslo, <b>Norway</b>"}'),
    )
)


def _changed_dialects() -> Iterator[object]:
    for dialect in list_dialects():
        for templates in drifted_templates(dialect):
            changed = replace(
                dialect,
                section=_new_first(templates.sections, dialect.section),
                call=_new_first(templates.calls, dialect.call),
                param=templates.params,
            )
            yield pytest.param(dialect, changed, templates.note, id=f"{templates.note}-{dialect.name}")


def _new_first(changed: tuple[T, ...], declared: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(sorted(changed, key=lambda template: template in declared))


each_change = pytest.mark.parametrize(("dialect", "changed", "note"), list(_changed_dialects()))


@each_change
def test_changed_markers_count_if_the_tool_is_declared(dialect: Dialect, changed: Dialect, note: str) -> None:
    text = render(CALLS, changed, check=False)
    written = f"Let me see.\n{text}"
    output = ModelOutput(written, TOOLS)
    run = assert_laws(dialect, output, chunkings(written, splits=6, random=1))
    assert run.message is not None
    read = [(call.name, json.loads(call.arguments)) for call in run.message.tool_calls]
    assert read == [(call.name, json.loads(call.arguments)) for call in CALLS.tool_calls]
    assert (run.message.content or "").strip() == "Let me see."
    slips = [each.detail for each in run.message.diagnostics if each.kind == "slip"]
    assert slips
    assert set(slips) == {note}


@each_change
def test_changed_markers_are_text_if_the_tool_is_not_declared(
    dialect: Dialect, changed: Dialect, note: str
) -> None:
    text = f"Let me see.\n{render(CALLS, changed, check=False)}"
    for tools in (None, OTHER_TOOLS):
        message = parse(text, dialect, tools=tools)
        assert note not in [each.detail for each in message.diagnostics]


NAME_ENDS = [
    (dialect, call)
    for dialect in list_dialects()
    for call in dialect.call
    if re.search(r"\{name\}\s*\{params\}", call) and dialect.param
]


@pytest.mark.parametrize(("dialect", "template"), NAME_ENDS, ids=lambda each: getattr(each, "name", each))
@pytest.mark.parametrize("ends", [True, False])
def test_closing_tag_of_a_value_after_the_name(dialect: Dialect, template: str, ends: bool) -> None:
    opening, _, rest = template.partition("{name}")
    suffix = re.search(r":\w+", template)
    closers = [param.partition("{value}")[2].strip() for param in dialect.param]
    closer = next(closer for closer in closers if (suffix is None) == (":" not in closer) or suffix is None)
    closer = next((each for each in closers if suffix is not None and suffix[0] in each), closer)
    text = f"{opening}get_time{closer}{rest.partition('{params}')[2] if ends else ''}"
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [(each.name, each.arguments) for each in run.message.tool_calls] == [("get_time", "{}")]
    notes = [note.detail for note in run.message.diagnostics if note.kind == "slip"]
    assert notes == [NEIGHBOURS_CLOSER.format(closer)]
    assert not parse(text, dialect, tools=OTHER_TOOLS).tool_calls


def _sections_of_tags() -> Iterator[object]:
    """Return dialects whose sections and calls have markers of their own."""
    for dialect in list_dialects():
        if dialect.frame is None and dialect.call:
            opener = template_text(dialect.section[0]).partition("{calls}")[0].strip()
            call = dialect.call[0].partition("{")[0]
            if len(opener) > 1 and call[:1] in ("<", "]") and opener not in dialect.drop:
                yield pytest.param(dialect, opener, id=dialect.name)


@pytest.mark.parametrize(("dialect", "opener"), list(_sections_of_tags()))
def test_text_between_a_section_and_its_call_is_content(dialect: Dialect, opener: str) -> None:
    written = render(Message(tool_calls=CALLS.tool_calls[:1]), dialect)
    text = written.replace(opener, f"{opener}Let me check.", 1) + "\nDone."
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [call.name for call in run.message.tool_calls] == ["get_weather"]
    assert (run.message.content or "").split("\n") == ["Let me check.", "Done."]
    assert [note.kind for note in run.message.diagnostics] == ["slip"]
    # A mention of the markers in a text is no call, and stays as it is.
    call_opener = dialect.call[0].partition("{")[0]
    for mention in (f"Write {opener} and then {call_opener}x", f"{opener} opens a section.\n"):
        for finish in ("stop", "length"):
            message = parse(mention, dialect, tools=TOOLS, finish_reason=finish)
            assert not message.tool_calls
            if not dialect.drop and "|" not in opener and "｜" not in opener:
                assert message.content is not None
                assert message.content.startswith(mention[:-2])


INVENTED = ("</function_invocation>", "</tool_use>", "</invocation>\n</call>")


@pytest.mark.parametrize(
    "dialect",
    [dialect for dialect in list_dialects() if dialect.frame is None and dialect.call],
    ids=lambda dialect: dialect.name,
)
def test_invented_closing_tag_after_a_call_is_removed(dialect: Dialect) -> None:
    arguments = {"code": "1"} if "{code}" in dialect.call[0] else {"city": "Paris"}
    call = ToolCall("abcdefghi", dialect.names.fixed or "get_weather", json.dumps(arguments))
    written = render(Message(tool_calls=(call,)), dialect)
    for invented in INVENTED:
        text = f"{written}\n{invented}\nDone </tool_use> </p>."
        run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
        assert run.message is not None
        assert len(run.message.tool_calls) == 1
        assert (run.message.content or "").strip() == "Done </tool_use> </p>."
        assert "stray_closer" in [note.kind for note in run.message.diagnostics]


@pytest.mark.parametrize("text", ["\n</div>", " </b> and </function_invocation>", "\n< /tool_use>"])
def test_other_closing_tags_after_a_call_are_content(text: str) -> None:
    written = render(Message(tool_calls=CALLS.tool_calls[:1]), "hermes")
    assert parse(written + text, "hermes", tools=TOOLS).content == text.strip()


STRIPPED_CALL = 'commentary to=functions.get_time json{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("text", "content", "reasoning", "notes"),
    [
        (STRIPPED_CALL, None, None, ["slip"]),
        (f"{STRIPPED_CALL}assistantfinalNoon.", "Noon.", None, ["slip"]),
        (f"analysisHm.assistant{STRIPPED_CALL}", None, "Hm.", []),
        (f"analysisHm.assistant{STRIPPED_CALL}\n", None, "Hm.", []),
        (f"analysisHm.assistant{STRIPPED_CALL}assistantfinalNoon.", "Noon.", "Hm.", []),
    ],
)
def test_stripped_headers_without_a_role(
    text: str, content: str | None, reasoning: str | None, notes: list[str]
) -> None:
    output = ModelOutput(text, TOOLS)
    run = assert_laws("harmony_stripped", output, chunkings(text, splits=20, random=1))
    message = run.message
    assert message is not None
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_time", '{"city": "Oslo"}')]
    assert (message.content, message.reasoning) == (content, reasoning)
    assert [note.kind for note in message.diagnostics] == notes


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("finalHello", "Hello"),
        ("final**Hello**", "**Hello**"),
        ("final你好", "你好"),
        ("finally, five", "finally, five"),
        ("final answer: 5", "final answer: 5"),
        ("final, 5", "final, 5"),
        ("The finalHello", "The finalHello"),
        (STRIPPED_CALL.replace("get_time", "other"), STRIPPED_CALL.replace("get_time", "other")),
    ],
)
def test_stripped_header_of_the_answer(text: str, content: str) -> None:
    output = ModelOutput(text, TOOLS)
    run = assert_laws("harmony_stripped", output, chunkings(text, splits=20, random=1))
    assert run.message is not None
    assert run.message.content == content
    assert not run.message.tool_calls


def test_every_change_applies_to_some_dialect() -> None:
    notes = {templates.note for dialect in list_dialects() for templates in drifted_templates(dialect)}
    assert notes == {*(drift.note for drift in DRIFTS), LOST_OPENER}


@pytest.mark.parametrize(("tools", "released"), [(None, 18), (TOOLS, 96)])
def test_text_after_an_opener_is_released_soon(tools: list[dict[str, Any]] | None, released: int) -> None:
    parser = Parser("hermes", tools=tools)
    text = "<tool_call> tags" + " and more" * 20
    fed = next(end for end in range(1, len(text) + 1) if parser.feed(text[end - 1 : end]) and end > 11)
    assert fed <= released
