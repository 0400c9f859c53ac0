"""Chat templates render like Transformers, with a history that fits the template."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import UnspoolError, UsageError
from unspool.templates import (
    MALFORMED_KEY,
    ChatTemplate,
    ChatTemplateError,
    normalise_history,
)

USER = {"role": "user", "content": "Hi"}


def render(source: str, *messages: object, **variables: Any) -> str:
    return ChatTemplate(source).render(messages or [USER], **variables)


# -- rendering


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a\n    {% if true %}\nb\n    {% endif %}\nc", "a\nb\nc"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{% set x = 1 %}{% generation %}[{{ x }}]{% endgeneration %}!", "[1]!"),
        ("a {%- generation -%} b {%- endgeneration -%} c", "abc"),
        ("{{ {'a': '<é> & \"'} | tojson }}", '{"a": "<é> & \\""}'),
        ("{{ 'é' | tojson(ensure_ascii=True) }}", '"\\u00e9"'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=True, separators=(',', ':')) }}", '{"a":2,"b":1}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ dict(a=1).a }}{{ dict.fromkeys('b') }}", "1{'b': None}"),
        ("{% set n = namespace({'a': 1}, self=2) %}{% set n.b = 3 %}{{ n.a }}{{ n.self }}{{ n.b }}", "123"),
        ("{{ tools is defined }}{{ tools is none }}{{ documents is none }}", "TrueTrueTrue"),
        ("{{ add_generation_prompt }}", "True"),
        ("{{ '%s' | format('x') }}{{ '{}'.format(1) }}{{ 'ab' * 2 }}{{ 2 ** 10 }}", "x1abab1024"),
        ("{{ messages[0].content }}{{ messages[0]['nothing'] }}", "Hi"),
    ],
)
def test_template_features_render(source: str, expected: str) -> None:
    assert render(source) == expected


def test_strftime_now_is_today() -> None:
    assert render("{{ strftime_now('%Y') }}") in {str(datetime.now().year + d) for d in (0, -1)}  # noqa: DTZ005


def test_variables_reach_the_template() -> None:
    source = (
        "{{ bos_token }}|{{ eos_token is defined }}|{{ pad_token }}|{{ enable_thinking }}|{{ documents }}"
    )
    template = ChatTemplate(source, bos_token="<s>", eos_token=None, pad_token="<p>")
    assert (
        template.render([USER], enable_thinking=True, documents=[{"a": 1}]) == "<s>|False|<p>|True|[{'a': 1}]"
    )
    assert template.render([USER], bos_token="", enable_thinking=1, documents="d") == "|False|<p>|1|d"


def test_tools_reach_the_template() -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    assert ChatTemplate("{{ tools[0].function.name }}").render([USER], tools) == "now"
    assert ChatTemplate("{{ tools }}").render([USER], []) == "[]"


class Role(str, Enum):  # noqa: UP042 - str() of this one is not its value
    USER = "user"


@dataclass
class Plain:
    role: Role
    content: str


class Model:
    """A message object like those of an SDK."""

    def model_dump(self) -> dict[str, object]:
        return {"role": "assistant", "content": ("a", 1.5, True)}


def test_template_receives_plain_data() -> None:
    source = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    messages = [Plain(Role.USER, "Hi"), Model(), {"role": "x", "content": object()}]
    assert ChatTemplate(source).render(messages) == "user=Hi;assistant=('a', 1.5, True);x=<object>;"


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_the_field_names_templates_read(key: str) -> None:
    source = "{{ messages[0].reasoning_content }},{{ messages[0].thinking }}"
    assert render(source, {"role": "assistant", "content": "", key: "Hm"}) == "Hm,Hm"


def test_messages_are_not_modified() -> None:
    messages = [{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": "b"}]
    before = deepcopy(messages)
    source = "{{ messages[0].content[0].text }}"
    assert ChatTemplate(source).render(messages, continue_final_message=True) == "a"
    assert messages == before


# -- continuing the last message

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<g>{% endif %}"
)


def test_last_message_is_continued() -> None:
    prefill = {"role": "assistant", "content": "Sure, "}
    assert (
        ChatTemplate(CHAT).render([USER, prefill], continue_final_message=True)
        == "<user>Hi</><assistant>Sure, "
    )


def test_last_message_is_continued_where_template_trims() -> None:
    source = "{{ messages[-1].content | trim }}</s>"
    assert ChatTemplate(source).render([{"content": "a b "}], continue_final_message=True) == "a b"


def test_reasoning_is_continued() -> None:
    source = "<think>{{ messages[-1].reasoning_content }}</think>"
    message = {"role": "assistant", "content": "", "reasoning": "Hm"}
    assert ChatTemplate(source).render([message], continue_final_message="reasoning") == "<think>Hm"


@pytest.mark.parametrize(
    ("source", "messages", "field", "match"),
    [
        (CHAT, [], True, "no 'content'"),
        (CHAT, [{"role": "assistant"}], True, "no 'content'"),
        (CHAT, [{"content": [{"type": "image"}]}], True, "no text to continue"),
        ("{{ 1 }}", [{"content": "a", "reasoning": "b"}], "reasoning", "does not read 'reasoning'"),
        ("{{ messages[0].content | upper }}", [{"content": "a"}], True, "changes or omits"),
        ("{{ messages | length }}content", [{"content": "a"}], True, "changes or omits"),
    ],
)
def test_continuation_that_is_impossible_is_an_error(
    source: str, messages: list[object], field: bool | str, match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        ChatTemplate(source).render(messages, continue_final_message=field)


# -- errors


@pytest.mark.parametrize(
    ("source", "reason", "hint"),
    [
        (
            "\n\n{{ raise_exception('Roles must alternate!') }}",
            "Roles must alternate!",
            "refuses these messages",
        ),
        ("{{ functions + 'x' }}", "'functions' is undefined", r"render\(..., functions=...\)"),
        ("{{ messages[0].tool.name }}", "no attribute 'tool'", "A message or tool lacks"),
        ("{{ 'a' + none }}", "TypeError: can only concatenate", "normalise_history"),
        ("{{ 1 // 0 }}", "ZeroDivisionError", "cannot handle"),
        (
            "{{ messages | tojson | from_json }}",
            "No filter named 'from_json'",
            "could not read this Jinja template",
        ),
        ("{% if x %}", "Unexpected end of template", "could not read this Jinja template"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError", "cannot handle"),
        # The sandbox rejects these.
        ("{{ messages.append(1) }}", "unsafe", "refuses"),
        ("{{ ''.__class__.__mro__ }}", "unsafe", "refuses"),
        ("{{ namespace(_x=1) }}", "_x", "refuses"),
        ("{% set n = namespace() %}{% set n._x = 1 %}", "_x", "refuses"),
        # These exceed a limit.
        ("{% for i in range(9999) %}{{ 'a' }}{% endfor %}", "more than 1000 characters", "Raise the limit"),
        ("{{ ('a' * 1001) | length }}", "more than 1000 characters", "Raise the limit"),
        ("{{ (9999 * [0]) | length }}", "more than 1000 characters", "Raise the limit"),
        ("{{ 9 ** 9999 }}", "exponent too large", "refuses"),
    ],
)
def test_errors_suggest_a_fix(source: str, reason: str, hint: str) -> None:
    with pytest.raises(ChatTemplateError, match=hint) as caught:
        ChatTemplate(source, max_length=1000).render([USER])
    assert reason in caught.value.reason
    assert isinstance(caught.value, UnspoolError)


def test_errors_name_the_line() -> None:
    with pytest.raises(ChatTemplateError, match=r"\(line 3\)") as caught:
        render("{% macro m() %}\n\n{{ raise_exception('no') }}\n{% endmacro %}\n{{ m() }}")
    assert caught.value.line == 3


def test_rendering_has_a_time_limit() -> None:
    source = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match=r"longer than 0\.05 seconds"):
        ChatTemplate(source, max_seconds=0.05).render([USER])


def test_wrong_arguments_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="Jinja source text, got bytes"):
        ChatTemplate(b"")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="list of messages, got str"):
        ChatTemplate("").render("Hi")
    with pytest.raises(UsageError, match="message 1 must be a dictionary"):
        ChatTemplate("").render([USER, "Hi"])
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(UsageError, match="nested"):
        ChatTemplate("").render([{"role": "user", "content": deep}])


@pytest.mark.parametrize(
    "bound", [{"max_seconds": 0}, {"max_seconds": float("inf")}, {"max_megabytes": 0}, {"max_length": -1}]
)
def test_limits_must_be_valid(bound: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(bound))):
        ChatTemplate("", **bound)


def test_missing_jinja_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install 'unspool\[template\]'"):
        ChatTemplate("")


# -- history

CALLS = "{% for c in m.tool_calls %}[{{ c.id }} {{ c.function.name }} {{ ARGUMENTS }}]{% endfor %}"
OBJECT = "{{ c.function.arguments | tojson }}"
TAGS = "{% for k, v in c.function.arguments.items() %}<{{ k }}={{ v }}>{% endfor %}"
STRING = "{{ '' + c.function.arguments }}"
READING_PARTS = (
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{{ p[p.type] }}{% endfor %}{% endif %}"
)
EITHER = "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}"


def template(
    arguments: str = OBJECT, content: str = "{{ m.content }}", extra: str = "", calls: str = CALLS
) -> ChatTemplate:
    """Return a template that writes arguments, content and other fields in the given way."""
    calls = "{% if m.tool_calls %}" + calls.replace("{{ ARGUMENTS }}", arguments) + "{% endif %}"
    body = f"<{{{{ m.role }}}}>{extra}{content}{calls}{{{{ m.tool_call_id }}}}</>"
    return ChatTemplate(f"{{% for m in messages %}}{body}{{% endfor %}}")


def call(arguments: object = "{}", id: str | None = "call_1", name: str = "now") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(*calls: dict[str, Any], content: object = None, **extra: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **extra}


def result(id: str | None = "call_1", content: object = "Done.") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def arguments_of(message: Mapping[str, Any]) -> object:
    return message["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("written", "form"), [(OBJECT, "object"), (TAGS, "object"), (STRING, "string"), (EITHER, "either")]
)
def test_arguments_have_the_type_the_template_wants(written: str, form: str) -> None:
    wanting = template(written)
    assert wanting.capabilities.arguments == form
    for given_arguments in ('{"a":  1.0}', {"a": 1.0}):
        message = normalise_history([USER, assistant(call(given_arguments))], wanting)[1]
        arguments = arguments_of(message)
        if form == "object":
            assert arguments == {"a": 1.0}
        else:  # a template that wants text gets the arguments verbatim
            assert arguments == (given_arguments if isinstance(given_arguments, str) else '{"a": 1.0}')


def test_python_dict_in_text_is_not_accepted_as_arguments() -> None:
    assert template("{{ c.function.arguments }}").capabilities.arguments == "string"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        (None, {}),
        ('{"a": 1', {MALFORMED_KEY: '{"a": 1'}),
        ("[1]", {MALFORMED_KEY: "[1]"}),
        ([1], {MALFORMED_KEY: "[1]"}),
        ("Paris", {MALFORMED_KEY: "Paris"}),
        ('{"a": NaN}', {MALFORMED_KEY: '{"a": NaN}'}),
        ('{"a": 1e999}', {MALFORMED_KEY: '{"a": 1e999}'}),
        ({"a": float("inf")}, {MALFORMED_KEY: '{"a": Infinity}'}),
        ('{"a":' * 9999, {MALFORMED_KEY: '{"a":' * 9999}),
        ('{"a":' * 99 + "1" + "}" * 99, {MALFORMED_KEY: '{"a":' * 99 + "1" + "}" * 99}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": "\\ud83c\\udf89"}', {"a": "🎉"}),
        ("\ud800", {MALFORMED_KEY: "\ufffd"}),
    ],
)
def test_arguments_are_sanitised(text: object, value: object) -> None:
    assert arguments_of(normalise_history([USER, assistant(call(text))], template(OBJECT))[1]) == value
    arguments = arguments_of(normalise_history([USER, assistant(call(text))], template(STRING))[1])
    assert isinstance(arguments, str)
    arguments.encode()
    assert json.loads(arguments) == value or json.loads(text) == json.loads(arguments)  # type: ignore[arg-type]


WANTING_OBJECTS, WANTING_TEXT = template(TAGS), template(STRING)


@given(st.text() | st.dictionaries(st.text(), st.floats() | st.text()).map(json.dumps))
def test_missing_arguments_do_not_break_templates(text: str) -> None:
    history = [USER, assistant(call(text)), result()]
    for wanting in (WANTING_OBJECTS, WANTING_TEXT):
        wanting.render(normalise_history(history, wanting)).encode()


@pytest.mark.parametrize(
    ("dialect", "given_id", "pattern"),
    [
        (None, "anything", "anything"),
        ("hermes", "anything", "anything"),
        ("hermes", "", r"call_\w{24}"),
        ("hermes", None, r"call_\w{24}"),
        ("mistral", "abcDEF123", "abcDEF123"),
        ("mistral", "call_123456789", r"[0-9a-zA-Z]{9}"),
        ("kimi_k2", "functions.now:7", "functions.now:7"),
        ("kimi_k2", "functions.other:7", "functions.now:0"),
        ("kimi_k2", "call_1", "functions.now:0"),
    ],
)
def test_call_ids_fit_the_dialect(dialect: str | None, given_id: str | None, pattern: str) -> None:
    history = [USER, assistant(call(id=given_id)), result(given_id)]
    normalised = normalise_history(history, template(), dialect=dialect)
    assert re.fullmatch(pattern, normalised[1]["tool_calls"][0]["id"])
    assert normalised[2]["tool_call_id"] == normalised[1]["tool_calls"][0]["id"]
    # Normalisation is stable, so each prompt extends the previous one.
    assert normalised == normalise_history(history, template(), dialect=dialect)


def test_repeated_call_ids_become_unique() -> None:
    turn = [assistant(call(id="call_0"), call(id="call_1")), result("call_1"), result("call_0")]
    normalised = normalise_history([USER, *turn, *turn], template(), dialect="hermes")
    first, second = ([c["id"] for c in m["tool_calls"]] for m in normalised if "tool_calls" in m)
    assert first == ["call_0", "call_1"]
    assert len({*first, *second}) == 4
    results = [message["tool_call_id"] for message in normalised if message["role"] == "tool"]
    assert results == [*reversed(first), *reversed(second)]


def test_results_without_ids_belong_to_calls_in_order() -> None:
    history = [USER, assistant(call(id="a"), call(id="b")), result(None), result("unknown"), result(None)]
    ids = [message["tool_call_id"] for message in normalise_history(history, template())[2:]]
    assert ids[:2] == ["a", "b"]
    assert ids[2] not in ("", "a", "b")


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking", "thought"])
@pytest.mark.parametrize("given_key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_goes_to_the_field_the_template_reads(key: str, given_key: str) -> None:
    wanting = template(extra=f"{{% if enable_thinking is defined %}}{{{{ m.{key} }}}}{{% endif %}}")
    assert wanting.capabilities.reasoning_key == key
    message = normalise_history([USER, assistant(call(), **{given_key: "Hm"})], wanting)[1]
    assert {name: text for name, text in message.items() if text == "Hm"} == {key: "Hm"}
    assert "Hm" in wanting.render([message], enable_thinking=True)


def test_reasoning_may_be_a_content_part() -> None:
    wanting = template(content=READING_PARTS)
    assert wanting.capabilities.reasoning_key == "parts"
    message = normalise_history([assistant(call(), content="Yes", reasoning="Hm")], wanting)[0]
    assert message["content"] == [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Yes"}]
    assert normalise_history([message], wanting) == [message]


def test_reasoning_is_left_out_where_no_template_reads_it() -> None:
    message = normalise_history([assistant(call(), reasoning="Hm")], template())[0]
    assert "Hm" not in message.values()


def test_reasoning_and_content_are_split_where_they_exclude_each_other() -> None:
    refuse = "{% if m.content and m.thinking %}{{ raise_exception('one or the other') }}{% endif %}"
    wanting = template(extra=refuse + "{{ m.thinking }}")
    assert not wanting.capabilities.content_with_reasoning
    message = normalise_history([assistant(call(), content="Yes", reasoning="Hm")], wanting)[0]
    assert (message["thinking"], message["content"]) == ("Hm\n\nYes", "")
    wanting.render([message])


@pytest.mark.parametrize(
    ("content", "empty"),
    [
        ("{{ m.content }}", ""),  # Jinja would print None as a word
        ("{{ m.content.strip() }}", ""),
        ("{% if m.content is not none %}<text>{{ m.content }}</text>{% endif %}", None),
        ("{% if m.content == '' %}{{ raise_exception('empty') }}{% endif %}", None),
        ("{% if m.content %}{{ m.content }}{% endif %}", ""),
    ],
)
@pytest.mark.parametrize("given_content", ["", None])
def test_absent_content_has_the_value_the_template_wants(
    content: str, empty: str | None, given_content: str | None
) -> None:
    message = normalise_history([assistant(call(), content=given_content)], template(content=content))[0]
    assert message["content"] == empty


def test_absent_content_of_other_roles_is_empty() -> None:
    normalised = normalise_history(
        [{"role": "user"}, {"role": "assistant"}, result(content=None)], template()
    )
    assert [message["content"] for message in normalised] == ["", "", ""]


@pytest.mark.parametrize(
    ("content", "calls"),
    [
        ("{{ m.content or '' }}", "{% if not m.content %}" + CALLS + "{% endif %}"),
        ("{% if not m.tool_calls %}{{ m.content or '' }}{% endif %}", CALLS),
        ("{% if not m.tool_calls %}{{ m.content or '' }}{% endif %}", CALLS + "{{ m.content or '' }}"),
    ],
    ids=["hides calls", "is dropped", "comes after calls"],
)
def test_content_before_calls_gets_its_own_turn_where_needed(content: str, calls: str) -> None:
    wanting = template(content=content, calls=calls)
    assert not wanting.capabilities.content_before_calls
    normalised = normalise_history([USER, assistant(call(), content="Yes"), result()], wanting)
    assert [message["role"] for message in normalised] == ["user", "assistant", "assistant", "tool"]
    assert [message["content"] for message in normalised] == ["Hi", "Yes", "", "Done."]
    assert "tool_calls" not in normalised[1]
    text = wanting.render(normalised)
    assert -1 < text.find("Yes") < text.find("call_1 now")


def test_content_stays_with_calls_where_own_turn_is_refused() -> None:
    refuse = "{% if loop.previtem and loop.previtem.role == m.role %}{{ raise_exception('!') }}{% endif %}"
    wanting = template(content="{% if not m.tool_calls %}{{ m.content }}{% endif %}", extra=refuse)
    assert wanting.capabilities.content_before_calls
    normalised = normalise_history([USER, assistant(call(), content="Yes"), result()], wanting)
    assert [message["role"] for message in normalised] == ["user", "assistant", "tool"]
    wanting.render(normalised)


@pytest.mark.parametrize(
    "one",
    [
        "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}" + CALLS,
        "{% set c = m.tool_calls[0] %}{{ c.function.name }} {{ ARGUMENTS }}",
    ],
)
def test_calls_are_split_where_template_takes_one(one: str) -> None:
    wanting = template(calls=one)
    assert wanting.capabilities.calls == "one"
    history = [
        USER,
        assistant(call(id="a"), call(id="b"), call(id="c"), content="Yes"),
        result("b", "B"),
        result("a", "A"),
        USER,
        result("c", "late"),
    ]
    normalised = normalise_history(history, wanting)
    ids = [
        message["tool_calls"][0]["id"] if "tool_calls" in message else message["content"]
        for message in normalised
    ]
    assert ids == ["Hi", "a", "A", "b", "B", "c", "Hi", "late"]
    assert [message["content"] for message in normalised[1:6:2]] == ["Yes", "", ""]


def test_calls_the_template_ignores_become_content() -> None:
    wanting = template(calls="")
    turn = assistant(call('{"a": 1}'), content="Yes.", reasoning="Hm")
    written = 'Yes.\n<tool_call>\n{"name": "now", "arguments": {"a": 1}}\n</tool_call>'
    assert normalise_history([turn], wanting, dialect="hermes")[0] == {
        "role": "assistant",
        "content": written,
    }
    # Without a dialect, nothing says how to write the calls.
    assert "tool_calls" in normalise_history([turn], wanting)[0]
    # Reasoning is kept where the template itself removes its markers.
    knowing = template(calls="", content="{{ m.content.split('</think>')[-1] }}")
    content = normalise_history([turn], knowing, dialect="hermes")[0]["content"]
    assert content == f"<think>\nHm\n</think>\n\n{written}"


PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_parts_are_joined_where_template_reads_text(role: str) -> None:
    message = {"role": role, "content": PARTS}
    assert normalise_history([message], template())[0]["content"] == "a\nb"
    assert normalise_history([message], template(content=READING_PARTS))[0]["content"] == PARTS


def test_text_becomes_parts_where_template_reads_parts() -> None:
    template = ChatTemplate(
        "{% for m in messages %}<{{ m.role }}>"
        "{% for p in m.content %}{{ p.text if p.type == 'text' }}{% endfor %}"
        "{% for c in m.tool_calls %}[{{ c.function.name }}]{% endfor %}{% endfor %}"
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    history = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Noon."}]},
        {"role": "assistant", "content": "It is noon."},
    ]
    assert template.capabilities.roles_with_parts_only == {"system", "user", "assistant", "tool"}
    written = template.render(normalise_history(history, template), add_generation_prompt=False)
    assert written == "<system>Be brief.<user>Hi<assistant>[now]<tool>Noon.<assistant>It is noon."


def test_parts_other_than_text_are_an_error() -> None:
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(UsageError, match=r"message 0: .* remove the part of type 'image_url'"):
        normalise_history([message], template())


def test_unknown_message_fields_are_left_out() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "Yes",
        "tool_calls": [],
        "refusal": None,
        "audio": None,
        "name": "x",
    }
    assert normalise_history([message], template()) == [{"role": "assistant", "content": "Yes", "name": "x"}]
    noisy = {"index": 0, **call("{}"), "function": {"arguments": "{}", "name": "now", "parsed": None}}
    assert normalise_history([assistant(noisy)], template())[0]["tool_calls"] == [call({})]
    flat = {"name": "now", "arguments": {}, "id": "call_1"}
    assert normalise_history([assistant(flat)], template())[0]["tool_calls"] == [call({})]


def test_normalised_history_is_stable() -> None:
    history = [USER, assistant(call(), call(id="x"), content=PARTS, reasoning="Hm"), result(), result("x")]
    before = deepcopy(history)
    for wanting in (template(OBJECT), template(STRING), template(EITHER)):
        normalised = normalise_history(history, wanting, dialect="mistral")
        assert history == before
        assert normalise_history(normalised, wanting, dialect="mistral") == normalised


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ({"content": "Hi"}, "message 0 has no role"),
        (assistant({"id": "a", "function": {}}), "needs a function with a name"),
        (assistant({"id": "a", "function": None}), "needs a function with a name"),
        ({"role": "assistant", "content": "", "tool_calls": ["x"]}, "needs a function with a name"),
    ],
)
def test_invalid_messages_are_an_error(message: object, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        normalise_history([message], template())


def test_probes_need_no_variables_or_tools() -> None:
    # Template variables that are known only to render(), and tools that the template cannot write, cause no
    # error.
    source = template().source
    assert ChatTemplate("{{ functions + 'x' + today }}" + source).capabilities.calls == "many"
    assert (
        ChatTemplate("{% if tools %}{{ raise_exception('no') }}{% endif %}" + source).capabilities.calls
        == "many"
    )
    assert ChatTemplate("{{ raise_exception('never') }}").capabilities.calls == "none"
