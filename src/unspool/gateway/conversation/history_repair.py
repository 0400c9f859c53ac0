"""Broken calls that come back: clients repeat the conversation, and calls that a wire has spoilt with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...chat_templates._history import MALFORMED_KEY
from ...wire._poisoned_calls import MALFORMED, is_poisoned_as_malformed, without_poison
from ..http.json_decoding import is_object


def without_poisoned_arguments(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same conversation, with arguments as the model wrote them."""
    return [_changed(message, without_poison) for message in messages]


def with_json_arguments(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same conversation, for a server that reads arguments as JSON and refuses what is none."""
    return [_changed(message, _as_json) for message in messages]


def arguments_of(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The arguments of all calls that are text."""
    found = [
        call["function"].get("arguments") for message in messages for call in message.get("tool_calls") or ()
    ]
    return [arguments for arguments in found if isinstance(arguments, str)]


def malformed_in_a_row(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many results, up to the last message, answer nothing but malformed calls."""
    malformed = {
        call.get("id")
        for message in messages
        for call in message.get("tool_calls") or ()
        if is_poisoned_as_malformed(str(call["function"].get("arguments")))
    }
    count = 0
    for message in reversed(messages):
        if message["role"] == "tool":
            # Some clients send back what they could read of the call, and quote the rest in the result.
            if message.get("tool_call_id") not in malformed and MALFORMED not in str(message.get("content")):
                break
            count += 1
        elif message["role"] != "assistant":
            break
    return count


def _changed(message: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_call(call, change) for call in calls]}


def _call(call: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return call
    return {**call, "function": {**function, "arguments": change(arguments)}}


def _as_json(arguments: str) -> str:
    readable = not arguments or is_object(arguments)
    return arguments if readable else json.dumps({MALFORMED_KEY: arguments}, ensure_ascii=False)
