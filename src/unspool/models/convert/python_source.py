"""Conversion of a dialect to Python source."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass

from ...dialects import Dialect


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
        inner = ", ".join(map(_value_source, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    lines = [f"{type(value).__name__}("]
    for each in fields(value):
        member = getattr(value, each.name)
        if each.default is MISSING or member != each.default:
            lines.append(f"{indent}    {each.name}={_value_source(member, indent + '    ')},")
    return "\n".join([*lines, f"{indent})"])
