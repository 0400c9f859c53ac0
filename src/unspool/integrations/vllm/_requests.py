"""Requests: vLLM's own objects as the body that a plan reads, and the plan put back into them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..._core.schema.tools import tool_name
from ...planning import Constraint, Plan
from . import _compat as compat
from ._model_dialect import Speech, warn_once

WHOLE: Final = "unspool_grammar_is_whole"
"""A template variable that no template has: the engine core is told nothing else of a request."""


def body(request: Any, kwargs: Mapping[str, object], *, calls: bool, reasoning: bool, strict: bool) -> Any:
    """What a plan is to know of a request.

    :param kwargs: the template variables that the prompt was rendered with.
    :param calls: there is a parser for calls, and for ``reasoning``; without one,
        what the model writes of it stays in the content.
    :param strict: the server holds all tools to their schemas.
    """
    found: dict[str, object] = {
        "chat_template_kwargs": variables(kwargs),
        "include_reasoning": getattr(request, "include_reasoning", True) is not False,
        "separate_reasoning": reasoning,
    }
    messages = getattr(request, "messages", None)
    if getattr(request, "continue_final_message", False) is True and messages:
        last = messages[-1]
        if isinstance(last, Mapping) and last.get("role") == "assistant":
            found |= {"messages": [last], "continue_final_message": True}
    if not calls:
        return found
    tools = [_function(tool, strict=strict) for tool in _functions(request.tools)]
    choice = _choice(request.tool_choice)
    if tools:
        found["tools"] = tools
        found["tool_choice"] = choice
        found["parallel_tool_calls"] = getattr(request, "parallel_tool_calls", None) is not False
    if isinstance(choice, Mapping) or choice == "required":
        return found
    if not is_tagged(request) and request.extract_structured_outputs() is not None:
        found["structured_outputs"] = True
    return found


def variables(kwargs: Mapping[str, object]) -> dict[str, object]:
    """The template variables that say something."""
    return {key: value for key, value in kwargs.items() if value is not None and key != WHOLE}


def is_tagged(request: Any) -> bool:
    """Whether the answer is held to a structural tag: of ours, once a request is adjusted.

    A grammar is satisfied by the spelling of a marker as well as by its token, so such an answer is
    read as text.
    """
    params = getattr(request, "structured_outputs", None)
    return params is not None and getattr(params, "structural_tag", None) is not None


def _functions(tools: Sequence[Any] | None) -> list[Any]:
    if not tools:
        return []
    if compat.get_function_tools is not None:
        return list(compat.get_function_tools(tools))
    return [tool for tool in tools if getattr(tool, "type", "function") == "function"]


def _function(tool: Any, *, strict: bool) -> dict[str, Any]:
    found: dict[str, Any] = tool.model_dump(exclude_none=True)
    inner = found.get("function")
    if strict:
        (inner if isinstance(inner, dict) else found)["strict"] = True
    return found


def _choice(value: Any) -> object:
    """The choice as Chat spells it, whichever API it is from."""
    if value is None or isinstance(value, str):
        return value
    given: dict[str, Any] = value if isinstance(value, dict) else value.model_dump(exclude_none=True)
    if given.get("type") in ("function", "custom"):
        return {"type": "function", "function": {"name": tool_name(given)}}
    return given


class Planner:
    """Makes the plans of one server: which parsers it has, and how strict it is."""

    def __init__(self, speech: Speech, *, calls: bool, reasoning: bool, strict: bool) -> None:
        self.speech = speech
        self._calls = calls
        self._reasoning = reasoning or speech.dialect.frame is not None
        self._gated = reasoning
        self._strict = strict

    def plan(self, request: Any, kwargs: Mapping[str, object], prompt: Sequence[int] | None = None) -> Plan:
        """The plan for a request; with the prompt, if it is known."""
        asked = body(request, kwargs, calls=self._calls, reasoning=self._reasoning, strict=self._strict)
        return self.speech.plan(asked, prompt)

    def adjust(self, request: Any, kwargs: Mapping[str, object]) -> Any:
        """The request as the engine is to run it."""
        made = self.plan(request, kwargs)
        if not made.skip_special_tokens:
            request.skip_special_tokens = False
        if made.constraint.kind == "none" or (is_tagged(request) and not made.forced):
            return request
        if request.extract_structured_outputs() is not None:
            warn_once("unspool: a response format is ignored where tool_choice forces a call")
        if isinstance(request, compat.ResponsesRequest):
            request.text = None
        else:
            request.response_format = None
        if made.constraint.kind == "guided_json":
            schema = made.constraint.json_schema()
            request.structured_outputs = compat.StructuredOutputsParams(json=schema)
        else:
            tag = self._behind_reasoning(request, made).grammar().structural_tag()
            request.structured_outputs = compat.StructuredOutputsParams(structural_tag=json.dumps(tag))
        return request

    def _behind_reasoning(self, request: Any, made: Plan) -> Constraint:
        """The constraint from where the engine applies it.

        With a reasoning parser the engine waits for the end of reasoning, unless the client is not
        to see any.  Where the model itself decides whether it reasons, it does not wait, and the
        grammar has room for reasoning.  So it has where reasoning is a message: what ends that is
        the header of the next one, which is part of the call.
        """
        constraint = made.constraint
        responses = isinstance(request, compat.ResponsesRequest)
        waits = self._gated and (responses or request.include_reasoning)
        if not waits or not is_awaited(made):
            return constraint
        if constraint.dialect.frame is None:
            return replace(constraint, reasoning=False, start="message")
        if responses:  # it is rendered already
            request.chat_template_kwargs = {**(request.chat_template_kwargs or {}), WHOLE: True}
        else:
            request._grammar_from_parser = True  # noqa: SLF001 - for parsers like this one
        return constraint


def is_awaited(made: Plan) -> bool:
    """Whether there will be reasoning, so that a grammar can wait for its end."""
    return made.reasoning and (made.start == "reasoning" or made.facts.thinking.default != "model")
