"""What a whole output amounts to: the values that a fold of the events builds.

They are classes written out, because a frozen dataclass takes ten times as long to make as
a compiled class, and a batch makes millions; ``dataclasses.asdict`` and ``replace`` take them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields, make_dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from ._core.mypyc_types import mypyc_attr
from .events import Channel, Diagnostic, FinishReason


def _fields(*names: str) -> dict[str, Field[Any]]:
    """What ``dataclasses`` asks for."""
    shape = make_dataclass("_", names, init=False, repr=False, eq=False)
    return {field.name: field for field in fields(shape)}


@mypyc_attr(acyclic=True)
class _Value:
    """Equal to what is made of equal parts, and not to be changed."""

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
    """One call of a tool."""

    __slots__ = ("arguments", "id", "name")
    __match_args__: ClassVar = ("id", "name", "arguments")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(self, id: str, name: str, arguments: str) -> None:
        self.id: Final = id
        """The model's own id, or a generated one in the family's format."""
        self.name: Final = name
        """The function to call."""
        self.arguments: Final = arguments
        """JSON text, exactly as the model wrote it where the dialect carries JSON."""


@mypyc_attr(acyclic=True)
class TextPart(_Value):
    """A stretch of content or reasoning, in its place in the output."""

    __slots__ = ("channel", "text")
    __match_args__: ClassVar = ("channel", "text")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _fields(*__match_args__)

    def __init__(self, channel: Channel, text: str) -> None:
        self.channel: Final[Channel] = channel
        self.text: Final = text


@mypyc_attr(acyclic=True)
class BrokenCall(_Value):
    """A call that was announced and did not end well: nothing to run.

    Who reads the stream has seen it begin, so it has its place among the parts,
    whatever the policies make of it in the other fields.
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
        """As in :class:`ToolCall`."""
        self.name: Final = name
        """The function that was to be called."""
        self.arguments: Final = arguments
        """What there is of them, which is not a JSON object or not all of one."""
        self.status: Final[Literal["malformed", "truncated"]] = status
        """How it ended."""
        self.raw: Final = raw
        """The call exactly as the model wrote it, from its opener on."""
        self.channel: Final[Channel] = channel
        """Where it stands: in the content, or in the reasoning."""
        self.text: Final = text
        """What of it went back to that channel, if the policy says so."""


Part: TypeAlias = TextPart | ToolCall | BrokenCall
"""What ``Message.parts`` holds."""


@mypyc_attr(acyclic=True)
class Message(_Value):
    """A model's output, taken apart."""

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
        """All reasoning, or None where there was none."""
        self.content: Final = content
        """All text for the user, or None where there was none."""
        self.tool_calls: Final[tuple[ToolCall, ...]] = tuple(tool_calls)
        """The calls, in order of appearance."""
        self.diagnostics: Final[tuple[Diagnostic, ...]] = tuple(diagnostics)
        """What went wrong; empty for a clean output."""
        self.finish_reason: Final[FinishReason] = finish_reason
        """``tool_calls`` if there is a complete call and none was cut off."""
        self.parts: Final[tuple[Part, ...]] = tuple(parts)
        """Text, reasoning and calls in the order of the output, which the flat fields lose."""

    def in_order(self) -> tuple[Part, ...]:
        """The parts; of a message that was made from its flat fields: reasoning, content, calls."""
        if self.parts:
            return self.parts
        parts: list[Part] = []
        if self.reasoning is not None:
            parts.append(TextPart("reasoning", self.reasoning))
        if self.content is not None:
            parts.append(TextPart("content", self.content))
        return (*parts, *self.tool_calls)
