"""Conversion of a call's arguments to Python objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TypeVar

from ...errors import ArgumentsError, UsageError
from ...message import ToolCall

T = TypeVar("T")


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as a new dictionary."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise _error(call, f"the arguments are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _error(call, f"the arguments are not an object but {type(value).__name__}")
    return value


def parse_arguments(call: ToolCall, model: type[T]) -> T:
    """Return the arguments of a call as an instance of ``model``."""
    decode = _decoder(model)
    try:
        value: T = decode(call.arguments or "{}")
    except (ValueError, RecursionError) as error:  # Pydantic and msgspec raise subclasses of ValueError
        raise _error(call, f"the arguments are not a {_name(model)}: {error}") from error
    return value


def _decoder(model: Any) -> Callable[[str], Any]:
    """Return the function that decodes JSON text as this type."""
    if not isinstance(model, type) and (
        hasattr(model, "validate_json") or hasattr(model, "model_validate_json")
    ):
        raise UsageError(
            f"parse_as() takes a type, not an object of {type(model).__name__}: pass the class itself, "
            "such as Weather instead of TypeAdapter(Weather)"
        )
    if hasattr(model, "model_validate_json"):
        decode: Callable[[str], Any] = model.model_validate_json
        return decode
    if not hasattr(model, "__struct_fields__") and find_spec("pydantic") is not None:
        import pydantic

        with suppress(pydantic.PydanticUserError):  # a type that Pydantic does not support
            return pydantic.TypeAdapter(model).validate_json
    if find_spec("msgspec") is not None:
        import msgspec

        return msgspec.json.Decoder(model).decode
    raise UsageError(
        f"{_name(model)} is not a Pydantic model: install pydantic or msgspec to read arguments as this type"
    )


def _name(model: object) -> str:
    return str(getattr(model, "__name__", model))


def _error(call: ToolCall, detail: str) -> ArgumentsError:
    return ArgumentsError(call.name, call.arguments, detail, call.args_start, call.args_end)
