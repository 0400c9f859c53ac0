"""Repair of broken tool calls that clients send back with the conversation.

If a call is malformed or truncated, the gateway *poisons* the call's arguments: it makes them invalid JSON,
so that no client runs the call (see ``_core/conversions/make_broken_arguments_unparsable.py``).  Clients
send these calls back in later requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...templates import MALFORMED_KEY
from ...wire import MALFORMED, is_poisoned_as_malformed, remove_poison
from ..http.json_decoding import is_object


def without_poisoned_arguments(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conversation without poison, with all arguments as the model wrote them."""
    return [_change_arguments(message, remove_poison) for message in messages]


def with_json_arguments(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conversation with all arguments as JSON objects, for servers that require objects."""
    return [_change_arguments(message, _wrap_invalid) for message in messages]


def list_arguments(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the argument strings of all calls in the conversation."""
    values = [
        call["function"].get("arguments") for message in messages for call in message.get("tool_calls") or ()
    ]
    return [arguments for arguments in values if isinstance(arguments, str)]


def count_malformed_calls(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of consecutive malformed calls at the end of the conversation."""
    malformed = {
        call.get("id")
        for message in messages
        for call in message.get("tool_calls") or ()
        if is_poisoned_as_malformed(str(call["function"].get("arguments")))
    }
    count = 0
    for message in reversed(messages):
        if message["role"] == "tool":
            # Some clients send back only the valid part of the arguments, but their tool result quotes the
            # poison (the text that the gateway added to make the arguments invalid).
            if message.get("tool_call_id") not in malformed and MALFORMED not in str(message.get("content")):
                break
            count += 1
        elif message["role"] != "assistant":
            break
    return count


def _change_arguments(message: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_change_call(call, change) for call in calls]}


def _change_call(call: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return call
    return {**call, "function": {**function, "arguments": change(arguments)}}


def _wrap_invalid(arguments: str) -> str:
    """Return arguments unchanged if they are a JSON object, else an object that contains them as text."""
    is_valid = not arguments or is_object(arguments)
    return arguments if is_valid else json.dumps({MALFORMED_KEY: arguments}, ensure_ascii=False)
