"""Check of the values of a dataclass against the annotations of its fields.

The annotations are the only description of the types: a new field, or a new dataclass inside another one,
needs no code here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from ..errors import SpecError

Check: TypeAlias = Callable[[Any, str], "Fault | None"]
"""Function that checks a value; its second argument is the value's place, such as ``section[1]``."""

_LONGEST: Final = 200
_EXAMPLES: Final[Mapping[object, str]] = {
    str: "a string",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    NoneType: "None",
}


class Fault(NamedTuple):
    """Value with the wrong type."""

    place: str
    """Path of the value, such as ``family.aliases[0]``."""
    value: object
    expected: str
    """Description of a valid value."""


def find_fault(value: Any) -> Fault | None:
    """Return the first value in a dataclass that does not have the type of its field."""
    return _find_fault(value, "")


def check_fields(value: Any) -> None:
    """Raise ``SpecError`` if a value in a dataclass does not have the type of its field."""
    fault = find_fault(value)
    if fault is not None:
        raise SpecError(f"{type(value).__name__}, {fault.place}={short(fault.value)}: {fault.expected}")


def short(value: object) -> str:
    """Return a representation of a value that fits into an error message."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _find_fault(value: Any, place: str) -> Fault | None:
    cls: Any = type(value)
    for name, default, check in _field_checks(cls):
        member = getattr(value, name)
        if member is not default:
            fault = check(member, f"{place}.{name}" if place else name)
            if fault is not None:
                return fault
    return None


@cache
def _check(hint: Any) -> Check:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _union_check(hint)
    if origin is tuple:
        return _tuple_check(hint)
    if origin is Literal:
        return _literal_check(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_check(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_check(hint)
    return _plain_check(hint)


def _plain_check(hint: Any) -> Check:
    expected = f"write {_description(hint)}"

    def check(value: Any, place: str) -> Fault | None:
        if isinstance(value, bool) and hint is not bool:
            return Fault(place, value, expected)
        matches = isinstance(value, int | float) if hint is float else isinstance(value, hint)
        return None if matches else Fault(place, value, expected)

    return check


def _literal_check(hint: Any) -> Check:
    allowed = get_args(hint)
    expected = f"choose one of {', '.join(map(str, allowed))}"

    def check(value: Any, place: str) -> Fault | None:
        if any(value == each and type(value) is type(each) for each in allowed):
            return None
        return Fault(place, value, expected)

    return check


def _tuple_check(hint: Any) -> Check:
    arguments = get_args(hint)
    if arguments[-1] is Ellipsis:
        item = _check(arguments[0])
        expected = f"it must be a tuple of {_description(arguments[0], plural=True)}"

        def check(value: Any, place: str) -> Fault | None:
            if isinstance(value, tuple):
                faults = (item(each, f"{place}[{i}]") for i, each in enumerate(value))
                return next((fault for fault in faults if fault is not None), None)
            comma = ", and a tuple of one needs a comma: (value,)" if not isinstance(value, list) else ""
            return Fault(place, value, f"{expected}{comma}")

        return check
    items = [_check(each) for each in arguments]
    described = ", ".join(map(_description, arguments))

    def check_each(value: Any, place: str) -> Fault | None:
        if not isinstance(value, tuple) or len(value) != len(items):
            return Fault(place, value, f"it must be a tuple of {len(items)} values: {described}")
        faults = (one(each, f"{place}[{i}]") for i, (one, each) in enumerate(zip(items, value, strict=True)))
        return next((fault for fault in faults if fault is not None), None)

    return check_each


def _mapping_check(hint: Any) -> Check:
    key, member = map(_check, get_args(hint))
    expected = f"write {_description(hint)}"

    def check(value: Any, place: str) -> Fault | None:
        if not isinstance(value, Mapping):
            return Fault(place, value, expected)
        for name, each in value.items():
            fault = key(name, f"key {name!r} of {place}") or member(each, f"{place}[{name!r}]")
            if fault is not None:
                return fault
        return None

    return check


def _union_check(hint: Any) -> Check:
    options = [(each, _check(each)) for each in get_args(hint)]
    expected = f"write {_description(hint)}"

    def check(value: Any, place: str) -> Fault | None:
        fault = None
        for each, option in options:
            found = option(value, place)
            if found is None:
                return None
            if isinstance(each, type) and is_dataclass(each) and isinstance(value, each):
                fault = found  # the fault is inside the value
        return fault or Fault(place, value, expected)

    return check


def _dataclass_check(cls: type) -> Check:
    # A dataclass with __post_init__ has checked its own fields when it was created.
    checks_itself = "__post_init__" in vars(cls)

    def check(value: Any, place: str) -> Fault | None:
        if not isinstance(value, cls):
            return Fault(place, value, f"write {_description(cls)}")
        return None if checks_itself else _find_fault(value, place)

    return check


@cache
def _field_checks(cls: Any) -> list[tuple[str, object, Check]]:
    """Return the name, the default and the check of each field."""
    hints = get_type_hints(cls)
    return [(field.name, field.default, _check(hints[field.name])) for field in fields(cls)]


def _description(hint: Any, *, plural: bool = False) -> str:
    """Return a description of a type, such as ``a string``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if plural and hint is str:
        return "strings"
    if hint in _EXAMPLES:
        return _EXAMPLES[hint]
    if origin in (Union, UnionType):
        return " or ".join(_description(each, plural=plural) for each in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is tuple:
        return f"a tuple of {_description(arguments[0], plural=True)}"
    if is_dataclass(hint) and isinstance(hint, type):
        return f"{hint.__name__}(...)"
    return "a mapping, such as {'to': 'user'}"
