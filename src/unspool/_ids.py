"""Call ids: how a family spells them, and which of the model's own are usable."""

from __future__ import annotations

import os
import string
from dataclasses import dataclass

from ._errors import SpecError

_ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
_TO_ALPHANUMERIC = bytes(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in range(256))


@dataclass(frozen=True, slots=True)
class IdFormat:
    """A pattern for ids: ``{random}``, ``{name}`` and ``{index}`` are filled in.

    >>> IdFormat("functions.{name}:{index}").new("search", 2)
    'functions.search:2'
    """

    pattern: str
    """Text of an id, with the holes above."""
    length: int = 24
    """How many random alphanumerics ``{random}`` stands for."""
    native_length: int | None = None
    """A native id counts only if it is this many ASCII alphanumerics."""

    def __post_init__(self) -> None:
        if "{random}" not in self.pattern and "{index}" not in self.pattern:
            raise SpecError(
                f"id pattern {self.pattern!r} gives every call the same id: add {{random}} or {{index}}"
            )

    def new(self, name: str, index: int) -> str:
        """An id for the call ``index`` of the function ``name``."""
        text = self.pattern.replace("{index}", str(index))
        if "{random}" in text:
            text = text.replace("{random}", os.urandom(self.length).translate(_TO_ALPHANUMERIC).decode())
        return text.replace("{name}", name)

    def accepts(self, native: str) -> bool:
        """Whether an id that the model wrote can be used as it is."""
        if self.native_length is None:
            return bool(native)
        return len(native) == self.native_length and native.isascii() and native.isalnum()


OPENAI_ID = IdFormat("call_{random}")
NINE_ALPHANUMERICS = IdFormat("{random}", length=9, native_length=9)
