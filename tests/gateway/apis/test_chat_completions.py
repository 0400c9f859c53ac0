"""Chat Completions through a gateway in front of an engine in a separate process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, events, get, post, send, serving, template_file
from unspool.wire import ChatStreamDecoder, is_poisoned

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
ASK = [{"role": "user", "content": "How is Paris?"}]
CALL = [
    'Let me see.\n<tool_call>\n{"name": "get_',
    'weather", "arguments": {"city": "Pa',
    'ris"}}\n</tool',
    "_call>",
]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(upstream="completions", url=engine.url, template=template) as server:
        yield server


def ask(gateway: GatewayThread, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = post(f"{gateway.url}/v1/chat/completions", {"messages": ASK, **body})
    return answer


def stream(gateway: GatewayThread, **body: Any) -> list[dict[str, Any]]:
    """Return the chunks, and assert that the stream ends correctly."""
    chunks = events(f"{gateway.url}/v1/chat/completions", {"messages": ASK, **body})
    assert chunks.pop() == "[DONE]"
    return [chunk for chunk in chunks if isinstance(chunk, dict)]


def refused(gateway: GatewayThread, **body: Any) -> dict[str, Any]:
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", {"messages": ASK, **body})
    assert status == 400, data
    error: dict[str, Any] = json.loads(data)["error"]
    assert error["type"] == "invalid_request_error"
    return error


OUTPUTS = {
    "text": ["Hel", "lo ", "there", "!"],
    "reasoning": ["<think>", "Hm", "m.", "</think>", "\n\n", "Hello."],
    "call": CALL,
    "two calls": [
        '<tool_call>{"name": "now", "arguments": {}}</tool_call>\n',
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>',
    ],
    "all": ["<think>Well.</think>", *CALL],
    "empty": [],
    "line separators": ["a\u2028b\u2029c\u0085d\u00e9\U0001f600"],
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("portion", [None, 3])
def test_stream_equals_whole_response(
    engine: EngineProcess, gateway: GatewayThread, name: str, portion: int | None
) -> None:
    how = {} if portion is None else {"portion": portion}
    engine.script(*OUTPUTS[name], **how)
    chunks = stream(gateway, tools=[WEATHER, CLOCK], stream_options={"include_usage": True})
    engine.script(*OUTPUTS[name], **how)
    whole = ask(gateway, tools=[WEATHER, CLOCK])

    reader = ChatStreamDecoder()
    for chunk in chunks:
        reader.feed(chunk)
    message = reader.finish()
    sent = whole["choices"][0]["message"]
    assert (message.content or "") == (sent["content"] or "")
    assert message.reasoning == sent.get("reasoning_content")
    assert [(c.name, c.arguments) for c in message.tool_calls] == [
        (c["function"]["name"], c["function"]["arguments"]) for c in sent.get("tool_calls", [])
    ]
    assert message.finish_reason == whole["choices"][0]["finish_reason"]
    assert {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks} == {
        (chunks[0]["id"], chunks[0]["created"], "engine-model")
    }
    assert chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"] == 12


def test_engine_receives_what_the_plan_says(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hi")
    ask(gateway, tools=[WEATHER], temperature=0.5, top_k=7, max_tokens=30, stop="END", seed=3, min_p=0.1)
    seen = engine.last()
    assert seen["prompt"].endswith("<|im_start|>assistant\n")
    assert "get_weather" in seen["prompt"]
    assert seen["add_special_tokens"] is False
    assert seen["skip_special_tokens"] is False
    wanted = {"temperature": 0.5, "top_k": 7, "max_tokens": 30, "stop": ["END"], "seed": 3, "min_p": 0.1}
    assert {key: seen[key] for key in wanted} == wanted
    assert seen["model"] == "engine-model"
    assert seen["stream"] is True


def test_response_without_limit_is_not_limited(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hi")
    ask(gateway)
    assert engine.last()["max_tokens"] is None  # the engine's default would be 16 tokens


# -- tools


def test_required_call_is_constrained_by_a_grammar(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(*CALL[1:])
    ask(gateway, tools=[WEATHER], tool_choice="required")
    tag = json.loads(engine.last()["structured_outputs"]["structural_tag"])
    assert tag["type"] == "structural_tag"
    assert "get_weather" in json.dumps(tag)


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "now"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "now"}}],
            },
        },
    ],
)
def test_named_call_excludes_other_tools(
    engine: EngineProcess, gateway: GatewayThread, choice: dict[str, Any]
) -> None:
    engine.script('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
    answer = ask(gateway, tools=[WEATHER, CLOCK], tool_choice=choice)
    tag = engine.last()["structured_outputs"]["structural_tag"]
    assert "now" in tag
    assert "get_weather" not in tag
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_tool_choice_none_gives_no_calls(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(*CALL)
    answer = ask(gateway, tools=[WEATHER], tool_choice="none")
    assert answer["choices"][0]["message"]["content"] == "".join(CALL)
    assert "tool_calls" not in answer["choices"][0]["message"]
    assert "get_weather" not in engine.last()["prompt"]


def test_parallel_tool_calls_false_gives_one_call(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(*OUTPUTS["two calls"])
    answer = ask(gateway, tools=[WEATHER, CLOCK], parallel_tool_calls=False)
    assert [call["function"]["name"] for call in answer["choices"][0]["message"]["tool_calls"]] == ["now"]


def test_cut_call_is_never_a_success(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(*CALL[:2], finish="length")
    chunks = stream(gateway, tools=[WEATHER])
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    engine.script(*CALL[:2], finish="length")
    answer = ask(gateway, tools=[WEATHER])
    assert answer["choices"][0]["finish_reason"] == "length"
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert is_poisoned(call["function"]["arguments"])


def test_json_schema_response_format_is_enforced(engine: EngineProcess, gateway: GatewayThread) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    engine.script('{"a": 1}')
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = ask(gateway, response_format=form)
    assert engine.last()["structured_outputs"] == {"json": schema}
    assert answer["choices"][0]["message"]["content"] == '{"a": 1}'
    engine.script("{}")
    ask(gateway, response_format={"type": "json_object"})
    assert engine.last()["structured_outputs"] == {"json": {"type": "object"}}


# -- choices, token counts, stop strings


def test_choices_do_not_mix(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("<thi", "nk>a</think>b", "c")
    chunks = stream(gateway, n=3, stream_options={"include_usage": True})
    for index in range(3):
        reader = ChatStreamDecoder(index=index)
        for chunk in chunks:
            reader.feed(chunk)
        assert (reader.finish().reasoning, reader.finish().content) == ("a", "bc")
    assert len({chunk["id"] for chunk in chunks}) == 1
    engine.script("x")
    assert [choice["index"] for choice in ask(gateway, n=2)["choices"]] == [0, 1]


def piece(text: str, *ids: int) -> dict[str, Any]:
    top = [{text: -0.5, "other": -1.0}]
    logprobs = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": top, "text_offset": [0]}
    return {"text": text, "logprobs": logprobs, "token_ids": list(ids)}


TOKENS = [
    "<th",
    "ink>",
    "pondering",
    "</think>",
    "\n\n",
    "Hi",
    " ",
    "<tool",
    "_call>",
    '{"name": "now", ',
    '"arguments": {}}',
    "</tool_call>",
]


def test_every_token_is_reported_exactly_once(engine: EngineProcess, gateway: GatewayThread) -> None:
    pieces = [piece(text, number) for number, text in enumerate(TOKENS)]
    engine.script(*pieces)
    wants = {"logprobs": True, "top_logprobs": 1, "return_token_ids": True, "tools": [CLOCK]}
    chunks = stream(gateway, **wants)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    logprobs = [
        entry for choice in choices if choice.get("logprobs") for entry in choice["logprobs"]["content"]
    ]
    assert [entry["token"] for entry in logprobs] == TOKENS
    assert [number for choice in choices for number in choice.get("token_ids", [])] == list(
        range(len(TOKENS))
    )
    assert logprobs[0]["top_logprobs"] == [{"token": "<th", "logprob": -0.5, "bytes": [60, 116, 104]}]
    seen = engine.last()
    assert (seen["logprobs"], seen["return_token_ids"]) == (1, True)

    engine.script(*pieces)
    choice = ask(gateway, **wants)["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == TOKENS
    assert choice["token_ids"] == list(range(len(TOKENS)))


def test_hidden_reasoning_does_not_leak_through_logprobs(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script(*(piece(text, 1) for text in TOKENS))
    status, data, _ = send(
        f"{gateway.url}/v1/chat/completions",
        {
            "messages": ASK,
            "include_reasoning": False,
            "logprobs": True,
            "return_token_ids": True,
            "stream": True,
        },
    )
    assert status == 200
    assert b"pondering" not in data
    assert b"token_ids" not in data


def test_reasoning_tokens_are_counted(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("<think>", "a", "b", "c", "</think>", "d")
    usage = ask(gateway)["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 3


def test_continuous_usage_counts_tokens(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("a", "b", "c")
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(gateway, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[0] == 0


def test_usage_is_sent_only_on_request(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("a")
    assert all("usage" not in chunk and chunk["choices"] for chunk in stream(gateway))


# -- thinking and history


def test_thinking_can_be_switched_off(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hi")
    ask(gateway, chat_template_kwargs={"enable_thinking": False})
    assert engine.last()["prompt"].endswith("<think>\n\n</think>\n\n")


def test_reasoning_can_be_hidden(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("<think>secret</think>", "Hi")
    message = ask(gateway, include_reasoning=False)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Hi"}


def test_history_reaches_the_template(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hi")
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'},
    }
    history = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How is "}, {"type": "text", "text": "Rome?"}]},
        {"role": "assistant", "content": None, "reasoning": "I should look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    ask(gateway, messages=history, tools=[WEATHER])
    prompt = engine.last()["prompt"]
    for text in (
        "<|im_start|>system\n",
        "Be brief.",
        "How is \nRome?",
        "I should look.",
        '{"city": "Rome"}',
        "sunny",
    ):
        assert text in prompt


def test_last_message_is_continued(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(" world")
    history = [*ASK, {"role": "assistant", "content": "Hello"}]
    answer = ask(gateway, messages=history, continue_final_message=True, add_generation_prompt=False)
    assert engine.last()["prompt"].endswith("<|im_start|>assistant\nHello")
    assert answer["choices"][0]["message"]["content"] == " world"


def test_unfinished_reasoning_is_continued(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(" thinking</think>Done")
    history = [*ASK, {"role": "assistant", "content": "<think>I am"}]
    message = ask(gateway, messages=history, continue_final_message=True)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (" thinking", "Done")


# -- rejected requests


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "picture"}]}]}, "messages[0].content[0].type"),
        ({"messages": None}, "messages"),
        ({"n": 0}, "n"),
        ({"n": "2"}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stop": ["a", ""]}, "stop"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "nope"}}},
            "tool_choice",
        ),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": "all"}, "tools"),
        ({"functions": [{"name": "x"}]}, "functions"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"chat_template_kwargs": {"enable_thinkin": True}}, "thinking"),
        ({"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_bad_request_names_the_field(gateway: GatewayThread, body: dict[str, Any], param: str) -> None:
    error = refused(gateway, **body)
    assert error["param"] == param or (param == "thinking" and "enable_thinkin" in error["message"])
    assert error["message"]


def test_any_name_selects_a_single_model(gateway: GatewayThread) -> None:
    answer = post(f"{gateway.url}/v1/chat/completions", {"model": "gpt-9", "messages": ASK})
    assert answer["model"] == "engine-model"
    assert get(f"{gateway.url}/v1/models/gpt-9")["id"] == "engine-model"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": [{"role": "user"', b"\xff", b"[" * 100_000]
)
def test_invalid_json_is_a_bad_request(gateway: GatewayThread, body: bytes) -> None:
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", body)
    assert status == 400
    assert json.loads(data)["error"]["code"] == "invalid_json"


def test_unknown_path_is_not_found(gateway: GatewayThread) -> None:
    status, data, headers = send(f"{gateway.url}/v1/nothing", {})
    assert status == 404
    assert json.loads(data)["error"]["message"]
    assert headers["x-request-id"].startswith("req_")


# -- other engines


@pytest.mark.parametrize("name", ["sglang", "llamacpp", "tgi", "mlx", "openai"])
def test_engines_receive_their_own_options(name: str, engine: EngineProcess, tmp_path: Path) -> None:
    settings = {
        "upstream": "completions",
        "url": engine.url,
        "engine": name,
        "template": template_file(tmp_path),
    }
    with serving(**settings) as gateway:
        engine.script(*CALL)
        answer = ask(gateway, tools=[WEATHER], tool_choice="required", top_k=3)
        seen = engine.last()
        # The other engines generate one choice at a time.
        for _ in range(1 if name in ("sglang", "openai") else 2):
            engine.script("a")
        choices = ask(gateway, n=2)["choices"]
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
    assert [choice["message"]["content"] for choice in choices] == ["a", "a"]
    assert ("top_k" in seen) == (name in ("sglang", "llamacpp", "mlx"))
    if name == "sglang":
        assert seen["response_format"]["type"] == "structural_tag"
        assert seen["skip_special_tokens"] is False
    elif name == "llamacpp":
        assert seen["grammar"].startswith("root ::=")
        assert "<tool_call>" in seen["preserved_tokens"]
    else:
        assert not {"structured_outputs", "grammar", "response_format"} & seen.keys()
        assert seen["max_tokens"] == 4096


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
SENT_SCHEMAS: dict[str, dict[str, Any]] = {
    "vllm": {"structured_outputs": {"json": SCHEMA}},
    "sglang": {"json_schema": json.dumps(SCHEMA, separators=(",", ":"))},
    "llamacpp": {"json_schema": SCHEMA},
    "tgi": {},
    "mlx": {},
    "openai": {},
}
"""Fields with which each engine is told the schema of an answer."""


@pytest.mark.parametrize("name", SENT_SCHEMAS)
def test_engines_receive_the_schema_of_an_answer(name: str, engine: EngineProcess, template: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    with serving(upstream="completions", url=engine.url, engine=name, template=template) as gateway:
        seen = []
        for body in ({"response_format": form}, {}):
            ask(gateway, **body)
            fields = ("structured_outputs", "json_schema", "grammar", "response_format")
            seen.append({key: engine.last()[key] for key in fields if key in engine.last()})
    assert seen == [SENT_SCHEMAS[name], {}]


def test_engine_is_recognised_by_its_model_list(gateway: GatewayThread) -> None:
    assert gateway.gateway.upstream.engine.name == "vllm"  # type: ignore[attr-defined]


# -- chat upstreams that leave markup in the text


def test_markup_from_a_chat_endpoint_is_repaired(engine: EngineProcess) -> None:
    with serving(upstream="chat", url=engine.url, dialect="qwen3") as gateway:
        engine.script("<think>hm</think>", *CALL)
        message = ask(gateway, tools=[WEATHER], temperature=0)["choices"][0]["message"]
        seen = engine.seen()[-1]
    assert seen["path"] == "/v1/chat/completions"
    assert seen["body"]["messages"] == ASK
    assert seen["body"]["tool_choice"] == "none"  # so that vLLM does not parse the text itself
    assert seen["body"]["temperature"] == 0
    assert message["reasoning_content"] == "hm"
    assert message["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}


def test_parsed_output_of_a_chat_endpoint_is_passed_on(engine: EngineProcess) -> None:
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "now", "arguments": ""}}
    second = {"index": 1, "id": "c2", "function": {"name": "get_weather", "arguments": '{"city": '}}
    deltas = [
        {"delta": {"reasoning_content": "hm"}},
        {"delta": {"content": "Well."}},
        {"delta": {"tool_calls": [first]}},
        {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}},
        {"delta": {"tool_calls": [second]}},
        {"delta": {"tool_calls": [{"index": 1, "function": {"arguments": '"Rome"}'}}]}},
    ]
    with serving(upstream="chat", url=engine.url, dialect="deepseek_r1", engine="openai") as gateway:
        engine.script(*deltas, finish="tool_calls")
        chunks = stream(gateway, tools=[WEATHER, CLOCK])
        reader = ChatStreamDecoder()
        for chunk in chunks:
            reader.feed(chunk)
        message = reader.finish()
        engine.script(*deltas, finish="tool_calls")
        whole = ask(gateway, tools=[WEATHER, CLOCK])["choices"][0]
    assert (message.reasoning, message.content) == ("hm", "Well.")
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        ("c1", "now", "{}"),
        ("c2", "get_weather", '{"city": "Rome"}'),
    ]
    assert whole["finish_reason"] == "tool_calls"
    assert [call["id"] for call in whole["message"]["tool_calls"]] == ["c1", "c2"]


def test_upstream_that_does_not_stream_is_read(engine: EngineProcess, gateway: GatewayThread) -> None:
    body = {
        "choices": [{"index": 0, "text": "".join(CALL), "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    engine.script(
        type="application/json", raw=[json.dumps(body).encode().hex()], finish=None, no_done=True, whole=True
    )
    answer = ask(gateway, tools=[WEATHER])
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
