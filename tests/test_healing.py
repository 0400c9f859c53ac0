"""Messages that ask a model to correct its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from corpus_cases import load
from paths import TEMPLATES, real
from unspool import Message, ToolCall, UnspoolError, UsageError, list_dialects, parse
from unspool._core.compiler.match_program_types import PUNCTUATION
from unspool._core.render.example_output import EXAMPLE_TOOLS
from unspool.dialects._control_token_pattern import CONTROL_TOKEN
from unspool.healing import feedback, neutralise
from unspool.healing._feedback import MAX_QUOTED
from unspool.message import TextPart
from unspool.templates import ChatTemplate, ChatTemplateError, normalise_history
from unspool.testing import POLICIES, markers, mutate
from unspool.testing._every_policy_has_effect_law import SampleCall

NAMES = [dialect.name for dialect in list_dialects()]
APIS = ["chat", "messages", "responses"]
SHAPES: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "messages": TypeAdapter(list[MessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]


def hermes(*calls: str, **options: Any) -> Message:
    text = "".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)
    return parse(text, "hermes", tools=TOOLS, **options)


def results(message: Message, **options: Any) -> list[str]:
    """Return the texts that tell the model what is wrong."""
    return [
        each["content"]
        for each in feedback(message, "hermes", TOOLS, **options)
        if each["role"] != "assistant"
    ]


GOOD = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
MALFORMED = '{"name": "get_weather", "arguments": {"city": "Oslo" "days": 3}}'


def test_correct_message_has_no_feedback() -> None:
    assert feedback(hermes(GOOD), "hermes", TOOLS) == []
    assert feedback(Message("Hi."), "hermes", None) == []


@pytest.mark.parametrize(
    ("message", "fragments"),
    [
        (
            hermes(MALFORMED),
            [
                "The call of \"get_weather\" is malformed: expected ',' or a closing bracket at character ",
                '65 of the call, after "< tool_call>\\n{',
                '{\\"city\\": \\"Oslo\\" ". Write the whole call again, without this error.',
            ],
        ),
        (
            hermes('{"name": "get_wether", "arguments": {}}'),
            ['There is no tool named "get_wether". Did you mean "get_weather"?'],
        ),
        (
            hermes('{"name": "zzz", "arguments": {}}'),
            ['There is no tool named "zzz". The tools are "get_weather" and "now".'],
        ),
        (
            hermes('{"name": "get_wether", "arguments": {}}', policies={"unknown_tool": "drop"}),
            ['There is no tool named "get_wether". Did you mean "get_weather"?'],
        ),
        (
            hermes('{"name": "get_weather", "arguments": {"days": "3"}}'),
            [
                'The arguments of "get_weather" do not fit its schema. ',
                "The required argument 'city' is missing. ",
                "Argument 'days' is a string, expected an integer. ",
                "Write the call again with corrected arguments.",
            ],
        ),
        (
            hermes(GOOD.replace("}}", "")[:-2], finish_reason="length"),
            ['The call of "get_weather" is', "Write the whole call again"],
        ),
        (
            parse('<tool_call>{"name": "now", "arguments": {"zone": "Os', "hermes", finish_reason="length"),
            [
                'The call of "now" is incomplete, because the output ended after "< tool_call>{',
                '\\"zone\\": \\"Os". Write the whole call again; if it is long,',
            ],
        ),
        (
            parse('Hi. <tool_call>{"na', "hermes", finish_reason="length"),
            ['The output ended inside a tool call that begins with "< tool_call>{\\"na". '],
        ),
        (
            hermes(MALFORMED, policies={"commit": "call"}),
            [
                "A tool call is malformed: expected ',' or a closing bracket. It begins with ",
                '"< tool_call>\\n{',
                '< /tool_call>". Write the whole call again.',
            ],
        ),
        (
            Message.from_chat(Message(tool_calls=[ToolCall("1", "now", '{"a" 1}')]).to_chat()),
            ['malformed: expecting \':\' delimiter at character 5 of the arguments, after "{\\"a\\" ". '],
        ),
    ],
)
def test_feedback_says_what_is_wrong(message: Message, fragments: list[str]) -> None:
    (text,) = results(message)
    assert not [fragment for fragment in fragments if fragment not in text], text


def test_feedback_without_tools_tells_the_model_to_answer() -> None:
    (text,) = [each["content"] for each in feedback(hermes(GOOD), "hermes", [])[1:]]
    assert text == 'There is no tool named "get_weather". There are no tools; answer in text.'


def test_each_announced_call_has_a_result() -> None:
    message = hermes(GOOD, MALFORMED)
    turn, first, second = feedback(message, "hermes", TOOLS)
    assert [call["id"] for call in turn["tool_calls"]] == [first["tool_call_id"], second["tool_call_id"]]
    assert turn["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'
    broken = json.loads(turn["tool_calls"][1]["function"]["arguments"])
    assert broken["malformed_arguments"].startswith('{"city": "Oslo" "days": 3}')
    assert "was not run" in first["content"]
    assert "is malformed" in second["content"]


def test_anthropic_results_share_a_message() -> None:
    turn, user = feedback(hermes(GOOD, MALFORMED), "hermes", TOOLS, api="messages")
    assert [block["type"] for block in turn["content"]] == ["tool_use", "tool_use"]
    assert [block["is_error"] for block in user["content"]] == [True, True]


def test_unannounced_call_leads_to_a_message_of_the_user() -> None:
    message = parse('<tool_call>{"na', "hermes", finish_reason="length")
    for api, role in (("chat", "user"), ("messages", "user"), ("responses", "user")):
        (only,) = feedback(message, "hermes", TOOLS, api=api)  # type: ignore[arg-type]
        assert only["role"] == role


def test_unknown_api_is_rejected() -> None:
    with pytest.raises(UsageError, match="choose one of chat, messages, responses"):
        feedback(Message("Hi."), "hermes", None, api="ollama")  # type: ignore[arg-type]


def test_quotations_are_bounded() -> None:
    long = '{"name": "get_weather", "arguments": {"city": "' + "x<tool_call>" * 1000 + '" "days": 3}}'
    for message in (hermes(long), hermes(*[long] * 5), hermes(long, policies={"commit": "call"})):
        sent = feedback(message, "hermes", TOOLS)
        if message.content and not sent[0].get("tool_calls"):
            del sent[0]  # the text of the turn itself, which is not a quotation
        quoted = json.dumps(sent).count("x< tool_call>") * len("x< tool_call>")
        assert 50 < quoted <= MAX_QUOTED


def failed_messages(name: str) -> Iterator[tuple[Message, Any]]:
    """Yield messages with faults of each kind, in one dialect."""
    rng = Random(name)  # noqa: S311 - reproducible, not secret
    marks = markers(name)
    dialect = next(dialect for dialect in list_dialects() if dialect.name == name)
    texts = [vector.raw for vector in load(name)][:20]
    if dialect.call or dialect.frame:
        wording = SampleCall(dialect)
        texts += [wording.write()] * 4
    for number, text in enumerate(texts * 3):
        broken = text
        for _ in range(number % 4):
            broken = mutate(broken, rng, marks)
        policies = list(POLICIES.values())[number % len(POLICIES)]
        tools = (EXAMPLE_TOOLS, None, TOOLS, [])[number % 4]
        try:
            yield parse(broken, name, tools=tools, policies=policies, finish_reason="length"), tools
        except UnspoolError:
            continue


def quoted_texts(value: object, *, key: str = "") -> Iterator[str]:
    """Yield all texts of messages, except the ids and the arguments of complete calls."""
    if isinstance(value, dict) and key == "input":
        yield from quoted_texts(value.get("malformed_arguments"), key="malformed_arguments")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from quoted_texts(item, key=name)
    elif isinstance(value, list):
        for item in value:
            yield from quoted_texts(item, key=key)
    elif isinstance(value, str) and key == "arguments":
        yield from quoted_texts(json.loads(value), key="input")
    elif isinstance(value, str) and key in (
        "content",
        "text",
        "name",
        "output",
        "malformed_arguments",
        "thinking",
    ):
        yield value


@cache
def syntax_markers(name: str) -> list[str]:
    """Return the markers of a dialect that are not only words."""
    return [marker.strip() for marker in markers(name) if PUNCTUATION.search(marker)]


@pytest.mark.parametrize("name", NAMES)
def test_feedback_contains_no_marker(name: str) -> None:
    for message, tools in failed_messages(name):
        for api in APIS:
            sent = feedback(message, name, tools, api=api)  # type: ignore[arg-type]
            for text in quoted_texts(json.loads(json.dumps(sent))):
                assert CONTROL_TOKEN.search(text) is None, text
                assert not [marker for marker in syntax_markers(name) if marker in text], text


@pytest.mark.parametrize("name", NAMES)
def test_feedback_has_the_shape_of_its_api(name: str) -> None:
    for message, tools in failed_messages(name):
        for api in APIS:
            sent = feedback(message, name, tools, api=api)  # type: ignore[arg-type]
            SHAPES[api].validate_python(sent)
            assert not sent or sent[-1].get("role", "tool") in ("user", "tool")


@pytest.mark.parametrize("name", NAMES)
def test_feedback_answers_each_call_of_the_turn(name: str) -> None:
    seen = 0
    for message, tools in failed_messages(name):
        sent = feedback(message, name, tools)
        called = [call["id"] for each in sent for call in each.get("tool_calls", ())]
        assert called == [each["tool_call_id"] for each in sent if each["role"] == "tool"]
        assert not sent or called == [part.id for part in message.parts if not isinstance(part, TextPart)]
        seen += bool(called)
    assert seen or not any(message.tool_calls for message, _ in failed_messages(name))


@pytest.mark.parametrize("name", NAMES)
def test_neutralised_text_is_plain_text(name: str) -> None:
    text = "\n".join(markers(name))
    assert not [marker for marker in syntax_markers(name) if marker in neutralise(text, name)]
    assert neutralise("Oslo, today (3 days).", name) == "Oslo, today (3 days)."


@real
@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_feedback_is_rendered_by_real_templates(name: str) -> None:
    """If a template cannot render tools' results at all, it cannot render this one, either."""
    template = ChatTemplate(TEMPLATES[name].read_text(encoding="utf-8"), bos_token="", eos_token="")
    question = {"role": "user", "content": "What is the weather?"}

    def render(messages: list[dict[str, Any]]) -> str:
        return template.render(
            normalise_history([question, *messages], template, dialect="hermes"), TOOLS, date_string="today"
        )

    try:
        usual = hermes(GOOD)
        result = {"role": "tool", "tool_call_id": usual.tool_calls[0].id, "content": "12 degrees"}
        shows_results = "12 degrees" in render([usual.to_chat(), result])
    except ChatTemplateError:
        shows_results = False
    if not shows_results:
        pytest.skip("the template renders no results of tools")
    for message, words in (
        (hermes(MALFORMED), "is malformed"),
        (hermes('{"name": "zzz", "arguments": {}}'), "There is no tool"),
        (
            parse('Hi. <tool_call>{"na', "hermes", finish_reason="length"),
            "The output ended inside a tool call",
        ),
    ):
        assert words in render(feedback(message, "hermes", TOOLS))
