"""Parsed message: the reasoning, content, tool calls and diagnostics of a whole output.

The classes are written by hand, because a batch creates millions of them and a frozen dataclass takes
ten times as long to create as a compiled class.  ``dataclasses.asdict`` and ``replace`` accept them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields, make_dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from ._core.mypyc_types import mypyc_attr
from .events import Channel, Diagnostic, FinishReason


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

    __slots__ = ("arguments", "id", "name")
    __match_args__: ClassVar = ("id", "name", "arguments")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(self, id: str, name: str, arguments: str) -> None:
        self.id: Final = id
        """Id of the call: written by the model, or generated in the format of the model family."""
        self.name: Final = name
        """Name of the function."""
        self.arguments: Final = arguments
        """Arguments as JSON text, exactly as the model wrote them if the dialect uses JSON."""


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
    call under every policy, even if the other fields of the message do not.
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
        """Text of the call exactly as the model wrote it, including the opening marker."""
        self.channel: Final[Channel] = channel
        """Channel in which the call appeared."""
        self.text: Final = text
        """Text of the call, if a policy such as ``malformed_call="text"`` puts it back into the channel;
        otherwise empty."""


Part: TypeAlias = TextPart | ToolCall | BrokenCall
"""Element of ``Message.parts``."""


@mypyc_attr(acyclic=True)
class Message(_Value):
    """Parsed output of a model."""

    __slots__ = ("content", "diagnostics", "finish_reason", "parts", "reasoning", "tool_calls")
    __match_args__: ClassVar = ("reasoning", "content", "tool_calls", "diagnostics", "finish_reason", "parts")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(
        self,
        reasoning: str | None = None,
        content: str | None = None,
        tool_calls: Iterable[ToolCall] = (),
        diagnostics: Iterable[Diagnostic] = (),
        finish_reason: FinishReason = "stop",
        parts: Iterable[Part] = (),
    ) -> None:
        self.reasoning: Final = reasoning
        """All reasoning, as one string; None if there is no reasoning."""
        self.content: Final = content
        """All text for the user, as one string; None if there is no such text."""
        self.tool_calls: Final[tuple[ToolCall, ...]] = tuple(tool_calls)
        """Complete calls in order of appearance, and broken calls under the policy ``call``."""
        self.diagnostics: Final[tuple[Diagnostic, ...]] = tuple(diagnostics)
        """Faults in the output and guesses that the parser made; usually empty."""
        self.finish_reason: Final[FinishReason] = finish_reason
        """Finish reason of the response, such as ``tool_calls`` if all calls are complete."""
        self.parts: Final[tuple[Part, ...]] = tuple(parts)
        """Text, reasoning and calls in their original order, which the other fields do not show."""

    def in_order(self) -> tuple[Part, ...]:
        """Return the parts of the message in order.

        If there are none, return the reasoning, the content and the calls as parts, in this order.
        """
        if self.parts:
            return self.parts
        parts: list[Part] = []
        if self.reasoning is not None:
            parts.append(TextPart("reasoning", self.reasoning))
        if self.content is not None:
            parts.append(TextPart("content", self.content))
        return (*parts, *self.tool_calls)
