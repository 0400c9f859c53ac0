"""Errors: callers' mistakes say what to do; a model's mistakes raise only on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import pytest

import unspool
from unspool import (
    Dialect,
    MalformedOutput,
    Message,
    Parser,
    Policies,
    SpecError,
    ToolCall,
    UnknownDialect,
    UnspoolError,
    UsageError,
    get_dialect,
    parse,
    register,
    render,
)
from unspool.dialects import Envelope, Family, Frame, Habits, IdFormat, Names, RequestFacts, Route
from unspool.dialects._family_request_facts import HYBRID
from unspool.stages import MessageBuilder, WhitespaceFilter
from unspool.wire import ChatStream, MessagesStream, ResponsesStream

CALL = ("<call>{envelope}</call>",)
WRONG: Any = "a string"


def message_of(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


# -- usage errors


def test_every_error_has_one_base() -> None:
    for error in (UsageError, SpecError, UnknownDialect, MalformedOutput, unspool.errors.ProtocolError):
        assert issubclass(error, UnspoolError)
    assert issubclass(UnknownDialect, LookupError)
    assert not issubclass(MalformedOutput, UsageError), "the model's mistake is not the caller's"


@pytest.mark.parametrize("chunk", [b"Hello", None, 5, ["a"], bytearray(b"x")], ids=repr)
def test_feed_needs_text(chunk: Any) -> None:
    message = message_of(UsageError, lambda: Parser("hermes").feed(chunk))
    assert type(chunk).__name__ in message
    assert "decode bytes" in message


@pytest.mark.parametrize("dialect", [None, 5, b"hermes", ["hermes"]], ids=repr)
def test_dialect_must_be_a_name_or_a_value(dialect: Any) -> None:
    for use in (lambda: Parser(dialect), lambda: parse("x", dialect), lambda: render(Message(), dialect)):
        assert type(dialect).__name__ in message_of(UsageError, use)


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ("now", "str"),
        ({"name": "now"}, "dict"),
        (5, "int"),
        (["now"], "tools[0]"),
        ([{"name": 5}], "tools[0]"),
    ],
)
def test_tools_must_be_a_list_of_tools(tools: Any, named: str) -> None:
    message = message_of(UsageError, lambda: Parser("hermes", tools=tools))
    assert named in message
    assert "parameters" in message, "the message shows what to pass"


@pytest.mark.parametrize("prompt", [b"<think>", 5, ["<think>"]], ids=repr)
def test_prompt_must_be_text(prompt: Any) -> None:
    assert type(prompt).__name__ in message_of(UsageError, lambda: Parser("hermes", prompt=prompt))


@pytest.mark.parametrize("policies", [[], b"strict", 5], ids=repr)
def test_policies_must_be_policies(policies: Any) -> None:
    message = message_of(UsageError, lambda: Parser("hermes", policies=policies))
    assert "Policies" in message
    assert type(policies).__name__ in message


@pytest.mark.parametrize("value", ["ignore", "", None, True, "TEXT"], ids=repr)
def test_policy_must_be_one_of_its_choices(value: Any) -> None:
    message = message_of(UsageError, lambda: Policies(malformed_call=value))
    assert f"malformed_call={value!r}" in message
    for choice in ("text", "repair", "call", "drop", "error"):
        assert choice in message


@pytest.mark.parametrize("name", Policies.__slots__)
def test_every_policy_is_checked(name: str) -> None:
    wrong: dict[str, Any] = {name: "nonsense"}
    assert f"{name}='nonsense'" in message_of(UsageError, lambda: Policies(**wrong))


def test_feed_after_finish_is_an_error() -> None:
    parser = Parser("hermes")
    parser.feed("Hello")
    parser.finish()
    assert "new Parser" in message_of(UsageError, lambda: parser.feed("more"))


def test_second_finish_is_an_error() -> None:
    parser = Parser("hermes")
    parser.finish()
    assert "finish()" in message_of(UsageError, parser.finish)


@pytest.mark.parametrize("reason", ["end", "", "STOP", 5, True], ids=repr)
def test_finish_reason_must_be_known(reason: Any) -> None:
    parser = Parser("hermes")
    message = message_of(UsageError, lambda: parser.finish(reason))
    assert repr(reason) in message
    for choice in ("stop", "length", "tool_calls", "content_filter"):
        assert choice in message
    assert parser.finish("stop"), "a refused reason does not finish the parser"


@pytest.mark.parametrize("message", [None, "Hello", {"content": "Hello"}], ids=repr)
def test_render_needs_a_message(message: Any) -> None:
    assert type(message).__name__ in message_of(UsageError, lambda: render(message, "hermes"))


def test_render_names_what_a_dialect_cannot_write() -> None:
    silent = Dialect("silent", reasoning=())
    call = ToolCall("call_1", "f", "{}")
    assert "silent" in message_of(UsageError, lambda: render(Message(reasoning="Hm."), silent))
    assert "tool calls" in message_of(UsageError, lambda: render(Message(tool_calls=(call,)), silent))


@pytest.mark.parametrize("arguments", ["[1]", "5", '"x"', "{", "nope"])
def test_render_needs_an_object_to_write_parameters(arguments: str) -> None:
    message = Message(tool_calls=(ToolCall("call_1", "f", arguments),))
    assert "'f'" in message_of(UsageError, lambda: render(message, "qwen3_coder"))


@pytest.mark.parametrize(
    "wrong", ["hermes", None, 5, get_dialect("hermes")], ids=lambda wrong: type(wrong).__name__
)
def test_stages_need_a_parser(wrong: Any) -> None:
    for make in (WhitespaceFilter, MessageBuilder, ChatStream, MessagesStream, ResponsesStream):
        made: Any = make
        message = message_of(UsageError, lambda: made(wrong))  # noqa: B023 - called at once
        assert type(wrong).__name__ in message
        assert "parser" in message


# -- unknown dialects


@pytest.mark.parametrize(
    ("name", "near"), [("hermez", "hermes"), ("qwen3-codr", "qwen3_coder"), ("Mistrall", "mistral")]
)
def test_unknown_dialect_suggests_near_names(name: str, near: str) -> None:
    for use in (lambda: get_dialect(name), lambda: Parser(name), lambda: parse("x", name)):
        message = message_of(UnknownDialect, use)
        assert repr(name) in message
        assert near in message
    with pytest.raises(LookupError):
        Parser(name)


def test_unknown_dialect_without_near_names_points_to_the_list() -> None:
    assert "`unspool dialects`" in message_of(UnknownDialect, lambda: get_dialect("🙂🙂🙂"))


@pytest.mark.parametrize("name", ["Hermes", "HERMES", " hermes ", "qwen3-coder", "Qwen3_Coder"])
def test_case_and_dashes_in_names_do_not_matter(name: str) -> None:
    assert get_dialect(name).name in ("hermes", "qwen3_coder")


def test_register_needs_a_dialect_with_unique_names() -> None:
    wrong: Any = "hermes"
    assert "str" in message_of(UsageError, lambda: register(wrong))
    other = Dialect("hermes", call=CALL, request="qwen3_coder")
    assert "replace=True" in message_of(SpecError, lambda: register(other))
    assert get_dialect("hermes").call != CALL


# -- contradictory declarations

PARAMS = ("<c>{name}{params}</c>",)
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    # fault: the declaration, whose last entry causes the error, and the text of the message
    "a string instead of a tuple": ({"call": "<call>{envelope}</call>"}, "tuple"),
    "a list instead of a tuple": ({"stop": ["</s>"]}, "tuple"),
    "something else in the tuple": ({"call": (5,)}, "a string"),
    "an unknown placeholder": ({"call": ("<call>{nam}{args}</call>",)}, "{nam}; did you mean {name}?"),
    "an unknown notation": ({"call": ("<c>{name}{args:yaml}</c>",)}, "python"),
    "a notation of something else": ({"call": ("<c>{name:json}{args}</c>",)}, "notation"),
    "no name": ({"call": ("<c>{args}</c>",)}, "add {name}"),
    "two payloads": ({"call": ("<c>{name}{args}{envelope}</c>",)}, "one payload"),
    "the name after the arguments": ({"call": ("<c>{args}{name}</c>",)}, "before the payload"),
    "params without a param": ({"call": PARAMS}, "param=('<arg {key}>{value}</arg>',)"),
    "nothing to search for": ({"call": ("{id}<c>{name}{args}</c>",)}, "begins with a placeholder"),
    "an id after the arguments": ({"call": ("<c>{name}{args}{id}</c>",)}, "{id} comes after {args}"),
    "an opener of whitespace only": ({"call": ("\n  {name}{args}\n",)}, "no opener"),
    "nothing to search for in a bare section": (
        {"call": ("{name}{args}",)},
        "text before calls into section",
    ),
    "a section without calls": ({"call": CALL, "section": ("<calls></calls>",)}, "{calls}"),
    "a section with two": ({"call": CALL, "section": ("{calls}|{calls}",)}, "once"),
    "a section with a name": ({"call": CALL, "section": ("<{name}>{calls}",)}, "{name}"),
    "a section without a begin": ({"call": CALL, "section": ("{calls}</c>",)}, "belongs to the call"),
    "a separator with a placeholder": ({"call": CALL, "separators": ("{_}",)}, "{_} is not allowed here"),
    "a param without value": ({"call": PARAMS, "param": ("<p={key}></p>",)}, "{value}"),
    "a param without key": ({"call": PARAMS, "param": ("<p>{value}</p>",)}, "{key}"),
    "a value without an end": ({"call": PARAMS, "param": ("<p={key}>{value}",)}, "after it"),
    "a value that ends at a newline": ({"call": PARAMS, "param": ("- {key}: {value}\n",)}, "line breaks"),
    "a value that ends at a newline, with an alternative": (
        {"call": PARAMS, "param": ("- {key}: {value}\n",)},
        "{code}",
    ),
    "a value without a begin": ({"call": PARAMS, "param": ("{key}{value}</p>",)}, "before the placeholder"),
    "a value that begins with whitespace": (
        {"call": PARAMS, "param": ("  {key}={value};",)},
        "whitespace is not enough",
    ),
    "a key after the value": ({"call": PARAMS, "param": ("<{key}>{value}</{key}>",)}, "Habits(nested=True)"),
    "a param that nothing uses": ({"param": ("<p={key}>{value}</p>",)}, "no call template"),
    "reasoning without text": ({"reasoning": ("<think></think>",)}, "{text}"),
    "reasoning without an end": ({"reasoning": ("<think>{text}",)}, "after it"),
    "reasoning without a begin": ({"reasoning": ("{text}</think>",)}, "before it"),
    "reasoning that ends at a newline": ({"reasoning": ("Thought: {text}\n",)}, "whitespace is not enough"),
    "content without text": ({"content": ("<answer></answer>",)}, "{text}"),
    "dropped text with a name": ({"drop": ("<x {name}>",)}, "{name}"),
    "dropped text that begins with a placeholder": ({"drop": ("{_}<x>",)}, "begin with text"),
    "a stop with a placeholder": ({"stop": ("<end {_}>",)}, "drop=(...)"),
    "an empty stop": ({"stop": ("",)}, "begin with text"),
    "a newline as a stop": ({"stop": ("\n",)}, "whitespace is not enough"),
    "a name without a name": ({"call": CALL, "names": Names(forms=("f:{index}",))}, "add {name}"),
    "a string instead of a family": ({"call": CALL, "family": "Mine"}, "write Family(...)"),
    "no form of a name": ({"call": CALL, "names": Names(forms=())}, "forms=('{name}',)"),
    "an alias that is not a tuple": ({"call": CALL, "family": Family(aliases=WRONG)}, "family.aliases"),
    "a form that is not a tuple": ({"call": CALL, "names": Names(forms=WRONG)}, "names.forms"),
    "an envelope without keys": ({"call": CALL, "envelope": Envelope(name_keys=())}, "envelope.name_keys"),
    "too few types": ({"call": CALL, "habits": Habits(type_words=("str",))}, "array"),
    "an unknown notation of arguments": ({"call": CALL, "args": "yaml"}, "python"),
    "invalid request facts": ({"call": CALL, "request": True}, "request='hermes'"),
}


@pytest.mark.parametrize(("declaration", "says"), CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_contradiction_shows_its_template(declaration: dict[str, Any], says: str) -> None:
    message = message_of(SpecError, lambda: Dialect("mine", **declaration))
    blamed = list(declaration.values())[-1]
    assert "'mine'" in message
    if not is_dataclass(blamed):
        assert repr(blamed[0] if isinstance(blamed, tuple) else blamed) in message
    assert says in message


FRAME = Frame(("<|start|>",), "<|message|>", ("<|end|>",), ("to={to}",), (Route({}, "content"),))
FRAMES: dict[str, tuple[Frame, str]] = {
    "nothing that opens": (replace(FRAME, open=()), "that begin a header"),
    "nothing that ends a header": (replace(FRAME, sep=""), "the marker that ends a header"),
    "a string instead of a tuple": (
        replace(FRAME, ends=WRONG),
        "frame.ends='a string': it must be a tuple of strings",
    ),
    "a route to nowhere": (
        replace(FRAME, routes=(Route({}, "thoughts"),)),  # type: ignore[arg-type]
        "reasoning, content, drop",
    ),
    "an empty field": (replace(FRAME, fields=("to={to}", "")), "frame.fields[1]='': write text"),
    "an empty end": (replace(FRAME, ends=("",)), "cannot end a body"),
    "a route by no field": (replace(FRAME, routes=(Route({"chanel": "a"}, "drop"),)), "frame.fields are to"),
    "a route that compares nothing": (replace(FRAME, routes=(Route({"to": ""}, "drop"),)), "when['to']"),
    "a header with a name that is not there": (
        replace(FRAME, routes=(Route({"to": "{name}"}, "content", header="to={name}"),)),
        "{name} is not allowed here",
    ),
    "a route into params": (replace(FRAME, routes=(Route({"to": "{name}"}, "{params}"),)), "param template"),
    "a route into calls": (replace(FRAME, routes=(Route({"to": "{name}"}, "{calls}"),)), "call template"),
}


def test_calls_need_a_section() -> None:
    assert "section=('{calls}',)" in message_of(SpecError, lambda: Dialect("mine", call=CALL, section=()))


@pytest.mark.parametrize("length", [0, -1, 257, 2**70])
def test_ids_of_unusable_length_are_refused(length: int) -> None:
    assert "1 to 256" in message_of(SpecError, lambda: IdFormat("{random}", length=length))


@pytest.mark.parametrize(("frame", "says"), FRAMES.values(), ids=list(FRAMES))
def test_frame_without_effect_is_refused(frame: Frame, says: str) -> None:
    assert says in message_of(SpecError, lambda: Dialect("mine", frame=frame))


FACTS = RequestFacts(calls_special=False, forced=("native",), eos=(), thinking=HYBRID)
REFUSED: dict[str, tuple[Dialect, str]] = {
    "no facts": (Dialect("mine", call=CALL), "declare request='hermes'"),
    "facts of nobody": (Dialect("mine", call=CALL, request="hermse"), "did you mean hermes"),
    "reasoning that is not there": (
        Dialect("mine", call=CALL, reasoning=(), request="hermes"),
        "request='llama3_json'",
    ),
    "reasoning that is not told of": (Dialect("mine", call=CALL, request="llama3_json"), "reasoning=()"),
    "calls that are not there": (Dialect("mine", request="hermes"), "request='kimi'"),
    "calls that are not told of": (Dialect("mine", call=CALL, request="kimi"), "calls_special=True"),
    "another opener": (Dialect("mine", call=CALL, reasoning=("(({text}))",), request="ernie45"), "seed=''"),
    "answers in control tokens": (
        Dialect(
            "mine",
            frame=replace(
                FRAME, routes=(Route({"to": "me"}, "reasoning"), Route({"to": "{name}"}, "{args}"))
            ),
            request=FACTS,
        ),
        "answers_special=True",
    ),
}


@pytest.mark.parametrize(("dialect", "says"), REFUSED.values(), ids=list(REFUSED))
def test_registering_names_what_is_missing(dialect: Dialect, says: str) -> None:
    message = message_of(SpecError, lambda: register(dialect))
    assert "'mine'" in message
    assert says in message


@pytest.mark.parametrize("name", ["", None, 5], ids=repr)
def test_dialect_needs_a_name(name: Any) -> None:
    assert "name" in message_of(SpecError, lambda: Dialect(name))


def test_dialect_may_have_only_a_frame() -> None:
    frame = Frame(
        open=("<|start|>",),
        sep="<|message|>",
        ends=("<|end|>",),
        fields=("to={to}",),
        routes=(Route({"to": "{name}"}, "{args}", "to={name}"), Route({}, "content", "x")),
    )
    dialect = Dialect("framed", frame=frame, reasoning=(), id_format=IdFormat("id_{index}"))
    message = parse('<|start|>to=f<|message|>{"a": 1}<|end|>', dialect)
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("id_0", "f", '{"a": 1}')
    ]


# -- the strict policy


def strict(text: str, dialect: str = "hermes", **options: Any) -> MalformedOutput:
    with pytest.raises(MalformedOutput) as caught:
        parse(text, dialect, policies="strict", **options)
    return caught.value


def caret(error: MalformedOutput) -> str:
    """Return the character above the caret, or an empty string if the caret is past the line."""
    lines = str(error).split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() == "^")
    return lines[at - 1][lines[at].index("^") :][:1]


def test_malformed_call_error_has_span_and_raw() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1, oops}}\n</tool_call>'
    error = strict(f"Hi. {call} Bye.")
    assert error.kind == "malformed_call"
    assert (error.start, error.end) == (4, 4 + len(call))
    assert error.raw == call
    assert error.at == f"Hi. {call}".index("oops")
    assert "key" in error.detail
    text = str(error)
    assert "malformed call" in text
    assert error.detail in text
    assert '{"name": "f", "arguments": {"a": 1, oops}}' in text
    assert caret(error) == "o"


@pytest.mark.parametrize(
    ("arguments", "wrong", "expected"),
    [
        ('{"a" 1}', "1", "':'"),
        ('{"a": 1 "b"}', '"b"', "','"),
        ('{"a": nul}', "}", "null"),
        ("{1: 2}", "1", "key"),
        ('{"a": 1e}', "}", "digit"),
        ('{"a": "\\q"}', "\\q", "escape"),
        ('{"a": ]}', "]", "value"),
    ],
)
def test_malformed_call_error_names_what_was_expected(arguments: str, wrong: str, expected: str) -> None:
    error = strict(f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>')
    assert expected in error.detail
    assert caret(error) == wrong[0]


def test_truncated_call_error_has_span_and_raw() -> None:
    text = 'Hi. <tool_call>\n{"name": "f", "arguments": {"a": "b'
    error = strict(text)
    assert error.kind == "truncated_call"
    assert (error.start, error.end, error.at) == (4, len(text), len(text))
    assert error.raw == text[4:]
    assert "ended" in error.detail
    assert caret(error) == ""
    assert '{"name": "f", "arguments": {"a": "b' in str(error)


def test_cut_head_error_has_span_and_raw() -> None:
    text = 'Hi. <tool_call>\n{"na'
    error = strict(text)
    assert error.kind == "cut_head"
    assert (error.start, error.end) == (4, len(text))
    assert error.raw == text[4:]
    assert "name" in error.detail
    assert '{"na' in str(error)


@pytest.mark.parametrize(
    ("dialect", "text", "closer"),
    [
        ("hermes", 'Hi. <tool_call>\n{"name": "f", "arguments": {}}', "</tool_call>"),
        ("qwen3_coder", "<tool_call>\n<function=f>\n</function>", "</tool_call>"),
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>", "</function>"),
    ],
)
def test_missing_closer_error_has_a_caret(dialect: str, text: str, closer: str) -> None:
    error = strict(text, dialect)
    assert error.kind == "missing_closer"
    assert closer in error.detail
    assert error.at == len(text)
    *_, last = text.split("\n")
    assert last in str(error), "the caret stands under the text that is not closed"


def test_clean_output_does_not_raise() -> None:
    text = '<think>Hm.</think>\n\nHi.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    message = parse(text, "hermes", policies="strict")
    assert message.diagnostics == ()
    assert [call.name for call in message.tool_calls] == ["f"]


def test_policy_raises_only_for_its_own_kind() -> None:
    malformed = '<tool_call>{"name": "f", "arguments": {b}}</tool_call>'
    truncated = '<tool_call>{"name": "f", "arguments": {'
    only_malformed, only_truncated = Policies(malformed_call="error"), Policies(truncated_call="error")
    for text, policies in ((malformed, only_malformed), (truncated, only_truncated)):
        with pytest.raises(MalformedOutput):
            parse(text, "hermes", policies=policies)
    assert parse(truncated, "hermes", policies=only_malformed).finish_reason == "length"
    assert parse(malformed, "hermes", policies=only_truncated).content == malformed


def test_feed_and_finish_never_raise_on_model_output() -> None:
    text = 'Hi. <tool_call>{"name": "f", "arguments": {b}}</tool_call>'
    parser = Parser("hermes", policies="strict")
    events = [event for character in text for event in parser.feed(character)] + parser.finish()
    with pytest.raises(MalformedOutput):
        parser.fold().feed(events)
    with pytest.raises(MalformedOutput):
        parser.message(events)
    assert Parser("hermes").message(events).content == text
