"""Answers that only resemble a call or reasoning stay text."""

from __future__ import annotations

import pytest

from unspool import (
    CallStart,
    Dialect,
    Message,
    Parser,
    Policies,
    Text,
    ToolCall,
    UsageError,
    get_dialect,
    list_dialects,
    render,
)
from unspool.dialects.parse_templates import template_text
from unspool.testing import ModelOutput, assert_laws, chunkings

NAMES = [dialect.name for dialect in list_dialects()]
each_dialect = pytest.mark.parametrize("name", NAMES)

CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
NO_CALLS = (
    '{"name": "Alice", "age": 30}',
    '{"age": 30, "name": "Alice"}',
    '{"name": "Alice"}',
    '{"name": "Alice", "pets": [{"name": "Rex", "arguments": {}}]}',
    '[{"name": "Alice", "age": 30}, {"name": "Bob", "age": 31}]',
    "[{'name': 'Alice', 'age': 30}]",
    '```json\n{"name": "Alice", "age": 30}\n```',
    '```json\n[{"name": "Alice", "age": 30}]\n```',
    "[]",
    "```json\n[]\n```",
)
"""JSON answers that call no tool, in any dialect."""


@each_dialect
@pytest.mark.parametrize("answer", NO_CALLS)
def test_json_answer_is_not_a_call(name: str, answer: str) -> None:
    dialect = get_dialect(name)
    reading = assert_laws(dialect, answer, chunkings(answer, splits=0))
    message = reading.message
    assert message is not None
    assert (message.content, message.tool_calls) == (dialect.habits.echo + answer, ())


def test_possible_json_answer_is_held_until_its_members_decide() -> None:
    parser = Parser("llama3_json")
    assert parser.feed('{"name": "find", ') == []
    assert parser.max_pending == 1024
    events = parser.feed('"parameters"')
    assert [event.name for event in events if isinstance(event, CallStart)] == ["find"]


def test_held_answer_is_released_whole() -> None:
    parser = Parser("llama3_json")
    answer = '{"name": "Alice", "about": "' + "x" * 400 + '"}'
    assert parser.feed(answer[:-1]) == []
    assert parser.feed("}") == [Text("content", answer, 0, len(answer))]


def test_long_answer_is_released_early() -> None:
    parser = Parser("llama3_json")
    answer = '{"name": "Alice", "about": "' + "x" * 600
    assert parser.feed(answer) == [Text("content", answer, 0, len(answer))]
    assert parser.feed("y") == [Text("content", "y", len(answer), len(answer) + 1)]


# -- headers

FRAMED = [dialect.name for dialect in list_dialects() if dialect.frame is not None]
PROSE = (
    "Send it to=bob now",
    "Send it to=bob",
    " to=bob is how it goes, he said",
    "Sure\nHere you go.",
    "Here is the list:\n- one",
    "Done.\n",
)


@pytest.mark.parametrize("name", FRAMED)
@pytest.mark.parametrize("prose", PROSE)
def test_text_that_never_becomes_a_header_is_text(name: str, prose: str) -> None:
    """Words of prose resemble header fields, whether or not the prompt has opened a header."""
    for prompt in (None, ""):
        reading = assert_laws(name, ModelOutput(prose, prompt=prompt), chunkings(prose, splits=0))
        message = reading.message
        assert message is not None
        assert (message.content, message.tool_calls, message.finish_reason) == (prose, (), "stop")


@pytest.mark.parametrize("name", ["harmony", "beam"])
def test_text_before_the_first_header_is_text(name: str) -> None:
    text = "Hello there. <|channel|>final<|message|>Hi"
    message = assert_laws(name, text).message
    assert message is not None
    assert message.content == "Hello there. \nHi"
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["broken_header"]


def test_text_before_a_call_header_is_text() -> None:
    text = "One moment. to=functions.f<|message|>{}<|call|>"
    message = assert_laws("harmony", text).message
    assert message is not None
    assert (message.content, [call.name for call in message.tool_calls]) == ("One moment.", ["f"])


@pytest.mark.parametrize("word", ["analysis", "commentary", "final", "json"])
def test_header_word_between_messages_is_dropped(word: str) -> None:
    text = f"<|channel|>analysis<|message|>Hm.<|end|>{word}<|start|>assistant<|channel|>final<|message|>Hi."
    message = assert_laws("harmony", text).message
    assert message is not None
    assert (message.reasoning, message.content) == ("Hm.", "Hi.")
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["broken_header"]


@pytest.mark.parametrize("word", ["analysis", "final", "finally", "final answer"])
def test_header_word_that_is_the_answer_is_text(word: str) -> None:
    message = assert_laws("harmony", ModelOutput(word, prompt="")).message
    assert message is not None
    assert message.content == word


def test_call_header_without_tools_is_not_text() -> None:
    text = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
    message = assert_laws("harmony", ModelOutput(text, tools=())).message
    assert message is not None
    assert (message.content, message.tool_calls) == ('{"a": 1}', ())


# -- names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mistral", '[TOOL_CALLS]```json\n{"a": 1}\n```'),
        ("mistral", '[TOOL_CALLS]`ls`{"a": 1}'),
        ("qwen3_coder", "<tool_call>\n<function=$f>\n</function>\n</tool_call>"),
        ("llama3_json", '{"name": "linear model", "parameters": {"a": 1}}'),
        ("functionary_v32", '```json\n{"a": 1}\n```'),
        (
            "glm45",
            "<tool_call>" + "f" * 257 + "\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        ),
    ],
)
def test_invalid_function_name_is_not_a_call(name: str, text: str) -> None:
    message = assert_laws(name, text, chunkings(text, splits=0)).message
    assert message is not None
    assert (message.content, message.tool_calls) == (text, ())


@pytest.mark.parametrize("function", ["`ls`", "查询天气", "server/tool", "a.b:c-d"])
def test_declared_name_in_any_script_is_a_call(function: str) -> None:
    text = f"[TOOL_CALLS]{function}" + "{}"
    tools = ({"name": function},) if function == "`ls`" else None
    message = assert_laws("mistral", ModelOutput(text, tools)).message
    assert message is not None
    assert [call.name for call in message.tool_calls] == [function]


# -- reasoning

WORDED = [
    dialect
    for dialect in list_dialects()
    if any("<think>" in template_text(template) for template in dialect.reasoning) and dialect.frame is None
]


@pytest.mark.parametrize("dialect", WORDED, ids=[dialect.name for dialect in WORDED])
def test_answer_about_reasoning_tags_is_text(dialect: Dialect) -> None:
    """The rest of the answer used to become reasoning, which few clients show."""
    answer = "Models write <think> first and </think> last. Parsers split there."
    message = assert_laws(dialect, answer, chunkings(answer, splits=60)).message
    assert message is not None
    assert (message.content, message.reasoning) == (answer, None)


@pytest.mark.parametrize("before", ["", " ", "\n", "Hi.\n", CALL, CALL + "\n"])
def test_reasoning_opens_at_line_start_and_after_markup(before: str) -> None:
    message = assert_laws("hermes", f"{before}<think>Hm.</think>Noon.").message
    assert message is not None
    assert message.reasoning == "Hm."


def test_token_ids_decide_whether_a_marker_counts() -> None:
    class Vocabulary:
        words = (b"Noon. ", b"<think>", b"Hm.", b"</think>", b"<th", b"ink>")

        def token_bytes(self, id: int) -> bytes:
            return self.words[id]

        def special_tokens(self) -> dict[int, str]:
            return {1: "<think>", 3: "</think>"}

    for ids, reasoning in (([0, 1, 2, 3], "Hm."), ([0, 4, 5, 2], None)):
        parser = Parser("hermes", tokenizer=Vocabulary())
        message = parser.message(parser.feed_tokens(ids) + parser.finish())
        assert message.reasoning == reasoning


# -- calls that count as text

ANYWAY = Message(tool_calls=(ToolCall("call_1", "get_weather", '{"city": "Oslo"}'),))
UNFRAMED = [
    dialect
    for dialect in list_dialects()
    # Where a call and an answer end alike, the frame is not part of the call.
    if dialect.call and dialect.frame is None and dialect.name != "inkling"
]


@pytest.mark.parametrize("dialect", UNFRAMED, ids=[dialect.name for dialect in UNFRAMED])
def test_call_without_tools_is_text_as_a_whole(dialect: Dialect) -> None:
    """The call's own markers are text then."""
    text = render(ANYWAY, dialect, check=False)
    message = assert_laws(dialect, ModelOutput(text, tools=()), chunkings(text, splits=0)).message
    assert message is not None
    assert (message.content, message.tool_calls) == (dialect.habits.echo + text, ())


@each_dialect
def test_call_of_an_unknown_tool_is_text_as_a_whole(name: str) -> None:
    spec = get_dialect(name)
    if spec.frame is not None or spec.names.fixed:
        return
    call = ToolCall(spec.id_format.new("launch", 0), "launch", '{"when": "now", "where": "there"}')
    try:
        text = render(Message(tool_calls=(call,)), spec, check=False)
    except UsageError:
        return  # the dialect has no calls
    for written in (text, f"{text}\n{text}"):
        case = ModelOutput(written, tools=({"name": "other"},), policies=Policies(unknown_tool="text"))
        message = assert_laws(name, case, [list(written)]).message
        assert message is not None
        assert not message.tool_calls
        assert (message.content or "").removeprefix(spec.habits.echo).strip() == written.strip()


@pytest.mark.parametrize("name", ["mistral", "mistral_v3", "mistral_v11"])
def test_closing_marker_stays_in_released_text(name: str) -> None:
    body = '{"name": "f", "arguments": {}}' if name == "mistral_v3" else "f{}"
    text = f"[TOOL_CALLS]{body}[/TOOL_CALLS]"
    policies = Policies(unknown_tool="text")
    for case in (ModelOutput(text, tools=()), ModelOutput(text, tools=({"name": "g"},), policies=policies)):
        message = assert_laws(name, case).message
        assert message is not None
        assert message.content == text
    whole = assert_laws(name, text).message
    assert whole is not None
    assert (whole.content, len(whole.tool_calls)) == (None, 1)
