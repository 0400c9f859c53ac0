"""Characters that stand for placeholders while a template is put together.

They are private-use code points, so braces in a model's output cannot be confused with placeholders.
"""

from __future__ import annotations

from typing import Final

from ...dialects.parse_templates import escaped

NAME, ID, INDEX, ENVELOPE, ARGS, PARAMS, KEY, VALUE, TYPE, STRING = map(chr, range(0xF0000, 0xF000A))
ANY_PLACEHOLDER: Final = f"[{NAME}-{STRING}]"
"""Pattern that matches every placeholder character."""
_PLACEHOLDERS: Final = {
    NAME: "{name}",
    ID: "{id}",
    INDEX: "{index}",
    ENVELOPE: "{envelope}",
    ARGS: "{args}",
    PARAMS: "{params}",
    KEY: "{key}",
    VALUE: "{value}",
    TYPE: "{type}",
    STRING: "{string}",
}


def to_template(text: str) -> str:
    """Return text with placeholder characters as a template of a dialect."""
    return escaped(text, _PLACEHOLDERS)
