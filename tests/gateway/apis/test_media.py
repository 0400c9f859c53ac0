"""Images and documents reach models that support them, and never end a session."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, post, send, serving, template_file
from unspool.gateway.apis.messages.request import read_messages_request
from unspool.gateway.apis.responses.request import read_responses_request
from unspool.gateway.conversation.media import describe, image_part, move_media_to_user, without_media

PNG = "iVBORw0KGgoAAAANSUhEUg=="
URL = f"data:image/png;base64,{PNG}"
UNSEEN = "[image: image/png, 16 bytes, which this model cannot see]"
PDF = base64.b64encode(b"%PDF-1.7").decode()
NOTES = base64.b64encode(b"Buy milk.").decode()


def blocks(*content: dict[str, Any]) -> Any:
    body = {"max_tokens": 5, "messages": [{"role": "user", "content": list(content)}]}
    return read_messages_request(body).chat["messages"]


def parts(*content: dict[str, Any]) -> Any:
    return read_responses_request({"input": [{"role": "user", "content": list(content)}]}).chat["messages"]


# -- blocks and content parts


def test_text_documents_are_read() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "Buy milk."}
    inside = {"type": "content", "content": [{"type": "text", "text": "Buy milk."}]}
    for source in (plain, inside):
        (message,) = blocks({"type": "document", "title": "Notes", "source": source})
        assert message["content"] == "Notes:\nBuy milk."
    coded = {"type": "base64", "media_type": "text/plain", "data": NOTES}
    (message,) = blocks({"type": "document", "title": "Notes", "source": coded})
    assert message["content"] == "Notes:\nBuy milk."
    part = {"type": "input_file", "filename": "n.txt", "file_data": f"data:text/plain;base64,{NOTES}"}
    assert parts(part)[0]["content"] == "n.txt:\nBuy milk."


def test_other_documents_are_files() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    (message,) = blocks({"type": "document", "title": "Paper", "source": source})
    file = {"filename": "Paper", "file_data": f"data:application/pdf;base64,{PDF}"}
    assert message["content"] == [{"type": "file", "file": file}]
    part = {"type": "input_file", "filename": "Paper", "file_data": f"data:application/pdf;base64,{PDF}"}
    assert parts(part)[0]["content"] == [{"type": "file", "file": file}]
    assert describe(message["content"][0]) == (
        "[file: Paper, application/pdf, 8 bytes, which this model cannot see]"
    )


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "input_image", "file_id": "file_1"}, "[image: file_1]"),
        ({"type": "input_file", "file_url": "https://x/a.pdf"}, "[file: https://x/a.pdf]"),
    ],
)
def test_remote_documents_are_named(part: dict[str, Any], text: str) -> None:
    assert parts(part)[0]["content"] == text


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "[image: file_1]"),
        ({"type": "document", "source": {"type": "url", "url": "https://x/a"}}, "[document: https://x/a]"),
        (
            {
                "type": "search_result",
                "title": "T",
                "source": "S",
                "content": [{"type": "text", "text": "C"}],
            },
            "T (S):\nC",
        ),
        ({"type": "tool_reference", "tool_name": "Grep"}, "The tool Grep is available."),
    ],
)
def test_every_tool_result_block_is_read(block: dict[str, Any], text: str) -> None:
    (message,) = blocks({"type": "tool_result", "tool_use_id": "c", "content": [block]})
    assert message == {"role": "tool", "tool_call_id": "c", "content": text}


def test_vendor_tool_results_are_left_out_of_a_moved_conversation() -> None:
    ran = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    turn = {"role": "assistant", "content": [use, ran, {"type": "text", "text": "So."}]}
    job = read_messages_request({"max_tokens": 5, "messages": [turn, {"role": "user", "content": "And?"}]})
    assert job.chat["messages"][0] == {"role": "assistant", "content": "So."}
    assert len(job.ignored) == 2
    called = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    request = read_responses_request({"input": [called, {"role": "user", "content": "And?"}]})
    assert request.chat["messages"] == [{"role": "user", "content": "And?"}]
    assert request.ignored == ["web_search_call in a conversation: only the API's vendor can run such tools"]


def test_audio_has_a_placeholder() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    assert describe(parts(sound)[0]["content"][0]) == "[audio: wav, 3 bytes, which this model cannot see]"


# -- conversations


def test_tool_result_images_follow_their_results() -> None:
    both = [{"type": "text", "text": "Here:"}, image_part(URL)]
    history: list[Any] = [
        {"role": "tool", "tool_call_id": "a", "content": both},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "And?"},
    ]
    assert move_media_to_user(history) == [
        {"role": "tool", "tool_call_id": "a", "content": "Here:\n[image: shown below]"},
        history[1],
        {
            "role": "user",
            "content": [{"type": "text", "text": "Returned by the tool call a:"}, image_part(URL)],
        },
        history[2],
    ]
    assert move_media_to_user(history[:1])[-1]["role"] == "user"


def test_conversation_without_images_is_unchanged() -> None:
    history: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "tool", "content": "1"},
    ]
    assert without_media(history) == history
    assert move_media_to_user(history) == history


# -- through the gateway


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("media"))
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def chat(engine: EngineProcess) -> Iterator[GatewayThread]:
    with serving(
        upstream="chat", url=engine.url, dialect="hermes", engine="openai", model="m", upstream_model="e"
    ) as server:
        yield server


def view_image(url: str) -> Any:
    """Return the message that Codex sends after it has viewed an image."""
    call = {"type": "function_call", "call_id": "c", "name": "view_image", "arguments": "{}"}
    shown = {"type": "input_image", "image_url": URL}
    result = {"type": "function_call_output", "call_id": "c", "output": [shown]}
    return send(f"{url}/v1/responses", {"input": [{"role": "user", "content": "Look."}, call, result]})


def test_image_does_not_end_the_session_of_a_text_model(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script("I cannot see it.")
    assert view_image(gateway.url)[0] == 200
    assert f"<|im_start|>tool\n{UNSEEN}<|im_end|>" in engine.last()["prompt"]
    source: Any = {"type": "base64", "media_type": "image/png", "data": PNG}
    with anthropic.Anthropic(base_url=gateway.url, api_key="x", max_retries=0) as client:
        engine.script("Nor here.")
        client.messages.create(
            model="m",
            max_tokens=9,
            messages=[{"role": "user", "content": [{"type": "image", "source": source}]}],
        )
    assert UNSEEN in engine.last()["prompt"]


def test_unknown_part_is_refused_by_its_position(gateway: GatewayThread) -> None:
    content = [{"type": "text", "text": "x"}, {"type": "picture"}]
    status, data, _ = send(
        f"{gateway.url}/v1/chat/completions", {"messages": [{"role": "user", "content": content}]}
    )
    assert (status, json.loads(data)["error"]["param"]) == (400, "messages[0].content[1].type")


def test_image_reaches_a_server_that_takes_images(engine: EngineProcess, chat: GatewayThread) -> None:
    engine.script("A cat.")
    assert view_image(chat.url)[0] == 200
    *_, result, shown = engine.last()["messages"]
    assert (result["role"], result["content"]) == ("tool", "[image: shown below]")
    assert shown["content"][1] == image_part(URL)


REFUSAL = {"error": {"message": "image input is not supported"}}


def test_server_that_refuses_an_image_gets_a_placeholder(engine: EngineProcess, chat: GatewayThread) -> None:
    engine.script(status=500, error=REFUSAL)
    engine.script("I cannot see it.")
    assert view_image(chat.url)[0] == 200
    assert engine.last()["messages"][-1]["content"] == f"Returned by the tool call c:\n{UNSEEN}"


def test_images_stay_where_only_files_are_refused(engine: EngineProcess, chat: GatewayThread) -> None:
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    body = {"messages": [{"role": "user", "content": [file, image_part(URL)]}]}
    engine.script(status=400, error={"error": {"message": "unsupported content[].type"}})
    engine.script("A cat.")
    post(f"{chat.url}/v1/chat/completions", body)
    first, second = engine.last()["messages"][0]["content"]
    assert first["text"] == "[file: a.pdf, application/pdf, 8 bytes, which this model cannot see]"
    assert second == image_part(URL)


def test_bad_request_without_images_keeps_its_own_error(engine: EngineProcess, chat: GatewayThread) -> None:
    engine.script(status=400, error={"error": {"message": "too long"}})
    engine.script(status=400, error={"error": {"message": "too long still"}})
    status, data, _ = view_image(chat.url)
    assert status == 400
    assert json.loads(data)["error"]["message"].endswith("too long")
