"""Reported bugs of other parsers: every row of ``regressions.py``, in all kinds of chunks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from regressions import IDS, INCOMPLETE, ROWS, Case, Row, named, tool
from standard_scenarios import callers
from unspool import (
    CallArgs,
    Event,
    MalformedOutput,
    Message,
    Parser,
    Policies,
    Text,
    ToolCall,
    get_dialect,
    parse,
    render,
)
from unspool.planning import Plan, plan
from unspool.templates import ChatTemplate, normalise_history
from unspool.testing import ModelOutput as Request
from unspool.testing import ParseRun, assert_laws, chunkings, run_parser
from unspool.testing._linear_time_law import assert_linear, count_lines
from unspool.wire import (
    ChatStream,
    ChatStreamDecoder,
    MessagesStream,
    ResponsesStream,
    WireOptions,
    make_poison,
    sse,
)

BORDER = "⏵"
CALLERS = [dialect.name for dialect in callers()]
CUT = {"malformed_call", "truncated_call"}


def _named_cases() -> Iterator[object]:
    """Return the cases with the row's id as test name, and a suffix where several share it."""
    for row in ROWS:
        for case in row.cases:
            of_dialect = [other for other in row.cases if other.name == case.name]
            words = [row.id]
            words += [case.name] if len(row.cases) > 1 else []
            words += [case.label] if len(of_dialect) > 1 else []
            yield pytest.param(row, case, id="-".join(words))


NAMED = list(_named_cases())


def request(case: Case) -> Request:
    text = case.raw.replace(BORDER, "")
    return Request(text, case.tools, case.prompt, case.policies, case.backend_reason)


def ways(case: Case) -> Iterator[list[str]]:
    """Yield the chunking that the report names, and all others."""
    if BORDER in case.raw:
        yield case.raw.split(BORDER)
    yield from chunkings(case.raw.replace(BORDER, ""), splits=300, random=5)


def parts(message: Message) -> str:
    return "".join(
        "t" if isinstance(part, ToolCall) else "r" if part.channel == "reasoning" else "c"
        for part in message.parts
    )


def equal_arguments(arguments: str, expected: Any) -> bool:
    if isinstance(expected, str):
        return arguments == expected
    return json.dumps(json.loads(arguments)) == json.dumps(expected)


FIELDS = ("content", "reasoning", "finish_reason", "calls", "ids")
"""Fields that a client sees."""


def differences(message: Message, case: Case, fields: Sequence[str]) -> list[str]:
    """Return the fields that differ from the expected ones."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    alike = len(calls) == len(case.calls) and all(
        name == expected_name and equal_arguments(arguments, expected)
        for (name, arguments), (expected_name, expected) in zip(calls, case.calls, strict=True)
    )
    ids = [call.id for call in message.tool_calls]
    diagnostics = [diagnostic.kind for diagnostic in message.diagnostics]
    expected_and_got = {
        "content": (case.content, message.content),
        "reasoning": (case.reasoning, message.reasoning),
        "finish_reason": (case.finish or ("tool_calls" if case.calls else "stop"), message.finish_reason),
        "calls": (calls if alike else list(case.calls), calls),
        "ids": (ids if case.ids is None else list(case.ids), ids),
        "diagnostics": (diagnostics if case.diagnostics is None else list(case.diagnostics), diagnostics),
        "order": (case.order or parts(message), parts(message)),
    }
    return [
        f"{field}\n    expected: {expected!r}\n    got:      {got!r}"
        for field, (expected, got) in expected_and_got.items()
        if field in fields and expected != got
    ]


def check(row: Row, case: Case, reading: ParseRun) -> None:
    assert reading.message is not None
    differing = differences(reading.message, case, (*FIELDS, "diagnostics", "order"))
    if differing:
        events = "\n    ".join(map(str, reading.events))
        reading.fail(
            f"{row.id} ({row.thread})", "\n".join([row.saw, *differing, "  events:", f"    {events}"])
        )


@pytest.mark.parametrize(("row", "case"), NAMED)
def test_reported_bug_is_absent(row: Row, case: Case) -> None:
    check(row, case, run_parser(case.dialect, request(case)))
    assert_laws(case.dialect, request(case), ways(case))  # every chunking gives the same events
    if case.ids is not None:
        for chunks in ways(case):
            check(row, case, run_parser(case.dialect, request(case), chunks))


@pytest.mark.parametrize(("row", "case"), NAMED)
def test_reported_bug_is_absent_on_the_wire(row: Row, case: Case) -> None:
    """Most of these bugs were reported from a client that joins the deltas."""
    text = request(case).text
    message = run_parser(case.dialect, request(case)).message
    assert message is not None
    # A call that was already sent cannot be withdrawn; only the finish reason shows that it is incomplete.
    tells = ("finish_reason",) if {diagnostic.kind for diagnostic in message.diagnostics} & CUT else FIELDS
    for chunks in ([text], list(text), case.raw.split(BORDER)):
        differing = differences(client(stream(case, chunks)), case, tells)
        assert not differing, "\n".join([f"{row.id} {row.saw}", *differing])


Wire = ChatStream | ResponsesStream | MessagesStream


def stream(
    case: Case, chunks: Sequence[str], api: Callable[[Parser], Wire] = ChatStream, *, forced: bool = False
) -> list[dict[str, Any]]:
    """Return what a server sends for these chunks; by default, as Chat Completions."""
    parser = Parser(case.dialect, tools=case.tools, prompt=case.prompt, policies=case.policies, forced=forced)
    wire = api(parser)
    sent = [wire.feed(parser.feed(chunk)) for chunk in chunks]
    sent.append(wire.feed(parser.finish(case.backend_reason)))
    return [json.loads(json.dumps(chunk)) for portion in sent for chunk in portion]


def client(chunks: Sequence[dict[str, Any]]) -> Message:
    """Return what a client makes of the stream, through real JSON."""
    reader = ChatStreamDecoder(check_json=False)
    for chunk in chunks:
        reader.feed(json.loads(sse(chunk).removeprefix("data: ")))
    return reader.finish()


def deltas(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the call deltas of a stream."""
    return [
        delta
        for chunk in chunks
        for choice in chunk["choices"]
        for delta in choice["delta"].get("tool_calls", ())
    ]


# -- several tokens in one delta, reasoning and calls


def test_a14_every_item_is_done() -> None:
    """vllm PR #37071: the channel changes inside one delta, and done events are missing."""
    raw = (
        "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>commentary to=functions.f"
        "<|message|>{}<|call|>"
    )
    for chunks in chunkings(raw, splits=200):
        sent = stream(Case("harmony", raw), chunks, ResponsesStream)
        items = done(sent, "response.output_item.done", "item")
        assert [item["type"] for item in items] == ["reasoning", "function_call"]
        assert done(sent, "response.reasoning_text.done", "text") == ["r"]
        assert done(sent, "response.function_call_arguments.done", "arguments") == ["{}"]
        assert sent[-1]["type"] == "response.completed"


def test_b10_spelled_marker_is_text_with_ids() -> None:
    """llama.cpp#27661: cut at a mention of the marker."""
    vocabulary = byte_level("<think>", "</think>")
    think, close = (
        vocabulary.encode(tag, add_special_tokens=False).ids[0] for tag in ("<think>", "</think>")
    )
    parser = Parser("hermes", tokenizer=vocabulary)
    fold = parser.fold()
    for ids in ([think], spell("the tag `</think>` ends it"), [close], spell("ok")):
        for token in ids:
            fold.feed(parser.feed_tokens([token]))
    fold.feed(parser.finish("stop"))
    message = fold.message
    assert message.reasoning == "the tag `</think>` ends it"
    assert message.content == "ok"


def byte_level(*special: str) -> Tokenizer:
    """A vocabulary of single bytes and special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(literal, special=False, normalized=False) for literal in special])
    return tokenizer


def spell(text: str) -> list[int]:
    """Return text as ordinary tokens, one per byte, whatever it spells."""
    return list(byte_level().encode(text, add_special_tokens=False).ids)


# -- argument deltas doubled or dropped


@pytest.mark.parametrize(
    "text", ['{"a":[1, 2]}', '{"a": {"b": [1, {"c": "d"}]}, "e": "f"}', '{"a": 1.5, "b": true}']
)
def test_f05_nothing_is_sent_before_the_model_writes_it(text: str) -> None:
    """vllm PR #10398 (#9693, #9908, #10395): brackets that a partial-JSON parser closed are sent."""
    parser = Parser("hermes")
    raw = f'<tool_call>\n{{"name":"f","arguments":{text}}}\n</tool_call>'
    sent = ""
    for at, character in enumerate(raw):
        for event in parser.feed(character):
            sent += event.json if isinstance(event, CallArgs) else ""
        assert text.startswith(sent)
        assert not sent or raw[: at + 1].endswith(sent) or raw.index(text) + len(sent) <= at + 1
    assert sent == text


@pytest.mark.parametrize(
    ("dialect", "before", "after"),
    [
        (
            "qwen3_coder",
            "<tool_call>\n<function=f>\n<parameter=content>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            "minimax_m2",
            '<minimax:tool_call><invoke name="f"><parameter name="content">',
            "</parameter></invoke>",
        ),
        (
            "deepseek_v4",
            '<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="content" string="true">',
            "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        ),
        ("glm47", "<tool_call>f<arg_key>content</arg_key><arg_value>", "</arg_value></tool_call>"),
        ("hermes", '<tool_call>{"name":"f","arguments":{"content":"', '"}}</tool_call>'),
        ("harmony", '<|channel|>commentary to=functions.f<|message|>{"content":"', '"}<|call|>'),
        ("pythonic", "[f(content='", "')]"),
        ("gemma4", '<|tool_call>call:f{content:<|"|>', '<|"|>}<tool_call|>'),
    ],
)
def test_f08_long_values_stream(dialect: str, before: str, after: str) -> None:
    """vllm#36116, PRs #46351 #46382 #42879 #33218; llama.cpp #20177 #23173: a value comes as a whole."""
    value = "x < y and </b> (see p. 5). " * 1500  # 40 KB
    parser = Parser(dialect, tools=[tool("f", content="string")])
    pieces = arguments(parser.feed(before))
    for at in range(0, len(value), 16):
        pieces += arguments(parser.feed(value[at : at + 16]))
        pending = at + 16 - len("".join(pieces))
        assert pending <= 64, f"{pending} characters are held back at {at}"
    pieces += arguments(parser.feed(after) + parser.finish("stop"))
    assert json.loads("".join(pieces)) == {"content": value}


def arguments(events: Sequence[Event]) -> list[str]:
    return [event.json for event in events if isinstance(event, CallArgs)]


def test_f07_all_arguments_arrive() -> None:
    """vllm PR #44348: on the Responses wire, what comes with the last delta is never sent."""
    raw = '<tool_call>{"name":"f","arguments":{"a":[1, 2]}}</tool_call>'
    for chunks in chunkings(raw):
        sent = stream(Case("hermes", raw), chunks, ResponsesStream)
        pieces = [
            event["delta"] for event in sent if event["type"] == "response.function_call_arguments.delta"
        ]
        assert "".join(pieces) == '{"a":[1, 2]}'
        assert done(sent, "response.function_call_arguments.done", "arguments") == ['{"a":[1, 2]}']


def done(sent: Sequence[dict[str, Any]], kind: str, field: str) -> list[Any]:
    return [event[field] for event in sent if event["type"] == kind]


# -- crashes on malformed output


def test_g10_broken_arguments_in_history_do_not_reach_the_template() -> None:
    """vllm#43995; llama.cpp#25510; mistral-vibe#615: a cut call, replayed, ends the conversation."""
    source = (
        "{% for message in messages %}{% for call in message.tool_calls or [] %}"
        "{{ call.function.name }}:{{ call.function.arguments | tojson }}{% endfor %}{% endfor %}"
    )
    for arguments in ("{", '{"a": ', "", "null", "[1]", "oops", '"{}"'):
        function = {"name": "f", "arguments": arguments}
        history = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": "!"},
        ]
        (call,) = normalise_history(history, ChatTemplate(source))[1]["tool_calls"]
        assert isinstance(call["function"]["arguments"], dict | str)
        if isinstance(call["function"]["arguments"], str):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


# -- tool_choice, guided output


def test_i01_response_without_content_is_valid() -> None:
    """vllm#40147, PR #40148: a named tool_choice, but only reasoning: an assertion fails."""
    message = parse("<think>only reasoning</think>", "glm45", tools=[tool("f")])
    assert (message.reasoning, message.content, message.tool_calls) == ("only reasoning", None, ())
    answer = json.loads(json.dumps(ChatStream(Parser("glm45")).response(message)))["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert answer["message"]["content"] == ""
    assert answer["message"]["reasoning"] == "only reasoning"


@pytest.mark.parametrize("sent", ['{"a":', ""])
def test_i02_cut_call_is_an_incomplete_response(sent: str) -> None:
    """vllm PR #37258: tool_choice=required, and max_output_tokens: 500."""
    case = Case("generic_json", '[{"name":"f","parameters":' + sent, backend_reason="length")
    for chunks in chunkings(case.raw):
        last = stream(case, chunks, ResponsesStream)[-1]
        assert last["type"] == "response.incomplete"
        response = last["response"]
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        (item,) = response["output"]
        assert item["status"] == "incomplete"
        assert item["arguments"] == sent + make_poison(sent, "truncated")


NATIVE = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    "gemma4": "<|tool_call>call:f{a:1}<tool_call|>",
    "poolside_v1": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
}


@pytest.mark.parametrize("constraints", [("native", "json"), ("json",), ()], ids=str)
@pytest.mark.parametrize("dialect", NATIVE)
def test_i05_constrained_output_is_parsed(dialect: str, constraints: tuple[str, ...]) -> None:
    """vllm PRs #45795 #46486 #39870: tool_choice=required, JSON is expected, and native output leaks."""
    body = {"messages": USER, "tools": [tool("f", a="integer")], "tool_choice": "required"}
    decided = plan(dialect, body, constraints=constraints)
    guided = decided.tool_output == "guided_json"
    assert not guided or "json" in constraints
    text = '[{"name": "f", "parameters": {"a": 1}}]' if guided else NATIVE[dialect]
    for chunks in chunkings(text):
        message = parse_with_plan(decided, chunks)
        assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a": 1}')]
        assert (message.content, message.finish_reason) == (None, "tool_calls")


def test_i04_object_of_a_named_choice_is_the_arguments() -> None:
    """dynamo PR #14556: the request names the function, and its argument `name` becomes the name."""
    choice = {"type": "function", "function": {"name": "create_user"}}
    body = {"messages": USER, "tools": [tool("create_user", name="string")], "tool_choice": choice}
    decided = plan("hermes", body, constraints=("json",))
    for chunks in chunkings('{"name":"Alice"}'):
        (call,) = parse_with_plan(decided, chunks).tool_calls
        assert (call.name, call.arguments) == ("create_user", '{"name":"Alice"}')


USER = [{"role": "user", "content": "?"}]


def parse_with_plan(decided: Plan, chunks: Sequence[str]) -> Message:
    """Return what a plan's parser makes of these chunks."""
    parser = decided.parser()
    fold = parser.fold()
    for chunk in chunks:
        fold.feed(parser.feed(chunk))
    fold.feed(parser.finish("stop"))
    return fold.message


@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_i10_finish_reason_of_a_forced_call_follows_the_policy(reason: Any) -> None:
    """vllm PR #9209: stop.  OpenAI itself says stop, so there is a choice."""
    assert WireOptions().forced_finish_reason == "tool_calls"
    case = Case(named("f"), '{"a":1}')
    encoder = partial(ChatStream, options=WireOptions(forced_finish_reason=reason))
    for chunks in chunkings(case.raw):
        message = client(stream(case, chunks, encoder, forced=True))
        assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a":1}')]
        assert message.finish_reason == reason


# -- truncation


def test_j01_strict_policies_raise() -> None:
    """MiaAI-Lab#55; hermes-agent#7680: the truncated call goes unnoticed."""
    with pytest.raises(MalformedOutput):
        parse('<tool_call>{"name":"w","arguments":{"c":"aaa', "hermes", policies="strict")


def test_j04_cut_call_is_kept_as_a_diagnostic() -> None:
    """ollama PR #17284, #17274: everything after the tag vanishes."""
    raw = '<tool_call>{"name":"nope","arguments":{'
    assert [diagnostic.raw for diagnostic in parse(raw, "hermes").diagnostics] == [raw]


# -- the wire

TWO_CALLS = Case(
    "hermes",
    'Hi.\n<tool_call>{"name":"f","arguments":{"a":1}}</tool_call><tool_call>{"name":"g","arguments":{}}</tool_call>',
)


@pytest.fixture(params=["whole", "characters"])
def call_deltas(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    chunks = [TWO_CALLS.raw] if request.param == "whole" else list(TWO_CALLS.raw)
    return deltas(stream(TWO_CALLS, chunks))


def test_l01_name_is_sent_once(call_deltas: list[dict[str, Any]]) -> None:
    """llama.cpp#13774 PR #13800: final_resultfinal_result."""
    names = [delta["function"]["name"] for delta in call_deltas if "name" in delta["function"]]
    assert names == ["f", "g"]


def test_l02_index_is_always_sent(call_deltas: list[dict[str, Any]]) -> None:
    """codex#7517: one call per fragment."""
    assert sorted({delta["index"] for delta in call_deltas}) == [0, 1]


def test_l04_unchanged_fields_are_left_out(call_deltas: list[dict[str, Any]]) -> None:
    """opencode#26412 #24137; vllm#42696; bitrouter#560: name null on continuations."""
    for delta in call_deltas:
        if "id" not in delta:
            assert delta.keys() == {"index", "function"}
            assert delta["function"].keys() == {"arguments"}
        assert None not in [*delta.values(), *delta["function"].values()]


def test_l08_calls_are_counted_from_zero(call_deltas: list[dict[str, Any]]) -> None:
    """pipecat#4987: text before, so that the first call has index 1: a phantom call."""
    assert call_deltas[0]["index"] == 0


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("both", {"reasoning", "reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("reasoning_content", {"reasoning_content"}),
    ],
)
def test_l10_reasoning_has_the_field_the_client_reads(field: Any, keys: set[str]) -> None:
    """vllm#27755 #38488 PR #50624; mlx-vlm#1408; dify#2740: the field is renamed, and reasoning is lost."""
    assert WireOptions().reasoning_field == "both"
    case = Case("hermes", "<think>Hm.</think>Hi.")
    chunks = stream(case, list(case.raw), partial(ChatStream, options=WireOptions(reasoning_field=field)))
    seen = {key for chunk in chunks for key in chunk["choices"][0]["delta"] if key.startswith("reasoning")}
    assert seen == keys
    assert client(chunks).reasoning == "Hm."


EVERYTHING = Case("hermes", f"<think>Hm.</think>{TWO_CALLS.raw}\nBye.\n<think>Oh.</think>")
"""Reasoning also after text, where it is easily sent into the wrong block."""


def test_l05_delta_goes_to_a_block_of_its_type() -> None:
    """litellm#33224: a thinking delta in a text block: "Content block is not a thinking block"."""
    types = {
        "text_delta": "text",
        "thinking_delta": "thinking",
        "signature_delta": "thinking",
        "input_json_delta": "tool_use",
    }
    for chunks in chunkings(EVERYTHING.raw, splits=200):
        blocks: list[str] = []
        is_open = False
        for event in stream(EVERYTHING, chunks, MessagesStream):
            if event["type"] == "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"]["type"])
                is_open = True
            elif event["type"] == "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                assert types[event["delta"]["type"]] == blocks[-1]
            elif event["type"] == "content_block_stop":
                is_open = False
        assert blocks == ["thinking", "text", "tool_use", "tool_use", "text", "thinking"]


def test_l07_item_keeps_its_id() -> None:
    """vllm#42407 #45742 PR #56285; llama.cpp#20607 PR #24957; lemonade#3607; litellm#22102 PR #36356;
    sub2api#2875; llm-rosetta#56: events without item or index, ids that change."""
    for chunks in chunkings(EVERYTHING.raw, splits=200):
        sent = stream(EVERYTHING, chunks, ResponsesStream)
        assert [event["sequence_number"] for event in sent] == list(range(len(sent)))
        added = done(sent, "response.output_item.added", "item")
        finished = done(sent, "response.output_item.done", "item")
        ids = [item["id"] for item in added]
        assert len(set(ids)) == len(ids) == 6
        assert [item["id"] for item in finished] == ids
        assert sent[-1]["type"] == "response.completed"
        assert sent[-1]["response"]["output"] == finished
        opened: list[str] = []
        for event in sent:
            if event["type"] == "response.output_item.added":
                assert event["output_index"] == len(opened)
                opened.append(event["item"]["id"])
            elif "item_id" in event:
                assert event["item_id"] == opened[-1]
                assert event["output_index"] == len(opened) - 1


def test_l10_both_reasoning_fields_are_read() -> None:
    """The history uses the field that the client sent."""
    source = "{% for message in messages %}{{ message.reasoning_content }}{% endfor %}"
    for name in ("reasoning", "reasoning_content"):
        history = [{"role": "assistant", "content": "Hi.", name: "Hm."}]
        (message,) = normalise_history(history, ChatTemplate(source))
        assert message["reasoning_content"] == "Hm."


# -- token ids


def test_m01_mistral_ids_are_nine_alphanumerics() -> None:
    """vllm#9019 #10821; opencode#1680; pydantic-ai#3733: other ids are refused in the next turn."""
    for raw in (
        "[TOOL_CALLS]f[ARGS]{}",
        '[TOOL_CALLS][{"name":"f","arguments":{}}]',
        "[TOOL_CALLS]f[CALL_ID]x1[ARGS]{}",
    ):
        for dialect in ("mistral", "mistral_v11" if "[ARGS]" in raw else "mistral_v3"):
            for chunks in chunkings(raw):
                message = run_parser(dialect, raw, chunks).message
                assert message is not None
                assert [call.name for call in message.tool_calls] == ["f"]
                assert re.fullmatch("[A-Za-z0-9]{9}", message.tool_calls[0].id)


@pytest.mark.parametrize("dialect", CALLERS)
def test_m04_ids_are_unique(dialect: str) -> None:
    """dynamo PR #10608; vllm #50420: two calls of one function, the same id twice."""
    spec = get_dialect(dialect)
    arguments = "{}" if spec.names.fixed == "" else '{"code": "x"}'
    name = spec.names.fixed or "f"
    calls = tuple(ToolCall(spec.id_format.new(name, 0), name, arguments) for _ in range(3))
    text = render(Message(tool_calls=calls), spec, check=False)
    for policies in (None, Policies(call_ids="generated")):
        message = parse(text, dialect, policies=policies)
        assert len({call.id for call in message.tool_calls}) == len(message.tool_calls) == 3


def test_m04_duplicate_native_ids_are_replaced() -> None:
    """The model repeats an id."""
    raw = 2 * "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    message = parse(raw, "kimi_k2")
    assert [call.id for call in message.tool_calls] == ["functions.f:0", "functions.f:1"]
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["bad_id"]


def test_m05_id_is_in_the_first_delta_and_stays() -> None:
    """vllm #32768 #18412: the native id is lost, or missing in a stream."""
    raw = "<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    for chunks in chunkings(raw):
        got = deltas(stream(Case("kimi_k2", raw), chunks))
        assert [delta["id"] for delta in got if "id" in delta] == ["functions.f:7"]
        assert "id" in got[0]
    for dialect in ("hermes", "qwen3_coder"):
        text = render(Message(tool_calls=(ToolCall("", "f", "{}"),)), dialect)
        got = deltas(stream(Case(dialect, text), list(text)))
        assert [bool(delta.get("id")) for delta in got] == [True, *(False for _ in got[1:])]


# -- Unicode


def test_n01_characters_are_never_cut() -> None:
    """vllm PR #46159: a character of several tokens at the end of reasoning: U+FFFD leaks."""
    vocabulary = byte_level("<think>", "</think>")
    think, close = (
        vocabulary.encode(tag, add_special_tokens=False).ids[0] for tag in ("<think>", "</think>")
    )
    ids = [think, *spell("ré"), close, *spell("é🙂")]
    parser = Parser("hermes", tokenizer=vocabulary)
    events = [event for token in ids for event in parser.feed_tokens([token])] + parser.finish("stop")
    texts = [event.text for event in events if isinstance(event, Text) and event.channel == "content"]
    thought = [event.text for event in events if isinstance(event, Text) and event.channel == "reasoning"]
    assert ("".join(thought), "".join(texts)) == ("ré", "é🙂")


@pytest.mark.parametrize(
    ("dialect", "raw"),
    [
        ("hermes", '<think>😀</think>😀<tool_call>{"name":"f","arguments":{"t":"😀"}}</tool_call>'),
        (
            "qwen3_coder",
            "<think>😀</think>😀<tool_call><function=f><parameter=t>😀</parameter></function></tool_call>",
        ),
    ],
)
def test_n04_deltas_are_cut_between_code_points(dialect: str, raw: str) -> None:
    """openclaw PR #115536; eliza#30904: half a surrogate pair in each of two deltas."""
    case = Case(dialect, raw)
    for chunks in chunkings(raw):
        sent = stream(case, chunks)
        json.dumps(sent, ensure_ascii=False).encode()  # raises on a lone surrogate
        message = client(sent)
        assert (message.reasoning, message.content) == ("😀", "😀")
        assert json.loads(message.tool_calls[0].arguments) == {"t": "😀"}


# -- missing arguments


def test_o04_input_of_a_call_without_arguments_is_an_object() -> None:
    """ollama PR #15105: the input is null, and Anthropic's clients fail."""
    raw = '<tool_call>{"name":"f","arguments":{}}</tool_call><tool_call>{"name":"g"}</tool_call>'
    whole = MessagesStream(Parser("hermes")).response(parse(raw, "hermes"))
    assert [block["input"] for block in json.loads(json.dumps(whole))["content"]] == [{}, {}]
    for chunks in chunkings(raw):
        sent = stream(Case("hermes", raw), chunks, MessagesStream)
        assert [block["input"] for block in done(sent, "content_block_start", "content_block")] == [{}, {}]
        pieces = [event["delta"]["partial_json"] for event in sent if event["type"] == "content_block_delta"]
        assert "".join(pieces) in {"", "{}", "{}{}"}


# -- undeclared tools


@pytest.mark.parametrize("dialect", CALLERS)
def test_p02_undeclared_tools_follow_one_policy_in_every_dialect(dialect: str) -> None:
    """sglang#39640: 26 of 31 parsers honour the flag."""
    spec = get_dialect(dialect)
    if spec.names.fixed:
        pytest.skip("calls of this dialect have no name")
    arguments = '{"path": "/"}'
    text = render(Message(tool_calls=(ToolCall("call_1", "rm", arguments),)), spec)
    tools = [tool("ls", path="string")]
    for chunks in ([text], list(text)):
        forwarded = run_parser(spec, Request(text, tools), chunks).message
        assert forwarded is not None
        assert [(call.name, json.loads(call.arguments)) for call in forwarded.tool_calls] == [
            ("rm", {"path": "/"})
        ]
        kept = run_parser(spec, Request(text, tools, policies=Policies(unknown_tool="text")), chunks).message
        assert kept is not None
        assert kept.tool_calls == ()
        assert "rm" in (kept.content or "")
        assert kept.finish_reason == "stop"


# -- skip_special_tokens


def test_q01_markers_that_are_special_tokens_are_kept() -> None:
    """vllm PR #25281, #16190 #11903: the detokenizer removes the markers, and there is never a call."""
    for dialect in ("hermes", "mistral"):
        assert not plan(dialect, {"messages": USER, "tools": [tool("f")]}).skip_special_tokens


def test_q02_reasoning_markers_are_kept() -> None:
    """mlx-vlm#1351: all special tokens are removed, which leaves the text `thought` and an invalid call."""
    assert not plan("gemma4", {"messages": USER, "tools": [tool("f")]}).skip_special_tokens
    assert not plan("gemma4", {"messages": USER}).skip_special_tokens


# -- linear complexity


def test_r01_endless_arguments_are_linear() -> None:
    """sglang#31912 #18347: 22 arguments without end take 8 seconds, each further one doubles that."""
    for end in ("", ")", ")]", "]" * 50):
        for tools in (None, [tool("search")]):

            def work(size: int, end: str = end, tools: Any = tools) -> None:
                parse("[search(" + ", ".join(f"a{n}=1" for n in range(size)) + end, "pythonic", tools=tools)

            assert_linear(work, 500)
    assert_linear(lambda size: parse("[search(" * size, "pythonic"), 500)


def test_r02_endless_separators_are_linear() -> None:
    """vllm PR #55473: 520 KB of separators stall the event loop for 11 to 18 seconds."""
    text = "<｜tool▁calls▁begin｜>" + "<｜tool▁sep｜>" * 4_000

    def work(size: int) -> None:
        for dialect in ("deepseek_v3", "deepseek_v3_1"):
            message = run_parser(dialect, text[:size]).message
            assert message is not None
            assert message.tool_calls == ()
            run_parser(dialect, text[:size], [text[at : min(at + 20, size)] for at in range(0, size, 20)])

    assert_linear(work, 10_000)


def test_r04_long_prompt_costs_nothing_per_token() -> None:
    """vllm#54453 PRs #55223 #30056 #50886: every token scans the history."""

    def work(turns: int) -> int:
        prompt = "<think>Hm.</think>word " * turns + "<|im_start|>assistant\n<think>\n"
        parser = Parser("hermes", prompt=prompt)
        events: list[Event] = []
        taken = count_lines(
            lambda: events.extend(event for _ in range(1_000) for event in parser.feed("word "))
        )
        events += parser.finish("length")
        assert all(event.channel == "reasoning" for event in events if isinstance(event, Text))
        return taken

    assert work(200_000) <= 1.1 * work(0)


@pytest.mark.parametrize(
    ("dialect", "before", "after"),
    [
        ("hermes", '<tool_call>{"name":"f","arguments":{"t":"', '"}}</tool_call>'),
        ("qwen3_coder", "<tool_call><function=f><parameter=t>\n", "\n</parameter></function></tool_call>"),
        ("glm47", "<tool_call>f<arg_key>t</arg_key><arg_value>", "</arg_value></tool_call>"),
        ("harmony", '<|channel|>commentary to=functions.f<|message|>{"t":"', '"}<|call|>'),
        ("pythonic", "[f(t='", "')]"),
        ("gemma4", '<|tool_call>call:f{t:<|"|>', '<|"|>}<tool_call|>'),
    ],
)
def test_r05_long_argument_is_read_once(dialect: str, before: str, after: str) -> None:
    """vllm#44873: all text so far is parsed again for every delta."""

    def work(size: int) -> None:
        value = "word " * size
        text = before + value + after
        reading = run_parser(dialect, text, [text[at : at + 4] for at in range(0, len(text), 4)])
        assert reading.message is not None
        assert [json.loads(call.arguments) for call in reading.message.tool_calls] == [{"t": value}]

    assert_linear(work, 1_000)


def test_r05_long_text_is_joined_once() -> None:
    """Text of a message that arrives in many deltas is joined once."""

    def work(deltas: int) -> None:
        parser = Parser("hermes")
        fold = parser.fold()
        for _ in range(deltas):
            fold.feed(parser.feed("word"))
        fold.feed(parser.finish("stop"))
        assert fold.message.content == "word" * deltas

    assert_linear(work, 1_000)


# -- completeness


def test_every_reported_bug_has_a_test_or_is_listed() -> None:
    all_ids = {letter + number for letter, numbers in IDS.items() for number in numbers.split()}
    functions = {match[1].upper() for name in globals() if (match := re.match(r"test_([a-r]\d\d)_", name))}
    tested = {row.id for row in ROWS} | functions
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert tested == all_ids
    assert INCOMPLETE.keys() <= tested
