"""Every request field is honoured, passed on, refused by name, or logged as ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_type_hints

import anthropic.types.beta.message_create_params
import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params
import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import CHATML, EngineProcess, GatewayThread, post, send, serving, template_file
from unspool.gateway.apis.chat.request import ChatBody, read_chat_request
from unspool.gateway.apis.messages.request import MessagesBody, read_messages_request
from unspool.gateway.apis.responses.request import ResponsesBody, read_responses_request
from unspool.gateway.apis.unsupported_fields import REFUSED, WITHOUT_EFFECT
from unspool.gateway.generation.request import GenerationRequest
from unspool.gateway.http.failure import Failure

USER = [{"role": "user", "content": "Hi"}]
MINIMAL: dict[str, dict[str, Any]] = {
    "chat": {"messages": USER},
    "responses": {"input": "Hi"},
    "messages": {"messages": USER, "max_tokens": 5},
}


def job(api: str, **fields: Any) -> GenerationRequest:
    read: Any = {
        "chat": read_chat_request,
        "responses": read_responses_request,
        "messages": read_messages_request,
    }[api]
    request: GenerationRequest = read({**MINIMAL[api], **fields})
    return request


@pytest.mark.parametrize(
    ("api", "field", "value"),
    [
        ("chat", "audio", {"voice": "alloy", "format": "wav"}),
        ("chat", "modalities", ["text", "audio"]),
        ("chat", "web_search_options", {"search_context_size": "low"}),
        ("chat", "chat_template", "{{ messages }}"),
        ("chat", "prompt", "Once"),
        ("chat", "echo", True),
        ("chat", "best_of", 2),
        ("responses", "prompt", {"id": "pmpt_1"}),
        ("responses", "background", True),
        ("messages", "mcp_servers", [{"type": "url", "url": "https://x", "name": "x"}]),
        ("messages", "container", "container_1"),
    ],
)
def test_unsupported_field_that_changes_the_answer_is_refused(api: str, field: str, value: Any) -> None:
    with pytest.raises(Failure) as failure:
        job(api, **{field: value})
    assert failure.value.param == field
    assert failure.value.code == "unsupported_parameter"
    assert failure.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("api", "field", "value"),
    [
        ("chat", "modalities", ["text"]),
        ("chat", "echo", False),
        ("chat", "best_of", 1),
        ("responses", "background", False),
        ("messages", "mcp_servers", []),
        ("responses", "truncation", "disabled"),
    ],
)
def test_neutral_value_of_an_unsupported_field_is_accepted(api: str, field: str, value: Any) -> None:
    assert list(job(api, **{field: value}).ignored) == []


@pytest.mark.parametrize(
    ("api", "fields", "note"),
    [
        ("messages", {"context_management": {"edits": [{"type": "x"}]}}, "context_management"),
        ("responses", {"context_management": [{"type": "compaction"}]}, "context_management"),
        ("responses", {"truncation": "auto"}, "truncation"),
        ("responses", {"text": {"verbosity": "low"}}, "verbosity low"),
        ("chat", {"verbosity": "high"}, "verbosity high"),
        ("messages", {"new_field": 1}, "new_field"),
    ],
)
def test_common_agent_fields_are_ignored_with_a_log_event(
    api: str, fields: dict[str, Any], note: str
) -> None:
    (ignored,) = job(api, **fields).ignored
    assert note in ignored


DOCUMENTED = {
    "chat": (openai.types.chat.completion_create_params.CompletionCreateParamsBase, ChatBody),
    "responses": (openai.types.responses.response_create_params.ResponseCreateParamsBase, ResponsesBody),
    "messages": (anthropic.types.beta.message_create_params.MessageCreateParamsBase, MessagesBody),
}


@pytest.mark.parametrize("api", DOCUMENTED)
def test_every_documented_field_is_handled(api: str) -> None:
    """A field in none of the tables is forwarded to the engine or logged as ignored."""
    documented, shape = DOCUMENTED[api]
    fields = set(get_type_hints(documented)) - {"functions", "function_call"}  # the plan rejects these two
    assert len(fields) > 15
    for field in fields - set(shape.__struct_fields__) - WITHOUT_EFFECT - set(REFUSED[api]):
        request = job(api, **{field: "x"})
        if api == "chat" or field in request.sampling:
            assert request.sampling[field] == "x"
        else:
            assert any(field in note for note in request.ignored)


# -- upstream requests


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("fields"))
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


def test_stop_token_ids_reach_engines_that_support_them(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    body = {"messages": USER, "stop_token_ids": [5, 7], "include_stop_str_in_output": True}
    post(f"{gateway.url}/v1/chat/completions", body)
    assert engine.last()["stop_token_ids"] == [5, 7]
    assert engine.last()["include_stop_str_in_output"] is True


@pytest.mark.parametrize("field", [{"stop_token_ids": [5]}, {"include_stop_str_in_output": True}])
@pytest.mark.parametrize("upstream", ["completions", "chat"])
def test_stop_token_ids_are_not_sent_to_other_engines(
    engine: EngineProcess, tmp_path: Any, field: dict[str, Any], upstream: str
) -> None:
    settings = {"upstream": upstream, "url": engine.url, "engine": "llamacpp", "dialect": "hermes"}
    with serving(**settings, template=template_file(tmp_path), model="m", upstream_model="e") as server:
        status, data, _ = send(f"{server.url}/v1/chat/completions", {"messages": USER, **field})
    assert status == 400
    assert json.loads(data)["error"]["param"] == next(iter(field))


def test_documents_reach_the_template_or_are_refused(
    engine: EngineProcess, gateway: GatewayThread, tmp_path: Any
) -> None:
    body = {"messages": USER, "documents": [{"title": "Oslo", "text": "It rains."}]}
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", body)
    assert (status, json.loads(data)["error"]["param"]) == (400, "documents")
    path = tmp_path / "documents.jinja"
    path.write_text("{% for one in documents or [] %}{{ one.title }}: {{ one.text }}\n{% endfor %}" + CHATML)
    with serving(
        upstream="completions", url=engine.url, template=str(path), dialect="hermes", model="m"
    ) as server:
        post(f"{server.url}/v1/chat/completions", body)
    assert engine.last()["prompt"].startswith("Oslo: It rains.\n")
    assert "documents" not in engine.last()
    with serving(upstream="chat", url=engine.url, dialect="hermes", model="m") as server:
        post(f"{server.url}/v1/chat/completions", body)
    assert engine.last()["documents"] == body["documents"]
