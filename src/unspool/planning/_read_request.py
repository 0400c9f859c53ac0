"""Reader of the request fields on which a plan depends.

Requests are in the format of OpenAI's Chat Completions, with the extensions of common engines.  If fields of
a request contradict each other, an error is raised before any decision is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .._core.schema.tools import Tools, tool_function
from .._core.schema.tools import tool_name as tool_name  # noqa: PLC0414 - integrations import it from here
from ..errors import UsageError

ToolChoice: TypeAlias = Literal["none", "auto", "required", "named"]

_GUIDED: Final = (
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "structural_tag",
    "json_schema",
    "regex",
    "ebnf",
    "grammar",
)
"""Request fields in which engines accept a client's own constraint."""


@dataclass(frozen=True, slots=True)
class Request:
    """The values of the request fields on which a plan depends."""

    tools: tuple[Mapping[str, object], ...]
    """The tools that the model may call; empty if ``choice`` is ``none``."""
    choice: ToolChoice
    name: str
    """The function that ``tool_choice`` names; empty if it names none."""
    parallel: bool
    """True if the model may make more than one call."""
    strict: bool
    """True if at least one tool declares ``strict: true``."""
    json_answer: bool
    """True if ``response_format`` demands a JSON answer."""
    overruled: str
    """The request field that has no effect because a call is required; empty if there is no such field."""
    guided: str
    """The request field with the client's own output constraint, such as ``regex``; empty if none."""
    skip_special_tokens: bool | None
    ignore_eos: bool
    stop: tuple[str, ...]
    include_reasoning: bool
    separate_reasoning: bool
    n: int
    after_tool: bool
    """True if the last message is the result of a tool."""
    prefill: str | None
    """The content of the last message if the output continues that message; otherwise None."""
    prefilled_reasoning: str
    """The reasoning of the message to continue if that message has no content yet; otherwise empty."""

    @property
    def forced(self) -> bool:
        """True if the model must call a tool."""
        return self.choice in ("required", "named")


def read_request(request: Mapping[str, object]) -> Request:
    """Return the values of a request's fields; raise an error if the request contradicts itself."""
    if not isinstance(request, Mapping):
        raise UsageError(f"request is a {type(request).__name__}; pass the body of a chat completion request")
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if request.get(old) is not None:
            raise UsageError(f"{old} is not supported: use {new}")
    tools = _tools(request.get("tools"))
    choice, name, tools = _choice(request.get("tool_choice"), tools)
    json_answer = _json_answer(request.get("response_format"))
    guided = next((key for key in _GUIDED if request.get(key) is not None), "")
    if choice in ("required", "named"):
        setting = "tool_choice=required" if choice == "required" else f"tool_choice naming {name!r}"
        if guided:
            raise UsageError(f"{setting} and {guided} both constrain the output: remove one of them")
    last = _last_message(request)
    role = str(last.get("role", ""))
    continued = _flag(request, "continue_final_message", default=False)
    return Request(
        tools=tools,
        choice=choice,
        name=name,
        parallel=_flag(request, "parallel_tool_calls", default=True),
        strict=any(_is_strict(tool) for tool in tools),
        json_answer=json_answer and choice not in ("required", "named"),
        overruled="response_format" if json_answer and choice in ("required", "named") else "",
        guided=guided,
        skip_special_tokens=_optional_flag(request, "skip_special_tokens"),
        ignore_eos=_flag(request, "ignore_eos", default=False),
        stop=_stop(request.get("stop")),
        include_reasoning=_flag(request, "include_reasoning", default=not _excludes_reasoning(request)),
        separate_reasoning=_flag(request, "separate_reasoning", default=True),
        n=_count(request.get("n")),
        after_tool=role in ("tool", "function"),
        prefill=_text(last.get("content")) if continued else None,
        prefilled_reasoning=_reasoning(last) if continued and not last.get("content") else "",
    )


# -- tools


def _tools(value: object) -> tuple[Mapping[str, object], ...]:
    if value is None:
        return ()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise UsageError(f"tools is a {type(value).__name__}; pass the request's list of tools")
    Tools(value)  # raises an error if an item is not a tool
    return tuple(value)


def _is_strict(tool: Mapping[str, object]) -> bool:
    return tool_function(tool).get("strict") is True


def _choice(
    value: object, tools: tuple[Mapping[str, object], ...]
) -> tuple[ToolChoice, str, tuple[Mapping[str, object], ...]]:
    """Return the kind of a ``tool_choice``, the function that it names, and the tools that it allows."""
    kind: ToolChoice
    names = sorted(str(tool_name(tool)) for tool in tools)
    if isinstance(value, Mapping) and value.get("type") == "allowed_tools":
        value, tools = _allowed(value, tools)
    if value is None:
        return ("auto", "", tools) if tools else ("none", "", ())
    if isinstance(value, Mapping):
        name = tool_name(value)
        if not isinstance(name, str) or value.get("type") not in (None, "function"):
            raise UsageError(
                f"tool_choice={dict(value)!r}: name a function as "
                '{"type": "function", "function": {"name": ...}}'
            )
        if name not in names:
            offered = f"tools has {', '.join(names)}" if names else "there are no tools"
            raise UsageError(f"tool_choice names {name!r}, but {offered}: add it to tools")
        return "named", name, tools
    match value:
        case "none":
            return "none", "", ()
        case "auto":
            kind = "auto"
        case "required":
            kind = "required"
        case _:
            raise UsageError(f"tool_choice={value!r}: choose none, auto, required, or name a function")
    if not tools:
        if kind == "required":
            raise UsageError("tool_choice=required, but there are no tools: add tools, or remove tool_choice")
        return "none", "", ()
    return kind, "", tools


def _allowed(
    value: Mapping[str, object], tools: tuple[Mapping[str, object], ...]
) -> tuple[object, tuple[Mapping[str, object], ...]]:
    """Return the mode and the tools of a ``tool_choice`` of the type ``allowed_tools``."""
    inner = value.get("allowed_tools")
    body = inner if isinstance(inner, Mapping) else value
    listed = body.get("tools")
    if not isinstance(listed, Sequence) or not all(isinstance(tool, Mapping) for tool in listed):
        raise UsageError("tool_choice of type allowed_tools needs a list of tools")
    allowed = dict.fromkeys(map(_hashable_name, listed))
    offered = set(map(_hashable_name, tools))
    missing = [name for name in allowed if name not in offered]
    if missing:
        raise UsageError(
            f"tool_choice allows {', '.join(sorted(missing))}, which is not in tools: add it to tools"
        )
    return body.get("mode", "auto"), tuple(tool for tool in tools if _hashable_name(tool) in allowed)


def _hashable_name(tool: Mapping[str, object]) -> str:
    """Return the name of a tool, or the ``repr`` of the name if it is not a string."""
    name = tool_name(tool)
    return name if isinstance(name, str) else repr(name)


# -- other fields


def _json_answer(value: object) -> bool:
    if value is None:
        return False
    kind = value.get("type") if isinstance(value, Mapping) else value
    if kind not in ("text", "json_object", "json_schema", "structural_tag"):
        raise UsageError(f"response_format={value!r}: choose the type text, json_object or json_schema")
    return kind in ("json_object", "json_schema")


def _last_message(request: Mapping[str, object]) -> Mapping[str, object]:
    """Return the last message, which the model answers or continues; empty if there are no messages."""
    continued = _flag(request, "continue_final_message", default=False)
    if continued and _flag(request, "add_generation_prompt", default=False):
        raise UsageError(
            "continue_final_message and add_generation_prompt are mutually exclusive: remove one of them"
        )
    messages = request.get("messages")
    if messages is None:
        return {}
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise UsageError(f"messages is a {type(messages).__name__}; pass the request's list of messages")
    if not messages:
        raise UsageError("messages is empty: there is nothing to answer")
    last = messages[-1]
    if not isinstance(last, Mapping) or not isinstance(last.get("role"), str):
        raise UsageError("the last message is not an object with a role")
    if continued and last["role"] != "assistant":
        raise UsageError(
            "continue_final_message needs an assistant message at the end, "
            f"but the last message has the role {last['role']!r}"
        )
    return last


def _reasoning(message: Mapping[str, object]) -> str:
    return _text(message.get("reasoning_content") or message.get("reasoning"))


def _text(content: object) -> str:
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _optional_flag(request: Mapping[str, object], key: str) -> bool | None:
    value = request.get(key)
    if value is not None and not isinstance(value, bool):
        raise UsageError(f"{key}={value!r}: choose true or false")
    return value


def _flag(request: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = _optional_flag(request, key)
    return default if value is None else value


def _excludes_reasoning(request: Mapping[str, object]) -> bool:
    reasoning = request.get("reasoning")
    return isinstance(reasoning, Mapping) and reasoning.get("exclude") is True


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = (value,) if isinstance(value, str) else value
    if not isinstance(stops, Sequence) or not all(isinstance(stop, str) for stop in stops):
        raise UsageError(f"stop={value!r}: pass a string or a list of strings")
    return tuple(stops)


def _count(value: object) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"n={value!r}: pass the number of choices, at least 1")
    return value
