"""Broken calls in converted messages: an option to poison or omit them, and a function to recognise them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from ...errors import UsageError
from ...message import BrokenCall, ToolCall
from .make_broken_arguments_unparsable import (
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
)

Broken: TypeAlias = Literal["omit", "poison"]
"""Treatment of calls that must not be executed; see :meth:`Message.to_chat`."""


def check_broken(broken: str) -> None:
    """Raise ``UsageError`` if ``broken`` is neither ``omit`` nor ``poison``."""
    if broken not in get_args(Broken):
        raise UsageError(f"broken={broken!r}: choose one of omit, poison")


def poisoned(call: BrokenCall) -> str:
    """Return the arguments of a broken call followed by poison, as in a stream."""
    return call.arguments + make_poison(call.arguments, call.status)


def call_from(id: str, name: str, arguments: str) -> ToolCall | BrokenCall:
    """Convert a call in a conversation.

    The result is a ``BrokenCall`` if the arguments contain poison.
    """
    if not is_poisoned(arguments):
        return ToolCall(id, name, arguments)
    text = remove_poison(arguments)
    status: Literal["malformed", "truncated"] = (
        "malformed" if is_poisoned_as_malformed(arguments) else "truncated"
    )
    return BrokenCall(id, name, text, status, "", "content")
