"""Tool support for models whose chat template does not support tools.

Such a template omits tools and tool results from the prompt, or it fails if a request contains them.  So the
gateway rewrites the conversation.  The tools, with instructions for calling them, are added to the system
message or, if the template has no system role, to the first user message.  Tool results become user messages.
``normalise_history`` writes the calls of earlier turns in the model's dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..._core.render.message import render
from ..._core.schema.tools import tool_function
from ...dialects import Dialect
from ...errors import UnspoolError
from ...message import Message, ToolCall
from ...templates import ChatTemplate, ChatTemplateError

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
_USER: Final = {"role": "user", "content": "Unspool's question."}
_ASSISTANT: Final = {"role": "assistant", "content": "Unspool's answer."}
_SYSTEM: Final = {"role": "system", "content": "Unspool's rules."}
_RESULT: Final = {"role": "tool", "tool_call_id": "unspool01", "content": "Unspool's result."}


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """Rewriter for the parts of a conversation that a template leaves out of the prompt."""

    tools: bool
    """True if the template leaves out tools."""
    results: bool
    """True if the template leaves out tool results."""
    system: bool
    """True if the template leaves out system messages."""

    def rewrite(
        self,
        history: Iterable[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        dialect: Dialect,
    ) -> list[Mapping[str, Any]]:
        """Return the conversation in a form that the template can render."""
        out = _results_to_user(history) if self.results else list(history)
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


def find_tool_prompt(template: ChatTemplate) -> ToolPrompt | None:
    """Return the rewriter that a template needs, or None if the template renders tools.

    Short test conversations are rendered to find out what the template leaves out.
    """
    if not _drops(template, "unspool_probe", _USER, tools=[_PROBE]):
        return None
    return ToolPrompt(
        tools=True,
        results=_drops(template, _RESULT["content"], _USER, _ASSISTANT, _RESULT),
        system=_drops(template, _SYSTEM["content"], _SYSTEM, _USER),
    )


def _drops(
    template: ChatTemplate,
    text: str,
    *messages: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> bool:
    """Return whether ``text`` is missing from the prompt for these messages and tools."""
    try:
        return text not in template.render([dict(one) for one in messages], tools, add_generation_prompt=True)
    except ChatTemplateError:
        # A template that fails on the test tool does not omit tools.  A template that fails on a message does
        # not support the role of this message, which counts as omitting the message.
        return tools is None


def instructions(tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """Return instructions that list the tools and show how to call them."""
    listed = "\n".join(json.dumps(tool_function(tool), ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call functions. These are their signatures:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "To call a function, end your answer with the call, written exactly like this:\n"
        f"{_example(tools[0], dialect)}\n"
        "The result comes in the next message. Where no function helps, answer without one."
    )


def _example(tool: Mapping[str, Any], dialect: Dialect) -> str:
    """Return an example call of a tool, written in the model's dialect."""
    function = tool_function(tool)
    parameters = function.get("parameters") or {}
    arguments = dict.fromkeys(parameters.get("properties") or {}, "...")
    call = ToolCall("call_0", str(function.get("name")), json.dumps(arguments, ensure_ascii=False))
    try:
        return render(Message(tool_calls=(call,)), dialect, check=False).removeprefix(dialect.prompt.start)
    except UnspoolError:  # the dialect does not support calls
        return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def _results_to_user(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Convert tool results to user messages, and merge adjacent user messages."""
    out: list[Mapping[str, Any]] = []
    run: list[Mapping[str, Any]] = []  # adjacent user messages; merged in one step, because there may be many
    for message in history:
        if message["role"] == "tool":
            run.append({"role": "user", "content": f"<tool_response>\n{_text(message)}\n</tool_response>"})
        elif message["role"] == "user":
            run.append(message)
        else:
            out += _merge(run)
            run = []
            out.append(message)
    return [*out, *_merge(run)]


def _merge(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if len(messages) < 2:
        return messages
    return [{**messages[-1], "content": "\n\n".join(map(_text, messages))}]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")
