"""What begins the turns of each role, by what a template writes before their words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final

from ..dialects._control_tokens import is_control_token
from ..dialects._registry import ends_of_turn, find
from ..errors import UsageError
from ._capabilities import PROBED_TOOL, ChatMessage
from ._chat_template import ChatTemplate, ChatTemplateError
from ._prefix_stability import (
    CONTENT,
    QUESTION,
    RESULT,
    TAG,
    Call,
    Follower,
    marks_of,
    said,
    turn,
)

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect

_WORDS: Final = {"user": QUESTION, "assistant": CONTENT, "tool": RESULT}


def turn_openers(template: ChatTemplate, dialect: str | Dialect, **variables: Any) -> dict[str, str]:
    """What begins the turns of each role.

    :param variables: further variables of the template, such as ``enable_thinking``.
    """
    ends = ends_of_turn(find(dialect))
    found: dict[str, str] = {}
    # Twice, with other names: what differs is no part of an opener.
    one, other = (_openers(template, ends, word, variables) for word in ("first", "second"))
    for (role, opener), (_, again) in zip(one, other, strict=True):
        shared = _behind_end(commonprefix((opener, again)), ends)  # noqa: RUF071 - no paths
        if shared.strip():
            found.setdefault(shared, role)
    models = [opener for opener, role in found.items() if role == "assistant"]
    if not models:
        raise UsageError("the template does not show where a turn of the model begins: give openers={...}")
    for opener, role in found.items():
        if role != "assistant" and any(begun in opener for begun in models):
            raise UsageError(
                f"the template does not show where a turn of the model ends and one of {role} begins: "
                "give openers={...}"
            )
    return found


def _openers(
    template: ChatTemplate, ends: frozenset[str], name: str, variables: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Roles, and what stands before what they say, in conversations of stand-ins and calls of this name."""
    wants, marks = template.wants, marks_of(template)
    question, answer = said(wants, "user", QUESTION), turn(wants, marks, thought=False)
    call = Call(f"{name}call"[:9], name)
    # One that writes no calls may write results all the same.
    asked = turn(wants, marks, thought=False, calls=[call] if wants.calls != "none" else [])
    result = said(wants, "tool", RESULT, tool_call_id=call.id, name=call.name)
    found: list[tuple[str, str]] = []
    for tools, before in ((None, [question]), ([PROBED_TOOL], [question, asked, result])):
        messages = [*before, answer, question]
        follower = Follower(template, tools, variables)
        try:
            header, seed = follower.header(before), follower.prompt(before).seed
            text = follower.render(messages, generation=False)
        except ChatTemplateError:
            continue
        found += [("assistant", header + seed), ("assistant", header)]
        found += _others(messages, text, ends)
    return found


def _others(messages: Sequence[ChatMessage], text: str, ends: frozenset[str]) -> list[tuple[str, str]]:
    """What stands before the words of everybody else, but for the first."""
    found: list[tuple[str, str]] = []
    behind = 0
    for message in messages:
        role = message["role"]
        place = -1 if message.get("tool_calls") else text.find(_WORDS[role], behind)
        if place >= 0:
            if role != "assistant" and behind:
                found.append((role, _from_end(text[behind:place], ends)))
            behind = place + len(_WORDS[role])
    return found


def _from_end(gap: str, ends: frozenset[str]) -> str:
    """What stands between two turns, from what ends the first."""
    return gap[max([0, *(gap.rfind(end) for end in ends)]) :].lstrip()


def _behind_end(opener: str, ends: frozenset[str]) -> str:
    """What begins a turn; where nothing else marks it, that is what ends the one before."""
    opener = opener.lstrip()
    for end in ends:
        rest = opener.removeprefix(end).lstrip()
        if rest != opener and any(map(is_control_token, re.findall(TAG, rest))):
            return rest
    return opener
