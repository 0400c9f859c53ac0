"""The message builder: the message of a stream under every policy, and its whitespace."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Dialect,
    Event,
    MalformedOutput,
    Markup,
    Message,
    Parser,
    Policies,
    Text,
    ToolCall,
    UsageError,
    get_dialect,
    list_dialects,
    parse,
    render,
)
from unspool.dialects import Habits
from unspool.events import FinishReason, normalise
from unspool.message import BrokenCall, TextPart
from unspool.parser import seeded_ids
from unspool.testing import ModelOutput, assert_laws, chunkings, comparable, run_parser
from unspool.testing._every_policy_has_effect_law import SampleCall

MALFORMED = '<tool_call>{"name": "f", "arguments": {"a": 1, oops}}</tool_call>'
TRUNCATED = '<tool_call>{"name": "f", "arguments": {"a": "b'
GOOD = '<tool_call>{"name": "g", "arguments": {"b": 2}}</tool_call>'


def tool(name: str, **types: str) -> dict[str, object]:
    properties = {key: {"type": type_} for key, type_ in types.items()}
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }


def build_message(text: str, dialect: str | Dialect = "hermes", **options: Any) -> Message:
    """Return the message; the laws assert that every chunking gives the same one."""
    prompt, tools = options.pop("prompt", None), options.pop("tools", None)
    policies = Policies(**options)
    reading = assert_laws(dialect, ModelOutput(text, tools, prompt, policies), chunkings(text, splits=0))
    assert reading.message is not None
    return reading.message


def calls(message: Message) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def kinds(message: Message) -> list[str]:
    return [diagnostic.kind for diagnostic in message.diagnostics]


# -- malformed_call


def test_malformed_text_returns_to_its_place() -> None:
    message = build_message(f"Before. {MALFORMED} After. {GOOD}")
    assert message.content is not None
    assert message.content.startswith(f"Before. {MALFORMED} After.")
    assert calls(message) == [("g", '{"b": 2}')]
    assert kinds(message) == ["malformed_call"]
    diagnostic = message.diagnostics[0]
    assert (diagnostic.start, diagnostic.end) == (8, 8 + len(MALFORMED))
    assert diagnostic.raw == MALFORMED
    assert message.finish_reason == "tool_calls"


def test_malformed_drop_removes_the_call() -> None:
    message = build_message(f"Before. {MALFORMED}", malformed_call="drop")
    assert message.content == "Before."
    assert calls(message) == []
    assert [(diagnostic.kind, diagnostic.raw) for diagnostic in message.diagnostics] == [
        ("malformed_call", MALFORMED)
    ]
    assert message.finish_reason == "stop"


@pytest.mark.parametrize(
    ("dialect", "text", "arguments"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', '{"a": NaN}}'),
        ("pythonic", "[f(a=1, b=oops!)]", "(a=1, b=oops!)"),
        ("qwen3_coder", "<tool_call><function=f>oops</function></tool_call>", "oops"),
    ],
)
@pytest.mark.parametrize("repaired", [False, True])
def test_malformed_call_keeps_written_arguments(
    dialect: str, text: str, arguments: str, *, repaired: bool
) -> None:
    """Arguments are kept up to the closing marker; failed repair is not reported as repair."""
    policies = Policies(malformed_call="repair" if repaired else "call")
    message = parse(text, dialect, policies=policies)
    assert not [diagnostic for diagnostic in message.diagnostics if diagnostic.kind == "repaired"]
    if repaired:
        assert message.content == text
    else:
        assert [call.arguments for call in message.tool_calls] == [arguments]


def test_repair_does_not_turn_a_list_into_arguments() -> None:
    text = '<tool_call>{"name": "f", "arguments": ["a"]'
    chosen = (Policies(malformed_call="repair"), Policies(malformed_call="repair", commit="call"))
    for tail, policies in product(("", "</tool_call>", "}</tool_call>"), chosen):
        assert not parse(text + tail, "hermes", policies=policies, finish_reason="stop").tool_calls


def test_partial_word_is_released() -> None:
    parser = Parser("hermes", policies=Policies(malformed_call="repair"))
    events = parser.feed('<tool_call>{"name": "f", "arguments": {"a": Trap}}</tool_call>')
    assert "".join(event.json for event in events if isinstance(event, CallArgs)) == '{"a": Trap}}'


def test_malformed_keep_keeps_the_call() -> None:
    message = build_message(f"{MALFORMED}{GOOD}", malformed_call="call")
    assert calls(message) == [("f", '{"a": 1, oops}}'), ("g", '{"b": 2}')]
    assert message.content is None
    assert kinds(message) == ["malformed_call"]


def test_malformed_error_raises() -> None:
    with pytest.raises(MalformedOutput) as caught:
        parse(f"Before. {MALFORMED}", "hermes", policies=Policies(malformed_call="error"))
    assert caught.value.raw == MALFORMED


@pytest.mark.parametrize(
    ("arguments", "repaired"),
    [
        ('{"a": 1,}', '{"a": 1}'),
        ('{"a": [1, 2,], }', '{"a": [1, 2]}'),
        ("{'a': 'b'}", '{"a": "b"}'),
        ("{'a': 'say \"hi\"'}", '{"a": "say \\"hi\\""}'),
        ('{"a": True, "b": None, "c": False}', '{"a": true, "b": null, "c": false}'),
        ('{"a": "one\ntwo"}', '{"a": "one\\ntwo"}'),
        ('{"a": [1, 2}', '{"a": [1, 2]}'),
    ],
)
def test_malformed_repair_fixes_arguments(arguments: str, repaired: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    message = build_message(text, malformed_call="repair")
    assert calls(message) == [("f", repaired)]
    assert set(kinds(message)) == {"repaired"}
    assert message.content is None
    assert message.finish_reason == "tool_calls"
    plain = build_message(text)
    assert calls(plain) == []
    assert plain.content == text


def test_repair_completes_before_the_closing_marker() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": {"b": [1, 2</tool_call>'
    assert calls(build_message(text, malformed_call="repair")) == [("f", '{"a": {"b": [1, 2]}}')]


def test_repair_failure_becomes_text() -> None:
    message = build_message(MALFORMED, malformed_call="repair")
    assert message.content == MALFORMED
    assert calls(message) == []
    assert "malformed_call" in kinds(message)


# -- truncated_call


def test_truncated_call_becomes_a_diagnostic_by_default() -> None:
    message = build_message(f"Hi. {TRUNCATED}")
    assert message.content == "Hi."
    assert calls(message) == []
    assert [(p.kind, p.raw, p.start) for p in message.diagnostics] == [("truncated_call", TRUNCATED, 4)]
    assert message.finish_reason == "length"


def test_truncated_text_shows_the_call() -> None:
    message = build_message(f"Hi. {TRUNCATED}", truncated_call="text")
    assert message.content == f"Hi. {TRUNCATED}"
    assert message.finish_reason == "length"


def test_truncated_keep_keeps_the_call() -> None:
    message = build_message(f"{GOOD}{TRUNCATED}", truncated_call="call")
    assert calls(message) == [("g", '{"b": 2}'), ("f", '{"a": "b')]
    assert message.finish_reason == "length"


def test_truncated_error_raises() -> None:
    with pytest.raises(MalformedOutput) as caught:
        parse(TRUNCATED, "hermes", policies=Policies(truncated_call="error"))
    assert (caught.value.kind, caught.value.raw) == ("truncated_call", TRUNCATED)


@pytest.mark.parametrize("head", ["<tool_call>", '<tool_call>\n{"na', '<tool_call>{"name": "get_wea'])
def test_cut_call_head_is_neither_text_nor_call(head: str) -> None:
    message = build_message(f"Hi. {head}")
    assert message.content == "Hi."
    assert calls(message) == []
    assert kinds(message) == ["cut_head"]
    assert message.finish_reason == "length"
    assert build_message(f"Hi. {head}", truncated_call="text").content == f"Hi. {head}"


def test_call_head_without_matching_tool_is_text() -> None:
    text = 'Hi. <tool_call>{"name": "frobni'
    assert build_message(text, tools=[tool("get_weather")]).content == text
    assert build_message(text, tools=[tool("frobnicate")]).content == "Hi."


# -- commit


def test_commit_call_announces_only_complete_calls() -> None:
    parser = Parser("hermes", policies=Policies(commit="call"))
    for character in GOOD[:-1]:
        assert parser.feed(character) == []
    events = parser.feed(GOOD[-1])
    assert [type(event) for event in events] == [CallStart, CallArgs, CallEnd]
    assert normalise(events)[1] == CallArgs(0, '{"b": 2}', events[1].start, events[1].end)


def test_commit_call_returns_other_calls_as_text() -> None:
    message = build_message(f"Hi. {MALFORMED} {GOOD} {TRUNCATED}", commit="call")
    assert calls(message) == [("g", '{"b": 2}')]
    reading = run_parser("hermes", ModelOutput(f"Hi. {MALFORMED}", policies=Policies(commit="call")))
    assert not any(isinstance(event, CallStart | CallArgs | CallEnd) for event in reading.events)
    text = "".join(event.text for event in reading.events if isinstance(event, Text))
    assert text == f"Hi. {MALFORMED}"


def test_commit_call_numbers_announced_calls() -> None:
    reading = run_parser("hermes", ModelOutput(MALFORMED + GOOD + GOOD, policies=Policies(commit="call")))
    starts = [event for event in reading.events if isinstance(event, CallStart)]
    assert [(event.index, event.name) for event in starts] == [(0, "g"), (1, "g")]


def test_commit_call_pending_counts_held_calls() -> None:
    parser = Parser("hermes", policies=Policies(commit="call"))
    parser.feed("Hi. ")
    parser.feed(GOOD[:-1])
    assert parser.pending == len(GOOD) - 1
    assert parser.max_pending is None
    parser.feed(GOOD[-1])
    assert parser.pending == 0


def test_late_id_counts_before_the_call_is_announced() -> None:
    text = '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abc123XYZ"}]'
    assert build_message(text, "mistral", commit="call").tool_calls[0].id == "abc123XYZ"
    message = build_message(text, "mistral")
    assert message.tool_calls[0].id != "abc123XYZ"
    assert not kinds(message)


def test_late_id_is_reported_where_the_family_writes_no_ids() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}, "id": "abc123XYZ"}</tool_call>'
    assert kinds(build_message(text, "hermes")) == ["late_id"]


# -- unknown_tool


@pytest.mark.parametrize("dialect", ["hermes", "mistral"])
def test_unknown_tools_are_forwarded_or_text(dialect: str) -> None:
    text = GOOD if dialect == "hermes" else '[TOOL_CALLS]g[ARGS]{"b": 2}'
    for tools, policy, called in [
        ([tool("f")], "call", True),
        ([tool("f")], "text", False),
        ([tool("f"), tool("g")], "text", True),
        (None, "text", True),
    ]:
        message = build_message(text, dialect, tools=tools, unknown_tool=policy)
        assert calls(message) == ([("g", '{"b": 2}')] if called else [])
        assert message.content == (None if called else text)


# -- calls_in_reasoning

THOUGHT = f"<think>I call it. {GOOD} Done.</think>Hello."


def test_call_inside_reasoning_follows_the_policy() -> None:
    message = build_message(THOUGHT)
    assert calls(message) == [("g", '{"b": 2}')]
    assert message.reasoning is not None
    assert message.reasoning.split() == ["I", "call", "it.", "Done."]
    assert message.content == "Hello."
    text = build_message(THOUGHT, calls_in_reasoning="text")
    assert calls(text) == []
    assert text.reasoning == f"I call it. {GOOD} Done."
    assert text.content == "Hello."


def test_marker_mention_inside_reasoning_stays() -> None:
    message = build_message("<think>The <tool_call> tag, hm.</think>Hello.")
    assert (message.reasoning, message.content) == ("The <tool_call> tag, hm.", "Hello.")


# -- after_calls


def test_after_calls_policy_drops_or_keeps_content() -> None:
    text = f"Before. {GOOD} After."
    assert build_message(text).content == "Before. After."
    assert build_message(text, after_calls="text").content == "Before. After."
    assert build_message(text, after_calls="drop").content == "Before."


@pytest.mark.parametrize("prompt", [None, "<think>"])
def test_after_calls_counts_only_calls_of_the_answer(prompt: str | None) -> None:
    """An answer used to vanish after reasoning that contained a call."""
    text = f"{'' if prompt else '<think>'}{GOOD}</think>It is noon."
    message = parse(text, "hermes", prompt=prompt, policies=Policies(after_calls="drop"))
    assert (message.content, len(message.tool_calls)) == ("It is noon.", 1)


# -- arguments


def test_canonical_arguments_are_rewritten() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a":1,\n "b" : "\\u00e9",  "c":[1,2]}}</tool_call>'
    assert calls(build_message(text)) == [("f", '{"a":1,\n "b" : "\\u00e9",  "c":[1,2]}')]
    assert calls(build_message(text, arguments="canonical")) == [("f", '{"a": 1, "b": "é", "c": [1, 2]}')]


def test_canonical_arguments_keep_their_values() -> None:
    numbers = (
        '{"big": 123456789012345678901234567890, "tiny": 1e-7, "long": 0.1000000000000000055511151231257827}'
    )
    text = f'<tool_call>{{"name": "f", "arguments": {numbers}}}</tool_call>'
    [(_, arguments)] = calls(build_message(text, arguments="canonical"))
    assert json.loads(arguments) == json.loads(numbers)
    assert "123456789012345678901234567890" in arguments


# -- schemaless_value

TAGGED = "<tool_call>\n<function=f>\n<parameter=v>\n{}\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("value", "as_string", "as_json"),
    [
        ("5", '"5"', "5"),
        ("[1, 2]", '"[1, 2]"', "[1, 2]"),
        ("null", '"null"', "null"),
        ("five", '"five"', '"five"'),
        ('"five"', '"\\"five\\""', '"\\"five\\""'),
        ("[1, 2", '"[1, 2"', '"[1, 2"'),
    ],
)
def test_value_without_schema_follows_the_policy(value: str, as_string: str, as_json: str) -> None:
    text = TAGGED.format(value)
    for tools in (None, [tool("f", other="integer")], [{"name": "f"}]):
        assert calls(build_message(text, "qwen3_coder", tools=tools)) == [("f", f'{{"v": {as_string}}}')]
        values = calls(build_message(text, "qwen3_coder", tools=tools, schemaless_value="json"))
        assert values == [("f", f'{{"v": {as_json}}}')]


def test_schema_overrides_the_policy() -> None:
    for policy in ("string", "json"):
        for type_, expected in (("integer", "5"), ("string", '"5"')):
            tools = [tool("f", v=type_)]
            message = build_message(TAGGED.format("5"), "qwen3_coder", tools=tools, schemaless_value=policy)
            assert calls(message) == [("f", f'{{"v": {expected}}}')]


def test_value_that_violates_its_schema_is_a_string() -> None:
    message = build_message(TAGGED.format("five"), "qwen3_coder", tools=[tool("f", v="integer")])
    assert calls(message) == [("f", '{"v": "five"}')]
    assert kinds(message) == ["coerced_to_string", "schema_mismatch"]


# -- close_in_value


def test_close_in_value_policy_selects_the_closing_tag() -> None:
    text = TAGGED.format("a</parameter>b")
    assert calls(build_message(text, "qwen3_coder")) == [("f", '{"v": "a</parameter>b"}')]
    first = build_message(text, "qwen3_coder", close_in_value="first")
    assert calls(first) != [("f", '{"v": "a</parameter>b"}')]
    reading = run_parser("qwen3_coder", ModelOutput(text, policies=Policies(close_in_value="first")))
    sent = "".join(event.json for event in reading.events if isinstance(event, CallArgs))
    assert sent.startswith('{"v": "a"')


# -- no_tools


def test_without_tools_markup_is_text() -> None:
    text = f"Hi. {GOOD} Bye."
    message = build_message(text, tools=())
    assert message.content == text
    assert calls(message) == []
    assert message.diagnostics == ()
    assert message.finish_reason == "stop"


def test_without_tools_reasoning_is_still_read() -> None:
    message = build_message(f"<think>Hm.</think>{GOOD}", tools=())
    assert (message.reasoning, message.content) == ("Hm.", GOOD)


def test_without_tools_strip_removes_markup() -> None:
    message = build_message(f"Hi. {GOOD} Bye.", tools=(), no_tools="drop")
    assert calls(message) == []
    assert message.content == "Hi. Bye."
    assert message.finish_reason == "stop"


def test_strip_applies_only_without_tools() -> None:
    for tools in (None, [tool("g")]):
        assert calls(build_message(GOOD, tools=tools, no_tools="drop")) == [("g", '{"b": 2}')]


# -- call_ids


def kimi(*ids: str) -> str:
    one = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    body = "".join(one.format(native) for native in ids)
    return f"<|tool_calls_section_begin|>{body}<|tool_calls_section_end|>"


def test_native_ids_are_kept() -> None:
    message = build_message(kimi("functions.f:7", "functions.g:8"), "kimi_k2")
    assert [(call.id, call.name) for call in message.tool_calls] == [
        ("functions.f:7", "f"),
        ("functions.g:8", "g"),
    ]


def test_native_ids_are_used_once() -> None:
    message = build_message(kimi("functions.f:0", "functions.f:0"), "kimi_k2")
    first, second = message.tool_calls
    assert first.id == "functions.f:0"
    assert second.id != first.id
    assert "bad_id" in kinds(message)


_FORKING = """
import os
from unspool.dialects._id_format import OPENAI_ID
OPENAI_ID.new("f", 0)
child = os.fork()
if child:
    os.waitpid(child, 0)
print("\\n".join(OPENAI_ID.new("f", 0) for _ in range(500)), flush=True)
"""


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform == "emscripten", reason="this system does not fork"
)
def test_generated_ids_are_unique_across_forks() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, check=True)
    ids = done.stdout.split()
    assert len(set(ids)) == len(ids) == 1_000
    assert {len(identity) for identity in ids} == {len("call_") + 24}


@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects() if dialect.call])
def test_seeded_ids_are_reproducible(name: str) -> None:
    dialect = get_dialect(name)
    call = ToolCall("", dialect.names.fixed or "f", '{"code": "x"}')
    try:
        text = render(Message(tool_calls=(call, call)), dialect, check=False)
    except UsageError:
        return  # only the message frame is held
    policies = Policies(call_ids="generated")

    def ids(seed: str | int) -> list[str]:
        message = parse(text, name, policies=policies, new_id=seeded_ids(seed, name))
        return [call.id for call in message.tool_calls]

    first = ids("row 17")
    assert first == ids("row 17") == ids("row 17")
    assert len(set(first)) == len(first)
    form = dialect.id_format
    assert all(form.accepts(id) for id in first)
    if "{random}" in form.pattern and first:
        assert first != ids(17)
        assert len(first[0]) == len(form.new(call.name, 0))


def test_generated_ids_replace_native_ids() -> None:
    text = "[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{}"
    assert build_message(text, "mistral").tool_calls[0].id == "abc123XYZ"
    generated = build_message(text, "mistral", call_ids="generated").tool_calls[0].id
    assert generated != "abc123XYZ"
    assert len(generated) == 9
    assert generated.isalnum()


def test_invalid_native_id_is_replaced() -> None:
    message = build_message("[TOOL_CALLS]f[CALL_ID]short[ARGS]{}", "mistral")
    assert len(message.tool_calls[0].id) == 9
    assert kinds(message) == ["bad_id"]


# -- whitespace


@pytest.mark.parametrize(
    "text", ["Hello", " Hello ", "\n\nHello\n", "  ", "\n", "a\n\n\nb", "\tx\r\n", "\u00a0x\u2003", "x\x1c"]
)
def test_content_alone_is_verbatim(text: str) -> None:
    assert build_message(text).content == text


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>Hm.</think>Hello", "Hm.", "Hello"),
        ("<think>\n\nHm.\n\n</think>\n\nHello", "Hm.", "Hello"),
        ("<think>  Hm.  </think>Hello  ", "  Hm.", "Hello  "),
        ("<think>a\n\n b</think>\n\nHello\n\n you", "a\n\n b", "Hello\n\n you"),
        ("\n<think>Hm.</think>Hello", "Hm.", "Hello"),
        ("<think></think>\n\nHello", None, "Hello"),
        ("<think>\n\n</think>\n\nHello", None, "Hello"),
        ("<think>Hm.</think>\n\n", "Hm.", None),
        ("<think>Hm.", "Hm.", None),
        ("<think>Hm.\n\n", "Hm.", None),
    ],
)
def test_line_breaks_around_reasoning_are_framing(
    text: str, reasoning: str | None, content: str | None
) -> None:
    message = build_message(text)
    assert (message.reasoning, message.content) == (reasoning, content)


@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_blank_line_with_leading_space_is_framing(blank: str) -> None:
    """The same whitespace is framing wherever the text is cut."""
    build_message(f"<think>{blank}\nHm.</think>Hello")
    build_message(f"<think>Hm.</think>{blank}\nHello")
    build_message(f"{blank}\n{GOOD}{blank}\nHello")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (f"Hello\n\n{GOOD}", "Hello"),
        (f"Hello {GOOD}", "Hello"),
        (f"{GOOD}\n{GOOD}", None),
        (f"\n\n{GOOD}\n\n", None),
        (f"Hello\n{GOOD}\n\n{GOOD}\n", "Hello"),
        (f"{GOOD}\n\nHello", "Hello"),
        (f"Hello\n\n{GOOD}\n\nBye", "Hello\n\nBye"),
        (f"Hello.{GOOD} Bye.", "Hello. Bye."),
        (f"  Hello {GOOD}", "  Hello"),
    ],
)
def test_whitespace_around_calls_is_framing(text: str, content: str | None) -> None:
    assert build_message(text).content == content


def test_dialect_may_keep_whitespace_before_a_call() -> None:
    assert get_dialect("mistral").keep_whitespace
    assert build_message("Hello \n[TOOL_CALLS]f[ARGS]{}", "mistral").content == "Hello \n"
    assert build_message(" \n[TOOL_CALLS]f[ARGS]{}", "mistral").content is None


def test_messages_of_one_channel_are_joined_by_a_newline() -> None:
    raw = (
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Hello.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Bye.<|return|>"
    )
    message = build_message(raw, "harmony")
    assert (message.reasoning, message.content) == ("One.\nTwo.", "Hello.\nBye.")


def test_reasoning_blocks_are_joined_by_a_newline() -> None:
    message = build_message("<think>One.</think>Hello\n<think>Two.</think>you")
    assert (message.reasoning, message.content) == ("One.\nTwo.", "Hello\nyou")


def test_whitespace_filter_keeps_spans_in_order() -> None:
    text = f"<think>\nHm.\n</think>\n\nHello \n{GOOD}\nBye \n"
    parser = Parser("hermes")
    tidy = parser.tidy()
    events = tidy.feed(parser.feed(text) + parser.finish())
    at = 0
    for event in events:
        if not isinstance(event, Diagnostic):
            assert event.start >= at
            at = event.end
        if isinstance(event, Text):
            assert text[event.start : event.end].strip() == event.text.strip()


@pytest.mark.parametrize(
    "text", [f"<think>\n\nHm. \n</think>\n\n Hello \n{GOOD}\n {GOOD}\n\nBye ", " \n ", GOOD]
)
def test_whitespace_filter_is_chunk_invariant(text: str) -> None:
    def tidied(chunks: list[str]) -> list[Event]:
        parser = Parser("hermes")
        tidy = parser.tidy()
        events = [event for chunk in chunks for event in tidy.feed(parser.feed(chunk))]
        shown = (event for event in events + tidy.feed(parser.finish()) if not isinstance(event, Markup))
        return comparable(shown, text)

    def words(events: list[Event]) -> list[tuple[object, ...]]:
        return [(type(event), *event._key()) for event in events]

    at_once = words(tidied([text]))
    for chunks in chunkings(text):
        assert words(tidied(chunks)) == at_once


# -- finish_reason


@pytest.mark.parametrize(
    ("text", "reason", "finish"),
    [
        ("Hello", None, "stop"),
        ("Hello", "stop", "stop"),
        ("Hello", "length", "length"),
        ("Hello", "content_filter", "content_filter"),
        ("Hello", "tool_calls", "stop"),
        (GOOD, None, "tool_calls"),
        (GOOD, "stop", "tool_calls"),
        (GOOD, "length", "tool_calls"),
        (f"{GOOD} and then", "length", "tool_calls"),
        (TRUNCATED, "stop", "length"),
        (TRUNCATED, "length", "length"),
        (GOOD + TRUNCATED, None, "length"),
        ("<tool_call>", None, "length"),
        (MALFORMED, None, "stop"),
        (MALFORMED, "length", "length"),
        (MALFORMED + GOOD, None, "tool_calls"),
        ("", None, "stop"),
        ("<think>Hm", "length", "length"),
    ],
)
def test_finish_reason_reflects_calls_and_truncation(
    text: str, reason: FinishReason | None, finish: str
) -> None:
    assert parse(text, "hermes", finish_reason=reason).finish_reason == finish


@pytest.mark.parametrize(("reason", "called"), [("length", False), ("stop", True), (None, True)])
def test_finish_reason_decides_whether_a_bare_name_is_complete(
    reason: FinishReason | None, called: bool
) -> None:
    message = parse("[TOOL_CALLS]get_weather", "mistral", finish_reason=reason)
    assert calls(message) == ([("get_weather", "{}")] if called else [])
    assert message.finish_reason == ("tool_calls" if called else "length")


# -- parts


def test_parts_keep_the_order() -> None:
    message = build_message(f"<think>Hm.</think>Hello {GOOD} you {GOOD}<think>So.</think>!")
    described = [(p.channel, p.text.strip()) if isinstance(p, TextPart) else p.name for p in message.parts]
    assert described == [
        ("reasoning", "Hm."),
        ("content", "Hello"),
        "g",
        ("content", "you"),
        "g",
        ("reasoning", "So."),
        ("content", "!"),
    ]


def test_flat_fields_are_the_joined_parts() -> None:
    message = build_message(f"<think>Hm.</think>Hello {GOOD} you {MALFORMED} there {GOOD}<think>So.</think>!")
    texts: dict[str, str] = {"content": "", "reasoning": ""}
    for part in message.parts:
        if not isinstance(part, ToolCall):
            texts[part.channel] += part.text
    assert (message.content, message.reasoning) == (texts["content"], texts["reasoning"])
    assert message.tool_calls == tuple(part for part in message.parts if isinstance(part, ToolCall))


def test_adjacent_parts_have_different_channels() -> None:
    parser = Parser("hermes")
    fold_ = parser.fold()
    for character in "Hello there.":
        fold_.feed(parser.feed(character))
    fold_.feed(parser.finish())
    assert fold_.message.parts == (TextPart("content", "Hello there."),)


# -- one builder for every path


@pytest.mark.parametrize(
    "policies",
    [
        Policies(),
        Policies(malformed_call="call", truncated_call="call"),
        Policies(malformed_call="drop", truncated_call="text", after_calls="drop"),
        Policies(arguments="canonical", calls_in_reasoning="text"),
    ],
    ids=str,
)
def test_streamed_message_equals_batch(policies: Policies) -> None:
    text = f"<think>Hm. {GOOD}</think>\n\nHello \n{MALFORMED}\n{GOOD}\nBye {TRUNCATED}"
    expected = _anonymous(parse(text, "hermes", policies=policies))
    for chunks in chunkings(text):
        parser = Parser("hermes", policies=policies)
        events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()
        assert _anonymous(parser.message(events)) == expected
        portions = parser.fold()
        for event in events:
            portions.feed([event])
        assert _anonymous(portions.message) == expected
        assert _anonymous(parser.message(normalise(events))) == expected


def test_message_is_available_at_any_time() -> None:
    parser = Parser("hermes")
    folding = parser.fold()
    folding.feed(parser.feed("Hello"))
    assert folding.message.content == "Hello"
    folding.feed(parser.feed(f" you. {GOOD}"))
    message = folding.message
    assert (message.content, calls(message)) == ("Hello you.", [("g", '{"b": 2}')])


@pytest.mark.parametrize("policies", [Policies(), Policies(malformed_call="call", truncated_call="call")])
def test_call_is_no_tool_call_of_the_message_before_it_ends(policies: Policies) -> None:
    parser = Parser("hermes", policies=policies)
    builder = parser.fold()
    for character in GOOD:
        events = builder.feed(parser.feed(character))
        message = builder.message
        assert message.finish_reason is builder.finish_reason is None
        if any(isinstance(event, CallEnd) for event in events):
            break
        assert not message.tool_calls
        assert all(isinstance(part, BrokenCall) and part.status == "truncated" for part in message.parts)
        assert not message.to_chat().get("tool_calls")
    assert calls(message) == [("g", '{"b": 2}')]
    builder.feed(parser.finish())
    assert builder.message.finish_reason == builder.finish_reason == "tool_calls"


def test_message_so_far_survives_json_and_copies() -> None:
    parser = Parser("hermes")
    message = parser.message(parser.feed(f"Hi. {GOOD[:-20]}"))
    assert message.finish_reason is None
    assert "finish_reason=None" in repr(message)
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert copy.copy(message) == message
    assert dataclasses.replace(message, content="Hi!").finish_reason is None


def test_keep_raw_false_changes_only_raw() -> None:
    text = f"Hi. {MALFORMED}{GOOD}{TRUNCATED}"
    kept, lean = Parser("hermes"), Parser("hermes", keep_raw=False)
    for one, other in zip(kept.feed(text) + kept.finish(), lean.feed(text) + lean.finish(), strict=True):
        if isinstance(one, CallEnd) and isinstance(other, CallEnd):
            assert (one.index, one.status) == (other.index, other.status)
            assert other.raw == ""
        elif not isinstance(one, CallStart):
            assert one == other


def test_null_call_is_not_a_call() -> None:
    dialect = Dialect("mine", call=("<call>{envelope}</call>",), habits=Habits(null_calls=("answer",)))
    message = parse('Hi.<call>{"name": "answer", "arguments": {"a": 1}}</call> Bye.', dialect)
    assert calls(message) == []
    assert message.content == "Hi. Bye."
    assert kinds(message) == ["null_call"]
    assert message.finish_reason == "stop"


def _anonymous(message: Message) -> tuple[object, ...]:
    parts = [part if isinstance(part, TextPart) else (part.name, part.arguments) for part in message.parts]
    return (
        message.reasoning,
        message.content,
        calls(message),
        message.diagnostics,
        message.finish_reason,
        parts,
    )


def test_empty_arguments_stay_empty_under_repair() -> None:
    for word in ("null", "None"):
        output = f'<tool_call>{{"name": "f", "arguments": {word}}}</tool_call>'
        (call,) = parse(output, "hermes", policies=Policies(malformed_call="repair")).tool_calls
        assert call.arguments == "{}"


def test_duplicate_parameter_content_is_not_noted_again() -> None:
    mark = "]<]minimax[>["
    item = f"{mark}<a>{mark}<b>1{mark}</b>{mark}</a>"
    call = f'{mark}<tool_call>\n{mark}<invoke name="f">{item}{item}{mark}</invoke>\n{mark}</tool_call>'
    diagnostics = parse(call, "minimax_m3").diagnostics
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in diagnostics] == [
        ("duplicate_argument", "a")
    ]


@pytest.mark.parametrize(
    ("name", "text", "arguments", "keys"),
    [
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>',
            '{"a": 1, "a": 2}',
            "a",
        ),
        (
            "hermes",
            '<tool_call>{"arguments": {"a": 1, "a": 2}, "name": "f"}</tool_call>',
            '{"a": 1, "a": 2}',
            "a",
        ),
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1, \\"a\\": 2}"}</tool_call>',
            '{"a": 1, "a": 2}',
            "a",
        ),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"a": {"b": 1, "b": 2}}', '{"a": {"b": 1, "b": 2}}', "b"),
        ("pythonic", "[f(a=1, a=2, b={'c': 1, 'c': 2})]", '{"a": 1, "b": {"c": 1, "c": 2}}', "ac"),
        (
            "qwen3_coder",
            (
                '<tool_call>\n<function=f>\n<parameter=a>\n{"b": 1, "b": 2}\n</parameter>\n'
                "<parameter=a>\n3\n</parameter>\n</function>\n</tool_call>"
            ),
            '{"a": {"b": 1, "b": 2}}',
            "ba",
        ),
    ],
)
def test_key_given_twice_is_noted(name: str, text: str, arguments: str, keys: str) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": ["object", "integer"]}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    message = assert_laws(name, ModelOutput(text, tools), chunkings(text, splits=0)).message
    assert message is not None
    (call,) = message.tool_calls
    assert call.arguments == arguments
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics] == [
        ("duplicate_argument", key) for key in keys
    ]


@pytest.mark.parametrize("number", ["1e999", "NaN", "7" * 5000], ids=["1e999", "NaN", "5,000 digits"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"n": N, "s": 1}}</tool_call>'),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"n": N, "s": 1}'),
    ],
)
def test_number_out_of_range_keeps_raw_arguments(name: str, text: str, number: str) -> None:
    message = parse(text.replace("N", number), name, policies=Policies(malformed_call="call"))
    (call,) = message.tool_calls
    assert call.arguments.startswith(f'{{"n": {number}, "s": 1}}')
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["malformed_call"]


KEEP = Policies(whitespace_around_calls="text", after_calls="text")
UNFRAMED = [dialect.name for dialect in list_dialects() if dialect.frame is None and dialect.call]


@pytest.mark.parametrize("name", UNFRAMED)
def test_whitespace_next_to_text_is_kept(name: str) -> None:
    wording = SampleCall(get_dialect(name))
    once = wording.write().strip()
    before = "" if wording.capabilities.anchored else "See: \n\n"
    for text, content in (
        (f"{before}{once}\n\n", before or None),
        (f"\n \n{once}\n", None),
        (f"{before}{once} \n\nBye. \n", f"{before} \n\nBye. \n"),
    ):
        case = ModelOutput(text, wording.tools(city="string", days="integer"), policies=KEEP)
        message = assert_laws(name, case, chunkings(text, splits=0, random=2)).message
        assert message is not None
        assert len(message.tool_calls) == 1
        assert message.content == content, text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (f"A.\n{GOOD}\n{GOOD}", "A.\n"),
        (f"A.\n{GOOD}\n\n{GOOD}\tB.", "A.\n\tB."),
        (f"<think>Hm.</think>\n\n{GOOD}", None),
        (f"<think>Hm.</think>\n\nA.\n{GOOD}\n", "A.\n"),
        (f"A.\n{MALFORMED}\nB.", f"A.\n{MALFORMED}\nB."),
        (f"\n{MALFORMED}", f"\n{MALFORMED}"),
    ],
)
def test_whitespace_policy_keep_is_verbatim(text: str, content: str | None) -> None:
    for chunks in chunkings(text):
        message = run_parser("hermes", ModelOutput(text, policies=KEEP), chunks).message
        assert message is not None
        assert message.content == content


def test_text_without_markers_ends_reasoning() -> None:
    """A call may end reasoning without its closing marker: the text and the call after it are content."""
    call = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    message = parse(f"<think>Hm.{call}Done.{call}More.", "kimi_k2", policies=Policies(after_calls="drop"))
    assert (message.reasoning, message.content) == ("Hm.", "Done.")
