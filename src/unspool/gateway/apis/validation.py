"""Checks of request fields that every API shares; an error names the field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from ..http.errors import invalid

Struct = TypeVar("Struct", bound=msgspec.Struct)

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)


def checked(body: Mapping[str, Any], shape: type[Struct]) -> Struct:
    """The body as a struct; a mistake names the field."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        told, place = (found[1], found[2]) if found is not None else (str(error), None)
        missing = re.fullmatch(r"Object missing required field `(\w+)`", told)
        if missing:
            place = f"{place}.{missing[1]}" if place else missing[1]
            raise invalid(f"{place} is required", place, "missing_required_parameter") from error
        told = told.replace("`", "")
        raise invalid(f"{place}: {told}" if place else told, place, "invalid_type") from error


def check_tools(tools: Sequence[Mapping[str, Any]] | None, place: str) -> None:
    """Refuse tools that are no functions, and names that come twice."""
    seen: set[str] = set()
    for at, tool in enumerate(tools or ()):
        if tool.get("type") != "function":
            told = f"{place}[{at}].type is {tool.get('type')!r}; this API takes functions"
            if tool.get("type") == "custom":
                told += ", /v1/responses takes custom tools, too"
            raise invalid(told, f"{place}[{at}].type")
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
            raise invalid(
                f"{place}[{at}]: there are two tools named {name!r}", f"{place}[{at}].function.name"
            )
        seen.add(name)


def stops(given: object, place: str) -> tuple[str, ...]:
    """Stop strings."""
    found = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(found, list) or not all(isinstance(stop, str) for stop in found):
        raise invalid(f"{place} is not a string or a list of strings", place, "invalid_type")
    if any(not stop for stop in found):
        raise invalid(f"{place} has an empty string, which would stop everything", place)
    return tuple(found)


def string_at(item: Mapping[str, Any], key: str, place: str) -> str:
    """The string that an item of a list must have under this key."""
    value = item.get(key)
    if not isinstance(value, str):
        code = "missing_required_parameter" if value is None else "invalid_type"
        raise invalid(
            f"{place}.{key} is {'required' if value is None else 'not a string'}", f"{place}.{key}", code
        )
    return value
