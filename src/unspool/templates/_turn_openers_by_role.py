"""Turn openers of each role, found by rendering conversations that consist of placeholders.

The turn opener of a role is the text that a template writes between the end of the
previous turn and the text of a turn with this role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final

from ..dialects import ends_of_turn, find, is_control_token
from ..errors import UsageError
from ._capabilities import PROBED_TOOL, ChatMessage
from ._chat_template import ChatTemplate, ChatTemplateError
from .prefix_stability import (
    CONTENT,
    QUESTION,
    RESULT,
    TAG,
    ConversationRenderer,
    ProbeCall,
    find_reasoning_markers,
    make_message,
    make_turn,
)

if TYPE_CHECKING:
    from ..dialects import Dialect

_TEXTS: Final = {"user": QUESTION, "assistant": CONTENT, "tool": RESULT}


def turn_openers(template: ChatTemplate, dialect: str | Dialect, **variables: Any) -> dict[str, str]:
    """Return a dictionary from turn openers to roles.

    :param variables: additional variables for the template, such as ``enable_thinking``.
    """
    ends = ends_of_turn(find(dialect))
    openers: dict[str, str] = {}
    # Render with two tool names, because the text before a tool result may contain the tool's name. The
    # opener is the part that both renderings share.
    one, other = (_openers(template, ends, word, variables) for word in ("first", "second"))
    for (role, opener), (_, again) in zip(one, other, strict=True):
        shared = _without_end(commonprefix((opener, again)), ends)  # noqa: RUF071 - no paths
        if shared.strip():
            openers.setdefault(shared, role)
    models = [opener for opener, role in openers.items() if role == "assistant"]
    if not models:
        raise UsageError("cannot tell from the template where a turn of the model begins: pass openers={...}")
    for opener, role in openers.items():
        if role != "assistant" and any(model in opener for model in models):
            raise UsageError(
                f"cannot tell from the template where a turn of the model ends and a turn of {role} begins: "
                "pass openers={...}"
            )
    return openers


def _openers(
    template: ChatTemplate, ends: frozenset[str], name: str, variables: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return pairs of role and opener, from conversations in which the model calls the tool ``name``."""
    capabilities, markers = template.capabilities, find_reasoning_markers(template)
    question, answer = (
        make_message(capabilities, "user", QUESTION),
        make_turn(capabilities, markers, thought=False),
    )
    call = ProbeCall(f"{name}call"[:9], name)
    # A template that cannot write calls may still write tool results.
    request = make_turn(
        capabilities, markers, thought=False, calls=[call] if capabilities.calls != "none" else []
    )
    result = make_message(capabilities, "tool", RESULT, tool_call_id=call.id, name=call.name)
    openers: list[tuple[str, str]] = []
    for tools, before in ((None, [question]), ([PROBED_TOOL], [question, request, result])):
        messages = [*before, answer, question]
        renderer = ConversationRenderer(template, tools, variables)
        try:
            header, seed = renderer.header(before), renderer.prompt(before).seed
            text = renderer.render(messages, generation=False)
        except ChatTemplateError:
            continue
        openers += [("assistant", header + seed), ("assistant", header)]
        openers += _other_openers(messages, text, ends)
    return openers


def _other_openers(messages: Sequence[ChatMessage], text: str, ends: frozenset[str]) -> list[tuple[str, str]]:
    """Return pairs of role and opener for all messages except the first message and the model's messages."""
    openers: list[tuple[str, str]] = []
    end = 0
    for message in messages:
        role = message["role"]
        place = -1 if message.get("tool_calls") else text.find(_TEXTS[role], end)
        if place >= 0:
            if role != "assistant" and end:
                openers.append((role, _from_end(text[end:place], ends)))
            end = place + len(_TEXTS[role])
    return openers


def _from_end(gap: str, ends: frozenset[str]) -> str:
    """Return the text between two turns, starting with the marker that ends the first turn."""
    return gap[max([0, *(gap.rfind(end) for end in ends)]) :].lstrip()


def _without_end(opener: str, ends: frozenset[str]) -> str:
    """Remove the end of the previous turn from an opener, if a marker remains."""
    opener = opener.lstrip()
    for end in ends:
        rest = opener.removeprefix(end).lstrip()
        if rest != opener and any(map(is_control_token, re.findall(TAG, rest))):
            return rest
    return opener
