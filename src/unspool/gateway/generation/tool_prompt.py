"""Tools for a model whose chat template knows none.

Such a template would drop the tools of a request, and the results of calls with them,
or refuse the conversation.  So it is shown a conversation that it can write: the tools
and how to call them stand in the system message, or at the beginning of what the user
says first where there is no such role, and results are said by the user.  Calls of
earlier turns are written by ``normalise_history``, in the words of the dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..._core.render.message import render
from ...chat_templates import ChatTemplate, ChatTemplateError
from ...dialects._declaration import Dialect
from ...errors import UnspoolError
from ...message import Message, ToolCall

_PROBE: Final = {
    "type": "function",
    "function": {
        "name": "unspool_probe",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string", "description": "A probe."}},
        },
    },
}
_ASKED: Final = {"role": "user", "content": "Unspool's question."}
_ANSWERED: Final = {"role": "assistant", "content": "Unspool's answer."}
_SYSTEM: Final = {"role": "system", "content": "Unspool's rules."}
_RESULT: Final = {"role": "tool", "tool_call_id": "unspool01", "content": "Unspool's result."}


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """What a template leaves out, and what it is shown instead."""

    tools: bool
    """It does not write tools."""
    results: bool
    """It does not write the results of calls."""
    system: bool
    """It does not write system messages."""

    def told(
        self,
        history: Iterable[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        dialect: Dialect,
    ) -> list[Mapping[str, Any]]:
        """A conversation that the template can write."""
        out = _with_results(history) if self.results else list(history)
        if not self.tools or not tools:
            return out
        rules = instructions(tools, dialect)
        if out and out[0]["role"] == "system":
            rules = "\n\n".join(filter(None, (_text(out.pop(0)), rules)))
        if not self.system:
            return [{"role": "system", "content": rules}, *out]
        for at, message in enumerate(out):
            if message["role"] == "user":
                out[at] = {**message, "content": f"{rules}\n\n{_text(message)}"}
                break
        return out


def tool_prompt(template: ChatTemplate) -> ToolPrompt | None:
    """What the template leaves out; None: nothing that matters for tools."""
    if not _lacks(template, "unspool_probe", _ASKED, tools=[_PROBE]):
        return None
    return ToolPrompt(
        tools=True,
        results=_lacks(template, _RESULT["content"], _ASKED, _ANSWERED, _RESULT),
        system=_lacks(template, _SYSTEM["content"], _SYSTEM, _ASKED),
    )


def _lacks(
    template: ChatTemplate,
    text: str,
    *messages: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> bool:
    """Whether this text is missing from what it writes."""
    try:
        return text not in template.render([dict(one) for one in messages], tools, add_generation_prompt=True)
    except ChatTemplateError:
        # One that wants more of a tool than this writes it, surely; a role that is refused is not written.
        return tools is None


def instructions(tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """Which tools there are, and how to call them."""
    listed = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call functions. These are their signatures:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "To call a function, end your answer with the call, written exactly like this:\n"
        f"{_example(tools[0], dialect)}\n"
        "The result comes in the next message. Where no function helps, answer without one."
    )


def _example(tool: Mapping[str, Any], dialect: Dialect) -> str:
    """How a call of this tool is written."""
    function = tool.get("function", tool)
    parameters = function.get("parameters") or {}
    arguments = dict.fromkeys(parameters.get("properties") or {}, "...")
    call = ToolCall("call_0", str(function.get("name")), json.dumps(arguments, ensure_ascii=False))
    try:
        return render(dialect, Message(tool_calls=(call,)), check=False).removeprefix(dialect.prompt.start)
    except UnspoolError:  # it writes no calls of its own
        return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def _with_results(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Results of calls as what the user says; what the user says at once is one message."""
    out: list[Mapping[str, Any]] = []
    asked: list[Mapping[str, Any]] = []
    """Messages of the user that follow each other: joined once, because there may be very many."""
    for message in history:
        if message["role"] == "tool":
            asked.append({"role": "user", "content": f"<tool_response>\n{_text(message)}\n</tool_response>"})
        elif message["role"] == "user":
            asked.append(message)
        else:
            out += _as_one(asked)
            asked = []
            out.append(message)
    return [*out, *_as_one(asked)]


def _as_one(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if len(messages) < 2:
        return messages
    return [{**messages[-1], "content": "\n\n".join(map(_text, messages))}]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")
