"""Streaming: when each event is emitted, for cases that have broken streaming parsers before.

The first part follows the streaming bugs in the history of engines' Mistral parsers, one section each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest

from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Dialect,
    Event,
    Finish,
    Message,
    Parser,
    Policies,
    Text,
    ToolCall,
    get_dialect,
    parse,
    render,
)
from unspool.dialects import Section, Wrapper
from unspool.testing import ModelOutput, ParseRun, assert_laws, chunkings, run_parser

WEATHER = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def tool(name: str, **types: str) -> dict[str, object]:
    properties = {key: {"type": type_} for key, type_ in types.items()}
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }


def feed(parser: Parser, *chunks: str) -> list[list[Event]]:
    """Return the events of each chunk."""
    return [parser.feed(chunk) for chunk in chunks]


def text(events: Iterable[Event], channel: str = "content") -> str:
    return "".join(event.text for event in events if isinstance(event, Text) and event.channel == channel)


def arguments(events: Iterable[Event], index: int = 0) -> str:
    return "".join(event.json for event in events if isinstance(event, CallArgs) and event.index == index)


def names(events: Iterable[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, CallStart)]


def statuses(events: Iterable[Event]) -> list[str]:
    return [event.status for event in events if isinstance(event, CallEnd)]


def calls(message: Message | None) -> list[tuple[str, str]]:
    assert message is not None
    return [(call.name, call.arguments) for call in message.tool_calls]


def parse_by_character(dialect: str, case: str | ModelOutput) -> ParseRun:
    raw = case if isinstance(case, str) else case.text
    return run_parser(dialect, case, list(raw))


# -- 1: incomplete JSON fragments


def test_argument_fragments_pass_as_they_arrive() -> None:
    parser = Parser("mistral")
    out = feed(parser, "[TOOL_CALLS]f[ARGS]", '{"ci', 'ty": "Par', 'is", "n": 1', '2, "ok": tr', "ue}")
    assert names(out[0] + out[1]) == ["f"]
    assert [arguments(events) for events in out[1:]] == [
        '{"ci',
        'ty": "Par',
        'is", "n": 1',
        '2, "ok": tr',
        "ue}",
    ]
    assert statuses(out[-1] + parser.finish()) == ["complete"]


def test_fragment_is_emitted_before_it_is_valid_json() -> None:
    parser = Parser("hermes")
    parser.feed('<tool_call>{"name": "f", "arguments": ')
    for fragment in ("{", '"', "k", '"', ":", " ", "[", "1", ",", " ", "{", "}", "]"):
        assert arguments(parser.feed(fragment)) == fragment


def test_escape_is_not_cut_in_two() -> None:
    parser = Parser("hermes")
    out = feed(parser, '<tool_call>{"name": "f", "arguments": {"s": "a\\', "u00", "e9\\", 'n"}}</tool_call>')
    events = [event for part in out for event in part]
    assert arguments(events) == '{"s": "a\\u00e9\\n"}'
    for piece in (event.json for event in events if isinstance(event, CallArgs)):
        assert not piece.endswith("\\"), piece
        assert piece.count("\\u") == piece.count("\\u00e9"), piece


# -- 2: malformed JSON while streaming

MALFORMED = '[TOOL_CALLS]f[ARGS]{"a": 1, oops}[TOOL_CALLS]g[ARGS]{"b": 2}'


def test_malformed_json_is_reported_and_the_next_call_is_read() -> None:
    raw = '[TOOL_CALLS]f[ARGS]{"a": 1, oops}'
    for chunks in chunkings(MALFORMED, splits=100):
        reading = run_parser("mistral", MALFORMED, chunks)
        assert names(reading.events) == ["f", "g"], chunks
        assert statuses(reading.events) == ["malformed", "complete"], chunks
        assert calls(reading.message) == [("g", '{"b": 2}')], chunks
        assert reading.message is not None
        assert reading.message.content == raw, chunks
        assert [(p.kind, p.raw) for p in reading.message.diagnostics] == [("malformed_call", raw)], chunks


def test_arguments_before_an_error_are_not_repeated() -> None:
    reading = parse_by_character("mistral", MALFORMED)
    assert arguments(reading.events, 0) == '{"a": 1, oops}'
    assert arguments(reading.events, 1) == '{"b": 2}'


@pytest.mark.parametrize(
    "junk", ['{"a": }', '{"a" 1}', "{'a': 1}", '{"a": 01}', '{"a": nul}', '{"a": "\\x"}', "{,}"]
)
def test_every_kind_of_malformed_json_ends_with_its_call(junk: str) -> None:
    raw = f'<tool_call>{{"name": "f", "arguments": {junk}}}</tool_call> Then: {HERMES}'
    reading = assert_laws("hermes", raw)
    assert statuses(reading.events) == ["malformed", "complete"]
    assert text(reading.events).strip() == "Then:"
    assert calls(reading.message) == [("get_weather", '{"city": "Paris"}')]


# -- 3: state across parallel calls


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
def test_parallel_calls_do_not_mix(chunk: int) -> None:
    raw = "".join(f'[TOOL_CALLS]f{i}[ARGS]{{"i": {i}, "s": "{"x" * i}"}}' for i in range(12))
    reading = run_parser("mistral", raw, [raw[at : at + chunk] for at in range(0, len(raw), chunk)])
    assert calls(reading.message) == [(f"f{i}", f'{{"i": {i}, "s": "{"x" * i}"}}') for i in range(12)]
    starts = [event for event in reading.events if isinstance(event, CallStart)]
    assert [event.index for event in starts] == list(range(12))
    assert len({event.id for event in starts}) == 12


def test_two_calls_of_one_function_stay_apart() -> None:
    reading = parse_by_character("mistral", WEATHER + WEATHER)
    assert calls(reading.message) == [("get_weather", '{"city": "Paris"}')] * 2


DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    '<｜DSML｜invoke name="g">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
)
ARRAY = '[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'


@pytest.mark.parametrize(
    ("dialect", "raw"),
    [
        ("mistral", f"[TOOL_CALLS]{ARRAY}"),
        ("hermes", f"<tool_call>{ARRAY}</tool_call>"),
        ("deepseek_v3_2", DSML),
    ],
)
def test_calls_of_one_section_are_separate(dialect: str, raw: str) -> None:
    reading = assert_laws(dialect, raw)
    assert calls(reading.message) == [("f", '{"a": 1}'), ("g", "{}")]


# -- 4: recovery after an error in the middle of a stream


def test_text_reasoning_and_calls_continue_after_an_error() -> None:
    raw = (
        'Hi. <tool_call>{"name": "f", "arguments": {"a": 1]}</tool_call> So.\n'
        f"<think>Hm.</think> Again: {HERMES} Bye."
    )
    reading = assert_laws("hermes", raw)
    assert statuses(reading.events) == ["malformed", "complete"]
    assert text(reading.events, "reasoning") == "Hm."
    for word in ("Hi.", "So.", "Again:", "Bye."):
        assert word in text(reading.events)


def test_error_in_a_tagged_call_ends_with_it() -> None:
    bad = "<tool_call>\n<function=f>\nno parameter\n</function>\n</tool_call>"
    good = "<tool_call>\n<function=g>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>"
    reading = assert_laws("qwen3_coder", f"{bad}\n{good}")
    assert statuses(reading.events) == ["malformed", "complete"]
    assert calls(reading.message) == [("g", '{"k": "v"}')]


# -- 5: split markers


@pytest.mark.parametrize("dialect", ["mistral", "hermes", "qwen3_coder", "deepseek_v3_2", "kimi_k2", "glm47"])
def test_marker_may_be_split_at_every_position(dialect: str) -> None:
    call = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
    raw = render(Message(content="Let me see.", tool_calls=(call,)), dialect)
    tools = [tool("get_weather", city="string")]
    for at in range(len(raw) + 1):
        reading = run_parser(dialect, ModelOutput(raw, tools), [raw[:at], raw[at:]])
        assert calls(reading.message) == [("get_weather", '{"city": "Paris"}')], at
        assert reading.message is not None
        assert reading.message.content == "Let me see.", at


def test_tool_calls_marker_may_be_split_in_three() -> None:
    marker = "[TOOL_CALLS]"
    raw = f'Sure.{marker}f[ARGS]{{"a": 1}}'
    begin = raw.index(marker)
    for a in range(begin, begin + len(marker)):
        for b in range(a, begin + len(marker) + 1):
            parser = Parser("mistral")
            out = feed(parser, raw[:a], raw[a:b], raw[b:])
            events = [event for part in out for event in part] + parser.finish()
            assert text(events) == "Sure.", (a, b)
            assert arguments(events) == '{"a": 1}', (a, b)


# -- 6: many calls in one delta


def test_many_calls_in_one_delta_are_read() -> None:
    parser = Parser("mistral")
    out = parser.feed(
        "".join(f'[TOOL_CALLS]f{i}[ARGS]{{"i": {i}}}' for i in range(50)) + "[TOOL_CALLS]g[ARGS]{"
    )
    assert names(out) == [f"f{i}" for i in range(50)] + ["g"]
    assert statuses(out) == ["complete"] * 50
    assert [arguments(out, i) for i in range(51)] == [f'{{"i": {i}}}' for i in range(50)] + ["{"]


def test_call_end_and_next_call_start_may_share_a_delta() -> None:
    parser = Parser("hermes")
    raw = HERMES + "\n" + HERMES.replace("Paris", "Rome")
    cut = raw.index("Paris") + 2
    later = raw.index("Rome") + 2
    out = feed(parser, raw[:cut], raw[cut:later], raw[later:])
    assert names(out[1]) == ["get_weather"]
    assert statuses(out[1]) == ["complete"]
    assert arguments(out[1], 0) == 'ris"}'
    assert arguments(out[1], 1) == '{"city": "Ro'


# -- 7: integers stay integers, strings stay strings


@pytest.mark.parametrize(
    "value",
    [
        "5",
        '"5"',
        "5.0",
        "1e3",
        "-0",
        "123456789012345678901234567890",
        '"007"',
        "true",
        '"true"',
        "null",
        '"null"',
        '""',
    ],
)
def test_values_keep_their_type_and_spelling(value: str) -> None:
    raw = f'[TOOL_CALLS]f[ARGS]{{"v": {value}, "l": [{value}]}}'
    reading = assert_laws("mistral", raw)
    assert calls(reading.message) == [("f", f'{{"v": {value}, "l": [{value}]}}')]


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        ("integer", "5", "5"),
        ("string", "5", '"5"'),
        ("string", "007", '"007"'),
        ("number", "5.0", "5.0"),
        ("integer", "123456789012345678901234567890", "123456789012345678901234567890"),
        ("boolean", "true", "true"),
        ("string", "true", '"true"'),
        ("array", "[1, 2]", "[1, 2]"),
        ("string", "[1, 2]", '"[1, 2]"'),
        ("null", "null", "null"),
        ("string", "null", '"null"'),
    ],
)
def test_tagged_values_have_the_type_of_their_schema(type_: str, raw: str, value: str) -> None:
    output = f"<tool_call>\n<function=f>\n<parameter=v>\n{raw}\n</parameter>\n</function>\n</tool_call>"
    reading = assert_laws("qwen3_coder", ModelOutput(output, [tool("f", v=type_)]))
    assert calls(reading.message) == [("f", f'{{"v": {value}}}')]


# -- 8: missing markers


@pytest.mark.parametrize(
    "raw",
    [
        'get_weather{"city": "Paris"}',
        'get_weather[ARGS]{"city": "Paris"}',
        '{"name": "get_weather", "arguments": {"city": "Paris"}}',
        "[TOOL_CALLS without a bracket",
        "TOOL_CALLS]get_weather",
        "The array [1, 2, 3] and {} are fine.",
    ],
)
def test_json_without_the_marker_is_text(raw: str) -> None:
    reading = assert_laws("mistral", raw)
    assert text(reading.events) == raw
    assert calls(reading.message) == []


def test_missing_closing_markers_do_not_lose_the_call() -> None:
    reading = assert_laws("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}')
    assert calls(reading.message) == [("f", '{"a": 1}')]
    reading = assert_laws("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}} and so on')
    assert calls(reading.message) == [("f", '{"a": 1}')]
    assert reading.message is not None
    assert reading.message.content == "and so on"
    assert "missing_closer" in [diagnostic.kind for diagnostic in reading.message.diagnostics]


# -- 9: no duplicated or missing text


@pytest.mark.parametrize(
    "dialect", ["mistral", "hermes", "qwen3_coder", "deepseek_v3_2", "harmony", "kimi_k2", "glm47"]
)
def test_finish_repeats_nothing(dialect: str) -> None:
    call = ToolCall("call_1", "f", '{"a": "Is it? Yes: [1, 2]; {ok}!"}')
    raw = render(Message(content="So, well: (yes).", tool_calls=(call,)), dialect)
    parser = Parser(dialect, tools=[tool("f", a="string")])
    out = [event for part in feed(parser, *raw) for event in part]
    last = parser.finish()
    assert json.loads(arguments(out + last)) == {"a": "Is it? Yes: [1, 2]; {ok}!"}
    assert text(out + last).rstrip() == "So, well: (yes)."
    assert not arguments(last), "the arguments were complete before the end"
    assert not text(last)
    assert statuses(out + last) == ["complete"]


@pytest.mark.parametrize("ending", [".", "!", "?", '"', "}", "]", "<", "[", "<tool", "[TOOL", "\n", "…"])
def test_last_characters_arrive(ending: str) -> None:
    for dialect in ("hermes", "mistral"):
        reading = parse_by_character(dialect, f"That is all{ending}")
        assert text(reading.events) == f"That is all{ending}"
        assert isinstance(reading.events[-1], Finish)


# -- streaming latency


def test_text_before_a_possible_marker_arrives_at_once() -> None:
    parser = Parser("hermes")
    assert parser.feed("Sure. <tool") == [Text("content", "Sure. ", 0, 6)]
    assert parser.pending == len("<tool")
    assert parser.feed("box>") == [Text("content", "<toolbox>", 6, 15)]
    assert parser.pending == 0


def test_word_like_a_marker_is_released_intact() -> None:
    parser = Parser("hermes")
    assert feed(parser, "<to", "day>") == [[], [Text("content", "<today>", 0, 7)]]


def test_ordinary_text_is_never_held() -> None:
    parser = Parser("hermes")
    for word in ("Hello", ", ", "world", "! 1 > 0 & ", "{}[]()", "\n\n", "天気", "🙂"):
        assert text(parser.feed(word)) == word
        assert parser.pending == 0


def test_text_hold_back_is_bounded_by_the_longest_marker() -> None:
    parser = Parser("hermes")
    parser.feed("Hello")
    longest = max(
        map(len, ("<tool_call>", "</tool_call>", "<think>", "</think>", *get_dialect("hermes").stop))
    )
    assert parser.max_pending is not None
    assert parser.max_pending <= longest


@pytest.mark.parametrize(
    "opener", ["<tool_call>", "<tool_call>\n", '<tool_call>{"name"', "<tool_call>" + " " * 400]
)
def test_whitespace_in_a_head_is_bounded(opener: str) -> None:
    parser = Parser("hermes")
    parser.feed(opener)
    for _ in range(30):
        parser.feed(" " * 100)
    assert parser.pending <= 2 * 512


# -- quoted markers


@pytest.mark.parametrize(
    ("dialect", "raw"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"s": "a</tool_call>b"}}</tool_call>'),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"s": "a</tool_call>b"}'),
        ("qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=s>\na</tool_call>b\n</parameter>\n</function>\n</tool_call>"),
        ("glm47", "<tool_call>f<arg_key>s</arg_key><arg_value>a</tool_call>b</arg_value></tool_call>"),
    ],
)  # fmt: skip
def test_closing_marker_inside_a_value_is_data(dialect: str, raw: str) -> None:
    reading = assert_laws(dialect, ModelOutput(raw, [tool("f", s="string")]))
    assert calls(reading.message) == [("f", '{"s": "a</tool_call>b"}')]
    assert reading.message is not None
    assert reading.message.content is None
    assert reading.message.diagnostics == ()


@pytest.mark.parametrize(
    "prose",
    [
        "Use the <tool_call> tag.",
        "The model writes <tool_call> and then </tool_call>.",
        "`<tool_call>` opens a call, `</tool_call>` closes it.",
        "<tool_call> is a tag",
        "Write <tool_call>{name} there.",
        'A call is <tool_call>{"tool": "f"}</tool_call>, roughly.',
    ],
)
def test_prose_about_markers_stays_prose(prose: str) -> None:
    for dialect in ("hermes", "qwen3_coder"):
        reading = assert_laws(dialect, prose)
        assert reading.message is not None
        assert reading.message.content == prose
        assert names(reading.events) == []
        assert reading.message.diagnostics == ()


# -- streaming of arguments


STREAMS = [
    ("hermes", '<tool_call>{"name": "f", "arguments": {"s": "', '"}}</tool_call>'),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"s": "', '"}'),
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=s>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    ("harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "', '"}<|call|>'),
    ("glm47", "<tool_call>f<arg_key>s</arg_key><arg_value>", "</arg_value></tool_call>"),
    ("pythonic", "[f(s='", "')]"),
    ("gemma4", '<|tool_call>call:f{s:<|"|>', '<|"|>}<tool_call|>'),
]


@pytest.mark.parametrize(("dialect", "head", "tail"), STREAMS)
def test_argument_text_streams_before_the_call_is_complete(dialect: str, head: str, tail: str) -> None:
    parser = Parser(dialect, tools=[tool("f", s="string")])
    events = parser.feed(head)
    assert names(events) == ["f"]
    seen = arguments(events)
    for word in ("The quick ", "brown fox", " jumps "):
        new = arguments(parser.feed(word))
        assert new, f"{word!r} was held"
        seen += new
    # Only whitespace may wait: it could belong to the closing marker.
    assert seen.rstrip().endswith("brown fox jumps")
    rest = parser.feed(tail) + parser.finish()
    assert json.loads(seen + arguments(rest)) == {"s": "The quick brown fox jumps "}
    assert statuses(rest) == ["complete"]


def test_name_precedes_the_arguments() -> None:
    parser = Parser("hermes")
    out = feed(parser, '<tool_call>{"name": "get_wea', 'ther"', ', "arguments"', ": {")
    assert [names(events) for events in out] == [[], ["get_weather"], [], []]
    assert arguments(out[3]) == "{"


def test_arguments_before_the_name_wait_for_it() -> None:
    parser = Parser("hermes")
    out = feed(
        parser, '<tool_call>{"arguments": {"s": "' + "x" * 5000, '"}, "na', 'me": "f"', "}</tool_call>"
    )
    assert out[:2] == [[], []]
    assert parser.max_pending is None or parser.pending == 0
    assert names(out[2]) == ["f"]
    assert json.loads(arguments(out[2] + out[3])) == {"s": "x" * 5000}


def test_reasoning_streams() -> None:
    parser = Parser("hermes")
    out = feed(parser, "<think>", "Let me", " see.", "</thi", "nk>Hello")
    assert [text(events, "reasoning") for events in out] == ["", "Let me", " see.", "", ""]
    assert text(out[4]) == "Hello"


PREFILLED = [
    ("hermes", '<tool_call>\n{"name": "f", "arguments": ', '{"a": "1"}}\n</tool_call>'),
    ("hermes", '<tool_call>\n{"name": "f", "arguments": {"a": ', '"1"}}\n</tool_call>'),
    ("mistral", "[TOOL_CALLS]f", '[ARGS]{"a": "1"}'),
    ("mistral", "[TOOL_CALLS]f[ARGS]", '{"a": "1"}'),
    ("harmony", "<|start|>assistant<|channel|>commentary to=functions.f<|message|>", '{"a": "1"}<|call|>'),
    (
        "harmony",
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        '{"a": "1"}<|call|>',
    ),
    (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>",
        '{"a": "1"}<|tool_call_end|><|tool_calls_section_end|>',
    ),
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n",
        "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n",
        "</function>\n</tool_call>",
    ),
]


@pytest.mark.parametrize(("dialect", "prompt", "raw"), PREFILLED)
def test_call_opened_by_the_prompt_continues(dialect: str, prompt: str, raw: str) -> None:
    reading = assert_laws(dialect, ModelOutput(raw, [tool("f", a="string")], prompt, continues=True))
    assert calls(reading.message) == [("f", '{"a": "1"}')]
    assert reading.message is not None
    assert reading.message.content is None


def test_calls_of_the_prompt_are_not_counted() -> None:
    prompt = '[TOOL_CALLS][{"name": "f", "arguments": {}}, '
    reading = assert_laws(
        "mistral", ModelOutput('{"name": "g", "arguments": {}}]', prompt=prompt, continues=True)
    )
    assert [(event.index, event.name) for event in reading.events if isinstance(event, CallStart)] == [
        (0, "g")
    ]


@pytest.mark.parametrize("dialect", ["hermes", "qwen3_coder", "pythonic", "harmony", "deepseek_v3_1"])
@pytest.mark.parametrize(
    "tail",
    [
        "<think>\n",
        "<think>\n\n</think>\n\n",
        "<think>\nHm.\n</think>\n",
        "[g(",
        "<tool_call>\n",
        "<|start|>assistant",
    ],
)
def test_prompt_can_be_read_repeatedly(dialect: str, tail: str) -> None:
    prompt = f"<|im_start|>assistant\n{tail}"
    offered = [None, [tool("g", a="string")], [tool("h")], []]

    def read_all() -> list[tuple[list[Event], int, str]]:
        results = []
        for tools in offered:
            parser = Parser(dialect, tools=tools, prompt=prompt, new_id=lambda name, index: f"{name}{index}")
            pending, mode = parser.pending, parser.mode
            events = parser.feed("a='x')] </think> Hi") + parser.finish()
            results.append((events, pending, mode))
        return results

    assert read_all() == read_all()


def test_turn_that_begins_far_back_is_found() -> None:
    prompt = "<|im_start|>assistant\n<think>\n" + "Let me see. " * 100
    assert Parser("hermes", prompt=prompt, continues=True).feed("So") == [Text("reasoning", "So", 0, 2)]
    closed = prompt + "</think>\n\n" + "It is so. " * 100
    assert Parser("hermes", prompt=closed, continues=True).feed("So") == [Text("content", "So", 0, 2)]


def test_batch_equals_the_stream_fed_once() -> None:
    raw = f"<think>Hm.</think>Let me see.\n{HERMES}\n{HERMES}"
    whole = parse(raw, "hermes")
    parser = Parser("hermes")
    fold = parser.fold()
    for character in raw:
        fold.feed(parser.feed(character))
    fold.feed(parser.finish())
    assert _anonymous(fold.message) == _anonymous(whole)


def _anonymous(message: Message) -> tuple[object, ...]:
    calls_: Sequence[object] = calls(message)
    return message.reasoning, message.content, tuple(calls_), message.diagnostics, message.finish_reason


def test_repeated_opener_has_no_header_the_first_time() -> None:
    message = parse("<|channel|><|channel|>final<|message|>Hi", "harmony", prompt="")
    assert message.content == "Hi"
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["broken_header"]


def test_many_openers_without_headers_are_read_one_by_one() -> None:
    parser = Parser("harmony", prompt="")
    for _ in range(1_000):
        parser.feed("<|channel|>")
        assert parser.pending <= len("<|channel|><|channel|>")


def test_empty_chunk_changes_nothing() -> None:
    pieces = ["<tool_call>\n<function=f>\n<parameter=a>\n", "", "<parameter=b>1</parameter>\n"]
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert_laws("qwen3_coder", ModelOutput("".join(pieces), ({"name": "f", "parameters": schema},)), [pieces])


def test_content_ending_like_an_opener_is_content() -> None:
    message = parse("all\n1 >>>>now\n{}", "functionary_v32")
    assert message.content == "1 >"
    assert [call.name for call in message.tool_calls] == ["now"]


# -- length of headers

ARGUMENTS = "<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"


def parse_in_pieces(dialect: str | Dialect, text: str) -> list[Event]:
    """Return the normalised events of the text, and assert the same for single characters."""
    case = ModelOutput(text, policies=Policies(call_ids="generated"))
    assert_laws(dialect, case, [[text], list(text)])
    return run_parser(dialect, case, [text]).events


@pytest.mark.parametrize("dialect", ["glm47", "spark25", "hy_v4"])
@pytest.mark.parametrize("blanks", range(500, 520, 3))
def test_name_is_confirmed_within_the_head_limit(dialect: str, blanks: int) -> None:
    parse_in_pieces(dialect, "<tool_call>f" + " " * blanks + ARGUMENTS)


@pytest.mark.parametrize("dialect", ["harmony", "beam", "muse_glimmer"])
@pytest.mark.parametrize("length", [200, 230, 240, 250, 300])
def test_overlong_header_is_not_cut(dialect: str, length: int) -> None:
    parse_in_pieces(dialect, f"<|channel|>analysis to=f{'y' * length}<|message|>x")


def test_unconfirmable_closing_marker_is_released() -> None:
    head = '<|channel|>analysis to=f<|message|><rfl:parameter name="a">\nx'
    whole, pieces = Parser("beam"), Parser("beam")
    feed(whole, head, "\n</rfl:parameter> to")
    feed(pieces, head, "\n</rfl:parameter>", " ", "t", "o")
    assert pieces.pending == whole.pending == 0


def test_unambiguous_marker_opens_at_once() -> None:
    parser = Parser("hermes")
    assert [type(event).__name__ for event in parser.feed("<think>")] == ["Markup"]
    assert text(parser.feed("a"), "reasoning") == "a"
    assert [type(event).__name__ for event in parser.feed("</think>")] == ["Markup"]


# -- caching of repeated texts


@pytest.mark.parametrize("times", [1, 2, 3])
def test_known_false_alarm_releases_its_closing_marker(times: int) -> None:
    pieces = [HERMES, "So ", *["<tool_call>!", "a", "</tool_call>", "."] * times]
    for _ in range(2):  # the second pass uses the cache
        parser = Parser("hermes")
        events = [event for piece in pieces for event in parser.feed(piece)]
        assert text(events) == "So " + "<tool_call>!a</tool_call>." * times


@pytest.mark.parametrize("marker", ["<tool_call>", "<city>", "<item>", "</city>"])
def test_tag_like_text_in_a_string_is_data(marker: str) -> None:
    value = f"]<]minimax[>[{marker} x"
    call = ToolCall("call_1", "get_weather", json.dumps({"city": value}))
    tools = [tool("get_weather", city="string")]
    assert (
        parse(render(Message(tool_calls=(call,)), "minimax_m3"), "minimax_m3", tools=tools).diagnostics == ()
    )


# -- generated dialects


def test_marker_may_be_long() -> None:
    marker = f"<{'a' * 500}>"
    dialect = Dialect(name="long", call=("<c>{name}{args}</c>",), drop=(marker,), reasoning=())
    assert text(parse_in_pieces(dialect, f"Hi {marker[:300]} there{marker}.")) == f"Hi {marker[:300]} there."


def test_name_ends_before_its_terminator() -> None:
    dialect = Dialect(name="stop", call=("<c>{name}:<a>{args}</c>",), section=("{calls}",), reasoning=())
    assert names(parse_in_pieces(dialect, '<c>f:<a>{"x": 1}</c>')) == ["f"]


def test_late_message_opener_is_text() -> None:
    dialect = Dialect(
        name="later",
        call=("{name}{args}",),
        section=(Section("ab{calls}c", only_at_start=True),),
        drop=("a{_}|z",),
        reasoning=(),
    )
    assert text(parse_in_pieces(dialect, "Hi ab1")) == "Hi ab1"


def test_quoted_control_token_is_not_text() -> None:
    dialect = Dialect(name="both", call=("<|c|>{envelope}<|d|>", "<|d|>{envelope}<|c|>"), reasoning=())
    assert text(parse_in_pieces(dialect, "`<|c|>  x")) == "`  x"


def test_late_message_opener_hides_no_marker() -> None:
    dialect = Dialect(
        name="hides", call=("<c>{envelope}</c>",), reasoning=(Wrapper("<b>{text}<", only_at_start=True),)
    )
    assert text(parse_in_pieces(dialect, "x<b>")) == "xb>"


def test_nested_false_alarm_is_found_again() -> None:
    dialect = Dialect(name="inside", call=("<a<b>{envelope}</a>", "<b>{envelope}</b>"), reasoning=())
    call = '<b>{"name": "f", "arguments": {}}</b>'
    for _ in range(2):  # the second pass uses the cache
        events = parse_in_pieces(dialect, f"{call}So <a<b>!</b>.</a>")
        assert text(events) == "So <a<b>!</b>.</a>"


def test_quote_before_a_call_does_not_quote_what_follows() -> None:
    dialect = Dialect(name="quoted", call=("<|call|>{envelope}<|/call|>",))
    events = parse_in_pieces(dialect, 'x "<|call|>{"name": "f", "arguments": {}}<|/call|><think>hm</think>')
    assert text(events, "reasoning") == "hm"
