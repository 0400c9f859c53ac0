"""What a type checker infers for the public names. Checked, never run.

``assert_type`` states what callers rely on; an ``ignore`` on a mistake states that the checker finds it,
because strict mode reports unused ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, assert_never, assert_type

import tokenizers
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

import unspool
from unspool import (
    ArgumentsError,
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Dialect,
    Event,
    Finish,
    MalformedOutput,
    Markup,
    Message,
    Parser,
    PartialArguments,
    Policies,
    Text,
    ToolCall,
    astream,
    stream,
)
from unspool.dialects import (
    Envelope,
    Family,
    Frame,
    IdFormat,
    Names,
    Prompt,
    RequestFacts,
    Route,
    Thinking,
    Values,
)
from unspool.events import Channel, FinishReason, MarkupKind, Status
from unspool.message import BrokenCall, TextPart
from unspool.models import Detection, Reasoning
from unspool.planning import Constraint, Plan
from unspool.stages import MessageBuilder, WhitespaceFilter
from unspool.tokens import AnyTokenizer, Tokenizer
from unspool.wire import (
    ChatStream,
    ChatStreamDecoder,
    Chunk,
    MessagesStream,
    ResponsesStream,
    sse,
)

# -- parsing


def batch(tools: list[dict[str, Any]]) -> None:
    message = unspool.parse("text", "hermes", tools=tools, prompt="<think>", finish_reason="stop")
    assert_type(message, Message)
    assert_type(message.reasoning, str | None)
    assert_type(message.content, str | None)
    assert_type(message.tool_calls, tuple[ToolCall, ...])
    assert_type(message.diagnostics, tuple[Diagnostic, ...])
    assert_type(message.finish_reason, FinishReason | None)
    assert_type(message.tool_calls[0].arguments, str)
    for part in message.parts:
        assert_type(part, TextPart | ToolCall | BrokenCall)
        if isinstance(part, TextPart):
            assert_type(part.channel, Literal["content", "reasoning"])

    unspool.parse("text", Dialect("mine", call=("<call>{envelope}</call>",)))
    unspool.parse([1, 2], "hermes", tokenizer=Vocabulary())
    unspool.parse("text", "hermes", finish_reason="eos")  # type: ignore[arg-type]
    unspool.parse("text")  # type: ignore[call-arg]
    message.content = "frozen"  # type: ignore[misc]


def parse_a_stream() -> None:
    parser = Parser("hermes", policies="strict")
    assert_type(parser.feed("text"), list[Event])
    assert_type(parser.finish("length"), list[Event])
    assert_type(parser.pending, int)
    assert_type(parser.max_pending, int | None)
    assert_type(parser.dialect, Dialect)
    assert_type(parser.policies, Policies)
    assert_type(parser.forced, bool)
    assert_type(parser.tidy(), WhitespaceFilter)
    assert_type(parser.tidy().feed(parser.feed("")), list[Event])
    assert_type(parser.tidy().finish_reason, FinishReason)
    assert_type(parser.fold(), MessageBuilder)
    assert_type(parser.fold().message, Message)
    assert_type(parser.message(parser.feed("")), Message)
    assert_type(unspool.events.normalise(parser.feed("")), list[Event])
    parser.finish("eos")  # type: ignore[arg-type]
    WhitespaceFilter("hermes")  # type: ignore[arg-type]
    unspool.get_parser("hermes")  # type: ignore[attr-defined]


class Vocabulary:
    """A custom tokenizer."""

    def token_bytes(self, id: int) -> bytes:
        return bytes([id])

    def special_tokens(self) -> Mapping[int, str]:
        return {}


class Engine:
    """An object that holds a tokenizer, like engines' wrappers."""

    tokenizer = Vocabulary()


def tokens(
    tokenizer: AnyTokenizer, theirs: tokenizers.Tokenizer, mistrals: MistralTokenizer[Any, Any, Any, Any, Any]
) -> None:
    parser = Parser("hermes", tokenizer=tokenizer)
    assert_type(parser.feed_tokens([1, 2, 3]), list[Event])
    parser.feed_tokens(["text"])  # type: ignore[list-item]
    own: Tokenizer = Vocabulary()
    Parser("hermes", tokenizer=own)
    Parser("hermes", tokenizer=Engine())
    Parser("hermes", tokenizer=theirs)
    Parser("mistral", tokenizer=mistrals)
    unspool.plan("hermes", {}, tokenizer=theirs)
    Parser("hermes", tokenizer="Qwen/Qwen3-8B")  # type: ignore[arg-type]


def tools_of_any_mapping(tools: tuple[Mapping[str, object], ...], more: list[dict[str, str]]) -> None:
    Parser("hermes", tools=tools)
    Parser("hermes", tools=more)
    Parser("hermes", tools=())
    Parser("hermes", tools=["name"])  # type: ignore[list-item]


# -- events


def events_are_exhaustive(event: Event) -> str:
    match event:
        case Text("reasoning", text):
            return assert_type(text, str)
        case Text(channel, text):
            assert_type(channel, Literal["content", "reasoning"])
            assert_type(channel, Channel)
            return text
        case CallStart(index, name, id):
            assert_type(index, int)
            return assert_type(name, str) + assert_type(id, str)
        case CallArgs(_, json):
            return assert_type(json, str)
        case CallEnd(_, status, raw):
            assert_type(status, Literal["complete", "malformed", "truncated"])
            assert_type(status, Status)
            return assert_type(raw, str)
        case Markup(role, text):
            assert_type(role, MarkupKind)
            return assert_type(text, str)
        case Diagnostic(kind, detail):
            return assert_type(kind, str) + assert_type(detail, str)
        case Finish(reason):
            assert_type(reason, FinishReason | None)
            assert_type(reason, Literal["stop", "length", "tool_calls", "content_filter"] | None)
            return assert_type(event.start, int).bit_length() * "."
        case _:
            assert_never(event)


def an_event_that_is_forgotten_is_an_error(event: Event) -> str:
    match event:
        case Text() | CallStart() | CallArgs() | CallEnd() | Markup() | Finish():
            return "not a note"
        case _:
            assert_never(event)  # type: ignore[arg-type]


def parts_are_exhaustive(part: unspool.message.Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ToolCall):
        return part.name
    if isinstance(part, BrokenCall):
        return assert_type(part.status, Literal["malformed", "truncated"])
    assert_never(part)


# -- dialects and policies


def declare() -> None:
    dialect = Dialect(
        name="mine",
        frame=Frame(
            open=("<|start|>",),
            sep="<|message|>",
            ends=("<|end|>",),
            fields=("<|to|>{to}",),
            routes=(Route({"to": "{name}"}, "{args}", "<|to|>{name}"), Route({}, "content")),
        ),
        family=Family("Mine", aliases=("ours",)),
        envelope=Envelope(name_keys=("tool",), order=("id", "name", "args")),
        values=Values(python=True),
        names=Names(forms=("{name}:{index}",)),
        prompt=Prompt(ends=("<|start|>",), opens_message=True),
        id_format=IdFormat("call_{index}"),
        args="python",
    )
    assert_type(dialect.family, Family)
    assert_type(dialect.request, RequestFacts | str | None)
    assert_type(unspool.register(dialect, replace=True), Dialect)
    assert_type(unspool.get_dialect("mine"), Dialect)
    assert_type(unspool.list_dialects(), tuple[Dialect, ...])
    assert_type(unspool.render(Message(content="Hi"), dialect, check=False), str)
    assert_type(unspool.parse("Hi", dialect, new_id=unspool.parser.seeded_ids(17, dialect)), Message)
    assert_type(unspool.dialects.explain("hermes"), str)
    assert_type(unspool.dialects.state_diagram(dialect), str)
    assert_type(unspool.models.from_response_template({"fields": {"content": {}}}), Dialect)
    assert_type(unspool.models.to_response_template("hermes"), dict[str, Any])
    assert_type(unspool.dialects.dialect_from_json({"name": "mine"}), Dialect)
    assert_type(unspool.dialects.dialect_to_json(dialect), dict[str, Any])
    assert_type(unspool.dialects.dialect_schema(), dict[str, Any])
    Dialect(name="mine", call="<call>{envelope}</call>")  # type: ignore[arg-type]
    Dialect(name="mine", args="yaml")  # type: ignore[arg-type]
    Dialect(name="mine", family="Mine")  # type: ignore[arg-type]
    Dialect(name="mine", envelope=Envelope(order=("tool",)))  # type: ignore[arg-type]
    dialect.name = "yours"  # type: ignore[misc]


def halve() -> None:
    half = unspool.stages.ReasoningSplitter("hermes", start_channel="reasoning")
    events = half.feed("Hm.</think>Hi.")
    assert_type(events, unspool.stages.ReasoningSplit)
    assert_type(events.reasoning, str)
    assert_type(half.finish("stop").rest, str)


def choose() -> None:
    assert_type(Policies().commit, Literal["name", "call"])
    Policies(malformed_call="ignore")  # type: ignore[arg-type]
    Policies(malformed="drop")  # type: ignore[call-arg]


def errors(error: MalformedOutput) -> None:
    assert_type(error.kind, str)
    assert_type(error.at, int)
    assert_type(error.raw, str)


# -- wire


def wire(parser: Parser) -> None:
    chat = ChatStream(parser, model="m")
    chunks = chat.feed(parser.feed("text"))
    assert_type(chunks, list[Chunk])
    assert_type(chunks[0], dict[str, object])
    assert_type(sse(chunks[0]), str)
    assert_type(chat.finish_reason, FinishReason)
    for encoder in (chat, MessagesStream(parser), ResponsesStream(parser)):
        assert_type(encoder.response(Message()), dict[str, object])
    ChatStream(model="m")  # type: ignore[call-arg]
    assert_type(ChatStreamDecoder().message, Message)


# -- the request side


def planning(facts: RequestFacts, thinking: Thinking) -> None:
    planned = unspool.plan("hermes", {"messages": []}, prompt="<|im_start|>assistant\n")
    assert_type(planned, Plan)
    assert_type(planned.constraint, Constraint)
    assert_type(planned.skip_special_tokens, bool)
    Dialect("mine", call=("<call>{envelope}</call>",), request=facts)
    del thinking


def detecting() -> None:
    detection = unspool.detect("{{ messages }}")
    assert_type(detection, Detection)
    assert_type(detection.dialect, Dialect | None)
    assert_type(detection.reasoning, Reasoning)


async def read_asynchronously(chunks: AsyncIterator[str]) -> None:
    events = astream(chunks, "hermes")
    async for event in events:
        assert_type(event, Event)
    assert_type(events.message, Message)
    assert_type(stream(["a"], "hermes").message, Message)
    partial = PartialArguments()
    assert_type(partial.feed(Parser("hermes").feed("a")), list[Event])
    assert_type(partial.value(0), dict[str, Any])


def read_arguments(call: ToolCall) -> None:
    try:
        assert_type(call.args, dict[str, Any])
        assert_type(call.parse_as(int), int)
    except ArgumentsError as error:
        assert_type(error.start, int)
