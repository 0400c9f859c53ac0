"""Validation of request fields for all APIs; error messages name the invalid field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from ..http.failure import invalid

Struct = TypeVar("Struct", bound=msgspec.Struct)

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]

_ERROR: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
"""Pattern that splits a msgspec error message into the problem and the path of the field."""


def decode_body(body: Mapping[str, Any], shape: type[Struct]) -> Struct:
    """Convert a request body to a struct; error messages name the invalid field."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        match = _ERROR.fullmatch(str(error))
        message, place = (match[1], match[2]) if match is not None else (str(error), None)
        missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
        if missing:
            place = f"{place}.{missing[1]}" if place else missing[1]
            raise invalid(f"{place} is required", place, "missing_required_parameter") from error
        message = message.replace("`", "")
        raise invalid(f"{place}: {message}" if place else message, place, "invalid_type") from error


def check_tools(tools: Sequence[Mapping[str, Any]] | None, place: str) -> None:
    """Reject tools that are not functions, and tools with duplicate names."""
    seen: set[str] = set()
    for at, tool in enumerate(tools or ()):
        if tool.get("type") != "function":
            message = f"{place}[{at}].type is {tool.get('type')!r}; this API accepts only functions"
            if tool.get("type") == "custom":
                message += "; use /v1/responses for custom tools"
            raise invalid(message, f"{place}[{at}].type")
        function = tool.get("function")
        if not isinstance(function, Mapping):
            raise invalid(f"{place}[{at}].function is required", f"{place}[{at}].function")
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(
                f"{place}[{at}].function.name is required",
                f"{place}[{at}].function.name",
                "missing_required_parameter",
            )
        if name in seen:
            raise invalid(f"{place}[{at}]: duplicate tool name {name!r}", f"{place}[{at}].function.name")
        seen.add(name)


def read_stops(value: object, place: str) -> tuple[str, ...]:
    """Return the stop strings in a field that contains one string or a list of strings."""
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid(f"{place} is not a string or a list of strings", place, "invalid_type")
    if any(not stop for stop in stops):
        raise invalid(f"{place} contains an empty string, which would end every output", place)
    return tuple(stops)


def string_at(item: Mapping[str, Any], key: str, place: str) -> str:
    """Return the string under a required key of an object."""
    value = item.get(key)
    if not isinstance(value, str):
        code = "missing_required_parameter" if value is None else "invalid_type"
        raise invalid(
            f"{place}.{key} is {'required' if value is None else 'not a string'}", f"{place}.{key}", code
        )
    return value
