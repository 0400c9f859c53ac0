"""Planning of vLLM's requests: conversion for the planner, and changes to a request according to its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from ...planning import Constraint, Plan, tool_name
from . import _compat as compat
from ._model_format import ModelFormat, warn_once

GRAMMAR_COVERS_REASONING: Final = "unspool_grammar_is_whole"
"""Template variable that tells the engine core not to wait for the end of reasoning.

If the variable is set, the engine core applies a grammar from the start of the output.  No template uses it.
A template variable is used because the engine core receives no other data from a request.
"""

StrictLevel: TypeAlias = Literal["auto", "function", "parameter"]
"""What ``--tool-strict-level`` enforces in requests with optional calls.

``auto`` enforces the schemas of strict tools.  ``function`` also enforces the form of all calls, but not the
schemas of other tools.  ``parameter`` enforces the schemas of all tools.
"""
_LEVELS: Final[dict[object, StrictLevel]] = {
    None: "auto",  # since vLLM 0.33: the parser's own level
    "auto": "auto",
    "function": "function",
    "parameter": "parameter",
    0: "auto",
    1: "function",
    2: "parameter",
}
"""Levels by the values of vLLM's releases: none before 0.31, then names; numbers are ``ToolStrictLevel``."""


def strict_level(value: object) -> StrictLevel:
    """Return the meaning of vLLM's value for ``--tool-strict-level``.

    A value that no known release has is logged and enforces nothing, because a level that holds every request
    to a grammar changes answers, but an unenforced level does not.
    """
    name = value.strip().lower() if isinstance(value, str) else value
    level = _LEVELS.get(name) if isinstance(name, (str, int, type(None))) else None
    if level is None:
        warn_once(f"unspool does not know the tool strict level {value!r}: strict tools are enforced")
        return "auto"
    return level


def to_plan_request(
    request: Any, kwargs: Mapping[str, object], *, calls: bool, reasoning: bool, level: StrictLevel = "auto"
) -> Any:
    """Convert a request of vLLM to a body for the planner.

    :param kwargs: the template variables with which the prompt was rendered.
    :param calls: whether there is a tool parser; without one, the markup of calls stays in the content.
    :param reasoning: whether there is a reasoning parser; without one, reasoning stays in the content.
    :param level: what the server enforces in requests with optional calls.
    """
    body: dict[str, object] = {
        "chat_template_kwargs": set_variables(kwargs),
        "include_reasoning": getattr(request, "include_reasoning", True) is not False,
        "separate_reasoning": reasoning,
    }
    messages = getattr(request, "messages", None)
    if getattr(request, "continue_final_message", False) is True and messages:
        last = messages[-1]
        if isinstance(last, Mapping) and last.get("role") == "assistant":
            body |= {"messages": [last], "continue_final_message": True}
    if not calls:
        return body
    choice = _choice(request.tool_choice)
    tools = [_function(tool, level if choice == "auto" else "auto") for tool in _functions(request.tools)]
    if tools:
        body["tools"] = tools
        body["tool_choice"] = choice
        body["parallel_tool_calls"] = getattr(request, "parallel_tool_calls", None) is not False
    if isinstance(choice, Mapping) or choice == "required":
        return body
    if not has_structural_tag(request) and request.extract_structured_outputs() is not None:
        body["structured_outputs"] = True
    return body


def set_variables(kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return the template variables that have a value, without unspool's own variable."""
    return {k: value for k, value in kwargs.items() if value is not None and k != GRAMMAR_COVERS_REASONING}


def has_structural_tag(request: Any) -> bool:
    """Return whether a structural tag, set by the client or by unspool, constrains the answer.

    Under a grammar, the model can write a marker with ordinary tokens instead of the special token.
    Therefore such an answer is parsed as text, and not as token ids.
    """
    params = getattr(request, "structured_outputs", None)
    return params is not None and getattr(params, "structural_tag", None) is not None


def _functions(tools: Sequence[Any] | None) -> list[Any]:
    if not tools:
        return []
    if compat.get_function_tools is not None:
        return list(compat.get_function_tools(tools))
    return [tool for tool in tools if getattr(tool, "type", "function") == "function"]


def _function(tool: Any, level: StrictLevel) -> dict[str, Any]:
    """Convert a tool for the planner, which enforces the schemas of strict tools."""
    fields: dict[str, Any] = tool.model_dump(exclude_none=True)
    if level == "auto":
        return fields
    inner = fields.get("function")
    function = inner if isinstance(inner, dict) else fields
    if level == "function" and function.get("strict") is not True:
        function["parameters"] = {"type": "object"}
    function["strict"] = True
    return fields


def _choice(value: Any) -> object:
    """Convert a ``tool_choice`` from any API to the form that Chat Completions uses."""
    if value is None or isinstance(value, str):
        return value
    fields: dict[str, Any] = value if isinstance(value, dict) else value.model_dump(exclude_none=True)
    if fields.get("type") in ("function", "custom"):
        return {"type": "function", "function": {"name": tool_name(fields)}}
    return fields


class Planner:
    """Planner for the requests to one server."""

    def __init__(
        self, model: ModelFormat, *, calls: bool, reasoning: bool, level: StrictLevel = "auto"
    ) -> None:
        self.model = model
        self._calls = calls
        self._reasoning = reasoning or model.dialect.frame is not None
        self._has_reasoning_parser = reasoning
        self._level = level

    def plan(self, request: Any, kwargs: Mapping[str, object], prompt: Sequence[int] | None = None) -> Plan:
        """Return the plan for reading the output of a request.

        :param prompt: the token ids of the prompt; None if they are unknown.
        """
        body = to_plan_request(request, kwargs, calls=self._calls, reasoning=self._reasoning)
        return self.model.plan(body, prompt)

    def adjust(self, request: Any, kwargs: Mapping[str, object]) -> Any:
        """Change the sampling options of a request according to its plan, and return the request."""
        body = to_plan_request(
            request, kwargs, calls=self._calls, reasoning=self._reasoning, level=self._level
        )
        plan = self.model.plan(body)
        if not plan.skip_special_tokens:
            request.skip_special_tokens = False
        if plan.constraint.kind == "none" or (has_structural_tag(request) and not plan.forced):
            return request
        if request.extract_structured_outputs() is not None:
            warn_once("unspool: the response format is ignored, because tool_choice forces a call")
        if isinstance(request, compat.ResponsesRequest):
            request.text = None
        else:
            request.response_format = None
        if plan.constraint.kind == "guided_json":
            schema = plan.constraint.json_schema()
            request.structured_outputs = compat.StructuredOutputsParams(json=schema)
        else:
            tag = self._constraint(request, plan).grammar().structural_tag()
            request.structured_outputs = compat.StructuredOutputsParams(structural_tag=json.dumps(tag))
        return request

    def _constraint(self, request: Any, plan: Plan) -> Constraint:
        """Return the plan's constraint for the part of the output to which the engine applies a grammar.

        If there is a reasoning parser, the engine applies a grammar only after reasoning has ended, unless
        the client asked not to see reasoning.  In two cases, the grammar has to cover reasoning as well:

        * The model is free to skip reasoning, so the end of reasoning may never come.
        * Reasoning is a separate message.  It ends with the header of the next message, but that header is
          already part of the call.
        """
        constraint = plan.constraint
        responses = isinstance(request, compat.ResponsesRequest)
        waits = self._has_reasoning_parser and (responses or request.include_reasoning)
        if not waits or not expects_reasoning(plan):
            return constraint
        if constraint.dialect.frame is None:
            return replace(constraint, reasoning=False, start="message")
        if responses:  # the prompt is already rendered, so the variable affects only the engine core
            request.chat_template_kwargs = {
                **(request.chat_template_kwargs or {}),
                GRAMMAR_COVERS_REASONING: True,
            }
        else:
            request._grammar_from_parser = True  # noqa: SLF001 - vLLM's own field for such grammars
        return constraint


def expects_reasoning(plan: Plan) -> bool:
    """Return whether the output certainly has reasoning, so that a grammar can wait until reasoning ends."""
    return plan.reasoning and (plan.start == "reasoning" or plan.facts.thinking.default != "model")
