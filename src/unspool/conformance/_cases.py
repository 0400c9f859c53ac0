"""The data model: what a case is, what a parser says, and what becomes of it.

A :class:`TestCase` is one output of a model, the request that it answers, and
what must come out.  It knows no parser.  A :class:`Run` is one case in one
parser's hands.  Both are plain values; their JSON is documented by
:func:`json_schema`, and ``to_json``/``from_json`` are inverse to each other.

What must come out is said twice.  The flat fields (``expected_content``,
``expected_reasoning``, ``expected_tool_calls``) are what a client reads from a
whole message; ``expected_order`` is the same in the order of the output:

``{"content": "text"}``      a stretch of text for the user
``{"reasoning": "text"}``    a stretch of reasoning
``{"tool_call": 0}``         the call of that number in ``expected_tool_calls``
``{"unfinished": {...}}``    something that is no call, because the output broke
                             off or went wrong in it

White space where two stretches of one channel meet is not part of any format:
``expected_content`` shows a plausible joint, and any other is as good, unless
words run together.

An *unfinished* piece is where parsers may differ and be right, and where a
stream cannot take back what it has sent.  What counts as right depends on its
kind:

``truncated``  the output ends inside a call: nothing, or the call with a prefix
               of its arguments, or, where all of them are there, the whole call
``malformed``  the call is broken: its raw text as content, or the call with a
               prefix of its arguments
``fragment``   the output ends inside a marker, or behind the opening one of a
               call: nothing, or its raw text
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

Start: TypeAlias = Literal["content", "reasoning", "response"]
"""Where the prompt leaves the model: outside of everything, inside reasoning, or
inside the wrapper that its family puts around answers."""
StreamingMode: TypeAlias = Literal["both", "stream", "batch"]
"""Whether a case is for streams, for whole outputs, or for both."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why generation stopped (of a request), and what a client is told (of a result)."""
Channel: TypeAlias = Literal["content", "reasoning"]
UnfinishedKind: TypeAlias = Literal["truncated", "malformed", "fragment"]
Status: TypeAlias = Literal["created", "executed", "passed", "failed", "xfailed"]
"""Created, then executed, then one of the last three."""


# -- what a parser says


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function's name and its arguments, as JSON text."""

    name: str
    arguments: str

    def to_json(self) -> Json:
        return {"name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FunctionCall:
        return cls(value["name"], value["arguments"])


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call, as in OpenAI's messages."""

    function: FunctionCall
    id: str | None = None
    """Of an expected call: the id that the model wrote; None: any will do."""
    verbatim: bool = False
    """Of an expected call: the model wrote the arguments as JSON, so that their
    text can be kept to the letter.  Otherwise only the value counts."""

    def to_json(self) -> Json:
        found: Json = {"id": self.id, "type": "function", "function": self.function.to_json()}
        return found | ({"verbatim": True} if self.verbatim else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ToolCall:
        return cls(FunctionCall.from_json(value["function"]), value.get("id"), value.get("verbatim", False))


@dataclass(frozen=True, slots=True)
class DeltaToolCall:
    """What a delta says of one call."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def to_json(self) -> Json:
        return _given(index=self.index, id=self.id, name=self.name, arguments=self.arguments)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeltaToolCall:
        """Flat, or with ``function`` as OpenAI's wire has it."""
        inner = value.get("function") or value
        return cls(value["index"], value.get("id"), inner.get("name"), inner.get("arguments"))


@dataclass(frozen=True, slots=True)
class DeltaMessage:
    """What a parser adds to the message; of several things in one delta the order is not known."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[DeltaToolCall, ...] = ()

    def to_json(self) -> Json:
        calls = [call.to_json() for call in self.tool_calls]
        return _given(content=self.content, reasoning=self.reasoning, tool_calls=calls or None)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeltaMessage:
        """Reasoning may be called ``reasoning_content``, as many servers do."""
        return cls(
            value.get("content"),
            value.get("reasoning") or value.get("reasoning_content"),
            tuple(map(DeltaToolCall.from_json, value.get("tool_calls") or ())),
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.content or self.reasoning or self.tool_calls)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of text, in its place."""

    channel: Channel
    text: str

    def to_json(self) -> Json:
        return {self.channel: self.text}


@dataclass(frozen=True, slots=True)
class CallAt:
    """A call, in its place; its number."""

    index: int

    def to_json(self) -> Json:
        return {"tool_call": self.index}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Something that did not become a call."""

    kind: UnfinishedKind
    raw: str
    """What the model wrote."""
    name: str = ""
    """The function, if its name is known."""
    arguments: str = ""
    """The arguments as they would have been; what was sent is a prefix of them."""

    def to_json(self) -> Json:
        return {
            "unfinished": {
                "kind": self.kind,
                "raw": self.raw,
                "name": self.name,
                "arguments": self.arguments,
            }
        }


Part: TypeAlias = Stretch | CallAt | Unfinished


def part_from_json(value: Mapping[str, Any]) -> Part:
    """The part of an order that this JSON stands for."""
    if "tool_call" in value:
        return CallAt(value["tool_call"])
    if "unfinished" in value:
        return Unfinished(**value["unfinished"])
    channel: Channel = "content" if "content" in value else "reasoning"
    return Stretch(channel, value[channel])


@dataclass(frozen=True, slots=True)
class ExtractedToolCallInformation:
    """A whole message, as a parser of whole outputs returns it, or as a stream adds up to it."""

    tools_called: bool
    tool_calls: tuple[ToolCall, ...] = ()
    content: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    """None: the parser leaves it to its server."""
    order: tuple[Part, ...] = ()
    """The same in order, as far as the deltas tell it."""

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
    """One output of a model, the request that it answers, and what must come out."""

    __test__: ClassVar = False  # not for pytest to collect

    scenario_name: str
    """What the case shows, without the dialect: ``order/reasoning-text-call``."""
    dialect: str
    """The dialect's own name."""
    group: str
    """The scenarios it belongs to."""
    model_output: str
    """What the model wrote; it may be empty."""
    expected_tools_called: bool
    """Whether the output calls tools: exactly if ``expected_tool_calls`` has any."""
    expected_tool_calls: tuple[ToolCall, ...] = ()
    expected_content: str | None = None
    expected_reasoning: str | None = None
    expected_order: tuple[Part, ...] = ()
    expected_finish_reason: FinishReason | None = None
    """What a client must be told; None: either of several is right."""
    streaming_mode: StreamingMode = "both"
    parser_name: str = ""
    """The name that an engine knows the parser by; the dialect's, unless given."""
    tools: tuple[Json, ...] = ()
    """The request's tools."""
    tool_choice: str | Json = "auto"
    start: Start = "content"
    prompt: str | None = None
    """The end of the prompt; None: what the family's template ends with, and it opens nothing."""
    finish_reason: FinishReason = "stop"
    """Why generation stopped, as the backend says."""
    n: int = 1
    """With more than one, the output comes as several choices, in turns."""
    rule: str = ""
    """The rule that says what must come out, for people."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parser_name", self.parser_name or self.dialect)
        for diagnostic in self._diagnostics():
            raise UsageError(f"case {self.dialect} {self.scenario_name}: {diagnostic}")

    def _diagnostics(self) -> Sequence[str]:
        if not isinstance(self.model_output, str):
            return ["model_output is missing; for an output without text give ''"]
        if self.expected_tools_called != bool(self.expected_tool_calls):
            number = len(self.expected_tool_calls)
            return [f"expected_tools_called={self.expected_tools_called} with {number} expected calls"]
        found = get_dialect(self.parser_name).name  # refuses a parser that is not registered
        if found != get_dialect(self.dialect).name:
            return [f"parser_name={self.parser_name!r} is a parser of {found}"]
        for name, value, choices in (
            ("streaming_mode", self.streaming_mode, get_args(StreamingMode)),
            ("start", self.start, get_args(Start)),
            ("finish_reason", self.finish_reason, get_args(FinishReason)),
            ("expected_finish_reason", self.expected_finish_reason, (None, *get_args(FinishReason))),
        ):
            if value not in choices:
                return [f"{name}={value!r}: choose one of {', '.join(map(str, choices))}"]
        if self.n < 1:
            return [f"n={self.n}: a request has at least one choice"]
        numbers = [part.index for part in self.expected_order if isinstance(part, CallAt)]
        if numbers != list(range(len(self.expected_tool_calls))):
            return [
                f"expected_order has calls {numbers}, expected_tool_calls {len(self.expected_tool_calls)}"
            ]
        for channel, text in (("content", self.expected_content), ("reasoning", self.expected_reasoning)):
            if _squeezed(text) != _squeezed(self.stretches(channel)):
                return [
                    f"expected_order has {channel} {self.stretches(channel)!r}, but it should be {text!r}"
                ]
        return []

    def stretches(self, channel: str) -> str:
        """The text of a channel, out of ``expected_order``."""
        return "".join(
            part.text for part in self.expected_order if isinstance(part, Stretch) and part.channel == channel
        )

    @property
    def key(self) -> str:
        """The case's name, unique in a suite."""
        return f"{self.dialect}:{self.scenario_name}"

    @property
    def expected(self) -> ExtractedToolCallInformation:
        """What must come out, as a parser would say it."""
        return ExtractedToolCallInformation(
            self.expected_tools_called,
            self.expected_tool_calls,
            self.expected_content,
            self.expected_reasoning,
            self.expected_finish_reason,
            self.expected_order,
        )

    def to_json(self) -> Json:
        """The case as a JSON object; see :func:`json_schema`."""
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
        """The case that a JSON object describes."""
        if value.get("model_output") is None:
            raise UsageError("a case has no model_output; for an output without text give ''")
        plain = dict(value)
        plain["expected_tool_calls"] = tuple(map(ToolCall.from_json, value.get("expected_tool_calls", ())))
        plain["expected_order"] = tuple(map(part_from_json, value.get("expected_order", ())))
        plain["tools"] = tuple(value.get("tools", ()))
        try:
            return cls(**plain)
        except TypeError as error:
            raise UsageError(f"not a case: {error}") from error

    def to_line(self) -> str:
        """The case as a line of JSON Lines."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """The case for people: what the model wrote, and what must come out."""
        lines = [f"{self.scenario_name} in {self.dialect}"]
        if self.rule:
            lines.append(f"  {self.rule}")
        if self.start != "content" or self.prompt is not None:
            lines.append(f"  begins in {self.start}, behind the prompt {self.prompt!r}")
        if self.tool_choice != "auto":
            lines.append(f"  tool_choice: {json.dumps(self.tool_choice)}")
        lines += ["  output:", *(f"    | {line}".rstrip() for line in self.model_output.split("\n"))]
        lines += ["  expected:", *(f"    {line}" for line in order_lines(self.expected))]
        return "\n".join(lines) + "\n"


def order_lines(message: ExtractedToolCallInformation) -> list[str]:
    """A message for people, a line for each part."""
    lines = []
    for part in message.order:
        match part:
            case Stretch(channel, text):
                lines.append(f"{channel:<9} {json.dumps(text, ensure_ascii=False)}")
            case CallAt(index):
                call = message.tool_calls[index]
                lines.append(f"call      {call.function.name} {call.function.arguments}")
            case Unfinished(kind, raw):
                lines.append(f"{kind:<9} {json.dumps(raw, ensure_ascii=False)}")
    if message.finish_reason is not None:
        lines.append(f"finish    {message.finish_reason}")
    return lines


# -- its life


@dataclass(frozen=True, slots=True)
class Run:
    """One case, in one way of cutting it, in one parser's hands.

    Created, then ``executed``, then ``judged``: in that order, or ``UsageError``.
    """

    case: TestCase
    parser: str
    """The parser under test."""
    chunking: str = "whole"
    chunks: tuple[str, ...] = ()
    status: Status = "created"
    actual: ExtractedToolCallInformation | None = None
    """What came out; None: nothing did."""
    error: str = ""
    """Why nothing did, or which rule of streams was broken."""
    difference: str = "match"
    """The class of the difference; see ``compare.CLASSES``."""
    detail: str = ""
    """The difference, for people."""
    excuse: str = ""
    """The ruling or the excuse that makes it a legitimate one."""

    def executed(self, actual: ExtractedToolCallInformation | None, error: str = "") -> Run:
        """The parser has answered."""
        self._must_be("created")
        return replace(self, status="executed", actual=actual, error=error)

    def judged(self, difference: str, detail: str = "", excuse: str = "") -> Run:
        """The answer has been compared."""
        self._must_be("executed")
        status: Status = "passed" if difference == "match" else "xfailed" if excuse else "failed"
        return replace(self, status=status, difference=difference, detail=detail, excuse=excuse)

    def _must_be(self, status: Status) -> None:
        if self.status != status:
            raise UsageError(f"the run of {self.case.key} is {self.status}, not {status}: take a new Run")


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
    """A JSON schema of the lines that ``unspool conformance export`` writes."""
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
            "start": {"enum": list(get_args(Start))},
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


def _given(**fields: object) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _squeezed(text: str | None) -> str:
    return "".join((text or "").split())
