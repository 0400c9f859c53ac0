"""The programs in ``examples`` run and print what they should.

``python -m lab.examples`` runs those for other data libraries, and ``test_plugins.py``
the package with a dialect.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateways import EngineProcess, GatewayThread, call_text, serving
from lab.examples import EXAMPLES as RUN_IN_LAB
from markup_server import serving_markup
from paths import ROOT

EXAMPLES = ROOT / "examples"
RUN_HERE = {
    "agent_loop",
    "batch_parquet",
    "completions_to_chat",
    "mask_for_training",
    "parse_an_output",
    "starlette_endpoint",
    "stream_from_the_gateway",
    "without_a_server",
}


def run(name: str, *arguments: str) -> dict[str, object]:
    """Run a program as the command line does."""
    before = sys.argv
    sys.argv = [name, *arguments]
    try:
        return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        sys.argv = before


def test_every_example_is_run_and_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == RUN_HERE | set(RUN_IN_LAB)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        assert f"({path.name})" in listed or path.name in {"README.md", "__pycache__"}


def test_parse_example_works(capsys: pytest.CaptureFixture[str]) -> None:
    run("parse_an_output")
    assert capsys.readouterr().out.splitlines() == [
        "reasoning: Three days, in Oslo; and Rome.",
        "content:   Let me look.",
        "call:      get_weather {'city': 'Oslo', 'days': 3}",
        "diagnostic: truncated_call at 188 to 242",
        "diagnostic: missing_closer at 242 to 242",
        "finished:  length",
    ]


def test_example_without_a_server_reads_the_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("httpx2")
    with serving_markup() as (url, _):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        run("without_a_server", "hermes")
    assert capsys.readouterr().out.splitlines() == [
        "One moment.",
        "reasoning: I should look.",
        'call: get_weather {"city": "Oslo"}',
    ]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    pytest.importorskip("openai")
    pytest.importorskip("starlette")
    pytest.importorskip("aiohttp")
    pytest.importorskip("msgspec")
    with serving(upstream="completions", url=engine.url, template=template, model="m") as server:
        yield server


@pytest.fixture
def gateway_address(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the gateway's address for the programs."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{gateway.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")


@pytest.mark.usefixtures("gateway_address")
def test_stream_example_works_through_the_gateway(
    engine: EngineProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.script(
        "<think>\nI look.\n</think>\n\nOne mo", "ment.\n", call_text("get_weather", '{"city": "Paris"}')
    )
    run("stream_from_the_gateway")
    lines = capsys.readouterr().out.splitlines()
    # Chunks that arrive together are printed as one.
    text = "".join(line[8:-1] for line in lines if line.startswith("says"))
    assert (lines[0], text) == ("thinks 'I look.'", "One moment.")
    assert "calls  get_weather" in lines
    assert lines[-1] == "ends   tool_calls"


@pytest.mark.usefixtures("gateway_address")
def test_agent_example_runs_its_tools(
    engine: EngineProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "guests.txt").write_text("Ada")
    folder, file = json.dumps(str(tmp_path)), json.dumps(str(tmp_path / "guests.txt"))
    engine.script(call_text("list_file", f'{{"folder": {folder}}}'))
    engine.script(call_text("list_files", f'{{"folder": {folder}}}'))
    engine.script(call_text("read_file", '{"file": 1}'))
    engine.script(call_text("read_file", f'{{"path": {file}}}'))
    engine.script("Ada is at home.")
    run("agent_loop", "Who is at home?")
    mismatch = (
        "The arguments of \"read_file\" do not fit its schema. The required argument 'path' is missing. "
        "Write the call again with corrected arguments."
    )
    assert capsys.readouterr().out.splitlines() == [
        'retry: There is no tool named "list_file". Did you mean "list_files"?',
        f'list_files {{"folder": {folder}}} -> ["guests.txt"]',
        f"retry: {mismatch}",
        f'read_file {{"path": {file}}} -> "Ada"',
        "Ada is at home.",
    ]


def test_completions_example_writes_chat_chunks(
    engine: EngineProcess, template: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    from unspool.wire import ChatStreamDecoder

    engine.script("One mo", "ment.\n", call_text("get_weather", '{"city": "Oslo"}'))
    run("completions_to_chat", engine.url, template, "hermes", "What is the weather?")
    printed = capsys.readouterr()
    lines = [line.removeprefix("data: ") for line in printed.out.splitlines() if line]
    assert lines.pop() == "[DONE]"
    reader = ChatStreamDecoder()
    for line in lines:
        reader.feed(json.loads(line))
    message = reader.finish()
    assert (message.content, message.finish_reason) == ("One moment.", "tool_calls")
    assert message.tool_calls[0].args == {"city": "Oslo"}
    assert not printed.err
    assert "get_weather" in engine.last()["prompt"]


def test_endpoint_example_streams_and_returns_whole() -> None:
    pytest.importorskip("starlette")
    testclient = pytest.importorskip("starlette.testclient")
    from unspool.wire import ChatStreamDecoder

    with testclient.TestClient(run("starlette_endpoint")["app"]) as client:
        whole = client.post("/v1/chat/completions", json={"messages": []}).json()["choices"][0]
        stream = client.post("/v1/chat/completions", json={"messages": [], "stream": True})
    lines = [line.removeprefix("data: ") for line in stream.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    reader = ChatStreamDecoder()
    for line in lines:
        reader.feed(json.loads(line))
    message = reader.finish()
    assert message.reasoning == whole["message"]["reasoning_content"] == "It is noon?"
    assert message.content == whole["message"]["content"] == "One moment."
    assert message.tool_calls[0].arguments == '{"zone": "Oslo"}'
    assert message.finish_reason == whole["finish_reason"] == "tool_calls"


def test_mask_example_leaves_broken_calls_out(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers")
    run("mask_for_training")
    printed = capsys.readouterr().out
    assert "NAME      'nownow'\n" in printed
    assert "attempt   now complete\nattempt   now malformed\n" in printed
    assert printed.splitlines()[-1].startswith("train on ")


def test_batch_example_writes_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    output = 'Hm. <tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'
    table = pa.table({"id": ["a", "b"], "text": [output, output[:56]]})
    pq.write_table(table, tmp_path / "in.parquet")
    run("batch_parquet", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"))
    assert capsys.readouterr().out == (
        'a tool_calls Hm. now {"zone": "Oslo"} (complete)\nb length Hm. now {"zone": "Os (truncated)\n'
    )
    assert pq.read_table(tmp_path / "out.parquet")["ok"].to_pylist() == [True, True]
