"""Agent loops of the published JavaScript clients: a tool runs only if the model's call was complete.

Needs Node and the packages in ``.clients``, which ``make test`` fetches where there is npm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from test_agents import BROKEN, DIALECTS, GOOD, allowed_arguments
from test_javascript_clients import NODE, PACKAGES, node

from gateways import EngineProcess, GatewayThread, serving, template_file

pytestmark = pytest.mark.skipif(
    not NODE or not (PACKAGES / "node_modules" / "openai").is_dir(),
    reason="no JavaScript clients",
)

TOOL = """
let ran = [];
const wipe = ({ target } = {}) => { ran.push(target ?? "EVERYTHING"); return "done"; };
const schema = { type: "object", properties: { target: { type: "string" } } };
"""
OPENAI = (
    TOOL
    + """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 });
const spec = { name: "wipe", parameters: schema, parse: JSON.parse, function: wipe };
const tools = [{ type: "function", function: spec }];
"""
)
AI_SDK = """
import { generateText, streamText, tool, jsonSchema, stepCountIs } from "ai";
const tools = { wipe: tool({ inputSchema: jsonSchema(schema), execute: wipe }) };
async function ask(stream) {
  const body = { model, prompt: "q", maxRetries: 0, maxOutputTokens: 99, tools, stopWhen: stepCountIs(3) };
  if (!stream) return generateText(body);
  for await (const part of streamText({ ...body, onError() {} }).fullStream) void part;
}
"""
CLIENTS = {
    "openai": OPENAI
    + """
const body = { model: "m", messages: [{ role: "user", content: "q" }], tools };
const ask = (stream) =>
  client.chat.completions.runTools({ ...body, stream }, { maxChatCompletions: 3 }).finalContent();
""",
    "anthropic": TOOL
    + """
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
const client = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
const tools = [betaTool({ name: "wipe", description: "wipes", inputSchema: schema, run: wipe })];
async function ask(stream) {
  const body = { model: "m", max_tokens: 99, messages: [{ role: "user", content: "q" }], tools };
  const runner = client.beta.messages.toolRunner({ ...body, stream, max_iterations: 3 });
  for await (const found of runner) if (stream) for await (const part of found) void part;
}
""",
    "ai sdk, openai-compatible": TOOL
    + """
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
const model = createOpenAICompatible({ name: "x", baseURL: url + "/v1", apiKey: "x" })("m");
"""
    + AI_SDK,
    "ai sdk, openai chat": TOOL
    + """
import { createOpenAI } from "@ai-sdk/openai";
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" }).chat("m");
"""
    + AI_SDK,
    "ai sdk, openai responses": TOOL
    + """
import { createOpenAI } from "@ai-sdk/openai";
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" }).responses("m");
"""
    + AI_SDK,
    "ai sdk, anthropic": TOOL
    + """
import { createAnthropic } from "@ai-sdk/anthropic";
const model = createAnthropic({ baseURL: url + "/v1", apiKey: "x" })("m");
"""
    + AI_SDK,
}
"""Programs that define ``ask``: one question, and the loop that follows."""
RUN = """
const post = (path, body) => fetch(engine + path, { method: "POST", body: JSON.stringify(body) });
const seen = [];
for (const { script, stream } of cases) {
  await post("/clear", {});
  await post("/script", script);
  ran = [];
  try { await ask(stream); } catch {}  // to give up is one way not to run it
  seen.push(ran);
}
console.log(JSON.stringify(seen));
"""


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def gateway(engine: EngineProcess, dialect: str, tmp_path: Any) -> Iterator[GatewayThread]:
    template = template_file(tmp_path)
    with serving(
        upstream="completions", url=engine.url, template=template, dialect=dialect, model="m"
    ) as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
def test_agents_run_only_calls_the_model_wrote(
    engine: EngineProcess, gateway: GatewayThread, client: str, dialect: str
) -> None:
    good = GOOD[dialect]
    outputs = [(good, "stop"), *((f"{good}\n{broken}", "stop") for broken in BROKEN[dialect])]
    outputs += [(broken, "stop") for broken in BROKEN[dialect]]
    outputs += [(good[:cut], "length") for cut in range(12, len(good))]
    outputs += [(f"{good}\n{good[:cut]}", "length") for cut in range(12, len(good), 7)]
    cases = [
        {
            "script": {"chunks": [text[at : at + 7] for at in range(0, len(text), 7)], "finish": reason},
            "stream": stream,
        }
        for text, reason in outputs
        for stream in (True, False)
    ]
    ran = node(CLIENTS[client] + RUN, url=gateway.url, engine=engine.url, cases=cases)
    assert ran[:2] == [["tmp"], ["tmp"]]
    for (text, reason), streamed, whole in zip(outputs, ran[::2], ran[1::2], strict=True):
        expected = allowed_arguments(text, dialect, reason)
        for calls in (streamed, whole):
            assert not calls or calls == expected or calls == ["tmp"] * text.startswith(good), (text, reason)
