"""Translation of requests of three APIs, settings, the command line, and /v1/parse."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import CHATML, GatewayThread, events, get, post, send, serving, template_file
from paths import ROOT
from unspool import Policies, UsageError
from unspool.cli import main
from unspool.gateway import Settings, load_settings, spinner
from unspool.gateway.apis.chat.request import read_chat_request
from unspool.gateway.apis.messages.request import read_messages_request
from unspool.gateway.apis.responses.request import read_responses_request
from unspool.gateway.generation.request import GenerationRequest
from unspool.gateway.http.failure import Failure
from unspool.gateway.telemetry.metrics import Metrics
from unspool.wire import EventReader

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def job(api: str, body: dict[str, Any]) -> GenerationRequest:
    if api == "chat":
        return read_chat_request({"messages": [{"role": "user", "content": "x"}], **body})
    if api == "responses":
        return read_responses_request({"input": "x", **body})
    return read_messages_request({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, **body})


# -- the Responses API


def items(*values: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = read_responses_request({"input": list(values)}).chat["messages"]
    return messages


def test_items_of_one_turn_become_one_message() -> None:
    messages = items(
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "2"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
        {"role": "assistant", "content": "Done."},
        {"role": "developer", "content": "Stop."},
    )
    assert messages == [
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "Well.",
            "reasoning_content": "hm",
            "tool_calls": [CALL, CALL | {"id": "d"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "tool", "tool_call_id": "d", "content": "2"},
        {"role": "assistant", "content": "Done.", "reasoning_content": "so"},
        {"role": "developer", "content": "Stop."},
    ]


def test_text_after_a_call_is_another_turn() -> None:
    messages = items(
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "assistant", "content": "Wait."},
    )
    assert [message.get("content") for message in messages] == [None, "Wait."]


def test_custom_tools_become_functions_with_one_text() -> None:
    tool = {
        "type": "custom",
        "name": "run",
        "description": "Run.",
        "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
    }
    request = read_responses_request(
        {"input": "x", "tools": [tool], "tool_choice": {"type": "custom", "name": "run"}}
    )
    function = request.chat["tools"][0]["function"]
    assert request.custom_tools == ("run",)
    assert function["parameters"]["properties"]["input"] == {"type": "string", "pattern": "^(?:a+)$"}
    assert request.chat["tool_choice"] == {"type": "function", "function": {"name": "run"}}
    tool["format"] = {"type": "grammar", "syntax": "lark", "definition": "start: A"}
    request = read_responses_request({"input": "x", "tools": [tool]})
    assert "start: A" in request.chat["tools"][0]["function"]["description"]


@pytest.mark.parametrize(
    ("api", "body", "param"),
    [
        ("responses", {"input": 5}, "input"),
        ("responses", {"input": []}, "input"),
        ("responses", {"background": True}, "background"),
        ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input[0].id"),
        ("responses", {"input": [{"role": "robot"}]}, "input[0].role"),
        ("responses", {"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        (
            "responses",
            {"input": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "input[0].content[0].type",
        ),
        ("responses", {"tools": [{"type": "function"}]}, "tools[0].name"),
        ("responses", {"tools": [TOOL, TOOL]}, "tools[1].name"),
        ("responses", {"tools": [{"type": 5}]}, "tools[0].type"),
        ("responses", {"tools": [{"type": "namespace", "name": "n"}]}, "tools[0].tools"),
        (
            "responses",
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
            "tools[0].tools[0].type",
        ),
        ("responses", {"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ("responses", {"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
        ("messages", {"messages": []}, "messages"),
        ("messages", {"max_tokens": None}, "max_tokens"),
        ("messages", {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            "messages[0].content[0].type",
        ),
        (
            "messages",
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]},
            "messages[0].content[0].input",
        ),
        ("messages", {"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ("messages", {"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ("messages", {"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ("messages", {"thinking": {"type": "maybe"}}, "thinking.type"),
        ("messages", {"temperature": 2}, "temperature"),
        ("messages", {"stop_sequences": [""]}, "stop_sequences"),
        ("messages", {"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
    ],
)
def test_bad_request_names_the_field(api: str, body: dict[str, Any], param: str) -> None:
    with pytest.raises(Failure) as failure:
        job(api, body)
    assert failure.value.kind == "invalid_request"
    assert failure.value.param == param


# -- the Messages API


def test_blocks_become_messages() -> None:
    request = read_messages_request(
        {
            "max_tokens": 5,
            "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}],
            "messages": [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "Well."},
                        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "And?"},
                        {"type": "tool_result", "tool_use_id": "c", "content": "1", "is_error": True},
                    ],
                },
            ],
        }
    )
    assert request.chat["messages"] == [
        {"role": "system", "content": "a\nb"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Well.", "reasoning_content": "hm", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "Error: 1"},
        {"role": "user", "content": "And?"},
    ]


def test_images_are_kept_for_upstreams_that_take_them() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What?"}]
    request = read_messages_request({"max_tokens": 5, "messages": [{"role": "user", "content": content}]})
    assert request.chat["messages"][0]["content"][0]["image_url"]["url"] == "data:image/png;base64,AAAA"


# -- recorded upstreams


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    directory = tmp_path_factory.mktemp("replay")
    file = directory / "streams.jsonl"
    lines = [
        {"name": "weather", "chunks": ['<tool_call>{"name": "f", "arg', 'uments": {}}</tool_call>']},
        {"name": "plain", "chunks": ["One, ", "two, ", "three"], "prompt_tokens": 9},
        {"name": "failing", "chunks": ["One"], "error": "out of memory"},
    ]
    # JSON allows a carriage return inside a line of JSON Lines.
    file.write_text("\n".join(json.dumps(line, separators=(",\r", ":")) for line in lines), newline="")
    with serving(upstream="replay", file=str(file), dialect="mistral_v3", model="m") as server:
        yield server


def test_default_switches_of_clients_are_ignored(replay: GatewayThread) -> None:
    """The family has no such option: Chat Completions clients get an error, the others cannot know."""
    user = [{"role": "user", "content": "plain"}]
    for path, body in (
        ("responses", {"input": "plain", "reasoning": {"effort": "medium", "summary": "auto"}}),
        (
            "messages",
            {"messages": user, "max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
    ):
        assert send(f"{replay.url}/v1/{path}", body)[0] == 200
    status, data, _ = send(f"{replay.url}/v1/chat/completions", {"messages": user, "enable_thinking": True})
    assert status == 400
    assert json.loads(data)["error"]["param"] == "enable_thinking"


def test_recorded_upstream_replays(replay: GatewayThread) -> None:
    def ask(text: str, **more: Any) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": text}], **more}
        answer: dict[str, Any] = post(f"{replay.url}/v1/chat/completions", body)
        return answer

    answer = ask("the plain one")
    assert answer["choices"][0]["message"]["content"] == "One, two, three"
    assert answer["usage"]["prompt_tokens"] == 9
    stopped = ask("the plain one", stop=["o, th"])
    assert stopped["choices"][0]["message"]["content"] == "One, tw"
    limited = ask("the plain one", max_tokens=2)
    assert limited["choices"][0]["message"]["content"] == "One, two, "
    assert limited["choices"][0]["finish_reason"] == "length"
    assert ask("failing")["error"]["message"] == "the upstream failed: out of memory"
    answers = [ask("?")["choices"][0]["message"]["content"] for _ in range(2)]
    assert len(set(answers)) == 2  # the recordings replay in turn


def test_curl_recording_replays(tmp_path: Path) -> None:
    file = tmp_path / "stream.sse"
    chunks = [{"choices": [{"index": 0, "text": text}]} for text in ("<think>a</th", "ink>b")]
    chunks.append({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
    file.write_text("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")
    with serving(upstream="replay", file=str(file), template=template_file(tmp_path)) as gateway:
        received = events(
            f"{gateway.url}/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
        )
    kinds = [event["type"] for event in received if isinstance(event, dict)]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


# -- /v1/parse


def test_parse_endpoint_reads_text(replay: GatewayThread) -> None:
    text = 'Hi <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    tools = [{"type": "function", "function": {"name": "f"}}]
    message = post(f"{replay.url}/v1/parse", {"text": text, "dialect": "hermes", "tools": tools})
    assert message["dialect"] == "hermes"
    assert message["message"]["content"] == "Hi"
    assert message["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert message["finish_reason"] == "tool_calls"
    spans = [(event["start"], event["end"]) for event in message["events"]]
    assert spans[0][0] == 0
    assert all(left[1] == right[0] for left, right in pairwise(spans))
    assert spans[-1][1] == len(text)


def test_parse_endpoint_reads_chunks(replay: GatewayThread) -> None:
    message = post(
        f"{replay.url}/v1/parse", {"chunks": ["[TOOL", '_CALLS][{"name": "f", ', '"arguments": {}}]']}
    )
    assert message["dialect"] == "mistral_v3"  # the dialect of the gateway's own model
    assert message["message"]["tool_calls"][0]["function"]["name"] == "f"
    assert {event["chunk"] for event in message["events"]} <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "x", "chunks": []}, "text"),
        ({"text": 5}, "text"),
        ({"text": "x", "dialect": "klingon"}, "dialect"),
        ({"text": "x", "tools": [{}]}, "tools"),
        ({"text": "x", "policies": {"commit": "later"}}, "policies"),
        ({"text": "x", "policies": {"nope": "x"}}, "policies"),
        ({"text": "x", "policies": {"preset": "nobody"}}, "policies"),
        ({"text": "x", "chat_template": CHATML}, "request_templates"),
        ({"text": "x", "dialect": "hermes", "chat_template": CHATML}, "request_templates"),
        ({"text": "<tool_call>{", "dialect": "hermes", "policies": "strict"}, "text"),
    ],
)
def test_parse_endpoint_refuses_bad_requests(replay: GatewayThread, body: dict[str, Any], param: str) -> None:
    status, data, _ = send(f"{replay.url}/v1/parse", body)
    assert status == 400, data
    error = json.loads(data)["error"]
    assert error["param"] == param or param in error["message"]


# -- settings and the command line


def test_chat_upstreams_accept_bare_calls_by_default() -> None:
    for upstream, choices, value in (
        ("chat", {}, "alone"),
        ("chat", {"bare_calls": "off"}, "off"),
        ("completions", {}, "off"),
    ):
        settings = load_settings(
            {"upstream": upstream, "url": "http://u", "dialect": "hermes", "policies": choices},
            environment={},
        )
        assert settings.parser_policies().bare_calls == value


def test_settings_come_from_flags_environment_and_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        'port = 1\nhost = "a"\nidle-timeout = 5\napi_keys = ["k"]\nupstream = "chat"\nurl = "http://u"\n'
        'dialect = "hermes"\n[policies]\ncommit = "call"\npreset = "vllm"\n'
        "[chat_template_kwargs]\nenable_thinking = false\n"
    )
    environment = {
        "UNSPOOL_PORT": "2",
        "UNSPOOL_HOST": "b",
        "UNSPOOL_CONFIG": str(file),
        "UNSPOOL_ALIASES": "x, y",
    }
    settings = load_settings({"port": 3, "engine": None}, environment=environment)
    assert (settings.port, settings.host, settings.idle_timeout, settings.api_keys) == (3, "b", 5.0, ("k",))
    assert settings.aliases == ("x", "y")
    assert settings.parser_policies() == Policies.preset("vllm", commit="call", bare_calls="alone")
    assert settings.chat_template_kwargs == {"enable_thinking": False}
    assert settings.shown()["api_keys"] == "set"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"UNSPOOL_PORT": "x"}, "an integer"),
        ({"UNSPOOL_UPSTREAM": "magic"}, "choose one of embedded"),
        ({"UNSPOOL_UPSTREAM": "chat"}, "set url"),
        ({"UNSPOOL_UPSTREAM": "replay"}, "set file"),
        ({"UNSPOOL_URL": "localhost:80"}, "http://"),
        ({"UNSPOOL_TOKEN_IDS": "maybe"}, "true or false"),
        ({"UNSPOOL_POLICIES": "commit"}, "key=value"),
        ({"UNSPOOL_POLICIES": "commit=later"}, "choose one of"),
        ({"UNSPOOL_POLICIES": "x=y"}, "there is no policy 'x'"),
        ({"UNSPOOL_IDLE_TIMEOUT": "0"}, "above 0"),
        ({"UNSPOOL_CONFIG": "/nowhere.toml"}, "cannot read"),
    ],
)
def test_invalid_settings_are_explained(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_settings(environment=environment)


@pytest.mark.parametrize(
    ("line", "message"), [("prot = 1", "prot"), ('port = "1"', "an integer"), ("port =", "TOML")]
)
def test_invalid_files_are_explained(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(line)
    with pytest.raises(UsageError, match=message):
        load_settings(environment={}, config=str(file))


def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 80


def test_all_settings_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--list-settings"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert listed == set(Settings.__slots__)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "nonsense"],
        ["--set", "nope=1"],
        ["--set", "threads=x"],
        ["--upstream", "completions", "--url", "http://127.0.0.1:9"],
        ["--upstream", "replay", "--file", "/nowhere"],
        ["--upstream", "chat", "--url", "http://127.0.0.1:9", "--set", "dialect=klingon"],
        ["--file", "/nowhere.gguf"],
        ["--host", "203.0.113.1"],
    ],
)
def test_usage_error_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *arguments, "--port" if "--port" not in arguments else "", "0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("unspool: ")
    assert error.count("\n") == 1


def test_models_are_listed(replay: GatewayThread) -> None:
    assert get(f"{replay.url}/v1/models")["data"][0]["id"] == "m"
    assert get(f"{replay.url}/ready")["status"] == "ready"


# -- server-sent events


def test_recorded_events_may_be_split_anywhere() -> None:
    data = b": hello\n\nevent: x\ndata: 1\n\ndata:2\r\n\r\ndata: 3\ndata: 4\n\nid: 9\n\ndata: 5"
    for size in range(1, len(data) + 1):
        reader = EventReader(1000)
        events_ = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
        assert events_ + reader.finish() == [b"1", b"2", b"3\n4", b"5"]


def test_every_setting_and_metric_is_documented() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    for name in Settings.__slots__:
        assert f"`{name}`" in page
    for metric in vars(Metrics()).values():
        assert f"`{metric.name}`" in page


# -- the progress line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert spinner.main("working", [sys.executable, "-c", "print('quiet')"]) == 0
    shown = terminal.getvalue()
    assert "working" in shown
    assert shown.rpartition("\x1b[K")[2].startswith("working: ")  # the progress line is erased


def test_progress_is_one_line_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert spinner.main("working", [sys.executable, "-c", "print('quiet')"]) == 0
    out, err = capfd.readouterr()
    assert re.fullmatch(r"working: \d+\.\d s\n", out)
    assert err == ""


def test_progress_shows_all_output_of_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert spinner.main("working", [sys.executable, "-c", "print('loud'); exit(3)"]) == 3
    assert capfd.readouterr().err == "loud\n"
