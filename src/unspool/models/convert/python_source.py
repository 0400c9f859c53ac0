"""A dialect as Python source, to be pasted."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass

from ...dialects._declaration import Dialect


def declaration(dialect: Dialect) -> str:
    """A dialect as Python source, with everything that is not a default.

    >>> print(declaration(Dialect("mine", call=("<call>{envelope}</call>",), reasoning=())))
    MINE = Dialect(
        name="mine",
        call=("<call>{envelope}</call>",),
        reasoning=(),
    )
    """
    constant = re.sub(r"\W", "_", dialect.name).upper()
    return f"{constant} = {_source(dialect)}"


def _source(value: object, indent: str = "") -> str:
    """Python source of a value, a line for each field that is not a default."""
    if isinstance(value, str):
        text = repr(value)
        return text if '"' in text or "\\'" in text else f'"{text[1:-1]}"'
    if isinstance(value, tuple):
        inner = ", ".join(map(_source, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    lines = [f"{type(value).__name__}("]
    for each in fields(value):
        member = getattr(value, each.name)
        if each.default is MISSING or member != each.default:
            lines.append(f"{indent}    {each.name}={_source(member, indent + '    ')},")
    return "\n".join([*lines, f"{indent})"])
