"""Clients for three APIs of an engine's server, streamed and not, with answers in one form.

The clients use plain HTTP instead of libraries, so that comparisons apply to the server's bytes.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Api: TypeAlias = Literal["chat", "responses", "messages"]
APIS: tuple[Api, ...] = ("chat", "responses", "messages")

_PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


@dataclass
class Answer:
    """One choice of an answer."""

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Names and arguments."""
    finish: str = ""
    """Finish reason in the terms of Chat Completions."""
    reasoning_tokens: int | None = None
    completion_tokens: int | None = None

    def contents(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Everything except the finish reason and the usage."""
        return self.reasoning, self.content, self.calls


class Refused(Exception):
    """Error response of the server."""


def ask(url: str, api: Api, body: dict[str, Any], *, stream: bool) -> list[Answer]:
    """Send a request body to an API and return the choices of the answer."""
    sent = {**body, "stream": stream}
    if api == "chat" and stream:
        sent["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(  # noqa: S310 - our own server
        url + _PATHS[api],
        json.dumps(sent).encode(),
        {"Content-Type": "application/json", "anthropic-version": "2023-06-01"},
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            if stream:
                return _STREAMED[api](list(_events(response)))
            return _WHOLE[api](json.load(response))
    except urllib.error.HTTPError as error:
        raise Refused(f"{error.code}: {error.read().decode()[:300]}") from error


def _events(response: Any) -> Iterator[dict[str, Any]]:
    for line in response:
        text = line.decode().strip()
        if text.startswith("data:") and text != "data: [DONE]":
            event = json.loads(text[5:])
            if "error" in event:
                raise Refused(str(event["error"])[:300])
            yield event


def _usage(answers: list[Answer], usage: dict[str, Any] | None, kind: str) -> list[Answer]:
    if usage:
        details = usage.get(f"{kind}_tokens_details") or {}
        answers[0].completion_tokens = usage[f"{kind}_tokens"]
        answers[0].reasoning_tokens = details.get("reasoning_tokens")
    return answers


# -- Chat


def _reasoning(message: dict[str, Any]) -> str:
    """Return the reasoning, which has different field names in different versions."""
    return message.get("reasoning") or message.get("reasoning_content") or ""


def _chat_whole(body: dict[str, Any]) -> list[Answer]:
    answers = []
    for choice in body["choices"]:
        message = choice["message"]
        answers.append(
            Answer(
                _reasoning(message),
                message.get("content") or "",
                [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
                if message.get("tool_calls")
                else [],
                choice["finish_reason"],
            )
        )
    return _usage(answers, body["usage"], "completion")


def _chat_streamed(events: list[dict[str, Any]]) -> list[Answer]:
    answers: dict[int, Answer] = {}
    usage = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            answer = answers.setdefault(choice["index"], Answer())
            delta = choice["delta"]
            answer.reasoning += _reasoning(delta)
            answer.content += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                if call.get("id"):
                    answer.calls.append((call["function"]["name"], ""))
                name, arguments = answer.calls[call["index"]]
                answer.calls[call["index"]] = name, arguments + (call["function"].get("arguments") or "")
            if choice.get("finish_reason"):
                answer.finish = choice["finish_reason"]
    return _usage([answers[index] for index in sorted(answers)], usage, "completion")


# -- Responses


def _responses_whole(body: dict[str, Any]) -> list[Answer]:
    answer = Answer()
    for item in body["output"]:
        _item(answer, item)
    cut = (body.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    answer.finish = "length" if cut else "tool_calls" if answer.calls else "stop"
    return _usage([answer], body["usage"], "output")


def _item(answer: Answer, item: dict[str, Any]) -> None:
    if item["type"] == "function_call":
        answer.calls.append((item["name"], item["arguments"]))
        return
    text = "".join(part.get("text", "") for part in item.get("content") or ())
    if item["type"] == "reasoning":
        answer.reasoning += text
    else:
        answer.content += text


def _responses_streamed(events: list[dict[str, Any]]) -> list[Answer]:
    answer = Answer()
    last: dict[str, Any] = {}
    for event in events:
        kind = event["type"]
        if kind == "response.output_text.delta":
            answer.content += event["delta"]
        elif kind == "response.reasoning_text.delta":
            answer.reasoning += event["delta"]
        elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
            answer.calls.append((event["item"]["name"], ""))
        elif kind == "response.function_call_arguments.delta":
            name, arguments = answer.calls[-1]
            answer.calls[-1] = name, arguments + event["delta"]
        elif kind == "response.function_call_arguments.done" and not answer.calls[-1][1]:
            answer.calls[-1] = answer.calls[-1][0], event["arguments"]  # the stream had no deltas
        elif kind in ("response.completed", "response.incomplete"):
            last = event["response"]
    (whole,) = _responses_whole(last)
    answer.finish = whole.finish
    answer.completion_tokens, answer.reasoning_tokens = whole.completion_tokens, whole.reasoning_tokens
    return [answer]


# -- Messages


def _messages_whole(body: dict[str, Any]) -> list[Answer]:
    answer = Answer(finish=_STOPS[body["stop_reason"]], completion_tokens=body["usage"]["output_tokens"])
    for block in body["content"]:
        if block["type"] == "thinking":
            answer.reasoning += block["thinking"]
        elif block["type"] == "text":
            answer.content += block["text"]
        else:
            answer.calls.append((block["name"], json.dumps(block["input"])))
    return [answer]


def _messages_streamed(events: list[dict[str, Any]]) -> list[Answer]:
    answer = Answer()
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            answer.calls.append((event["content_block"]["name"], ""))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "thinking_delta":
                answer.reasoning += delta["thinking"]
            elif delta["type"] == "text_delta":
                answer.content += delta["text"]
            elif delta["type"] == "input_json_delta":
                name, arguments = answer.calls[-1]
                answer.calls[-1] = name, arguments + delta["partial_json"]
        elif event["type"] == "message_delta":
            answer.finish = _STOPS[event["delta"]["stop_reason"]]
            answer.completion_tokens = event["usage"]["output_tokens"]
    return [answer]


_WHOLE = {"chat": _chat_whole, "responses": _responses_whole, "messages": _messages_whole}
_STREAMED = {"chat": _chat_streamed, "responses": _responses_streamed, "messages": _messages_streamed}
