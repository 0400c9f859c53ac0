"""Calls in the form of another family that shares the marker."""

from __future__ import annotations

import json

import pytest

from unspool import Dialect, SpecError, ToolCall, get_dialect, parse, render
from unspool.testing import ModelOutput, assert_laws, chunkings

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "edit",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "path": {"type": "string"}},
            },
        },
    },
    {"type": "function", "function": {"name": "ping"}},
]
TEXT = "two\nlines"
BODIES = {
    "hermes": '<tool_call>\n{"name": "edit", "arguments": {"text": "two\\nlines"}}\n</tool_call>',
    "qwen3_coder": (
        "<tool_call>\n<function=edit>\n<parameter=text>\ntwo\nlines\n</parameter>\n</function>\n</tool_call>"
    ),
    "glm45": "<tool_call>edit\n<arg_key>text</arg_key>\n<arg_value>two\nlines</arg_value>\n</tool_call>",
}
SHARING = (
    "hermes",
    "trinity",
    "ernie45",
    "granite4",
    "apriel",
    "xlam",
    "qwen3_coder",
    "mimo",
    "nemotron_v3",
    "granite42",
    "step3p5",
    "minicpmv",
    "glm45",
    "glm47",
    "poolside_v1",
    "ling3",
    "spark25",
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", SHARING)
def test_families_sharing_a_marker_read_each_other(name: str, body: str) -> None:
    dialect = get_dialect(name)
    for tools in (None, TOOLS):
        text = f"Now.\n{BODIES[body]}\n{BODIES[body]}"
        reading = assert_laws(dialect, ModelOutput(text, tools=tools), chunkings(text, splits=6, random=1))
        message = reading.message
        assert message is not None
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
            ("edit", {"text": TEXT})
        ] * 2
        assert message.content == "Now."
        kinds = {diagnostic.kind for diagnostic in message.diagnostics}
        assert kinds == (
            {"other_family_call"} if body in {foreign.name for foreign in dialect.also_accepts} else set()
        )


@pytest.mark.parametrize("name", SHARING)
def test_rendering_uses_the_native_form(name: str) -> None:
    dialect = get_dialect(name)
    for body in BODIES.values():
        message = parse(body, dialect, tools=TOOLS)
        assert not parse(render(message, dialect), dialect, tools=TOOLS).diagnostics


@pytest.mark.parametrize(
    "name", [name for name in SHARING if get_dialect(name).also_accepts[-1].name == "glm45"]
)
def test_bare_name_is_another_family_call_only_if_declared(name: str) -> None:
    prose = "Write <tool_call>tags</tool_call>, or <tool_call>."
    for tools in (None, TOOLS):
        assert parse(prose, name, tools=tools).content == prose
    message = parse("<tool_call>ping</tool_call>", name, tools=TOOLS)
    assert message.tool_calls == (ToolCall(message.tool_calls[0].id, "ping", "{}"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("glm45", "<tool_call>edit\n<arg_key>text</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"),
        ("qwen3_coder", BODIES["qwen3_coder"].replace(TEXT, "{}")),
        ("hermes", BODIES["qwen3_coder"].replace(TEXT, "{}")),
    ],
)
def test_markup_of_other_families_in_a_value_is_data(name: str, text: str) -> None:
    other = "qwen3_coder" if name == "glm45" else "glm45"
    quoted = f"x\n{BODIES[other].replace('text', 'path').replace('</tool_call>', '')}\ny"
    message = parse(text.replace("{}", quoted), name, tools=TOOLS)
    assert [json.loads(call.arguments) for call in message.tool_calls] == [{"text": quoted}]


def test_accepted_dialect_needs_calls_and_no_frame() -> None:
    with pytest.raises(SpecError, match="also_accepts"):
        Dialect(name="host", also_accepts=(Dialect(name="guest"),))
