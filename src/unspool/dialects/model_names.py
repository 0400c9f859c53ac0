"""Lookup of a dialect by model name.

A dialect declares the names of its models (``Family.model_names``).  Names are compared word by word:
``Qwen3-Coder-30B`` has the words qwen, 3, coder, 30 and b.  So case and separators do not matter.  The
longest declared name that occurs in a model's name wins.  Among equally long names, the first one in the
model's name wins, because a fine-tuned model has its own name before the name of its base model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..errors import UnknownDialect
from ._declaration import Dialect
from ._registry import list_dialects, registered_dialect

_WORDS: Final = re.compile(r"[^\W\d_]+|\d+(?:\.(?:\d+|\*))*")

_VERSION: Final = re.compile(r"(?<=\d)_(\d)(?!\d)")
"""Pattern of the underscore in a version such as ``qwen3_5``, which means 3.5."""


class NamedModel(NamedTuple):
    """A model name, and the dialect that the name implies."""

    asked: str
    """The name that was looked up."""
    model: str
    """The name of the model family, as the dialect declares it."""
    dialect: Dialect
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"asked": self.asked, "model": self.model, "dialect": self.dialect.name, "why": self.why}


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Split a model's name into words."""
    return tuple(_WORDS.findall(_VERSION.sub(r".\1", name.lower())))


def known_model(name: str) -> NamedModel | None:
    """Look up a model by name; return None if the name does not imply a dialect."""
    # The publisher may also contain a declared name, so the name without the publisher is tried first.
    for text in dict.fromkeys((name.rpartition("/")[2], name)):
        matches = list(_declared_names_in(words(text)))
        if matches:
            _, _, model, dialect = max(matches, key=lambda each: (each[0], -each[1]))
            model = model.removesuffix(".*")
            return NamedModel(name, model, dialect, f"its name contains {model}")
    return None


def models_like(name: str) -> list[NamedModel]:
    """Return the model with this name, followed by the models whose names start with it."""
    exact = known_model(name)
    prefix = words(name)
    out = {} if exact is None else {(exact.model, exact.dialect.name): exact}
    for dialect in list_dialects():
        for model in dialect.family.model_names:
            if prefix and _starts_with(words(model), prefix):
                shown = model.removesuffix(".*")
                why = f"its name starts with {name}"
                out.setdefault((shown, dialect.name), NamedModel(name, shown, dialect, why))
    if not out:
        try:
            return [dialect_of(name)]
        except UnknownDialect:
            return []
    return list(out.values())


def dialect_of(name: str) -> NamedModel:
    """Return the dialect with this name or alias."""
    dialect = registered_dialect(name)
    why = "this is its name" if name == dialect.name else f"{name} is one of its aliases"
    return NamedModel(name, dialect.family.models, dialect, why)


def _starts_with(model: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a name starts with a prefix; the last word of the prefix may be incomplete."""
    *whole, last = prefix
    return (
        list(model[: len(whole)]) == whole and len(model) > len(whole) and model[len(whole)].startswith(last)
    )


def _declared_names_in(name: Sequence[str]) -> Iterator[tuple[int, int, str, Dialect]]:
    """Yield the declared names that occur in a model's name, with their word count, position and dialect."""
    for dialect in list_dialects():
        for model in dialect.family.model_names:
            pattern = words(model)
            for at in range(len(name) - len(pattern) + 1):
                if all(map(fnmatchcase, name[at:], pattern)):
                    yield len(pattern), at, model, dialect
                    break
