"""Data model of the suite: cases, parser output and the result of running a case.

A :class:`TestCase` holds one model output, the request that it answers, and the
expected message. It is independent of any parser. A :class:`Run` is one case
executed by one parser. Both are plain values; :func:`json_schema` documents
their JSON, and ``to_json`` and ``from_json`` are inverses.

A case states its expectation twice. The flat fields (``expected_content``,
``expected_reasoning``, ``expected_tool_calls``) are what a client reads from a
complete message. ``expected_order`` lists the same parts in the order of the output:

``{"content": "text"}``      a segment of text for the user
``{"reasoning": "text"}``    a segment of reasoning
``{"tool_call": 0}``         the call with that index in ``expected_tool_calls``
``{"unfinished": {...}}``    a truncated or malformed piece that is not a call

No format specifies the whitespace between two segments of one channel.
``expected_content`` shows one plausible separator. Any other is accepted, unless
words run together.

Parsers may handle an *unfinished* piece in several correct ways, because a stream
cannot take back what it has sent. The accepted results depend on its kind:

``truncated``  the output ends inside a call. Accepted: nothing; the call with a
               prefix of its arguments; or the complete call if all of its
               arguments are there
``malformed``  the call is broken. Accepted: its raw text as content, or the call
               with a prefix of its arguments
``fragment``   the output ends inside a marker or right after the marker that
               opens a call. Accepted: nothing, or the raw text
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from ..dialects._registry import get_dialect
from ..errors import UsageError

Json: TypeAlias = dict[str, Any]
"""A JSON object."""

StartState: TypeAlias = Literal["content", "reasoning", "response"]
"""State in which the prompt leaves the model.

``content`` is outside of every marker, ``reasoning`` is inside reasoning, and
``response`` is inside the wrapper that the family puts around answers.
"""
StreamingMode: TypeAlias = Literal["both", "stream", "batch"]
"""Applicability of a case: to streams, to complete outputs, or to both."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Reason why generation stopped (in a request), or the one that the client receives (in a result)."""
Channel: TypeAlias = Literal["content", "reasoning"]
UnfinishedKind: TypeAlias = Literal["truncated", "malformed", "fragment"]
Status: TypeAlias = Literal["created", "executed", "passed", "failed", "xfailed"]
"""Lifecycle of a run: created, executed, then one of the last three."""


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
    """Tool call in the shape of OpenAI's messages."""

    function: FunctionCall
    id: str | None = None
    """Identifier of the call. In an expected call: the id that the model wrote, or None if any id is
    accepted."""
    verbatim: bool = False
    """Flag of an expected call: the model wrote the arguments as JSON, so their text must be kept unchanged.

    Otherwise only the value counts.
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
        """Create a delta from flat fields, or from ``function`` as in OpenAI's API."""
        inner = value.get("function") or value
        return cls(value["index"], value.get("id"), inner.get("name"), inner.get("arguments"))


@dataclass(frozen=True, slots=True)
class DeltaMessage:
    """Delta that a parser adds to the message. The order of several things in one delta is unknown."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[DeltaToolCall, ...] = ()

    def to_json(self) -> Json:
        calls = [call.to_json() for call in self.tool_calls]
        return _without_none(content=self.content, reasoning=self.reasoning, tool_calls=calls or None)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeltaMessage:
        """Create a delta. Reasoning may be called ``reasoning_content``, as in many servers."""
        return cls(
            value.get("content"),
            value.get("reasoning") or value.get("reasoning_content"),
            tuple(map(DeltaToolCall.from_json, value.get("tool_calls") or ())),
        )

    @property
    def empty(self) -> bool:
        """True if the delta has no text and no calls."""
        return not (self.content or self.reasoning or self.tool_calls)


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Segment of text at its position in the output."""

    channel: Channel
    text: str

    def to_json(self) -> Json:
        return {self.channel: self.text}


@dataclass(frozen=True, slots=True)
class CallReference:
    """Reference to a call at its position in the output, by index."""

    index: int

    def to_json(self) -> Json:
        return {"tool_call": self.index}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Piece of the output that did not become a call."""

    kind: UnfinishedKind
    raw: str
    """Text that the model wrote."""
    name: str = ""
    """Function name, if it is known."""
    arguments: str = ""
    """Arguments that the call would have had; what a stream sends is a prefix of them."""

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
    """Return the part that a JSON object describes."""
    if "tool_call" in value:
        return CallReference(value["tool_call"])
    if "unfinished" in value:
        return Unfinished(**value["unfinished"])
    channel: Channel = "content" if "content" in value else "reasoning"
    return TextSegment(channel, value[channel])


@dataclass(frozen=True, slots=True)
class ExtractedToolCallInformation:
    """Complete message, as returned by a parser of complete outputs or assembled from a stream."""

    tools_called: bool
    tool_calls: tuple[ToolCall, ...] = ()
    content: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    """Finish reason; None if the parser leaves it to its server."""
    order: tuple[Part, ...] = ()
    """Parts of the message in order, as far as the deltas reveal it."""

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
    """One model output, the request that it answers, and the expected message."""

    __test__: ClassVar = False  # pytest would collect the class by its name

    scenario_name: str
    """Name of the scenario, without the dialect: ``order/reasoning-text-call``."""
    dialect: str
    """Canonical name of the dialect."""
    group: str
    """Group that the scenario belongs to."""
    model_output: str
    """Text that the model wrote; may be empty."""
    expected_tools_called: bool
    """True exactly if ``expected_tool_calls`` is not empty."""
    expected_tool_calls: tuple[ToolCall, ...] = ()
    expected_content: str | None = None
    expected_reasoning: str | None = None
    expected_order: tuple[Part, ...] = ()
    expected_finish_reason: FinishReason | None = None
    """Finish reason that a client must receive; None if several are correct."""
    streaming_mode: StreamingMode = "both"
    parser_name: str = ""
    """Name by which an engine knows the parser; defaults to the dialect."""
    tools: tuple[Json, ...] = ()
    """Tools of the request."""
    tool_choice: str | Json = "auto"
    start: StartState = "content"
    prompt: str | None = None
    """End of the prompt. None stands for the end of the family's template, which opens no marker."""
    finish_reason: FinishReason = "stop"
    """Reason why generation stopped, as the backend reports it."""
    n: int = 1
    """Number of choices. If it is above one, the output arrives as several interleaved choices."""
    rule: str = ""
    """Rule that determines the expected result, for readers."""

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
        canonical = get_dialect(self.parser_name).name  # raises for an unregistered parser
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
        """Return the text of a channel, joined from ``expected_order``."""
        return "".join(
            part.text
            for part in self.expected_order
            if isinstance(part, TextSegment) and part.channel == channel
        )

    @property
    def key(self) -> str:
        """Name of the case, unique in a suite."""
        return f"{self.dialect}:{self.scenario_name}"

    @property
    def expected(self) -> ExtractedToolCallInformation:
        """Expected result in the shape of a parser's result."""
        return ExtractedToolCallInformation(
            self.expected_tools_called,
            self.expected_tool_calls,
            self.expected_content,
            self.expected_reasoning,
            self.expected_finish_reason,
            self.expected_order,
        )

    def to_json(self) -> Json:
        """Return the case as a JSON object; see :func:`json_schema`."""
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
        """Return the case as a line of JSON Lines."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Return a readable description of the case: the model output and the expected result."""
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
    """Return a readable description of a message, with a line for each part."""
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
    """Execution of one case by one parser, in one chunking.

    The states are ``created``, ``executed`` and a verdict, in this order; any other
    order raises ``UsageError``.
    """

    case: TestCase
    parser: str
    """Name of the parser under test."""
    chunking: str = "whole"
    chunks: tuple[str, ...] = ()
    status: Status = "created"
    actual: ExtractedToolCallInformation | None = None
    """Message that the parser returned; None if there is none."""
    error: str = ""
    """Reason for a missing message, or the stream rule that the parser broke."""
    difference: str = "match"
    """Class of the difference; see ``_compare.CLASSES``."""
    detail: str = ""
    """Description of the difference."""
    reason: str = ""
    """Ruling or policy difference that makes the result acceptable."""

    def executed(self, actual: ExtractedToolCallInformation | None, error: str = "") -> Run:
        """Return the run with the parser's answer."""
        self._must_be("created")
        return replace(self, status="executed", actual=actual, error=error)

    def judged(self, difference: str, detail: str = "", reason: str = "") -> Run:
        """Return the run with the result of the comparison."""
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
    """Return a JSON schema of the lines that ``unspool conformance export`` writes."""
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
