"""Messages as the messages of three APIs, as plain data, and their arguments as Python objects."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

from corpus_cases import load
from unspool import (
    Message,
    Parser,
    Text,
    ToolCall,
    UnknownDialect,
    UsageError,
    get_dialect,
    list_dialects,
    parse,
    plan,
    render,
    stream,
)
from unspool.errors import ArgumentsError, MalformedOutput
from unspool.events import event_from_dict
from unspool.message import BrokenCall, Part, TextPart

OUTPUT = '<think>Hm.</think>So. <tool_call>{"name": "f", "arguments": {"n":  1}}</tool_call>'
MALFORMED = '<tool_call>{"name": "f", "arguments": {"n": }}</tool_call>'
CUT = '<tool_call>{"name": "f", "arguments": {"n": "a'


def all_messages() -> dict[str, Message]:
    """Return a message for each output of the corpus whose dialect is registered."""
    messages: dict[str, Message] = {}
    for number, vector in enumerate(load()):
        with suppress(UsageError):
            messages[f"{number} {vector.dialect}"] = parse(vector.raw, vector.dialect, tools=vector.tools)
    return messages


MESSAGES = {
    "empty": Message(),
    "text": parse("Hi.", "hermes"),
    "everything": parse(OUTPUT, "hermes"),
    "text after a call": parse(f"{OUTPUT}Bye.", "hermes"),
    "malformed": parse(f"Hi. {MALFORMED}", "hermes"),
    "cut": parse(CUT, "hermes"),
    "kept": parse(MALFORMED, "hermes", policies={"malformed_call": "call"}),
}
each_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


def test_message_made_by_hand_equals_a_parsed_one() -> None:
    assert Message("Hi.") == parse("Hi.", "hermes", finish_reason="stop")
    (call,) = MESSAGES["everything"].tool_calls
    assert Message("So.", "Hm.", [call]) == MESSAGES["everything"]
    assert Message(parts=MESSAGES["everything"].parts) == MESSAGES["everything"]
    assert Message(tool_calls=[call]).finish_reason == "tool_calls"


@each_message
def test_chat_message_is_restored(message: Message) -> None:
    sent = json.loads(json.dumps(message.to_chat(broken="poison")))
    back = Message.from_chat(sent)
    assert back.reasoning == (message.reasoning or None)
    assert [call.name for call in back.tool_calls] == [
        part.name for part in message.parts if isinstance(part, ToolCall)
    ]
    assert [call.arguments for call in back.tool_calls] == [
        part.arguments for part in message.parts if isinstance(part, ToolCall)
    ]
    assert back.to_chat(broken="poison") == sent
    ChatCompletionMessage.model_validate(sent, strict=True)


@each_message
def test_responses_items_are_restored(message: Message) -> None:
    sent = json.loads(json.dumps(message.to_responses(broken="poison")))
    back = Message.from_responses(sent)
    assert [getattr(part, "text", "") for part in back.parts if isinstance(part, TextPart)] == [
        part.text for part in message.parts if isinstance(part, TextPart)
    ]
    assert [type(part) for part in back.parts] == [type(part) for part in message.parts]
    assert Message.from_responses({"output": sent}) == back
    kinds: Any = {
        "message": ResponseOutputMessage,
        "reasoning": ResponseReasoningItem,
        "function_call": ResponseFunctionToolCall,
    }
    for item in sent:
        kinds[item["type"]].model_validate(item)


@each_message
def test_messages_blocks_are_restored(message: Message) -> None:
    blocks = json.loads(json.dumps(message.to_messages()))
    back = Message.from_messages(blocks)
    assert back.to_messages() == blocks
    assert [call.args for call in back.tool_calls] == [
        part.args for part in message.parts if isinstance(part, ToolCall)
    ]
    fields = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 0, "output_tokens": 0}
    AnthropicMessage.model_validate({**fields, "content": blocks, "usage": usage})


@each_message
def test_plain_data_is_restored(message: Message) -> None:
    back = Message.from_dict(json.loads(json.dumps(message.to_dict())))
    assert back == message
    assert [call.args_start for call in back.tool_calls] == [call.args_start for call in message.tool_calls]
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - our own data


def test_plain_data_restores_every_vector() -> None:
    messages = all_messages()
    assert len(messages) > 100
    for name, message in messages.items():
        assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message, name


# -- what each API carries, over all vectors; the list in docs/library.md says the same


def without_broken(message: Message) -> list[Part]:
    """Return the parts of a message that ``broken="omit"`` sends: text of a broken call becomes text."""
    return [
        part if not isinstance(part, BrokenCall) else TextPart(part.channel, part.text)
        for part in message.parts
        if not isinstance(part, BrokenCall) or part.text
    ]


def carried(part: Part) -> object:
    """Return what wires carry of a part.

    Of a broken call, they carry neither its raw text nor its channel.  A comma, a colon or a brace at the end
    of its arguments cannot be told from the characters that make the arguments invalid.
    """
    if isinstance(part, BrokenCall):
        return part.id, part.name, re.sub(r"[,:{]\Z", "", part.arguments), part.status
    return part


def read(part: Part) -> object:
    """Return a part with the arguments of a call as objects."""
    return (part.id, part.name, part.args) if isinstance(part, ToolCall) else part


def sorted_parts(parts: Iterable[object]) -> list[object]:
    """Return the parts as Chat Completions orders them: reasoning, content, calls."""
    groups: dict[str, list[str]] = {"reasoning": [], "content": []}
    calls = []
    for part in parts:
        if isinstance(part, TextPart):
            groups[part.channel].append(part.text)
        else:
            calls.append(part)
    return [*(TextPart(name, "".join(texts)) for name, texts in groups.items() if texts), *calls]  # type: ignore[arg-type]


def test_chat_messages_carry_every_vector_but_its_order() -> None:
    for name, message in all_messages().items():
        back = Message.from_chat(json.loads(json.dumps(message.to_chat())))
        assert (back.content, back.reasoning, back.tool_calls) == (
            message.content,
            message.reasoning,
            message.tool_calls,
        ), name
        poisoned = Message.from_chat(json.loads(json.dumps(message.to_chat(broken="poison"))))
        assert [*map(carried, poisoned.parts)] == sorted_parts(map(carried, message.parts)), name


def test_messages_blocks_carry_every_vector_but_the_spelling_of_arguments() -> None:
    for name, message in all_messages().items():
        back = Message.from_messages(json.loads(json.dumps(message.to_messages())))
        assert [*map(read, back.parts)] == [*map(read, without_broken(message))], name
        assert (back.content, back.reasoning) == (message.content, message.reasoning), name
        if any(isinstance(part, BrokenCall) and part.status == "malformed" for part in message.parts):
            with pytest.raises(MalformedOutput, match="are not a JSON object"):
                message.to_messages(broken="poison")


def test_responses_items_carry_every_vector() -> None:
    for name, message in all_messages().items():
        back = Message.from_responses(json.loads(json.dumps(message.to_responses())))
        assert back.parts == tuple(without_broken(message)), name
        poisoned = Message.from_responses(json.loads(json.dumps(message.to_responses(broken="poison"))))
        assert [*map(carried, poisoned.parts)] == [*map(carried, message.parts)], name


def test_apis_do_not_carry_diagnostics_and_finish_reasons() -> None:
    message = parse(f"Hi. {MALFORMED}", "hermes", finish_reason="length")
    assert message.diagnostics
    assert message.finish_reason == "length"
    for back in (
        Message.from_chat(message.to_chat()),
        Message.from_messages(message.to_messages()),
        Message.from_responses(message.to_responses()),
    ):
        assert (back.diagnostics, back.finish_reason) == ((), "stop")


def test_objects_of_sdks_are_told_how_to_become_mappings() -> None:
    message: Any = ChatCompletionMessage(role="assistant", content="Hi.")
    with pytest.raises(UsageError, match=r"not ChatCompletionMessage: pass the result of its model_dump\(\)"):
        Message.from_chat(message)
    assert Message.from_chat(message.model_dump()) == Message("Hi.")


def test_broken_calls_are_omitted_or_poisoned() -> None:
    cut = MESSAGES["cut"]
    assert cut.tool_calls == ()
    assert cut.to_chat() == {"role": "assistant", "content": ""}
    (call,) = cut.to_chat(broken="poison")["tool_calls"]
    assert call["function"]["arguments"] == '{"n": "a\\u"]'
    (item,) = cut.to_responses(broken="poison")
    assert (item["status"], item["arguments"]) == ("incomplete", '{"n": "a\\u"]')
    assert cut.to_responses() == cut.to_messages() == cut.to_messages(broken="poison") == []
    (part,) = Message.from_chat(cut.to_chat(broken="poison")).parts
    assert isinstance(part, BrokenCall)
    assert (part.arguments, part.status) == ('{"n": "a', "truncated")
    assert MESSAGES["malformed"].to_chat()["content"] == f"Hi. {MALFORMED}"
    with pytest.raises(MalformedOutput, match='broken="omit" to leave such calls out') as raised:
        MESSAGES["malformed"].to_messages(broken="poison")
    assert (raised.value.start, raised.value.at, raised.value.end) == (4, 4, 4 + len(MALFORMED))
    with pytest.raises(UsageError, match="broken='keep': choose one of omit, poison"):
        cut.to_chat(broken="keep")  # type: ignore[arg-type]


def test_other_spellings_of_chat_messages_are_read() -> None:
    message = Message.from_chat(
        {
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "reasoning": "c",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"n": 1}}}],
        }
    )
    assert (message.content, message.reasoning) == ("ab", "c")
    assert message.tool_calls == (ToolCall("1", "f", '{"n": 1}'),)
    assert message.finish_reason == "tool_calls"
    with pytest.raises(UsageError, match="the role 'user'"):
        Message.from_chat({"role": "user", "content": "Hi"})
    with pytest.raises(UsageError, match="pass response"):
        Message.from_chat({"choices": []})


def test_events_are_restored_from_plain_data() -> None:
    parser = Parser("hermes")
    events = parser.feed(f"{OUTPUT}{MALFORMED}{CUT}") + parser.finish("length")
    assert {type(event).__name__ for event in events} >= {"Diagnostic", "Finish", "CallEnd", "Markup", "Text"}
    assert [event_from_dict(json.loads(json.dumps(event.to_dict()))) for event in events] == events
    with pytest.raises(UsageError, match="event='Tex': choose one of Text"):
        event_from_dict({"event": "Tex"})
    with pytest.raises(UsageError, match="not the fields of Text"):
        event_from_dict({"event": "Text", "content": "a"})


class Point(pydantic.BaseModel):
    n: int


class PointStruct(msgspec.Struct):
    n: int


@dataclass
class PointData:
    n: int


class PointDict(TypedDict):
    n: int


@pytest.mark.parametrize(
    ("model", "value"),
    [(Point, Point(n=1)), (PointStruct, PointStruct(1)), (PointData, PointData(1)), (PointDict, {"n": 1})],
)
def test_arguments_become_objects(model: Any, value: Any) -> None:
    (call,) = MESSAGES["everything"].tool_calls
    assert call.parse_as(model) == value
    with pytest.raises(ArgumentsError, match="the arguments are not a Point") as caught:
        ToolCall("1", "f", '{"n": "x"}', 3, 9).parse_as(model)
    assert (caught.value.name, caught.value.start, caught.value.end) == ("f", 3, 9)
    assert isinstance(caught.value, ValueError)


def test_arguments_are_a_new_dictionary() -> None:
    (call,) = MESSAGES["everything"].tool_calls
    assert call.args == {"n": 1}
    assert call.args is not call.args
    assert OUTPUT[call.args_start : call.args_end] == call.arguments
    assert call == replace(call)
    (kept,) = MESSAGES["kept"].tool_calls
    with pytest.raises(ValueError, match=r"call of f \(characters 38 to \d+\): the arguments are not JSON"):
        _ = kept.args
    assert isinstance(pickle.loads(pickle.dumps(ArgumentsError("f", "", "no"))), ArgumentsError)  # noqa: S301


def test_arguments_as_a_dataclass_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = MESSAGES["everything"].tool_calls
    monkeypatch.setattr("unspool._core.conversions.arguments_to_python.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="install pydantic or msgspec"):
        call.parse_as(PointData)
    assert call.parse_as(Point) == Point(n=1)


def test_arguments_as_an_object_that_is_no_type_are_refused() -> None:
    (call,) = MESSAGES["everything"].tool_calls
    for wrong in (pydantic.TypeAdapter(Point), Point(n=1)):
        with pytest.raises(UsageError, match="pass the class itself"):
            call.parse_as(wrong)  # type: ignore[arg-type]


def test_call_of_your_own_needs_no_id() -> None:
    call = ToolCall(name="f", arguments='{"n": 1}')
    assert call == ToolCall("", "f", '{"n": 1}')
    assert ToolCall(name="f").args == {}
    assert '"name": "f"' in render(Message(tool_calls=[call]), "hermes")


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"role": "assistant", "content": "Hi."}, r"pass Message\.from_chat\(message\)"),
        (ChatCompletionMessage(role="assistant", content="Hi."), r"from_chat\(message\.model_dump\(\)\)"),
        ([{"type": "text", "text": "Hi."}], r"Message\.from_messages\(\)"),
        ("Hi.", r"pass Message\(text\)"),
        (1, "got int$"),
    ],
)
def test_render_says_what_to_pass(wrong: Any, advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        render(wrong, "hermes")
    with pytest.raises(UsageError, match=r"call render\(message, dialect\)"):
        render("hermes", {"role": "assistant"})  # type: ignore[arg-type]


def test_message_repr_is_short() -> None:
    assert repr(Message("Hi.")) == "Message(content='Hi.')"
    long = Message("x" * 9999, "y" * 9999, [ToolCall("1", "f" * 99, "{}")] * 9, finish_reason="length")
    assert len(repr(long)) < 300
    assert "9999 characters" in repr(long)


def test_representations_are_short() -> None:
    shown = [repr(dialect) for dialect in list_dialects()]
    request = {"messages": [{"role": "user", "content": "x" * 999}], "tools": [{"name": "f"}]}
    shown += [repr(plan(dialect.name, request)) for dialect in list_dialects() if dialect.call]
    assert max(map(len, shown)) < 300
    assert repr(get_dialect("hermes")).startswith("Dialect('hermes', ")


def test_models_name_their_dialects() -> None:
    assert Parser("Qwen/Qwen3-8B").dialect is get_dialect("hermes")
    assert get_dialect("Qwen/Qwen3-8B") is get_dialect("hermes")
    request = {"messages": [{"role": "user", "content": "Hi"}]}
    assert plan("Qwen/Qwen3-8B", request).dialect is get_dialect("hermes")
    with pytest.raises(UnknownDialect, match="no dialect 'hermess': did you mean hermes"):
        Parser("hermess")
    with pytest.raises(UnknownDialect):
        Parser("I am Qwen3-8B, and this is an output.")


def test_swapped_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"the arguments are swapped: call parse\(text, 'hermes'\)"):
        parse("hermes", OUTPUT)
    with pytest.raises(UsageError, match=r"the arguments are swapped: call render\(message, dialect\)"):
        render("hermes", Message("Hi."))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the arguments are swapped: call plan\(dialect, request\)"):
        plan({"messages": []}, "hermes")  # type: ignore[arg-type]
    for chunks in (["Hi."], "Hi."):
        with pytest.raises(UsageError, match=r"the arguments are swapped: call stream\(chunks, 'hermes'\)"):
            stream("hermes", chunks)  # type: ignore[arg-type]
    assert [event.text for event in stream("hermes", "hermes") if isinstance(event, Text)] == ["hermes"]
