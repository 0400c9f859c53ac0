"""Target: request bodies of each API. They give a job or a named failure, never another error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fuzz.choices import Choices
from fuzz.forgiving import object_of
from unspool.gateway.apis.chat.request import read_chat_request
from unspool.gateway.apis.messages.request import read_messages_request
from unspool.gateway.apis.ollama.request import read_ollama_chat_request, read_ollama_generate_request
from unspool.gateway.apis.responses.request import read_responses_request
from unspool.gateway.generation.request import GenerationRequest
from unspool.gateway.http.failure import STATUS, Failure
from unspool.gateway.http.json_limits import Bounds
from unspool.gateway.http.request_body import decode

_JOBS: Final[tuple[Callable[[Mapping[str, Any]], GenerationRequest], ...]] = (
    read_chat_request,
    read_messages_request,
    read_responses_request,
    read_ollama_chat_request,
    read_ollama_generate_request,
)
_MOST_VALUES: Final = 10_000
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}}
_PICTURE: Final = "data:image/png;base64,AAAA"
EXAMPLES: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    (
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "?"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "Hm.",
                    "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "1", "content": "3"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA, "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
        },
        {
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "S"}],
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}},
            "continue_final_message": True,
            "add_generation_prompt": False,
            "n": 2,
            "stop": ["."],
            "logprobs": True,
            "top_logprobs": 2,
            "max_completion_tokens": 9,
            "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": False},
            "temperature": 0.5,
            "seed": 1,
            "logit_bias": {"1": 2},
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": _PICTURE}}]},
            ],
            "verbosity": "low",
            "modalities": ["text"],
        },
    ),
    (
        {
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": ""},
                        {"type": "text", "text": "So."},
                        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "3"}]},
            ],
            "tools": [
                {"name": "f", "input_schema": _SCHEMA},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "stop_sequences": ["."],
            "stream": True,
        },
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "A"},
                        },
                        {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": "A"},
                        },
                    ],
                }
            ],
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _SCHEMA}},
            "top_k": 3,
        },
    ),
    (
        {
            "input": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "input_text", "text": "?"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "3"},
                {"type": "custom_tool_call", "call_id": "2", "name": "g", "input": "x"},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "2",
                    "output": [{"type": "input_text", "text": "3"}],
                },
            ],
            "tools": [
                {"type": "function", "name": "f", "parameters": _SCHEMA, "strict": True},
                {"type": "custom", "name": "g", "format": {"type": "text"}},
                {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "h"}]},
                {"type": "web_search"},
            ],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        },
        {
            "input": "?",
            "instructions": "Be brief.",
            "text": {"format": {"type": "json_schema", "name": "x", "schema": _SCHEMA}, "verbosity": "low"},
            "reasoning": {"effort": "low", "summary": "auto"},
            "store": False,
            "metadata": {"a": "b"},
            "truncation": "auto",
            "max_output_tokens": 20,
        },
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": _PICTURE}]}]},
    ),
    (
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "?", "images": ["iVBOR"]},
                {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
                {"role": "tool", "tool_name": "f", "content": "3"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}],
            "format": _SCHEMA,
            "options": {"num_predict": 5, "stop": ["."], "temperature": 0.1, "num_ctx": 9},
            "think": "low",
            "keep_alive": "5m",
            "stream": False,
        },
    ),
    (
        {
            "model": "m",
            "prompt": "?",
            "system": "Be brief.",
            "images": ["iVBOR"],
            "format": "json",
            "think": True,
        },
    ),
)
"""Example bodies by API, in the order of the jobs."""

HEAD: Final = 1
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    number = choices.byte()
    raw = number >= 128  # unchanged bytes, which may not be JSON
    sent = choices.rest() if raw else json.dumps(object_of(choices.utf8_text())).encode()
    try:
        job = _JOBS[number % len(_JOBS)](decode(sent, Bounds(_MOST_VALUES)))
    except Failure as failure:
        assert failure.status == STATUS["invalid_request"], (failure.status, failure.message)
        assert failure.message
        failure.message.encode()
        return
    messages = job.chat["messages"]
    assert isinstance(messages, list), messages
    assert all(isinstance(message, dict) and "role" in message for message in messages), messages
    json.dumps(job.chat)


def seeds() -> Iterator[bytes]:
    for number, bodies in enumerate(EXAMPLES):
        for body in bodies:
            yield bytes([number]) + json.dumps(body).encode()
            yield bytes([128 + number]) + json.dumps(body).encode()
