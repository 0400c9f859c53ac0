"""Data model of the suite: test cases, parser output and test results.

A :class:`TestCase` contains one model output, the request for this output, and the expected message. It is
independent of any parser. A :class:`Run` is the execution of one case by one parser. Both are immutable.
:func:`json_schema` documents the JSON form of both, and ``from_json`` is the inverse of ``to_json``.

A case contains the expected result in two forms. The flat fields (``expected_content``,
``expected_reasoning``, ``expected_tool_calls``) are the fields of a complete message. ``expected_order``
lists the same parts in the order of the output:

``{"content": "text"}``      a segment of content
``{"reasoning": "text"}``    a segment of reasoning
``{"tool_call": 0}``         the call with that index in ``expected_tool_calls``
``{"unfinished": {...}}``    a truncated or malformed part that is not a call

No format specifies the whitespace between two segments of the same channel. ``expected_content`` contains one
plausible separator. Any other whitespace is accepted, but two words must not be joined.

There are several correct ways to handle an *unfinished* part, because a stream cannot retract what it has
already sent. The accepted results depend on the kind of the unfinished part:

``truncated``  the output ends inside a call. Accepted: nothing; the call with a
               prefix of its arguments; or the complete call if the output
               contains all of its arguments
``malformed``  the call is invalid. Accepted: its raw text as content, or the call
               with a prefix of its arguments
``fragment``   the output ends inside a marker or right after the marker that
               opens a call. Accepted: nothing, or the raw text
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from ..dialects import get_dialect
from ..errors import UsageError

Json: TypeAlias = dict[str, Any]
"""A JSON object."""

StartState: TypeAlias = Literal["content", "reasoning", "response"]
"""Channel in which the output starts after the prompt.

``content`` means outside all markers, ``reasoning`` means inside reasoning, and ``response`` means inside the
markers that the model family puts around answers.
"""
StreamingMode: TypeAlias = Literal["both", "stream", "batch"]
"""Mode to which a case applies: streaming, parsing of complete outputs (``batch``), or both."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Finish reason: in a request, the reason why generation stopped; in a result, the reason sent to the
client."""
Channel: TypeAlias = Literal["content", "reasoning"]
UnfinishedKind: TypeAlias = Literal["truncated", "malformed", "fragment"]
Status: TypeAlias = Literal["created", "executed", "passed", "failed", "xfailed"]
"""Status of a run: first created, then executed, and finally one of the other values."""


# -- parser output


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Name of a function and its arguments as JSON text."""

    name: str
    arguments: str

    def to_json(self) -> Json:
        return {"name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FunctionCall:
        return cls(value["name"], value["arguments"])


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Tool call with the same structure as in OpenAI's API."""

    function: FunctionCall
    id: str | None = None
    """Id of the call. In an expected call, None means that any id is accepted; otherwise it is the id that
    the model wrote."""
    verbatim: bool = False
    """True for an expected call whose arguments the parser must return unchanged, because the model wrote
    them as JSON. Otherwise, only the JSON value of the arguments is compared.
    """

    def to_json(self) -> Json:
        call: Json = {"id": self.id, "type": "function", "function": self.function.to_json()}
        return call | ({"verbatim": True} if self.verbatim else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ToolCall:
        return cls(FunctionCall.from_json(value["function"]), value.get("id"), value.get("verbatim", False))


@dataclass(frozen=True, slots=True)
class DeltaToolCall:
    """Part of one tool call in a delta."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def to_json(self) -> Json:
        return _without_none(index=self.index, id=self.id, name=self.name, arguments=self.arguments)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeltaToolCall:
        """Create a delta from JSON; name and arguments may be inside ``function``, as in OpenAI's API."""
        inner = value.get("function") or value
        return cls(value["index"], value.get("id"), inner.get("name"), inner.get("arguments"))


@dataclass(frozen=True, slots=True)
class DeltaMessage:
    """Part of a message that a parser adds in one step.

    A delta with content, reasoning and calls does not show in which order the model wrote them.
    """

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[DeltaToolCall, ...] = ()

    def to_json(self) -> Json:
        calls = [call.to_json() for call in self.tool_calls]
        return _without_none(content=self.content, reasoning=self.reasoning, tool_calls=calls or None)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeltaMessage:
        """Create a delta from its JSON object. The key ``reasoning_content`` is accepted for reasoning."""
        return cls(
            value.get("content"),
            value.get("reasoning") or value.get("reasoning_content"),
            tuple(map(DeltaToolCall.from_json, value.get("tool_calls") or ())),
        )

    @property
    def empty(self) -> bool:
        """True if the delta contains neither text nor calls."""
        return not (self.content or self.reasoning or self.tool_calls)


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Entry for a segment of content or reasoning in ``expected_order``."""

    channel: Channel
    text: str

    def to_json(self) -> Json:
        return {self.channel: self.text}


@dataclass(frozen=True, slots=True)
class CallReference:
    """Entry for a call in ``expected_order``; ``index`` is the call's index in ``expected_tool_calls``."""

    index: int

    def to_json(self) -> Json:
        return {"tool_call": self.index}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Truncated or malformed part of the output, which is not a complete call."""

    kind: UnfinishedKind
    raw: str
    """Text that the model wrote."""
    name: str = ""
    """Function name; empty if unknown."""
    arguments: str = ""
    """Arguments of the call as far as they are known; a stream may send any prefix of them."""

    def to_json(self) -> Json:
        return {
            "unfinished": {
                "kind": self.kind,
                "raw": self.raw,
                "name": self.name,
                "arguments": self.arguments,
            }
        }


Part: TypeAlias = TextSegment | CallReference | Unfinished


def part_from_json(value: Mapping[str, Any]) -> Part:
    """Create a part of ``expected_order`` from its JSON object."""
    if "tool_call" in value:
        return CallReference(value["tool_call"])
    if "unfinished" in value:
        return Unfinished(**value["unfinished"])
    channel: Channel = "content" if "content" in value else "reasoning"
    return TextSegment(channel, value[channel])


@dataclass(frozen=True, slots=True)
class ExtractedToolCallInformation:
    """Complete message, returned by a non-streaming parser or assembled from a stream."""

    tools_called: bool
    tool_calls: tuple[ToolCall, ...] = ()
    content: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    """Finish reason; None if the parser does not determine it."""
    order: tuple[Part, ...] = ()
    """Parts of the message, in the order of the deltas. The order of the parts within one delta is
    unknown."""

    def to_json(self) -> Json:
        return {
            "tools_called": self.tools_called,
            "tool_calls": [call.to_json() for call in self.tool_calls],
            "content": self.content,
            "reasoning": self.reasoning,
            "finish_reason": self.finish_reason,
            "order": [part.to_json() for part in self.order],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ExtractedToolCallInformation:
        return cls(
            value["tools_called"],
            tuple(map(ToolCall.from_json, value["tool_calls"])),
            value["content"],
            value["reasoning"],
            value.get("finish_reason"),
            tuple(map(part_from_json, value.get("order", ()))),
        )


# -- a case


@dataclass(frozen=True, slots=True)
class TestCase:
    """One model output, the request for this output, and the expected message."""

    __test__: ClassVar = False  # otherwise pytest would collect this class because of its name

    scenario_name: str
    """Name of the scenario, without the dialect, such as ``order/reasoning-text-call``."""
    dialect: str
    """Canonical name of the dialect."""
    group: str
    """Name of the group of scenarios."""
    model_output: str
    """Text that the model wrote, which may be empty."""
    expected_tools_called: bool
    """True if and only if ``expected_tool_calls`` is not empty."""
    expected_tool_calls: tuple[ToolCall, ...] = ()
    expected_content: str | None = None
    expected_reasoning: str | None = None
    expected_order: tuple[Part, ...] = ()
    expected_finish_reason: FinishReason | None = None
    """Finish reason that a client must receive; None if several finish reasons are correct."""
    streaming_mode: StreamingMode = "both"
    parser_name: str = ""
    """Name under which an engine registers the parser; defaults to the dialect name."""
    tools: tuple[Json, ...] = ()
    """Tools in the request."""
    tool_choice: str | Json = "auto"
    start: StartState = "content"
    prompt: str | None = None
    """End of the prompt. None stands for the usual end in the family's template, which opens neither
    reasoning nor an answer."""
    finish_reason: FinishReason = "stop"
    """Reason why generation stopped, as reported by the backend."""
    n: int = 1
    """Number of choices. All choices have the same output, and their chunks are interleaved."""
    rule: str = ""
    """Description of the rule from which the expected result follows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parser_name", self.parser_name or self.dialect)
        for error in self._validation_errors():
            raise UsageError(f"case {self.dialect} {self.scenario_name}: {error}")

    def _validation_errors(self) -> Sequence[str]:
        if not isinstance(self.model_output, str):
            return ["model_output is missing; pass '' for an empty output"]
        if self.expected_tools_called != bool(self.expected_tool_calls):
            number = len(self.expected_tool_calls)
            return [f"expected_tools_called={self.expected_tools_called} with {number} expected calls"]
        canonical = get_dialect(self.parser_name).name  # raises an error if the parser is not registered
        if canonical != get_dialect(self.dialect).name:
            return [f"parser_name={self.parser_name!r} belongs to the dialect {canonical}"]
        for name, value, choices in (
            ("streaming_mode", self.streaming_mode, get_args(StreamingMode)),
            ("start", self.start, get_args(StartState)),
            ("finish_reason", self.finish_reason, get_args(FinishReason)),
            ("expected_finish_reason", self.expected_finish_reason, (None, *get_args(FinishReason))),
        ):
            if value not in choices:
                return [f"{name}={value!r}: choose one of {', '.join(map(str, choices))}"]
        if self.n < 1:
            return [f"n={self.n}: a request needs at least one choice"]
        numbers = [part.index for part in self.expected_order if isinstance(part, CallReference)]
        if numbers != list(range(len(self.expected_tool_calls))):
            return [
                f"expected_order has calls {numbers}, expected_tool_calls {len(self.expected_tool_calls)}"
            ]
        for channel, text in (("content", self.expected_content), ("reasoning", self.expected_reasoning)):
            if _remove_whitespace(text) != _remove_whitespace(self.joined_text(channel)):
                return [f"expected_order has {channel} {self.joined_text(channel)!r}, expected {text!r}"]
        return []

    def joined_text(self, channel: str) -> str:
        """Return the whole text of a channel, joined from its segments in ``expected_order``."""
        return "".join(
            part.text
            for part in self.expected_order
            if isinstance(part, TextSegment) and part.channel == channel
        )

    @property
    def key(self) -> str:
        """Name of the case, which is unique in a suite."""
        return f"{self.dialect}:{self.scenario_name}"

    @property
    def expected(self) -> ExtractedToolCallInformation:
        """Expected message, with the same type as a parser's result."""
        return ExtractedToolCallInformation(
            self.expected_tools_called,
            self.expected_tool_calls,
            self.expected_content,
            self.expected_reasoning,
            self.expected_finish_reason,
            self.expected_order,
        )

    def to_json(self) -> Json:
        """Return the case as a JSON object, as documented by :func:`json_schema`."""
        return {
            "scenario_name": self.scenario_name,
            "dialect": self.dialect,
            "group": self.group,
            "rule": self.rule,
            "model_output": self.model_output,
            "expected_tools_called": self.expected_tools_called,
            "expected_tool_calls": [call.to_json() for call in self.expected_tool_calls],
            "expected_content": self.expected_content,
            "expected_reasoning": self.expected_reasoning,
            "expected_order": [part.to_json() for part in self.expected_order],
            "expected_finish_reason": self.expected_finish_reason,
            "streaming_mode": self.streaming_mode,
            "parser_name": self.parser_name,
            "tools": list(self.tools),
            "tool_choice": self.tool_choice,
            "start": self.start,
            "prompt": self.prompt,
            "finish_reason": self.finish_reason,
            "n": self.n,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TestCase:
        """Create a case from its JSON object."""
        if value.get("model_output") is None:
            raise UsageError("a case has no model_output; pass '' for an empty output")
        plain = dict(value)
        plain["expected_tool_calls"] = tuple(map(ToolCall.from_json, value.get("expected_tool_calls", ())))
        plain["expected_order"] = tuple(map(part_from_json, value.get("expected_order", ())))
        plain["tools"] = tuple(value.get("tools", ()))
        try:
            return cls(**plain)
        except TypeError as error:
            raise UsageError(f"invalid case: {error}") from error

    def to_line(self) -> str:
        """Return the case as one line of a JSON Lines file."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Return the case in readable form: the model output and the expected result."""
        lines = [f"{self.scenario_name} in {self.dialect}"]
        if self.rule:
            lines.append(f"  {self.rule}")
        if self.start != "content" or self.prompt is not None:
            lines.append(f"  starts in {self.start}, after the prompt {self.prompt!r}")
        if self.tool_choice != "auto":
            lines.append(f"  tool_choice: {json.dumps(self.tool_choice)}")
        lines += ["  output:", *(f"    | {line}".rstrip() for line in self.model_output.split("\n"))]
        lines += ["  expected:", *(f"    {line}" for line in order_lines(self.expected))]
        return "\n".join(lines) + "\n"


def order_lines(message: ExtractedToolCallInformation) -> list[str]:
    """Return a message in readable form, with one line for each part."""
    lines = []
    for part in message.order:
        match part:
            case TextSegment(channel, text):
                lines.append(f"{channel:<9} {json.dumps(text, ensure_ascii=False)}")
            case CallReference(index):
                call = message.tool_calls[index]
                lines.append(f"call      {call.function.name} {call.function.arguments}")
            case Unfinished(kind, raw):
                lines.append(f"{kind:<9} {json.dumps(raw, ensure_ascii=False)}")
    if message.finish_reason is not None:
        lines.append(f"finish    {message.finish_reason}")
    return lines


# -- runs


@dataclass(frozen=True, slots=True)
class Run:
    """Execution of one case by one parser with one chunking.

    The status is first ``created``, then ``executed``, and finally a verdict such as ``passed``. Any other
    order raises ``UsageError``.
    """

    case: TestCase
    parser: str
    """Name of the parser under test."""
    chunking: str = "whole"
    chunks: tuple[str, ...] = ()
    status: Status = "created"
    actual: ExtractedToolCallInformation | None = None
    """Message that the parser returned; None if the parser failed."""
    error: str = ""
    """Error of a parser that failed, or the streaming rule that the parser violated."""
    difference: str = "match"
    """Class of the difference, one of ``_compare.CLASSES``."""
    detail: str = ""
    """Readable description of the difference."""
    reason: str = ""
    """Ruling or policy difference that makes the result acceptable; empty if there is none."""

    def executed(self, actual: ExtractedToolCallInformation | None, error: str = "") -> Run:
        """Return a copy of the run with the parser's answer and the status ``executed``."""
        self._must_be("created")
        return replace(self, status="executed", actual=actual, error=error)

    def judged(self, difference: str, detail: str = "", reason: str = "") -> Run:
        """Return a copy of the run with the result of the comparison."""
        self._must_be("executed")
        status: Status = "passed" if difference == "match" else "xfailed" if reason else "failed"
        return replace(self, status=status, difference=difference, detail=detail, reason=reason)

    def _must_be(self, status: Status) -> None:
        if self.status != status:
            raise UsageError(f"the run of {self.case.key} is {self.status}, not {status}; create a new Run")


# -- the schema


def _object(required: Json, optional: Json | None = None) -> Json:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


_STRING: Final = {"type": "string"}
_TEXT: Final = {"type": ["string", "null"]}
_BOOLEAN: Final = {"type": "boolean"}
_FUNCTION: Final = _object({"name": _STRING, "arguments": _STRING})
_CALL: Final = _object(
    {"id": _TEXT, "type": {"const": "function"}, "function": _FUNCTION}, {"verbatim": _BOOLEAN}
)
_UNFINISHED: Final = _object(
    {
        "kind": {"enum": list(get_args(UnfinishedKind))},
        "raw": _STRING,
        "name": _STRING,
        "arguments": _STRING,
    }
)
_PART: Final = {
    "oneOf": [
        _object({"content": _STRING}),
        _object({"reasoning": _STRING}),
        _object({"tool_call": {"type": "integer", "minimum": 0}}),
        _object({"unfinished": _UNFINISHED}),
    ]
}


def json_schema() -> Json:
    """Return the JSON Schema of the lines that ``unspool conformance export`` writes."""
    case = _object(
        {
            "scenario_name": _STRING,
            "dialect": _STRING,
            "group": _STRING,
            "rule": _STRING,
            "model_output": _STRING,
            "expected_tools_called": _BOOLEAN,
            "expected_tool_calls": {"type": "array", "items": _CALL},
            "expected_content": _TEXT,
            "expected_reasoning": _TEXT,
            "expected_order": {"type": "array", "items": _PART},
            "expected_finish_reason": {"enum": [None, *get_args(FinishReason)]},
            "streaming_mode": {"enum": list(get_args(StreamingMode))},
            "parser_name": _STRING,
            "tools": {"type": "array", "items": {"type": "object"}},
            "tool_choice": {"type": ["string", "object"]},
            "start": {"enum": list(get_args(StartState))},
            "prompt": _TEXT,
            "finish_reason": {"enum": list(get_args(FinishReason))},
            "n": {"type": "integer", "minimum": 1},
        }
    )
    called = {"properties": {"expected_tools_called": {"const": True}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A case of unspool's conformance suite",
        **case,
        "if": called,
        "then": {"properties": {"expected_tool_calls": {"minItems": 1}}},
        "else": {"properties": {"expected_tool_calls": {"maxItems": 0}}},
    }


def _without_none(**fields: object) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _remove_whitespace(text: str | None) -> str:
    return "".join((text or "").split())
