"""Parsed message: the reasoning, content, tool calls and diagnostics of a whole output.

The classes are written by hand, because a batch creates millions of instances, and creating an instance
of a frozen dataclass takes ten times as long.  ``dataclasses.asdict`` and ``replace`` accept the instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, make_dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from ._core.mypyc_types import mypyc_attr
from .events import Channel, Diagnostic, FinishReason

__all__ = [
    "BrokenCall",
    "Message",
    "Part",
    "TextPart",
    "ToolCall",
]

_T = TypeVar("_T")
_MAX_REPR: Final = 290
"""Maximum length of the ``repr`` of a message."""


def _abbreviated(value: object) -> str:
    """Return the ``repr`` of a field, shortened to about 80 characters."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:40]!r}... ({len(value)} characters)"
    if isinstance(value, tuple):
        names = [str(getattr(item, "name", "") or getattr(item, "kind", ""))[:20] for item in value[:2]]
        return f"<{len(value)}: {', '.join(names)}, ...>"
    return repr(value)


def _fields(*names: str) -> dict[str, Field[Any]]:
    """Return the fields of a class in the form that ``dataclasses`` expects."""
    shape = make_dataclass("_", names, init=False, repr=False, eq=False)
    return {field.name: field for field in fields(shape)}


@mypyc_attr(acyclic=True)
class _Value:
    """Base class of immutable values that are compared by their fields."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = {}

    def _key(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value):
            return NotImplemented
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), self._key()

    def __repr__(self) -> str:
        values = zip(self.__dataclass_fields__, self._key(), strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in values])})"


@mypyc_attr(acyclic=True)
class ToolCall(_Value):
    """Complete tool call."""

    __slots__ = ("args_end", "args_start", "arguments", "id", "name")
    __match_args__: ClassVar = ("id", "name", "arguments")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(
        self, id: str = "", name: str = "", arguments: str = "{}", args_start: int = 0, args_end: int = 0
    ) -> None:
        self.id: Final = id
        """Id of the call: written by the model, or generated in the format of the model family; empty in a
        call of your own that needs none, for example to render it."""
        self.name: Final = name
        """Name of the function."""
        self.arguments: Final = arguments
        """Arguments as JSON text, exactly as the model wrote them if the dialect uses JSON."""
        self.args_start: Final = args_start
        """Offset of the arguments in the output; equal to ``args_end`` if the offset is not known.

        Comparisons ignore the offsets."""
        self.args_end: Final = args_end
        """Offset just past the arguments in the output."""

    @property
    def args(self) -> dict[str, Any]:
        """Arguments as a new dictionary.

        :raises ArgumentsError: if the arguments are not a JSON object, which is possible only under the
            policies ``malformed_call="call"`` and ``truncated_call="call"``.

        >>> ToolCall("call_1", "now", '{"tz": "UTC"}').args
        {'tz': 'UTC'}
        """
        from ._core.conversions.arguments_to_python import arguments_of

        return arguments_of(self)

    def parse_as(self, model: type[_T]) -> _T:
        """Return the arguments as an instance of a class, with their types checked.

        The class may be a Pydantic model or a msgspec ``Struct``, whose own decoder reads the arguments.  For
        dataclasses, ``TypedDict`` and other types, Pydantic or msgspec must be installed.

        :raises ArgumentsError: if the arguments do not fit.
        """
        from ._core.conversions.arguments_to_python import parse_arguments

        return parse_arguments(self, model)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return ToolCall, (self.id, self.name, self.arguments, self.args_start, self.args_end)


@mypyc_attr(acyclic=True)
class TextPart(_Value):
    """Uninterrupted text of one channel."""

    __slots__ = ("channel", "text")
    __match_args__: ClassVar = ("channel", "text")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(self, channel: Channel, text: str) -> None:
        self.channel: Final[Channel] = channel
        self.text: Final = text


@mypyc_attr(acyclic=True)
class BrokenCall(_Value):
    """Malformed or truncated call, which must not be executed.

    Readers of the stream have already seen the start of the call.  ``Message.parts`` therefore contains the
    call under every policy, even if the other fields of the message do not.  In the message of a stream so
    far, a call that has not ended is truncated.
    """

    __slots__ = ("arguments", "channel", "id", "name", "raw", "status", "text")
    __match_args__: ClassVar = ("id", "name", "arguments", "status", "raw", "channel", "text")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(
        self,
        id: str,
        name: str,
        arguments: str,
        status: Literal["malformed", "truncated"],
        raw: str,
        channel: Channel,
        text: str = "",
    ) -> None:
        self.id: Final = id
        """Id, as in :class:`ToolCall`."""
        self.name: Final = name
        """Name of the function."""
        self.arguments: Final = arguments
        """Arguments as far as they were read: incomplete or invalid JSON text."""
        self.status: Final[Literal["malformed", "truncated"]] = status
        """``malformed`` or ``truncated``."""
        self.raw: Final = raw
        """Text of the call exactly as the model wrote it, including the opening marker; empty if the call
        has not ended."""
        self.channel: Final[Channel] = channel
        """Channel in which the call appeared."""
        self.text: Final = text
        """Text of the call, if a policy such as ``malformed_call="text"`` puts it back into the channel;
        otherwise empty."""


Part: TypeAlias = TextPart | ToolCall | BrokenCall
"""Element of ``Message.parts``."""


@mypyc_attr(acyclic=True)
class Message(_Value):
    """Parsed output of a model.

    >>> Message("Hi.").parts
    (TextPart(channel='content', text='Hi.'),)
    """

    __slots__ = ("content", "diagnostics", "finish_reason", "parts", "reasoning", "tool_calls")
    __match_args__: ClassVar = ("content", "reasoning", "tool_calls", "diagnostics", "finish_reason", "parts")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(
        self,
        content: str | None = None,
        reasoning: str | None = None,
        tool_calls: Iterable[ToolCall] = (),
        diagnostics: Iterable[Diagnostic] = (),
        finish_reason: FinishReason | Literal["auto"] | None = "auto",
        parts: Iterable[Part] = (),
    ) -> None:
        """Create a message from its text and calls, or from its parts.

        :param finish_reason: None if the output has not ended; ``auto``, the default, stands for
            ``tool_calls`` if there are calls, and ``stop`` otherwise.
        :param parts: by default, the reasoning, the content and the calls, in this order.  If content,
            reasoning and calls are not passed, the parts determine them.  If they are passed, parts that do
            not agree with them are ignored.  This lets ``dataclasses.replace`` change, for example, only the
            content.
        """
        calls = tuple(tool_calls)
        order = tuple(parts)
        if order and not calls and content is None and reasoning is None:
            content = _joined(order, "content")
            reasoning = _joined(order, "reasoning")
            calls = tuple([part for part in order if isinstance(part, ToolCall)])
        elif not _agree(order, content, reasoning, calls):
            order = _parts(content, reasoning, calls)
        self.content: Final = content
        """All text for the user, as one string; None if there is no such text."""
        self.reasoning: Final = reasoning
        """All reasoning, as one string; None if there is no reasoning."""
        self.tool_calls: Final[tuple[ToolCall, ...]] = calls
        """Complete calls in order of appearance, and broken calls under the policy ``call``."""
        self.diagnostics: Final[tuple[Diagnostic, ...]] = tuple(diagnostics)
        """Faults in the output and guesses that the parser made; usually empty."""
        if finish_reason == "auto":
            finish_reason = "tool_calls" if calls else "stop"
        self.finish_reason: Final[FinishReason | None] = finish_reason
        """Finish reason of the response, such as ``tool_calls`` if all calls are complete; None if the output
        has not ended, as in the message of a stream so far."""
        self.parts: Final[tuple[Part, ...]] = order
        """Text, reasoning and calls in their original order; the other fields do not show this order.

        Under every policy, broken calls are included."""

    def __repr__(self) -> str:
        shown: dict[str, object] = {}
        for name in ("content", "reasoning", "tool_calls", "diagnostics"):
            value = getattr(self, name)
            if value:
                shown[name] = value
        if self.finish_reason != ("tool_calls" if self.tool_calls else "stop"):
            shown["finish_reason"] = self.finish_reason
        text = ", ".join([f"{name}={value!r}" for name, value in shown.items()])
        if len(text) > _MAX_REPR:
            text = ", ".join([f"{name}={_abbreviated(value)}" for name, value in shown.items()])
        return f"Message({text})"

    def to_chat(
        self,
        *,
        broken: Literal["omit", "poison"] = "omit",
        reasoning_field: Literal["both", "reasoning_content", "reasoning"] = "both",
    ) -> dict[str, Any]:
        """Convert the message to an assistant message for Chat Completions requests.

        The order of reasoning, content and calls is lost, because this format has one field for each.

        :param broken: ``omit`` leaves out calls that must not be executed.  ``poison`` includes them with
            arguments that no client can read, as the encoders of ``unspool.wire`` do.
        :param reasoning_field: name of the field for reasoning; ``both`` writes two fields.

        >>> Message("Hi.").to_chat()
        {'role': 'assistant', 'content': 'Hi.'}
        """
        from ._core.conversions.chat import message_to_chat

        return message_to_chat(self, broken=broken, reasoning_field=reasoning_field)

    @staticmethod
    def from_chat(message: Mapping[str, Any]) -> Message:
        """Convert an assistant message of Chat Completions to a ``Message``."""
        from ._core.conversions.chat import message_from_chat

        return message_from_chat(message)

    def to_messages(self, *, broken: Literal["omit", "poison"] = "omit") -> list[dict[str, Any]]:
        """Convert the message to content blocks for requests to Anthropic's Messages API.

        The JSON spelling of arguments is lost, because this format stores arguments as objects.

        :param broken: as for :meth:`to_chat`; but arguments that are objects cannot be made unreadable.
            ``poison`` therefore raises ``MalformedOutput`` for a malformed call and leaves out a truncated
            one.
        """
        from ._core.conversions.messages import message_to_blocks

        return message_to_blocks(self, broken=broken)

    @staticmethod
    def from_messages(content: str | Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Message:
        """Convert an assistant message of the Messages API, or only its content, to a ``Message``."""
        from ._core.conversions.messages import message_from_blocks

        return message_from_blocks(content)

    def to_responses(self, *, broken: Literal["omit", "poison"] = "omit") -> list[dict[str, Any]]:
        """Convert the message to items of OpenAI's Responses API, for the next request of a conversation.

        :param broken: as for :meth:`to_chat`.
        """
        from ._core.conversions.responses import message_to_items

        return message_to_items(self, broken=broken)

    @staticmethod
    def from_responses(items: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Message:
        """Convert a response of the Responses API, or only its output items, to a ``Message``."""
        from ._core.conversions.responses import message_from_items

        return message_from_items(items)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-serialisable data, from which :meth:`from_dict` restores the message."""
        from ._core.conversions.plain_data import message_to_dict

        return message_to_dict(self)

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> Message:
        """Restore a message from the result of :meth:`to_dict`."""
        from ._core.conversions.plain_data import message_from_dict

        return message_from_dict(fields)


def _parts(content: str | None, reasoning: str | None, calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
    """Return the parts of a message in the default order: reasoning, content, calls."""
    parts: list[Part] = []
    if reasoning is not None:
        parts.append(TextPart("reasoning", reasoning))
    if content is not None:
        parts.append(TextPart("content", content))
    return (*parts, *calls)


def _agree(
    parts: tuple[Part, ...], content: str | None, reasoning: str | None, calls: tuple[ToolCall, ...]
) -> bool:
    """Return whether the parts of a message agree with its other fields.

    The calls may include broken calls.
    """
    complete = [part for part in parts if isinstance(part, ToolCall)]
    broken = len([part for part in parts if isinstance(part, BrokenCall)])
    return (
        len(complete) <= len(calls) <= len(complete) + broken
        and all(call in calls for call in complete)
        and _joined(parts, "content") == content
        and _joined(parts, "reasoning") == reasoning
    )


def _joined(parts: tuple[Part, ...], channel: Channel) -> str | None:
    """Return all text of a channel; None if there is none."""
    texts = [
        part.text
        for part in parts
        if not isinstance(part, ToolCall)
        and part.channel == channel
        and (part.text or isinstance(part, TextPart))
    ]
    return "".join(texts) if texts else None
