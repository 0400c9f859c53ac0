"""A request, as far as a plan is concerned with it.

OpenAI's chat completions, with the extensions that engines have added.  What
contradicts itself is refused here, before anything is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .._core.schema.tools import Tools, tool_function, tool_name
from ..errors import UsageError

Choice: TypeAlias = Literal["none", "auto", "required", "named"]

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
"""Engines' own names for a constraint of the caller's."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan needs to know of a request."""

    tools: tuple[Mapping[str, object], ...]
    """The tools that may be called; none if the choice is none."""
    choice: Choice
    name: str
    """The function of a named choice."""
    parallel: bool
    """Whether several calls are welcome."""
    strict: bool
    """A tool wants its schema enforced."""
    json_answer: bool
    """The answer itself is to be JSON."""
    overruled: str
    """A field that has no effect, because there must be a call."""
    guided: str
    """Which constraint of the caller's own there is."""
    skip_special_tokens: bool | None
    ignore_eos: bool
    stop: tuple[str, ...]
    include_reasoning: bool
    separate_reasoning: bool
    n: int
    after_tool: bool
    """The last message is the result of a tool."""
    prefill: str | None
    """The beginning of the answer, where the last message is to be continued."""
    prefilled_reasoning: str
    """Its reasoning, if that message has nothing else yet."""

    @property
    def forced(self) -> bool:
        """There must be a call."""
        return self.choice in ("required", "named")


def read_request(request: Mapping[str, object]) -> Request:
    """What the request says; refuses what contradicts itself."""
    if not isinstance(request, Mapping):
        raise UsageError(f"request is a {type(request).__name__}; pass the body of a chat completion")
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if request.get(old) is not None:
            raise UsageError(f"{old} is from before tools existed: use {new}")
    tools = _tools(request.get("tools"))
    choice, name, tools = _choice(request.get("tool_choice"), tools)
    json_answer = _json_answer(request.get("response_format"))
    guided = next((key for key in _GUIDED if request.get(key) is not None), "")
    if choice in ("required", "named"):
        spelt = "tool_choice=required" if choice == "required" else f"tool_choice naming {name!r}"
        if guided:
            raise UsageError(f"{spelt} and {guided} both decide what the output looks like: remove one")
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
        include_reasoning=_flag(request, "include_reasoning", default=not _excluded(request)),
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
    Tools(value)  # refuses what is not a tool
    return tuple(value)


def _is_strict(tool: Mapping[str, object]) -> bool:
    return tool_function(tool).get("strict") is True


def _choice(
    value: object, tools: tuple[Mapping[str, object], ...]
) -> tuple[Choice, str, tuple[Mapping[str, object], ...]]:
    """Kind of choice, function it names, and the tools that are left."""
    kind: Choice
    names = sorted(str(tool_name(tool)) for tool in tools)
    if isinstance(value, Mapping) and value.get("type") == "allowed_tools":
        value, tools = _allowed(value, tools)
    if value is None:
        return ("auto", "", tools) if tools else ("none", "", ())
    if isinstance(value, Mapping):
        found = tool_name(value)
        if not isinstance(found, str) or value.get("type") not in (None, "function"):
            raise UsageError(
                f"tool_choice={dict(value)!r}: name a function as "
                '{"type": "function", "function": {"name": ...}}'
            )
        if found not in names:
            offered = f"tools has {', '.join(names)}" if names else "there are no tools"
            raise UsageError(f"tool_choice names {found!r}, but {offered}: add it to tools")
        return "named", found, tools
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
    """``allowed_tools``: a mode, and some of the tools."""
    inner = value.get("allowed_tools")
    body = inner if isinstance(inner, Mapping) else value
    listed = body.get("tools")
    if not isinstance(listed, Sequence) or not all(isinstance(tool, Mapping) for tool in listed):
        raise UsageError("tool_choice of type allowed_tools needs its list of tools")
    wanted = dict.fromkeys(map(_hashed_name, listed))
    offered = set(map(_hashed_name, tools))
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise UsageError(f"tool_choice allows {', '.join(sorted(missing))}, not in tools: add it")
    return body.get("mode", "auto"), tuple(tool for tool in tools if _hashed_name(tool) in wanted)


def _hashed_name(tool: Mapping[str, object]) -> str:
    """Return the name in a form that can be looked up, whatever a client gives for a name."""
    name = tool_name(tool)
    return name if isinstance(name, str) else repr(name)


# -- the rest


def _json_answer(value: object) -> bool:
    if value is None:
        return False
    kind = value.get("type") if isinstance(value, Mapping) else value
    if kind not in ("text", "json_object", "json_schema", "structural_tag"):
        raise UsageError(f"response_format={value!r}: its type is one of text, json_object, json_schema")
    return kind in ("json_object", "json_schema")


def _last_message(request: Mapping[str, object]) -> Mapping[str, object]:
    """The message to answer or to continue; empty if there are none."""
    continued = _flag(request, "continue_final_message", default=False)
    if continued and _flag(request, "add_generation_prompt", default=False):
        raise UsageError("continue_final_message and add_generation_prompt exclude each other: keep one")
    messages = request.get("messages")
    if messages is None:
        return {}
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise UsageError(f"messages is a {type(messages).__name__}; pass the request's list of messages")
    if not messages:
        raise UsageError("messages is empty: there is nothing to answer")
    last = messages[-1]
    if not isinstance(last, Mapping) or not isinstance(last.get("role"), str):
        raise UsageError("the last of messages is not an object with a role")
    if continued and last["role"] != "assistant":
        raise UsageError(
            f"continue_final_message continues the assistant, but the last message is of {last['role']!r}"
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


def _excluded(request: Mapping[str, object]) -> bool:
    reasoning = request.get("reasoning")
    return isinstance(reasoning, Mapping) and reasoning.get("exclude") is True


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(stop, str) for stop in found):
        raise UsageError(f"stop={value!r}: a string, or a list of strings")
    return tuple(found)


def _count(value: object) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"n={value!r}: a number of choices, at least 1")
    return value
