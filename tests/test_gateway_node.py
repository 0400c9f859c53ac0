"""The published clients for JavaScript, against a gateway.

Needs Node and a directory with their packages, named by ``UNSPOOL_NODE_CLIENTS``::

    npm install --prefix DIR openai @anthropic-ai/sdk ai @ai-sdk/openai \\
        @ai-sdk/openai-compatible @ai-sdk/anthropic
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from test_gateway_helpers import EngineProcess, GatewayThread, serving, template_file

PACKAGES = Path(os.environ.get("UNSPOOL_NODE_CLIENTS", "-"))
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(
    not NODE or not (PACKAGES / "node_modules" / "openai").is_dir(),
    reason="UNSPOOL_NODE_CLIENTS names no packages",
)

OUTPUT = [
    "<think>\nI should ",
    "look.\n</think>\n\n",
    "One moment.",
    '\n<tool_call>\n{"name": "get_weather", ',
    '"arguments": {"city": "Par',
    'is"}}\n</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": ',
    '{"city": "Zürich"}}\n</tool_call>',
]
SCHEMA = (
    '{ type: "object", properties: { city: { type: "string" } }, required: ["city"], '
    "additionalProperties: false }"
)
ASK = 'messages: [{ role: "user", content: "q" }]'
CHAT_TOOLS = f'tools: [{{ type: "function", function: {{ name: "get_weather", parameters: {SCHEMA} }} }}]'
AI_SDK = f"""
import {{ streamText, tool, jsonSchema }} from "ai";
const run = streamText({{
  model, prompt: "q", maxRetries: 0, maxOutputTokens: 99,
  tools: {{ get_weather: tool({{ inputSchema: jsonSchema({SCHEMA}) }}) }},
}});
for await (const part of run.fullStream);
const calls = await run.toolCalls;
const pairs = calls.map((c) => [c.toolName, c.input]);
show(await run.text, await run.reasoningText, await run.finishReason, pairs);
"""
CLIENTS = {
    "openai chat": (
        f"""
import OpenAI from "openai";
const client = new OpenAI({{ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 }});
const stream = client.chat.completions.stream({{ model: "m", {ASK}, {CHAT_TOOLS} }});
const {{ message, finish_reason }} = (await stream.finalChatCompletion()).choices[0];
const calls = message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]);
show(message.content, "I should look.", finish_reason, calls);
""",
        "tool_calls",
    ),
    "openai responses": (
        f"""
import OpenAI from "openai";
const client = new OpenAI({{ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 }});
const tools = [{{ type: "function", name: "get_weather", parameters: {SCHEMA}, strict: true }}];
const found = await client.responses.stream({{ model: "m", input: "q", tools }}).finalResponse();
const items = found.output.filter((i) => i.type === "function_call");
const calls = items.map((i) => [i.name, JSON.parse(i.arguments)]);
show(found.output_text, found.output[0].content[0].text, found.status, calls);
""",
        "completed",
    ),
    "anthropic": (
        f"""
import Anthropic from "@anthropic-ai/sdk";
const client = new Anthropic({{ baseURL: url, apiKey: "x", maxRetries: 0 }});
const tools = [{{ name: "get_weather", input_schema: {SCHEMA} }}];
const found = await client.messages.stream({{ model: "m", max_tokens: 99, {ASK}, tools }}).finalMessage();
const calls = found.content.filter((b) => b.type === "tool_use").map((b) => [b.name, b.input]);
show(found.content[1].text, found.content[0].thinking, found.stop_reason, calls);
""",
        "tool_use",
    ),
    "ai sdk, openai-compatible": (
        'import { createOpenAICompatible } from "@ai-sdk/openai-compatible";\n'
        'const model = createOpenAICompatible({ name: "x", baseURL: url + "/v1", apiKey: "x" })("m");'
        + AI_SDK,
        "tool-calls",
    ),
    "ai sdk, openai responses": (
        'import { createOpenAI } from "@ai-sdk/openai";\n'
        'const model = createOpenAI({ baseURL: url + "/v1", apiKey: "x" }).responses("m");' + AI_SDK,
        "tool-calls",
    ),
    "ai sdk, anthropic": (
        'import { createAnthropic } from "@ai-sdk/anthropic";\n'
        'const model = createAnthropic({ baseURL: url + "/v1", apiKey: "x" })("m");' + AI_SDK,
        "tool-calls",
    ),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    process = EngineProcess("vllm")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(upstream="completions", url=engine.url, template=template, model="m") as found:
        yield found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_has_it_all(engine: EngineProcess, gateway: GatewayThread, name: str) -> None:
    source, reason = CLIENTS[name]
    head = f"const url = {json.dumps(gateway.url)};\n"
    head += "const show = (...all) => console.log(JSON.stringify(all));\n"
    engine.script(*OUTPUT)
    ran = subprocess.run(
        [NODE, "--input-type=module", "-e", head + source],
        cwd=PACKAGES,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [
        "One moment.",
        "I should look.",
        reason,
        [["get_weather", {"city": "Paris"}], ["get_weather", {"city": "Zürich"}]],
    ]
