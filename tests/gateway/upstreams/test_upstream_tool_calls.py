"""Chat upstreams that parse calls themselves, in all the forms that servers use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, events, post, send, serving
from unspool import CallArgs, CallEnd, CallStart, Event, Text
from unspool.errors import ProtocolError
from unspool.wire import CallDelta, ChatStreamDecoder, SurrogateJoiner, UpstreamCalls

Call = tuple[str, str]
P = CallDelta


def read(pieces: Sequence[CallDelta | Text], reason: Any = "stop") -> list[Call | str]:
    """Return calls as name and arguments, and texts, each joined."""
    calls = UpstreamCalls()
    events: list[Event] = []
    for piece in pieces:
        if isinstance(piece, Text):
            events += calls.follow([piece], 0)
        else:
            events += calls.add([piece], 0)
    events += calls.finish(reason, [], 0)
    out: list[Call | str] = []
    name, arguments = "", ""
    open_: int | None = None
    for event in events:
        if isinstance(event, CallStart):
            assert open_ is None
            open_, name, arguments = event.index, event.name, ""
            assert event.index == sum(isinstance(one, tuple) for one in out)
        elif isinstance(event, CallArgs):
            assert event.index == open_
            arguments += event.json
        elif isinstance(event, CallEnd):
            assert event.index == open_
            out.append((name, arguments if event.status == "complete" else f"{event.status}: {event.raw}"))
            open_ = None
        elif isinstance(event, Text):
            assert open_ is None
            out.append(event.text)
    assert open_ is None
    return out


SHAPES: dict[str, tuple[list[CallDelta | Text], list[Call | str]]] = {
    "as documented": (
        [P(0, "a", "f", ""), P(0, "", "", '{"x"'), P(0, "", "", ": 1}"), P(1, "b", "g", "{}")],
        [("f", '{"x": 1}'), ("g", "{}")],
    ),
    "id and name with every piece": (
        [P(0, "a", "f", ""), P(0, "a", "f", '{"x"'), P(0, "a", "f", ": 1}"), P(0, "a", "f", "")],
        [("f", '{"x": 1}')],
    ),
    "only the name with every piece": (
        [P(0, "", "f", '{"x"'), P(0, "", "f", ": 1}"), P(0, "", "f", "")],
        [("f", '{"x": 1}')],
    ),
    "a new id with every piece": (
        [P(0, "a", "f", '{"x"'), P(0, "b", "f", ": 1}")],
        [("f", '{"x": 1}')],
    ),
    "every call is number 0": (
        [P(0, "a", "f", "{}"), P(0, "b", "f", "{}"), P(0, "c", "g", "{}")],
        [("f", "{}"), ("f", "{}"), ("g", "{}")],
    ),
    "every call is number 0, without ids": (
        [P(0, "", "f", "{}"), P(0, "", "f", '{"x": "}"}'), P(0, "", "g", "")],
        [("f", "{}"), ("f", '{"x": "}"}'), ("g", "")],
    ),
    "two calls without arguments": ([P(0, "a", "f", ""), P(0, "b", "f", "")], [("f", ""), ("f", "")]),
    "parallel calls, interleaved": (
        [
            P(0, "a", "f", ""),
            P(1, "b", "g", ""),
            P(0, "", "", '{"x": '),
            P(1, "", "", '{"y": "}\\"'),
            P(0, "", "", "1}"),
            P(1, "", "", '"}'),
        ],
        [("f", '{"x": 1}'), ("g", '{"y": "}\\""}')],
    ),
    "text in the middle of a call": (
        [P(0, "a", "f", '{"x"'), Text("content", "Well.", 0, 0), P(0, "", "", ": 1}")],
        [("f", '{"x": 1}'), "Well."],
    ),
    "a space after the opener": (
        [P(0, "a", "f", ""), Text("content", "\n", 0, 0), P(0, "", "", "{}"), Text("content", "!", 0, 0)],
        [("f", "{}"), "\n", "!"],
    ),
    "text after a call without arguments": (
        [P(0, "a", "f", ""), Text("content", "Well.", 0, 0)],
        [("f", ""), "Well."],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_call_in_any_chunk_form_is_one_call(shape: str) -> None:
    pieces, expected = SHAPES[shape]
    assert read(pieces) == expected


def test_cut_calls_are_not_complete() -> None:
    pieces = [P(0, "a", "f", '{"x": '), P(1, "b", "g", '{"y"')]
    assert read(pieces, "length") == [("f", 'truncated: {"x": '), ("g", 'truncated: {"y"')]
    assert read(pieces) == [("f", 'malformed: {"x": '), ("g", 'malformed: {"y"')]


def test_continuation_of_a_finished_call_is_an_error() -> None:
    calls = UpstreamCalls()
    calls.add([P(0, "a", "f", "{}"), P(1, "b", "g", "")], 0)
    calls.add([P(0, "", "", " ")], 0)
    with pytest.raises(ProtocolError, match="had ended"):
        calls.add([P(0, "", "", "{")], 0)


def test_first_call_streams_while_others_arrive() -> None:
    calls = UpstreamCalls()
    calls.add([P(0, "a", "f", '{"x": '), P(1, "b", "g", "{")], 0)
    (more,) = calls.add([P(0, "", "", '"long')], 0)
    assert isinstance(more, CallArgs)


values = st.dictionaries(st.text(max_size=3), st.text(max_size=6) | st.lists(st.integers(), max_size=2))


@given(st.lists(values, min_size=1, max_size=4), st.data())
def test_every_interleaving_gives_the_same_calls(arguments: list[Any], data: st.DataObject) -> None:
    texts = [json.dumps(value) for value in arguments]
    left = [[P(i, f"c{i}", f"f{i}", ""), *(P(i, "", "", c) for c in text)] for i, text in enumerate(texts)]
    pieces: list[CallDelta] = [own.pop(0) for own in left]
    while any(left):
        own = data.draw(st.sampled_from([own for own in left if own]))
        pieces.append(own.pop(0))
    assert read(pieces) == [(f"f{i}", text) for i, text in enumerate(texts)]


# -- through the gateway


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess) -> Iterator[GatewayThread]:
    with serving(
        upstream="chat", url=engine.url, dialect="hermes", engine="openai", model="m", upstream_model="e"
    ) as server:
        yield server


USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def calls_of(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"delta": {"tool_calls": [{"index": index, "function": {"arguments": arguments}, **more}]}}


def test_lone_surrogate_waits_for_its_pair(engine: EngineProcess, gateway: GatewayThread) -> None:
    """Servers that count in UTF-16 cut a character in two, which strict JSON readers refuse."""
    opener = {"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}}
    raw = [
        json.dumps({"choices": [{"index": 0, **delta}]})
        for delta in (
            {"delta": {"content": "Ha\ud83d"}},
            {"delta": {"content": "\ude00!"}},
            opener,
            calls_of(0, '{"x": "\ud83d'),
            calls_of(0, '\ude00"}'),
        )
    ]
    engine.script(raw=[f"data: {line}\n\n".encode().hex() for line in raw], finish="tool_calls")
    answer = post(f"{gateway.url}/v1/chat/completions", {"messages": USER, "tools": [TOOL]})
    message = answer["choices"][0]["message"]
    assert message["content"] == "Ha\U0001f600!"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"x": "\U0001f600"}'


def test_text_before_a_call_is_not_reordered(engine: EngineProcess, gateway: GatewayThread) -> None:
    """Only a following structured call shows that the text was not a marker."""
    call = calls_of(0, "{}", id="c", type="function")
    call["delta"]["tool_calls"][0]["function"]["name"] = "f"
    own = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    script = {"chunks": ["1 is ", "<", call, " 2 <tool_c", own], "finish": "tool_calls"}
    engine.script(**script)
    client = ChatStreamDecoder()
    seen = ""
    for chunk in events(f"{gateway.url}/v1/chat/completions", {"messages": USER, "tools": [TOOL]})[:-1]:
        assert isinstance(chunk, dict)
        client.feed(chunk)
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        seen += (delta.get("content") or "") + "|" * len(delta.get("tool_calls") or ())
    assert seen.startswith("1 is <|")
    message = client.finish()
    assert message.content == "1 is < 2 <tool_c"
    assert [json.loads(one.arguments) for one in message.tool_calls] == [{}, {"x": 1}]

    engine.script(**script)
    whole = post(f"{gateway.url}/v1/chat/completions", {"messages": USER, "tools": [TOOL]})
    assert whole["choices"][0]["message"]["content"] == message.content


def test_surrogates_of_different_fields_do_not_join() -> None:
    joiner = SurrogateJoiner()
    first = joiner.join({"choices": [{"index": 1, "text": "a\ud83d"}]})
    other = joiner.join({"choices": [{"index": 0, "text": "b"}]})
    last = joiner.join({"choices": [{"index": 1, "text": "\ude00c"}]})
    assert [one["choices"][0]["text"] for one in (first, other, last)] == ["a", "b", "\U0001f600c"]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [({}, "stop"), ({"max_tokens": 5}, "length")],  # the engine reports 5 tokens
)
def test_unknown_server_may_end_without_a_finish_reason(
    engine: EngineProcess, gateway: GatewayThread, limit: dict[str, int], reason: str
) -> None:
    engine.script("Hello", finish=None)
    answer = post(f"{gateway.url}/v1/chat/completions", {"messages": USER, **limit})
    assert answer["choices"][0]["finish_reason"] == reason


def test_broken_stream_is_not_a_finish(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hello", finish=None, no_done=True)
    assert send(f"{gateway.url}/v1/chat/completions", {"messages": USER})[0] == 502


def test_usage_is_null_except_in_the_last_chunk(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hel", "lo")
    body = {"messages": USER, "stream_options": {"include_usage": True}}
    *before, last, done = events(f"{gateway.url}/v1/chat/completions", body)
    assert done == "[DONE]"
    assert isinstance(last, dict)
    assert last["usage"]["total_tokens"] == 12
    for chunk in before:
        assert isinstance(chunk, dict)
        assert chunk["usage"] is None


@pytest.mark.parametrize(("engine_name", "streamed", "top"), [("llamacpp", False, 1), ("openai", True, None)])
def test_logprobs_with_tools_use_the_engine_format(
    engine: EngineProcess, engine_name: str, *, streamed: bool, top: int | None
) -> None:
    entry = {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": [72, 105],
        "top_logprobs": [{"token": "Hi", "logprob": -1}],
    }
    choice = {"index": 0, "finish_reason": "stop", "logprobs": {"content": [entry]}}
    with serving(
        upstream="chat", url=engine.url, dialect="hermes", engine=engine_name, model="m", upstream_model="e"
    ) as server:
        if streamed:
            engine.script({"delta": {"content": "Hi"}, **choice}, finish=None)
        else:
            whole = {"choices": [{"message": {"content": "Hi"}, **choice}]}
            engine.script(type="application/json", raw=[json.dumps(whole).encode().hex()], whole=True)
        body = {"messages": USER, "tools": [TOOL], "logprobs": True}
        answer = post(f"{server.url}/v1/chat/completions", body)
    request = engine.last()
    assert (request["stream"], request["logprobs"], request.get("top_logprobs")) == (streamed, True, top)
    (logprob,) = answer["choices"][0]["logprobs"]["content"]
    assert (logprob["logprob"], logprob["top_logprobs"]) == (-0.5, [])


def test_call_in_text_is_closed_by_a_structured_call() -> None:
    from unspool import plan
    from unspool.gateway.generation.planned_choice_reader import Reader
    from unspool.wire import Delta

    tools = [{"type": "function", "function": {"name": name}} for name in ("now", "get_weather")]
    reader = Reader(plan("hermes", {"messages": [{"role": "user", "content": "Hi"}], "tools": tools}))
    deltas = reader.feed(Delta(0, '<tool_call>{"name": "now", "arguments": {"a": '))
    deltas += reader.feed(Delta(0, "", calls=[P(0, "id0", "get_weather", "{}")]))
    deltas += reader.feed(Delta(0, '<tool_call>{"name": "now", "arguments": {}}</tool_call>'))
    deltas += reader.feed(Delta(0, "", finish="stop"))
    ends = [(event.index, event.status) for event in deltas if isinstance(event, CallEnd)]
    starts = [(event.index, event.name) for event in deltas if isinstance(event, CallStart)]
    assert starts == [(0, "now"), (1, "get_weather"), (2, "now")]
    assert [index for index, _ in ends] == [0, 1, 2]
    assert ends[0][1] != "complete"


def test_parsers_of_a_split_output_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning reads all tools, so it must not be repeated for each choice or call."""
    from unspool.gateway.generation.planned_choice_reader import Reader
    from unspool.planning import ContentParsers, Plan, plan
    from unspool.wire import Delta

    times = 0
    with_prompt = Plan.with_prompt

    def counted(one: Plan, prompt: str | Sequence[int]) -> Plan:
        nonlocal times
        times += 1
        return with_prompt(one, prompt)

    monkeypatch.setattr(Plan, "with_prompt", counted)
    tools = [{"type": "function", "function": {"name": "f"}}]
    decided = plan("hermes", {"messages": [{"role": "user", "content": "Hi"}], "tools": tools})
    split = ContentParsers(decided)
    for _ in range(3):
        reader = Reader(decided, content_parsers=split)
        deltas = reader.feed(Delta(0, "", reasoning="Hm."))
        for number in range(3):
            deltas += reader.feed(Delta(0, "Well <tool"))
            deltas += reader.feed(Delta(0, "", calls=[P(number, f"id{number}", "f", "{}")]))
        texts = [event.text for event in deltas if isinstance(event, Text)]
        assert "".join(texts) == "Hm." + "Well <tool" * 3
    assert times == 1
