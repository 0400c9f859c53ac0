"""What a template can read: it does not say so, and is asked by rendering probes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

ChatMessage: TypeAlias = dict[str, Any]

REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought")
"""What reasoning is called in a message; the first that a template reads is used."""


@dataclass(frozen=True, slots=True)
class TemplateCapabilities:
    """What a template can read, found out by rendering probes."""

    calls: Literal["many", "one", "none"]
    """How many calls of an assistant message it writes."""
    arguments: Literal["object", "string", "either"]
    """How arguments must be given; either: both come out the same."""
    reasoning: str
    """The key it reads reasoning from; ``parts``: as a part of the content; empty: nowhere."""
    beside: bool
    """Content stays in one message with calls.  False: the template would refuse it, drop it or write
    it behind the calls, but not in a message of its own before them."""
    both: bool
    """Content and reasoning may stand in one message."""
    empty: str | None
    """The content of a message that has only calls."""
    parts: frozenset[str]
    """Roles whose content may be a list of parts ..."""
    only_parts: frozenset[str]
    """... and those of them whose content must be one: text would be refused or left out."""


class RenderAttempt(Protocol):
    """Renders a conversation with a tool offered; empty where the template refuses it."""

    def __call__(self, *messages: ChatMessage) -> str: ...


PROBED_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "unspool_tool",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"unspool_key": {"type": "string", "description": "A probe."}},
            "required": ["unspool_key"],
        },
    },
}
THINKING_ON: Final = {"enable_thinking": True, "thinking": True, "add_thoughts": True}
"""What makes templates keep reasoning."""
_ARGUMENTS: Final = {"unspool_key": "unspool value"}
_TEXT: Final = "Unspool's text."
_THOUGHT: Final = "Unspool's thought."


def text_part(text: str) -> list[ChatMessage]:
    """Text as a list of parts."""
    return [{"type": "text", "text": text}] if text else []


def _probe_call(name: str, arguments: object) -> ChatMessage:
    # Nine characters, because some templates insist on that.
    return {"id": f"{name[-5:]}0000", "type": "function", "function": {"name": name, "arguments": arguments}}


def ask(attempt: RenderAttempt) -> TemplateCapabilities:
    """What a template wants, by what it writes."""
    parts: set[str] = set()
    only_parts: set[str] = set()

    def message(role: str, content: object, **extra: object) -> ChatMessage:
        if isinstance(content, str) and role in only_parts:
            content = text_part(content)
        return {"role": role, "content": content, **extra}

    def learn_form(role: str, conversation: Callable[[object], list[ChatMessage]]) -> None:
        """Whether a role's content may be a list of parts, and whether it must."""
        if _reads(attempt(*conversation(text_part(_TEXT)))):
            parts.add(role)
            if _TEXT not in attempt(*conversation(_TEXT)):
                only_parts.add(role)

    def turn(content: object, *calls: ChatMessage, **extra: object) -> str:
        """A turn of the model, and the results of its calls."""
        if calls:
            extra["tool_calls"] = list(calls)
        return attempt(
            user, message("assistant", content, **extra), *(result("Result.", call) for call in calls)
        )

    def result(content: object, call: ChatMessage) -> ChatMessage:
        return message("tool", content, tool_call_id=call["id"])

    def in_order(text: str) -> bool:
        """Whether the text stands where the model wrote it: before the call."""
        return -1 < text.find(_TEXT) < text.find("unspool_first")

    learn_form("user", lambda content: [message("user", content)])
    user = message("user", "Unspool's question.")
    learn_form("system", lambda content: [message("system", content), user])
    learn_form("assistant", lambda content: [user, message("assistant", content)])
    if "user" in only_parts:
        only_parts.add("tool")  # until it is asked itself, which takes calls
    forms = {"object": _ARGUMENTS, "string": json.dumps(_ARGUMENTS)}
    contents = ("", None)
    written = {
        (form, content): turn(content, _probe_call("unspool_first", arguments))
        for form, arguments in forms.items()
        for content in contents
    }
    written = {key: text for key, text in written.items() if "unspool_first" in text}
    arguments = _arguments_form(written)
    form = "string" if arguments == "string" else "object"
    empties = [content for content in contents if (form, content) in written]
    # Where both will do, the one that leaves no trace; `None` is written as a word by some.
    empty = min(empties, key=lambda content: len(written[form, content]), default="")
    first, second = (_probe_call(f"unspool_{name}", forms[form]) for name in ("first", "other"))
    calls = [first] if written else []
    call = message("assistant", empty, tool_calls=[first])
    apart = attempt(user, message("assistant", _TEXT), call, result("Result.", first))
    only_parts.discard("tool")
    learn_form(
        "tool", lambda content: [user, message("assistant", "", tool_calls=[first]), result(content, first)]
    )
    return TemplateCapabilities(
        calls="none" if not calls else "many" if "unspool_other" in turn(empty, first, second) else "one",
        arguments=arguments,
        reasoning=_reasoning_key(lambda content, **extra: turn(content, *calls, **extra)),
        beside=not calls or in_order(turn(_TEXT, first)) or not in_order(apart),
        both=bool(turn(_TEXT, *calls, **dict.fromkeys(REASONING_KEYS, _THOUGHT))),
        empty=empty,
        parts=frozenset(parts),
        only_parts=frozenset(only_parts),
    )


def _arguments_form(written: Mapping[tuple[str, str | None], str]) -> Literal["object", "string", "either"]:
    """Which form of arguments a template takes, from what it wrote for each."""
    texts = {form: text for (form, _), text in reversed(tuple(written.items()))}
    objects, strings = texts.get("object", ""), texts.get("string", "")
    if objects and objects == strings:
        return "either"
    # A dictionary pasted into the text is no notation of any model.
    return "object" if objects and not (strings and str(_ARGUMENTS) in objects) else "string"


def _reasoning_key(turn: Callable[..., str]) -> str:
    """Where a template reads reasoning."""
    for key in REASONING_KEYS:
        if _THOUGHT in turn("", **{key: _THOUGHT}) or _THOUGHT in turn(None, **{key: _THOUGHT}):
            return key
    text = turn([{"type": "thinking", "thinking": _THOUGHT}, *text_part(_TEXT)])
    return "parts" if _THOUGHT in text and _reads(text) else ""


def _reads(text: str) -> bool:
    """Whether a part of the content was read as such, not written out as a data structure."""
    return _TEXT in text and not re.search(r"""["']type["']: ["']text["']""", text)
