"""Every scenario through the published JavaScript clients, streamed and whole.

Needs Node and the packages in ``.clients``, which ``make test`` fetches where there is npm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from paths import ROOT

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    SCENARIOS,
    TOOLS,
    EngineProcess,
    GatewayThread,
    Seen,
    serving,
    template_file,
)

PACKAGES = ROOT / ".clients"
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(
    not NODE or not (PACKAGES / "node_modules" / "openai").is_dir(),
    reason="no JavaScript clients",
)

OPENAI = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 });
"""
AI_SDK = """
import { generateText, streamText, tool, jsonSchema } from "ai";
const tools = {};
for (const [name, schema] of Object.entries(schemas)) tools[name] = tool({ inputSchema: jsonSchema(schema) });
const ends = { stop: "stop", "tool-calls": "calls", length: "length" };
async function ask({ forced, stream }) {
  const body = {
    model, prompt: "q", maxRetries: 0, maxOutputTokens: 99, tools, toolChoice: forced ? "required" : "auto",
  };
  let run;
  if (stream) {
    run = streamText({ ...body, onError() {} });
    for await (const part of run.fullStream) if (part.type === "error") throw part.error;
  } else run = await generateText(body);
  const calls = (await run.toolCalls).filter((c) => !c.invalid).map((c) => [c.toolName, c.input]);
  return [await run.text, (await run.reasoningText) ?? "", calls, ends[await run.finishReason]];
}
"""
CLIENTS = {
    "openai chat": OPENAI
    + """
const tools = Object.entries(schemas).map(
  ([name, parameters]) => ({ type: "function", function: { name, parameters, strict: true } }));
const ends = { stop: "stop", tool_calls: "calls", length: "length" };
async function ask({ forced, stream }) {
  const body = { model: "m", messages: [{ role: "user", content: "q" }], tools };
  body.tool_choice = forced ? "required" : "auto";
  const found = stream
    ? await client.chat.completions.stream(body).finalChatCompletion()
    : await client.chat.completions.create(body);
  const { message, finish_reason } = found.choices[0];
  const calls = finish_reason === "length" ? [] : (message.tool_calls ?? []).map(
    (c) => [c.function.name, JSON.parse(c.function.arguments)]);
  return [message.content ?? "", message.reasoning_content ?? "", calls, ends[finish_reason]];
}
""",
    "openai responses": OPENAI
    + """
const tools = Object.entries(schemas).map(
  ([name, parameters]) => ({ type: "function", name, parameters, strict: true }));
async function ask({ forced, stream }) {
  const body = { model: "m", input: "q", tools, tool_choice: forced ? "required" : "auto" };
  const found = stream
    ? await client.responses.stream(body).finalResponse()
    : await client.responses.create(body);
  if (found.status === "failed") throw new Error(found.error.message);
  const done = found.output.filter((i) => i.type === "function_call" && i.status === "completed");
  const calls = done.map((i) => [i.name, JSON.parse(i.arguments)]);
  const reasoning = found.output.filter((i) => i.type === "reasoning").map((i) => i.content[0].text);
  const ended = found.status === "incomplete" ? "length" : calls.length ? "calls" : "stop";
  return [found.output_text ?? "", reasoning.join(""), calls, ended];
}
""",
    "anthropic": """
import Anthropic from "@anthropic-ai/sdk";
const client = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
const tools = Object.entries(schemas).map(([name, input_schema]) => ({ name, input_schema }));
const ends = { end_turn: "stop", tool_use: "calls", max_tokens: "length" };
async function ask({ forced, stream }) {
  const body = { model: "m", max_tokens: 99, messages: [{ role: "user", content: "q" }], tools };
  if (forced) body.tool_choice = { type: "any" };
  const found = stream
    ? await client.messages.stream(body).finalMessage()
    : await client.messages.create(body);
  const of = (type) => found.content.filter((b) => b.type === type);
  const calls = of("tool_use").map((b) => [b.name, b.input]);
  const text = of("text").map((b) => b.text).join("");
  return [text, of("thinking").map((b) => b.thinking).join(""), calls, ends[found.stop_reason]];
}
""",
    "ollama": """
import { Ollama } from "ollama";
const client = new Ollama({ host: url });
const tools = Object.entries(schemas).map(
  ([name, parameters]) => ({ type: "function", function: { name, description: "", parameters } }));
async function ask({ stream }) {
  const body = { model: "m", messages: [{ role: "user", content: "q" }], tools };
  const lines = stream ? await client.chat({ ...body, stream }) : [await client.chat(body)];
  const seen = ["", "", [], ""];
  for await (const { message, done_reason } of lines) {
    seen[0] += message.content;
    seen[1] += message.thinking ?? "";
    seen[2].push(...(message.tool_calls ?? []).map((c) => [c.function.name, c.function.arguments]));
    seen[3] = done_reason === "stop" && seen[2].length ? "calls" : done_reason;
  }
  return seen;
}
""",
    "ai sdk, openai-compatible": """
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
const model = createOpenAICompatible({ name: "x", baseURL: url + "/v1", apiKey: "x" })("m");
"""
    + AI_SDK,
    "ai sdk, openai chat": """
import { createOpenAI } from "@ai-sdk/openai";
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" }).chat("m");
"""
    + AI_SDK,
    "ai sdk, openai responses": """
import { createOpenAI } from "@ai-sdk/openai";
const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" }).responses("m");
"""
    + AI_SDK,
    "ai sdk, anthropic": """
import { createAnthropic } from "@ai-sdk/anthropic";
const model = createAnthropic({ baseURL: url + "/v1", apiKey: "x" })("m");
"""
    + AI_SDK,
}
"""Programs that define ``ask``: return text, reasoning, calls and finish reason as a client sees them."""

RUN = """
const seen = [];
for (const one of cases) {
  try { seen.push(await ask(one)); }
  catch (error) {
    const told = String(error?.message ?? error);
    // openai's way to say that strict arguments were cut off
    seen.push(told.includes("length limit") ? ["", "", [], "length"] : ["", told, [], "error"]);
  }
}
console.log(JSON.stringify(seen));
"""
CASES = [(name, stream) for name in SCENARIOS for stream in (True, False)]
WITHOUT_REASONING = ("ai sdk, openai chat",)
"""Clients without a field for reasoning."""


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(upstream="completions", url=engine.url, template=template, model="m") as server:
        yield server


def node(program: str, **arguments: object) -> Any:
    """Run a program with these constants, and return the JSON that it prints."""
    head = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in arguments.items())
    ran = subprocess.run(
        [NODE, "--input-type=module", "-e", head + program],
        cwd=PACKAGES,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@cache
def run(client: str, engine: EngineProcess, gateway: GatewayThread) -> dict[tuple[str, bool], Seen]:
    """Return what a client saw in every case; one process, because Node starts slowly."""
    cases = []
    for name, stream in CASES:
        scenario = SCENARIOS[name]
        engine.script(*scenario.chunks, **scenario.script)
        cases.append({"forced": scenario.forced, "stream": stream})
    results = node(CLIENTS[client] + RUN, url=gateway.url, schemas=TOOLS, cases=cases)
    return {
        case: Seen(text, reasoning, tuple((name, value) for name, value in calls), ended)
        for case, (text, reasoning, calls, ended) in zip(CASES, results, strict=True)
    }


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_receives_the_model_output(
    engine: EngineProcess, gateway: GatewayThread, client: str, name: str, stream: bool
) -> None:
    if not (PACKAGES / "node_modules" / "ollama").is_dir() and client == "ollama":
        pytest.skip("the client is missing: make test fetches it with npm")
    expected = SCENARIOS[name].seen
    seen = run(client, engine, gateway)[name, stream]
    if expected.ended == "length" and seen.ended == "error":
        assert "JSON" in seen.reasoning  # Anthropic's client rejects a call that it cannot parse
        return
    assert (seen.text, seen.ended) == (expected.text, expected.ended), seen
    if expected.ended == "error":
        assert "broke" in seen.reasoning  # the error that the client raised
        return
    assert seen.reasoning == ("" if client in WITHOUT_REASONING else expected.reasoning)
    if expected.ended == "length":
        return  # the call is present but cannot be parsed, and clients handle this differently
    assert seen.calls == expected.calls
