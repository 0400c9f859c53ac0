"""Names of models: which dialect one speaks if nothing is known but what it is called.

A dialect declares the names of its models (``Family.model_names``).  A name is compared
word by word, ``Qwen3-Coder-30B`` being the words qwen, 3, coder, 30 and b, so that
it does not matter who writes it how.  The longest declared name that is found in it
counts, and of equal ones the first: fine-tunes put their own name first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ...dialects._declaration import Dialect
from ...dialects._registry import get_dialect, list_dialects
from ...errors import UnknownDialect

_WORDS: Final = re.compile(r"[^\W\d_]+|\d+(?:\.(?:\d+|\*))*")

_VERSION: Final = re.compile(r"(?<=\d)_(\d)(?!\d)")
"""``qwen3_5``, where a dot is not allowed."""


class Known(NamedTuple):
    """A model that is known by its name."""

    asked: str
    model: str
    """The family of models, as it calls itself."""
    dialect: Dialect
    why: str

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"asked": self.asked, "model": self.model, "dialect": self.dialect.name, "why": self.why}


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """What a name is made of."""
    return tuple(_WORDS.findall(_VERSION.sub(r".\1", name.lower())))


def known_model(name: str) -> Known | None:
    """The model of that name; None: it does not tell."""
    for text in dict.fromkeys((name.rpartition("/")[2], name)):  # who published it comes second
        found = list(_holding(words(text)))
        if found:
            _, _, model, dialect = max(found, key=lambda each: (each[0], -each[1]))
            model = model.removesuffix(".*")
            return Known(name, model, dialect, f"{model} is in its name")
    return None


def models_like(name: str) -> list[Known]:
    """Models that may be meant: the one of that name first, then those whose names begin so."""
    found = known_model(name)
    asked = words(name)
    out = {} if found is None else {(found.model, found.dialect.name): found}
    for dialect in list_dialects():
        for model in dialect.family.model_names:
            if asked and _begins(words(model), asked):
                shown = model.removesuffix(".*")
                why = f"its name begins with {name}"
                out.setdefault((shown, dialect.name), Known(name, shown, dialect, why))
    if not out:
        try:
            return [dialect_of(name)]
        except UnknownDialect:
            return []
    return list(out.values())


def dialect_of(name: str) -> Known:
    """The dialect that has this name itself."""
    dialect = get_dialect(name)
    why = "that is its name" if name == dialect.name else f"{name} is another name of it"
    return Known(name, dialect.family.models, dialect, why)


def _begins(model: Sequence[str], asked: Sequence[str]) -> bool:
    *whole, last = asked
    return (
        list(model[: len(whole)]) == whole and len(model) > len(whole) and model[len(whole)].startswith(last)
    )


def _holding(name: Sequence[str]) -> Iterator[tuple[int, int, str, Dialect]]:
    """The declared names that stand in a name: how long, where, which, whose."""
    for dialect in list_dialects():
        for model in dialect.family.model_names:
            pattern = words(model)
            for at in range(len(name) - len(pattern) + 1):
                if all(map(fnmatchcase, name[at:], pattern)):
                    yield len(pattern), at, model, dialect
                    break
