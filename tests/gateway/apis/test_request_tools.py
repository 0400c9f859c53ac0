"""The tools that a model is shown, and the names under which calls return."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic.lib.tools import BetaAbstractMemoryTool

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import GatewayThread, call_text, log_of_the_gateway, post, send, serving
from unspool.gateway.apis.messages.request import read_messages_request
from unspool.gateway.apis.responses.request import read_responses_request
from unspool.gateway.http.failure import Failure
from unspool.gateway.telemetry.logs import log_once

ECHO = {"type": "function", "name": "echo", "description": "Says it again.", "parameters": {"type": "object"}}
NOTE = {"type": "custom", "name": "note", "description": "Takes a note."}
SPACE = {"type": "namespace", "name": "mcp__demo", "description": "A demonstration.", "tools": [ECHO, NOTE]}
SEARCH = {"type": "web_search", "external_web_access": True}
RECORDED = {
    "echo": call_text("mcp__demo__echo", '{"text": "Hi"}'),
    "note": call_text("mcp__demo__note", '{"input": "Milk"}'),
    "bash": call_text("bash", '{"command": "ls"}'),
    "memory": call_text("memory", '{"command": "view", "path": "/memories"}'),
    "done": "Done.",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    file = tmp_path_factory.mktemp("tools") / "streams.jsonl"
    lines = [{"name": name, "chunks": [text[:30], text[30:]]} for name, text in RECORDED.items()]
    file.write_text("\n".join(map(json.dumps, lines)))
    with serving(upstream="replay", file=str(file), dialect="hermes", model="m") as server:
        yield server


def shown_tools(job: Any) -> list[str]:
    return [tool["function"]["name"] for tool in job.chat.get("tools", ())]


# -- namespaces


def test_namespace_tools_are_offered() -> None:
    job = read_responses_request({"input": "x", "tools": [ECHO, SPACE]})
    assert shown_tools(job) == ["echo", "mcp__demo__echo", "mcp__demo__note"]
    assert job.custom_tools == ("mcp__demo__note",)
    first = job.chat["tools"][1]["function"]
    assert first["description"] == "mcp__demo: A demonstration.\n\nSays it again."


def test_namespaced_call_keeps_the_model_name_in_the_next_request() -> None:
    call = {"type": "function_call", "call_id": "c", "namespace": "mcp__demo", "name": "echo"}
    job = read_responses_request({"input": [call | {"arguments": "{}"}], "tools": [SPACE]})
    assert job.chat["messages"][0]["tool_calls"][0]["function"]["name"] == "mcp__demo__echo"


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ({"type": "namespace", "name": "mcp__demo"}, ["mcp__demo__echo", "mcp__demo__note"]),
        ({"type": "function", "name": "echo"}, ["mcp__demo__echo"]),
        ({"type": "function", "name": "echo", "namespace": "mcp__demo"}, ["mcp__demo__echo"]),
        ({"type": "web_search"}, []),
    ],
)
def test_tool_choice_may_name_a_namespaced_tool(listed: dict[str, Any], names: list[str]) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [listed]}
    job = read_responses_request({"input": "x", "tools": [SPACE, SEARCH], "tool_choice": choice})
    allowed_tools = job.chat["tool_choice"]["allowed_tools"]["tools"]
    assert [tool["function"]["name"] for tool in allowed_tools] == names


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "field", "text"),
    [
        ("echo", "function_call", "arguments", '{"text": "Hi"}'),
        ("note", "custom_tool_call", "input", "Milk"),
    ],
)
def test_calls_return_in_the_client_namespace(
    gateway: GatewayThread, name: str, kind: str, field: str, text: str, *, stream: bool
) -> None:
    body: Any = {"model": "m", "input": name, "tools": [SPACE]}
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        if stream:
            with client.responses.stream(**body) as stream_:
                added = [e.item for e in stream_ if e.type == "response.output_item.added"]
                response: Any = stream_.get_final_response()
            assert [item.namespace for item in added] == ["mcp__demo"]  # type: ignore[union-attr]
        else:
            response = client.responses.create(**body)
    (item,) = response.output
    assert (item.type, item.namespace, item.name) == (kind, "mcp__demo", name)
    assert getattr(item, field) == text


# -- vendor tools


def test_vendor_tool_does_not_stop_a_session() -> None:
    job = read_responses_request({"input": "x", "tools": [SEARCH, ECHO]})
    assert shown_tools(job) == ["echo"]
    assert job.ignored == ["the tool web_search: only its vendor can run it"]
    job = read_responses_request({"input": "x", "tools": [{"type": "apply_patch"}]})
    assert job.ignored == ["the tool apply_patch: offer a function instead"]
    toolset = {"type": "mcp_toolset", "mcp_server_name": "x"}
    search = {"type": "web_search_20250305", "name": "web_search"}
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "tools": [toolset, search]}
    request = read_messages_request(body)
    assert shown_tools(request) == []
    assert len(request.ignored) == 2


def test_vendor_tools_can_be_refused() -> None:
    with pytest.raises(Failure) as failure:
        read_responses_request({"input": "x", "tools": [ECHO, SEARCH]}, hosted="reject")
    assert failure.value.param == "tools[1].type"


def test_ignored_tool_is_logged_once(gateway: GatewayThread) -> None:
    log_once.cache_clear()
    with log_of_the_gateway() as logged:
        for _ in range(3):
            post(f"{gateway.url}/v1/responses", {"input": "done", "tools": [SEARCH]})
    assert logged == [("field_ignored", {"reason": "the tool web_search: only its vendor can run it"})]


def test_few_ignored_fields_of_a_request_are_logged(gateway: GatewayThread) -> None:
    log_once.cache_clear()
    unknown = {f"field_{number}": 1 for number in range(30)}
    with log_of_the_gateway() as logged:
        post(f"{gateway.url}/v1/responses", {"input": "done", **unknown})
    assert [event for event, _ in logged] == ["field_ignored"] * 20


# -- vendor tools that the client runs


@pytest.mark.parametrize(
    ("tool", "required", "has", "lacks"),
    [
        ({"type": "bash_20250124", "name": "bash"}, [], {"command", "restart"}, set()),
        (
            {"type": "text_editor_20241022", "name": "str_replace_editor"},
            ["command", "path"],
            {"new_str", "view_range"},
            {"insert_text"},
        ),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
            ["command", "path"],
            {"insert_line", "insert_text"},
            set(),
        ),
        ({"type": "memory_20250818", "name": "memory"}, ["command"], {"path", "new_path"}, set()),
        (
            {"type": "computer_20250124", "name": "computer", "display_width_px": 9, "display_height_px": 8},
            ["action"],
            {"coordinate", "scroll_amount"},
            {"region"},
        ),
        (
            {"type": "computer_20251124", "name": "computer", "enable_zoom": True},
            ["action"],
            {"region"},
            set(),
        ),
    ],
)
def test_client_run_tools_are_offered_with_their_schemas(
    tool: dict[str, Any], required: list[str], has: set[str], lacks: set[str]
) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "tools": [tool]}
    job = read_messages_request(body)
    function = job.chat["tools"][0]["function"]
    assert function["name"] == tool["name"]
    assert function["parameters"]["required"] == required
    properties = set(function["parameters"]["properties"])
    assert has <= properties
    assert not lacks & properties
    assert job.ignored == []


def test_text_editor_undo_depends_on_the_tool_version() -> None:
    def commands(date: str) -> list[str]:
        tool = {"type": f"text_editor_{date}", "name": "e"}
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "tools": [tool]}
        parameters = read_messages_request(body).chat["tools"][0]["function"]["parameters"]
        names: list[str] = parameters["properties"]["command"]["enum"]
        return names

    assert "undo_edit" in commands("20250124")
    assert "undo_edit" not in commands("20250429")


def test_memory_tool_works_with_the_client_library(gateway: GatewayThread) -> None:
    seen: list[str] = []

    class Memory(BetaAbstractMemoryTool):
        def view(self, command: Any) -> str:
            seen.append(command.path)
            return "nothing yet: done"

        create = str_replace = insert = delete = rename = view

    with anthropic.Anthropic(base_url=gateway.url, api_key="x", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="m",
            max_tokens=99,
            messages=[{"role": "user", "content": "memory"}],
            tools=[Memory()],
            max_iterations=1,
        )
        reply = next(iter(runner))
        runner.generate_tool_call_response()
    assert [block.type for block in reply.content] == ["tool_use"]
    assert seen == ["/memories"]


def test_request_with_every_kind_of_tool_is_answered(gateway: GatewayThread) -> None:
    tools = [{"type": "bash_20250124", "name": "bash"}, {"type": "web_fetch_20250910", "name": "web_fetch"}]
    body = {"messages": [{"role": "user", "content": "bash"}], "max_tokens": 9, "tools": tools}
    status, data, _ = send(f"{gateway.url}/v1/messages", body)
    assert status == 200
    assert json.loads(data)["content"][0]["input"] == {"command": "ls"}
