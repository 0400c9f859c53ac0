"""Capabilities of a chat template, found by rendering probes.

A template does not declare which messages it can read.  Templates differ, for
example, in whether arguments must be an object or JSON text, and under which key
they look for reasoning.  ``probe_capabilities`` renders short conversations with
recognisable texts, and looks for these texts in the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

ChatMessage: TypeAlias = dict[str, Any]

REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought")
"""Keys for reasoning in a message, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class TemplateCapabilities:
    """The messages that a template can read."""

    calls: Literal["many", "one", "none"]
    """How many calls of one assistant message the template writes."""
    arguments: Literal["object", "string", "either"]
    """The form of arguments; ``either`` if both forms give the same text."""
    reasoning_key: str
    """The key of reasoning; ``parts`` if it must be a part of the content; empty if the template
    does not read reasoning."""
    content_before_calls: bool
    """True if the template writes the content of a message with calls before these calls.

    If not, the content must be a separate message in front of the calls.
    """
    content_with_reasoning: bool
    """True if one message may have content and reasoning."""
    empty_content: str | None
    """The content of a message that has only calls."""
    roles_with_parts: frozenset[str]
    """Roles whose content may be a list of parts."""
    roles_with_parts_only: frozenset[str]
    """Roles whose content must be a list of parts; the template refuses or drops text."""


class RenderAttempt(Protocol):
    """Function that renders a conversation and offers a tool; empty if the template refuses it."""

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
"""Variables with which templates keep reasoning."""
_ARGUMENTS: Final = {"unspool_key": "unspool value"}
_TEXT: Final = "Unspool's text."
_THOUGHT: Final = "Unspool's thought."


def text_part(text: str) -> list[ChatMessage]:
    """Return text as a list of parts; an empty text has none."""
    return [{"type": "text", "text": text}] if text else []


def _probe_call(name: str, arguments: object) -> ChatMessage:
    # Some templates require ids of nine characters.
    return {"id": f"{name[-5:]}0000", "type": "function", "function": {"name": name, "arguments": arguments}}


def probe_capabilities(attempt: RenderAttempt) -> TemplateCapabilities:
    """Find the capabilities of a template.

    Each probe uses the results of the probes before it.  For example, a probe for calls
    needs to know whether the question of the user must be a list of parts.
    """
    with_parts: set[str] = set()
    with_parts_only: set[str] = set()

    def message(role: str, content: object, **extra: object) -> ChatMessage:
        if isinstance(content, str) and role in with_parts_only:
            content = text_part(content)
        return {"role": role, "content": content, **extra}

    def probe_parts(role: str, conversation: Callable[[object], list[ChatMessage]]) -> None:
        """Find out whether the content of a role may or must be a list of parts."""
        if _reads_text(attempt(*conversation(text_part(_TEXT)))):
            with_parts.add(role)
            if _TEXT not in attempt(*conversation(_TEXT)):
                with_parts_only.add(role)

    def render_turn(content: object, *calls: ChatMessage, **extra: object) -> str:
        """Render a turn of the model with the results of its calls."""
        if calls:
            extra["tool_calls"] = list(calls)
        return attempt(
            user, message("assistant", content, **extra), *(result("Result.", call) for call in calls)
        )

    def result(content: object, call: ChatMessage) -> ChatMessage:
        return message("tool", content, tool_call_id=call["id"])

    def in_order(text: str) -> bool:
        """Return whether the content comes before the call, as in the model's output."""
        return -1 < text.find(_TEXT) < text.find("unspool_first")

    probe_parts("user", lambda content: [message("user", content)])
    user = message("user", "Unspool's question.")
    probe_parts("system", lambda content: [message("system", content), user])
    probe_parts("assistant", lambda content: [user, message("assistant", content)])
    if "user" in with_parts_only:
        with_parts_only.add("tool")  # a guess until the probe below, which needs calls
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
    # Prefer the one that adds nothing to the text: some templates write `None` as a word.
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
    """Return the form of arguments that a template reads, judging by its renderings of each form."""
    texts = {form: text for (form, _), text in reversed(tuple(rendered.items()))}
    objects, strings = texts.get("object", ""), texts.get("string", "")
    if objects and objects == strings:
        return "either"
    # No model writes a Python dictionary, so such a text means that the template expected a string.
    return "object" if objects and not (strings and str(_ARGUMENTS) in objects) else "string"


def _reasoning_key(render_turn: Callable[..., str]) -> str:
    """Return the key under which a template reads reasoning."""
    for key in REASONING_KEYS:
        if _THOUGHT in render_turn("", **{key: _THOUGHT}) or _THOUGHT in render_turn(None, **{key: _THOUGHT}):
            return key
    text = render_turn([{"type": "thinking", "thinking": _THOUGHT}, *text_part(_TEXT)])
    return "parts" if _THOUGHT in text and _reads_text(text) else ""


def _reads_text(text: str) -> bool:
    """Return whether a template read the text of a part, and did not print the part as data."""
    return _TEXT in text and not re.search(r"""["']type["']: ["']text["']""", text)
