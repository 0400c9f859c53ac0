"""Reasoning that clients keep returns only to the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from test_javascript_clients import NODE, PACKAGES, node

from gateways import EngineProcess, GatewayThread, call_text, post, serving, template_file
from unspool.gateway import Settings
from unspool.gateway.apis.responses.request import read_responses_request
from unspool.gateway.server import supervisor
from unspool.gateway.state.sealed_reasoning import Seal

THOUGHT = "<think>\nA secret é \U0001f600.\n</think>\n\n"
ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("sealed"))
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


# -- sealing


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec="utf-8")))
def test_sealed_text_opens_and_shows_nothing(text: str, owner: str) -> None:
    seal = Seal("key").of(owner)
    sealed = seal.close(text)
    assert Seal("key").of(owner).open(sealed) == text
    assert sealed.isascii()
    assert sealed != seal.close(text)
    assert len(text) < 4 or text not in sealed


def test_seal_of_another_key_or_owner_does_not_open() -> None:
    seal = Seal("key").of("me")
    sealed = seal.close("text")
    assert Seal("other").of("me").open(sealed) is None
    assert Seal("key").of("you").open(sealed) is None
    assert Seal().of("me").open(Seal().of("me").close("text")) is None  # each start uses a new random key
    for at, letter in itertools.product(range(len(sealed)), "AB-_=\n"):
        changed = sealed[:at] + letter + sealed[at + 1 :]
        assert (seal.open(changed) is None) == (changed != sealed)
    for wrong in ("", "gAAAA", "unspool1.", "unspool1.AA", "unspool1.é"):
        assert seal.open(wrong) is None


def test_workers_open_seals_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def run(running: supervisor.Supervisor, reload: object) -> int:
        keys.append(running.settings.seal_key)
        return 0

    monkeypatch.setattr(supervisor.Supervisor, "run", run)
    settings = Settings(upstream="chat", url="http://127.0.0.1:1", dialect="hermes", port=0, workers=2)
    assert supervisor.supervise(settings, lambda *_: 0) == 0
    assert len(keys[0]) >= 32


# -- responses


def reasoning(**item: Any) -> dict[str, Any]:
    body = {"input": [{"type": "reasoning", "id": "rs_1", **item}, {"role": "user", "content": "Go on."}]}
    job = read_responses_request(body, seal=Seal("key").of("me"))
    return {"text": job.chat["messages"][0].get("reasoning_content"), "left_out": list(job.ignored)}


def test_unreadable_reasoning_falls_back_to_its_summary() -> None:
    summary = [{"type": "summary_text", "text": "Short."}]
    sealed = Seal("key").of("me").close("Long.")
    assert reasoning(summary=summary, encrypted_content=sealed) == {"text": "Long.", "left_out": []}
    other = reasoning(summary=summary, encrypted_content="gAAAA")
    assert other["text"] == "Short."
    assert other["left_out"] == ["encrypted_content: encrypted with another key or for another user"]
    assert reasoning(summary=summary, encrypted_content=None) == {"text": "Short.", "left_out": []}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("wish", "sealed"),
    [
        ({"include": ["reasoning.encrypted_content"]}, True),
        ({"store": False}, True),  # a client library needs this, but does not request it
        ({}, False),
    ],
)
def test_reasoning_is_sealed_for_clients_that_keep_it(
    engine: EngineProcess, gateway: GatewayThread, wish: dict[str, Any], *, sealed: bool, stream: bool
) -> None:
    engine.script(THOUGHT, "Hello.")
    body: Any = {"model": "m", "input": "Hi", **wish}
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        if stream:
            with client.responses.stream(**body) as stream_:
                done = [e.item for e in stream_ if e.type == "response.output_item.done"]
                response: Any = stream_.get_final_response()
            assert done[0].encrypted_content == response.output[0].encrypted_content  # type: ignore[union-attr]
        else:
            response = client.responses.create(**body)
    item = response.output[0]
    assert (item.encrypted_content is not None) == sealed
    if not sealed:
        return
    assert "secret" not in item.encrypted_content
    engine.script("Well.")
    back = {"type": "reasoning", "id": item.id, "summary": [], "encrypted_content": item.encrypted_content}
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "3"}
    post(f"{gateway.url}/v1/responses", {"input": [back, call, result], "tools": [ADD]})
    assert "<think>\nA secret é \U0001f600.\n</think>" in engine.last()["prompt"]


# -- the AI SDK, which uses the Responses API by default

STEPS = """
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText, tool, jsonSchema, stepCountIs } from "ai";
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" })("m");
const schema = { type: "object", properties: { a: { type: "integer" } } };
const tools = { add: tool({ inputSchema: jsonSchema(schema), execute: ({ a }) => String(a + 1) }) };
const out = [];
for (const { script, stream, store } of cases) {
  for (const one of script) await fetch(engine + "/script", { method: "POST", body: JSON.stringify(one) });
  const body = {
    model, prompt: "One and one?", tools, maxRetries: 0, stopWhen: stepCountIs(3),
    providerOptions: { openai: { store } },
  };
  if (stream) {
    const found = streamText({ ...body, onError() {} });
    for await (const part of found.fullStream) if (part.type === "error") throw part.error;
    out.push(await found.text);
  } else out.push((await generateText(body)).text);
}
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(
    not NODE or not (PACKAGES / "node_modules" / "openai").is_dir(),
    reason="no JavaScript clients",
)
def test_ai_sdk_continues_from_references_and_from_kept_items(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    script = [
        {"chunks": [THOUGHT, call_text("add", '{"a": 1}')]},
        {"chunks": ["<think>\nOnce more.\n</think>\n\n", call_text("add", '{"a": 2}')]},
        {"chunks": ["Done."]},
    ]
    cases = [
        {"script": script, "stream": stream, "store": store}
        for stream in (True, False)
        for store in (True, False)
    ]
    before = len(engine.seen())
    results = node(STEPS, url=gateway.url, engine=engine.url, cases=cases)
    assert results == ["Done."] * 4
    prompts = [seen["body"]["prompt"] for seen in engine.seen()[before:] if "prompt" in seen["body"]]
    assert len(prompts) == 12
    for prompt in prompts[2::3]:
        assert all(part in prompt for part in ("A secret é \U0001f600.", "Once more.", "One and one?"))
        assert prompt.count("<|im_start|>tool\n") == 2
