"""Conversion of messages from and to JSON-serialisable data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import UsageError
from ...events import event_from_dict
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from .message_fields import mapping

_PARTS: Final[Mapping[str, Any]] = {"text": TextPart, "call": ToolCall, "broken_call": BrokenCall}


def message_to_dict(message: Message) -> dict[str, Any]:
    """Convert a message to data from which ``message_from_dict`` can restore the message."""
    return {
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": [_fields(call) for call in message.tool_calls],
        "diagnostics": [diagnostic.to_dict() for diagnostic in message.diagnostics],
        "finish_reason": message.finish_reason,
        "parts": [{"part": _name(part), **_fields(part)} for part in message.parts],
    }


def message_from_dict(fields: Mapping[str, Any]) -> Message:
    """Restore a message from the result of ``message_to_dict``."""
    values = dict(mapping(fields, "a message"))
    values["tool_calls"] = [_built(ToolCall, call) for call in values.get("tool_calls", ())]
    values["diagnostics"] = [event_from_dict(each) for each in values.get("diagnostics", ())]
    values["parts"] = [_part(each) for each in values.get("parts", ())]
    message: Message = _built(Message, values)
    return message


def _part(fields: Mapping[str, Any]) -> Part:
    values = dict(mapping(fields, "a part"))
    kind = values.pop("part", None)
    if kind not in _PARTS:
        raise UsageError(f"part={kind!r}: choose one of {', '.join(_PARTS)}")
    part: Part = _built(_PARTS[kind], values)
    return part


def _built(kind: Any, values: Mapping[str, Any]) -> Any:
    try:
        return kind(**mapping(values, f"a {kind.__name__}"))
    except TypeError as error:
        raise UsageError(f"these are not the fields of a {kind.__name__}: {', '.join(values)}") from error


def _fields(value: Part) -> dict[str, Any]:
    names = [*type(value).__dataclass_fields__]
    if isinstance(value, ToolCall):
        names += ["args_start", "args_end"]
    return {name: getattr(value, name) for name in names}


def _name(part: Part) -> str:
    return next(name for name, kind in _PARTS.items() if type(part) is kind)
