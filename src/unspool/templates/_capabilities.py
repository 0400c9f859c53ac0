"""Capabilities of a chat template, found by rendering probes.

A template does not declare which messages it can read.  For example, some templates need arguments as an
object, and others as JSON text.  Some read reasoning from the key ``reasoning_content``, and others from
``thinking``.  ``probe_capabilities`` renders short conversations that contain unusual texts, and searches the
renderings for these texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

ChatMessage: TypeAlias = dict[str, Any]

REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought")
"""Keys under which a message may contain reasoning, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class TemplateCapabilities:
    """Capabilities of a template, which determine the messages that it can read."""

    calls: Literal["many", "one", "none"]
    """Number of calls that the template writes per assistant message."""
    arguments: Literal["object", "string", "either"]
    """The form that the template needs for arguments; ``either`` if it renders both forms identically."""
    reasoning_key: str
    """The key of a message under which the template reads reasoning; ``parts`` if reasoning must be a part of
    the content; empty if the template does not read reasoning."""
    content_before_calls: bool
    """True if the template writes the content of a message before the calls of the same message.

    If False, the content must be moved to a separate message, before the message with the calls.
    """
    content_with_reasoning: bool
    """True if a message with calls may have both content and reasoning."""
    empty_content: str | None
    """The value of ``content`` in a message that has calls but no text: an empty string or None."""
    roles_with_parts: frozenset[str]
    """Roles whose content may be a list of parts."""
    roles_with_parts_only: frozenset[str]
    """Roles whose content must be a list of parts; the template rejects or ignores text."""


class RenderAttempt(Protocol):
    """Function that renders messages with a declared tool; returns "" if the template raises an error."""

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
"""Variables that make templates write the reasoning of earlier turns."""
_ARGUMENTS: Final = {"unspool_key": "unspool value"}
_TEXT: Final = "Unspool's text."
_THOUGHT: Final = "Unspool's thought."


def text_part(text: str) -> list[ChatMessage]:
    """Return a list with one part of type ``text``; an empty list for an empty text."""
    return [{"type": "text", "text": text}] if text else []


def _probe_call(name: str, arguments: object) -> ChatMessage:
    # Some templates require ids of nine characters.
    return {"id": f"{name[-5:]}0000", "type": "function", "function": {"name": name, "arguments": arguments}}


def probe_capabilities(attempt: RenderAttempt) -> TemplateCapabilities:
    """Return the capabilities of a template.

    Each probe uses the results of earlier probes.  For example, the probes for calls contain a user message,
    so an earlier probe must find out whether the content of user messages must be a list.
    """
    with_parts: set[str] = set()
    with_parts_only: set[str] = set()

    def message(role: str, content: object, **extra: object) -> ChatMessage:
        if isinstance(content, str) and role in with_parts_only:
            content = text_part(content)
        return {"role": role, "content": content, **extra}

    def probe_parts(role: str, conversation: Callable[[object], list[ChatMessage]]) -> None:
        """Record whether messages with this role may have, or must have, a list of parts as content."""
        if _reads_text(attempt(*conversation(text_part(_TEXT)))):
            with_parts.add(role)
            if _TEXT not in attempt(*conversation(_TEXT)):
                with_parts_only.add(role)

    def render_turn(content: object, *calls: ChatMessage, **extra: object) -> str:
        """Render an assistant message, followed by the results of its calls."""
        if calls:
            extra["tool_calls"] = list(calls)
        return attempt(
            user, message("assistant", content, **extra), *(result("Result.", call) for call in calls)
        )

    def result(content: object, call: ChatMessage) -> ChatMessage:
        return message("tool", content, tool_call_id=call["id"])

    def in_order(text: str) -> bool:
        """Return whether the content comes before the call in a rendering, as it does in outputs."""
        return -1 < text.find(_TEXT) < text.find("unspool_first")

    probe_parts("user", lambda content: [message("user", content)])
    user = message("user", "Unspool's question.")
    probe_parts("system", lambda content: [message("system", content), user])
    probe_parts("assistant", lambda content: [user, message("assistant", content)])
    if "user" in with_parts_only:
        # Tool results can only be probed together with calls.  Until then, assume the same as for user
        # messages.
        with_parts_only.add("tool")
    forms = {"object": _ARGUMENTS, "string": json.dumps(_ARGUMENTS)}
    contents = ("", None)
    rendered = {
        (form, content): render_turn(content, _probe_call("unspool_first", arguments))
        for form, arguments in forms.items()
        for content in contents
    }
    rendered = {key: text for key, text in rendered.items() if "unspool_first" in text}
    arguments = _arguments_form(rendered)
    form = "string" if arguments == "string" else "object"
    empties = [content for content in contents if (form, content) in rendered]
    # Use the value that renders to less text, because some templates write None as the word "None".
    empty = min(empties, key=lambda content: len(rendered[form, content]), default="")
    first, second = (_probe_call(f"unspool_{name}", forms[form]) for name in ("first", "other"))
    calls = [first] if rendered else []
    call = message("assistant", empty, tool_calls=[first])
    separate = attempt(user, message("assistant", _TEXT), call, result("Result.", first))
    with_parts_only.discard("tool")
    probe_parts(
        "tool", lambda content: [user, message("assistant", "", tool_calls=[first]), result(content, first)]
    )
    both_calls = render_turn(empty, first, second) if calls else ""
    return TemplateCapabilities(
        calls="none" if not calls else "many" if "unspool_other" in both_calls else "one",
        arguments=arguments,
        reasoning_key=_reasoning_key(lambda content, **extra: render_turn(content, *calls, **extra)),
        content_before_calls=not calls or in_order(render_turn(_TEXT, first)) or not in_order(separate),
        content_with_reasoning=bool(render_turn(_TEXT, *calls, **dict.fromkeys(REASONING_KEYS, _THOUGHT))),
        empty_content=empty,
        roles_with_parts=frozenset(with_parts),
        roles_with_parts_only=frozenset(with_parts_only),
    )


def _arguments_form(rendered: Mapping[tuple[str, str | None], str]) -> Literal["object", "string", "either"]:
    """Compare the renderings of both forms of arguments, and return the form that the template needs."""
    texts = {form: text for (form, _), text in reversed(tuple(rendered.items()))}
    objects, strings = texts.get("object", ""), texts.get("string", "")
    if objects and objects == strings:
        return "either"
    # Models write JSON.  So a template that prints an object as a Python dictionary expects text.
    return "object" if objects and not (strings and str(_ARGUMENTS) in objects) else "string"


def _reasoning_key(render_turn: Callable[..., str]) -> str:
    """Return the key under which a template reads reasoning, ``parts``, or an empty string."""
    for key in REASONING_KEYS:
        if _THOUGHT in render_turn("", **{key: _THOUGHT}) or _THOUGHT in render_turn(None, **{key: _THOUGHT}):
            return key
    text = render_turn([{"type": "thinking", "thinking": _THOUGHT}, *text_part(_TEXT)])
    return "parts" if _THOUGHT in text and _reads_text(text) else ""


def _reads_text(text: str) -> bool:
    """Return whether a rendering contains only the text of a content part, not the part as a dictionary."""
    return _TEXT in text and not re.search(r"""["']type["']: ["']text["']""", text)
