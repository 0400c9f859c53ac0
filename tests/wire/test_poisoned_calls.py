"""Calls that break after they were announced: no client can run them, streamed or whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import jiter
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.utils.json import parse_partial_json

from unspool import MalformedOutput, Parser, Policies
from unspool._core.conversions import make_broken_arguments_unparsable as broken
from unspool.testing import ModelOutput, assert_wires
from unspool.testing import _streamed_equals_whole_law as wires
from unspool.wire import (
    ChatStream,
    MessagesStream,
    ResponsesStream,
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
)
from wire_events import call, end

SINGLE_QUOTES = '<tool_call>\n{"name": "wipe", "arguments": {\'target\': \'tmp\'}}\n</tool_call>'
GOOD = '<tool_call>\n{"name": "wipe", "arguments": {"target": "tmp"}}\n</tool_call>'
CUT = '<tool_call>\n{"name": "wipe", "arguments": {"target": "/home/me/tmp'

STATUSES = pytest.mark.parametrize("status", ["malformed", "truncated"])


# -- poisoned arguments


@pytest.mark.parametrize(
    ("sent", "cut"),
    [
        ("", '{"\\u"]'),
        (" ", '{"\\u"]'),
        ("{", '"\\u"]'),
        ('{"a', '\\u"]'),
        ('{"a\\', 'u"]'),
        ('{"a\\\\', '\\u"]'),
        ('{"a": [', '"\\u"}'),
        ('{"a": ["x", {"b": [1', ',"\\u"}'),
        ('{"a"', ':"\\u"]'),
        ('{"a": "b"', ',"\\u"]'),
        ('{"a": ["[', '\\u"}'),
        ('{"a": [1]', ',"\\u"]'),
        ('{"a": 1}', ',"\\u"]'),
        ('{"a": 1}}', ',"\\u"]'),
    ],
)
def test_poison_fits_its_position(sent: str, cut: str) -> None:
    assert make_poison(sent, "truncated") == cut
    assert make_poison(sent, "malformed") == cut.replace('u"', 'u<malformed>"')


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=4).map(json.dumps)
beginnings = st.builds(lambda text, at: text[: at % (len(text) + 1)], objects, st.integers(0, 200))
junk = st.text(st.sampled_from("{}[]\"'\\,: ab1u\n"), max_size=12)


def reads(text: str, read: Any) -> bool:
    """Return whether any reader parses the text as an object."""
    try:
        return isinstance(read(text), dict)
    except Exception:  # noqa: BLE001 - it may say no in any way
        return False


@STATUSES
@given(beginnings, junk)
def test_poisoned_arguments_are_never_an_object(status: str, head: str, rest: str) -> None:
    sent = head + (rest if status == "malformed" else "")
    poisoned = sent + make_poison(sent, status)
    assert not reads(poisoned, json.loads)
    assert not reads(poisoned, parse_partial_json)  # LangChain's parser completes partial JSON
    assert not reads(poisoned, lambda text: jiter.from_json(text.encode()))


UNFINISHED_WORD = re.compile(r"(?:-|t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z")


@given(beginnings)
def test_cut_arguments_are_unfinished_to_partial_json_readers(sent: str) -> None:
    """Anthropic's client parses after each delta, and an error would end its stream."""
    inside_a_string = make_poison(sent, "truncated")[0] in "\\u"
    half_an_escape = inside_a_string and re.search(r"\\u[0-9a-f]{0,3}\Z", sent)
    whole = reads(sent, json.loads)
    assume(not (half_an_escape or whole))
    assume(inside_a_string or not UNFINISHED_WORD.search(sent))
    jiter.from_json((sent + make_poison(sent, "truncated")).encode(), partial_mode=True)


@STATUSES
@given(beginnings, junk)
def test_poison_can_be_removed(status: str, head: str, rest: str) -> None:
    sent = head + rest
    poisoned = sent + make_poison(sent, status)
    assert is_poisoned(poisoned)
    assert is_poisoned_as_malformed(poisoned) == (status == "malformed")
    back = remove_poison(poisoned)
    # The quote that opens a string may come from the model or from the poison.
    assert sent.startswith(back)
    assert re.fullmatch(r'[,:{]?"?\\?', sent.removeprefix(back).strip())


@given(objects)
def test_clean_arguments_are_unchanged(arguments: str) -> None:
    assert remove_poison(arguments) == arguments


# -- the law, and proof that it can fail


@pytest.mark.parametrize("text", [SINGLE_QUOTES, GOOD, CUT, GOOD + SINGLE_QUOTES, GOOD + CUT])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_wire_law_holds(text: str, reason: Any) -> None:
    assert_wires("hermes", ModelOutput(text, finish_reason=reason))


@pytest.mark.parametrize("text", [SINGLE_QUOTES, CUT])
@pytest.mark.parametrize("instead", ["", "{}", '"}}'])
def test_wire_law_violation_is_detected(text: str, instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken, "make_poison", lambda *_: instead)
    with pytest.raises(AssertionError, match="wires"):
        assert_wires("hermes", text)


def test_wire_law_detects_a_lost_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessagesStream, "_input_delta", lambda *_: {"type": "ping"})
    with pytest.raises(AssertionError, match="wires"):
        assert_wires("hermes", GOOD)


ARGUMENTS = {
    "1e999": '{"n": 1e999}',
    "-1E400": '{"n": [-1E400, 1]}',
    "5,000 digits": '{"n": ' + "7" * 5000 + "}",
    "30 digits": '{"n": 123456789012345678901234567890}',
    "spelling": '{"n": [1.10, 1e2, 0.1000, 12345678901234567890.5]}',
    "minus zero": '{"n": -0}',
    "duplicate keys": '{"n": 1, "m": {"k": 1, "k": 2}, "n": 2}',
    "deep": '{"n": ' + "[" * 500 + "]" * 500 + "}",
    "NaN": '{"n": NaN}',
    "Infinity": '{"n": [-Infinity]}',
}


@pytest.mark.parametrize(
    "policies", [Policies(), Policies(malformed_call="repair")], ids=["default", "repair"]
)
@pytest.mark.parametrize("dialect", ["hermes", "mistral", "qwen3_coder", "pythonic"])
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_the_same_text_on_all_wires(arguments: str, dialect: str, policies: Policies) -> None:
    texts = {
        "hermes": f'<tool_call>{{"name": "wipe", "arguments": {arguments}}}</tool_call>',
        "mistral": f"[TOOL_CALLS]wipe[ARGS]{arguments}",
        "qwen3_coder": "<tool_call>\n<function=wipe>\n"
        f"<parameter=a>\n{arguments}\n</parameter>\n</function>\n</tool_call>",
        "pythonic": f"[wipe(a={arguments})]",
    }
    text = texts[dialect]
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    assert_wires(dialect, ModelOutput(text, policies=policies), [[text], pieces])


@pytest.mark.parametrize("name", ["messages", "ollama"])
@pytest.mark.parametrize("arguments", ["1e2", "-0", "1.10", '{"a": 1, "a": 1}'])
def test_wire_law_detects_respelled_arguments(
    arguments: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = wires.WIRES[name]
    stream: Any = wire.stream
    anew = partial(stream, load_arguments=lambda text: json.dumps(json.loads(text)))
    monkeypatch.setitem(wires.WIRES, name, replace(wire, stream=anew))
    text = GOOD.replace('"tmp"', arguments)
    if name == "messages":  # the Responses API also has objects in its stream
        with pytest.raises(AssertionError, match=rf"wires \({name}\)"):
            assert_wires("hermes", text)
    else:
        with pytest.raises(AssertionError, match="the model wrote"):
            assert_wires("hermes", text)


@pytest.mark.parametrize(
    "number", ["1e999", "-1E400", "7" * 5000, "NaN", "-Infinity"], ids=lambda text: text[:9]
)
@pytest.mark.parametrize("policy", ["text", "repair"])
def test_partial_json_reader_sees_a_number_out_of_range(number: str, policy: Any) -> None:
    chunks = sent_by(MessagesStream, GOOD.replace('"tmp"', number), policies=Policies(malformed_call=policy))
    sent = "".join(chunk["delta"].get("partial_json", "") for chunk in chunks if "delta" in chunk)
    with pytest.raises(ValueError, match="line 1"):
        jiter.from_json(sent.encode(), partial_mode=True)
    assert not reads(sent, parse_partial_json)


# -- each API


def sent_by(wire: Any, text: str, *, policies: Policies | None = None, reason: Any = "stop") -> list[Any]:
    parser = Parser("hermes", policies=policies)
    stream = wire(parser)
    return [*stream.feed(parser.feed(text)), *stream.feed(parser.finish(reason))]


def test_near_json_text_of_the_model_is_reported() -> None:
    chunks = sent_by(ChatStream, SINGLE_QUOTES)
    pieces = [
        entry["function"]["arguments"]
        for chunk in chunks
        for entry in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert "".join(pieces) == "{'target': 'tmp'}}\n,\"\\u<malformed>\"]"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_responses_mark_poisoned_items() -> None:
    for text, reason, ended in ((SINGLE_QUOTES, "stop", "completed"), (CUT, "length", "incomplete")):
        last = sent_by(ResponsesStream, text, reason=reason)[-1]
        assert last["type"] == f"response.{ended}"
        assert [item["status"] for item in last["response"]["output"]] == ["incomplete"]


def test_whole_messages_response_omits_poisoned_calls() -> None:
    parser = Parser("hermes")
    cut: Any = MessagesStream(parser).response(
        parser.message(parser.feed(GOOD + CUT) + parser.finish("length"))
    )
    assert [block["input"] for block in cut["content"]] == [{"target": "tmp"}]
    assert cut["stop_reason"] == "max_tokens"
    parser = Parser("hermes")
    malformed = parser.message(parser.feed(SINGLE_QUOTES) + parser.finish("stop"))
    with pytest.raises(MalformedOutput, match='commit="call"'):
        MessagesStream(parser).response(malformed)


@pytest.mark.parametrize("text", [SINGLE_QUOTES, CUT])
def test_each_api_ends_a_stream_with_its_own_error(text: str) -> None:
    strict = Policies(malformed_call="error", truncated_call="error")
    chat = sent_by(ChatStream, f"Hi. {text}", policies=strict)
    assert chat[-1]["error"]["code"] in ("malformed_call", "truncated_call")
    assert chat[1]["choices"][0]["delta"] == {"content": "Hi."}
    failed = sent_by(ResponsesStream, text, policies=strict)[-1]
    assert failed["type"] == "response.failed"
    assert failed["response"]["output"] == []
    assert sent_by(MessagesStream, text, policies=strict)[-1]["error"]["type"] == "api_error"


@pytest.mark.parametrize("text", [GOOD, SINGLE_QUOTES])
@pytest.mark.parametrize("policy", ["text", "drop", "call"])
@pytest.mark.parametrize("commit", ["name", "call"])
def test_unknown_tool_is_an_error_of_streams_and_complete_responses(
    text: str, policy: Any, commit: Any
) -> None:
    policies = Policies(unknown_tool="error", malformed_call=policy, commit=commit)
    case = ModelOutput(f"Hi. {text}", tools=[{"name": "read"}], policies=policies)
    assert_wires("hermes", case)
    parser = Parser("hermes", tools=case.tools, policies=policies)
    stream = ChatStream(parser)
    chunks: list[Any] = [chunk for character in case.text for chunk in stream.feed(parser.feed(character))]
    assert chunks[-1]["error"]["code"] == "unknown_tool"


def test_error_found_at_the_end_is_reported() -> None:
    strict = Policies(truncated_call="error")
    chunks = sent_by(ChatStream, '<tool_call>\n{"na', policies=strict, reason="length")
    assert chunks[-1]["error"]["code"] == "cut_head"


def test_commit_call_sends_only_complete_calls() -> None:
    whole_calls = Policies(commit="call")
    text = sent_by(ChatStream, SINGLE_QUOTES, policies=whole_calls)
    assert text[1]["choices"][0]["delta"] == {"content": SINGLE_QUOTES}
    cut = sent_by(ChatStream, CUT, policies=whole_calls, reason="length")
    assert [chunk["choices"][0]["delta"] for chunk in cut] == [{"role": "assistant", "content": ""}, {}]
    assert cut[-1]["choices"][0]["finish_reason"] == "length"


def test_overly_deep_arguments_are_not_taken_for_empty() -> None:
    parser = Parser("hermes")
    deep = '{"a": ' * 100_000 + "1" + "}" * 100_000
    message = parser.message([*call(0, deep), end()])
    with pytest.raises(MalformedOutput):
        MessagesStream(parser).response(message)
