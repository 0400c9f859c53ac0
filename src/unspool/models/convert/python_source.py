"""Conversion of a dialect to Python source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Final

from ...dialects import Dialect, Opener, Section, Wrapper

_WIDTH: Final = 88
"""Length of a line up to which a value is written on one line."""


def python_source(dialect: Dialect) -> str:
    """Return the declaration of a dialect as Python source, without fields that have the default value.

    >>> print(python_source(Dialect("mine", call=("<call>{envelope}</call>",), reasoning=())))
    MINE = Dialect(
        name="mine",
        call=("<call>{envelope}</call>",),
        reasoning=(),
    )
    """
    constant = re.sub(r"\W", "_", dialect.name).upper()
    return f"{constant} = {_value_source(dialect)}"


def _value_source(value: object, indent: str = "") -> str:
    """Return a value as Python source; a dataclass gets one line per non-default field."""
    if isinstance(value, str):
        text = repr(value)
        return text if '"' in text or "\\'" in text else f'"{text[1:-1]}"'
    if isinstance(value, tuple):
        items = [_value_source(item, indent + "    ") for item in value]
        if any("\n" in item for item in items):
            return "\n".join(["(", *(f"{indent}    {item}," for item in items), f"{indent})"])
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, Mapping):
        members = (f"{_value_source(key)}: {_value_source(item)}" for key, item in value.items())
        return f"{{{', '.join(members)}}}"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    if isinstance(value, Section | Wrapper | Opener):
        rules = [f"{each.name}=True" for each in fields(value) if getattr(value, each.name) is True]
        return f"{type(value).__name__}({', '.join([_value_source(value.text), *rules])})"
    lines = [f"{type(value).__name__}("]
    for each in fields(value):
        member = getattr(value, each.name)
        if each.default is MISSING or member != each.default:
            lines.append(f"{indent}    {each.name}={_value_source(member, indent + '    ')},")
    short = f"{lines[0]}{', '.join(line.strip().rstrip(',') for line in lines[1:])})"
    if not isinstance(value, Dialect) and "\n" not in "".join(lines) and len(indent) + len(short) <= _WIDTH:
        return short
    return "\n".join([*lines, f"{indent})"])
