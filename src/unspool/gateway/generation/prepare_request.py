"""Preparation of a request for the upstream: its plan, and its prompt rendered by the chat template."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..._core.schema.tools import tool_name
from ...errors import UnspoolError, UsageError
from ...planning import Plan, plan
from ...policies import Policies
from ...templates import ChatTemplateError, ChatTemplateLimit, NoRenderer, normalise_history
from ..conversation.media import check_parts, has_media, without_media
from ..http.failure import Failure, invalid
from ..telemetry.logs import log, log_once
from .model import Model

_FIELDS: Final = re.compile(
    r"\b(tool_choice|tools|messages|message (?P<at>\d+)|response_format|stop|n(?==)|parallel_tool_calls|"
    r"continue_final_message|add_generation_prompt|chat_template_kwargs|chat_template_args|reasoning_effort|"
    r"enable_thinking|thinking_mode|thinking_budget|thinking|reasoning|separate_reasoning|include_reasoning|"
    r"skip_special_tokens|ignore_eos|functions|function_call|guided_\w+|structured_outputs|structural_tag)\b"
)
"""Pattern for the names of request fields in error messages; the name becomes the error's ``param``."""
_RESERVED: Final = frozenset({"self", "messages", "tools", "add_generation_prompt", "continue_final_message"})
"""Template variables that the gateway sets itself."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Request with its plan and prompt, ready for the upstream."""

    plan: Plan
    prompt: str | None
    """Rendered prompt; None if the upstream renders the prompt."""
    tools: tuple[Mapping[str, Any], ...]
    """Tools that the model sees."""


def prepare_request(
    model: Model,
    request: Mapping[str, Any],
    *,
    constraints: Sequence[str],
    renders: bool,
    policies: Policies | None = None,
) -> PreparedRequest:
    """Plan a request and render its prompt.

    :param constraints: output constraints that the upstream supports.
    :param renders: True if the upstream renders the prompt itself.
    :param policies: policies of this request, if they differ from the model's.
    """
    try:
        return _prepare(model, request, constraints, renders, policies or model.policies)
    except ChatTemplateLimit as error:
        raise Failure("too_large", str(error), param="messages") from error
    except (UsageError, ChatTemplateError) as error:
        message = str(error)
        field = _FIELDS.search(message)
        param = None if field is None else field[0]
        if field is not None and field["at"]:
            param = f"messages[{field['at']}]"
        elif isinstance(error, ChatTemplateError):
            param = param or "messages"
        raise invalid(message, param) from error
    except NoRenderer as error:
        raise renderer_unavailable(error) from error
    except UnspoolError as error:
        raise Failure("internal", str(error)) from error


def _prepare(
    model: Model, request: Mapping[str, Any], constraints: Sequence[str], renders: bool, policies: Policies
) -> PreparedRequest:
    planned = dict(request)
    if model.strict_tools and planned.get("tools"):
        planned["tools"] = [_with_strict(tool) for tool in planned["tools"]]
    decided = plan(
        model.dialect,
        planned,
        tokenizer=model.tokenizer,
        defaults=model.defaults,
        constraints=constraints,
        eos_token_ids=model.eos_token_ids,
        policies=policies,
    )
    names = {tool_name(tool) for tool in decided.tools}
    tools = tuple(tool for tool in request.get("tools") or () if tool_name(tool) in names)
    if renders or model.template is None:
        return PreparedRequest(decided, None, tools)
    messages = _adapt_messages(model, request["messages"])
    if model.tool_prompt is not None:
        offered = () if decided.tool_output == "none" else tools
        messages = model.tool_prompt.rewrite(messages, offered, decided.dialect)
    history = normalise_history(messages, model.template, dialect=decided.dialect)
    variables = dict(decided.chat_template_kwargs)
    for name in _RESERVED & variables.keys():
        raise invalid(
            f"chat_template_kwargs: {name} is set by the gateway; leave it out",
            "chat_template_kwargs",
        )
    if request.get("documents"):
        if "documents" not in model.template.source:
            raise invalid("the model's chat template does not use documents; leave them out", "documents")
        variables["documents"] = request["documents"]
    prompt = _render(model, history, tools, variables, request)
    return PreparedRequest(decided.with_prompt(prompt), prompt, tools)


def _adapt_messages(model: Model, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Replace roles that the template does not support, and replace media with descriptions in text."""
    check_parts(messages)
    if model.template is not None and "developer" not in model.template.source:
        messages = [
            {**message, "role": "system"} if message["role"] == "developer" else message
            for message in messages
        ]
    if not has_media(messages):
        return messages
    log_once("field_ignored", f"images and files: {model.name} gets a description in their place")
    return without_media(messages)


def _render(
    model: Model,
    history: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    variables: Mapping[str, object],
    request: Mapping[str, Any],
) -> str:
    """Render the prompt.

    Some templates fail if ``tools`` is null, others if a tool has no description.  After a failure, the
    prompt is therefore rendered again with an empty list of tools or with empty descriptions.
    """
    template = model.template_without_tools
    if tools or template is None:
        template = model.template
    assert template is not None  # noqa: S101 - the caller has checked it
    first_error: ChatTemplateError | None = None
    for variant in (tools, [_with_descriptions(tool) for tool in tools]) if tools else (None, ()):
        try:
            return template.render(
                history,
                variant,
                add_generation_prompt=True,
                continue_final_message=bool(request.get("continue_final_message")),
                **variables,
            )
        except ChatTemplateLimit:
            raise
        except ChatTemplateError as error:
            first_error = first_error or error
    assert first_error is not None  # noqa: S101 - the loop returns or sets it
    raise first_error


def renderer_unavailable(error: NoRenderer) -> Failure:
    """Log why no template can be rendered now, and return the failure for the client."""
    log(logging.ERROR, "renderer_unavailable", reason=str(error))
    return Failure("overloaded", "the gateway cannot render chat templates now; try again", retry_after="1")


def _with_descriptions(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool; if the function or a parameter has no description, add an empty one."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(properties, Mapping):
        described = {
            key: {"description": "", **value} if isinstance(value, Mapping) else value
            for key, value in properties.items()
        }
        parameters = {**parameters, "properties": described}
    return {**tool, "function": {"description": "", **function, "parameters": parameters}}


def _with_strict(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or "strict" in function:
        return dict(tool)
    return {**tool, "function": {**function, "strict": True}}
