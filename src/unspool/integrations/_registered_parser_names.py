"""Parser names that plug-ins add to an engine, or that they take over from the engine's own parsers.

An engine lists ``unspool``, which detects the dialect, and the names that its command line contains.  The
form ``unspool:DIALECT`` names a dialect, a checkpoint or an alias; ``unspool_DIALECT`` means the same.
These names are resolved when the engine looks them up, so that they do not fill its lists of names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from ..dialects import list_dialects
from ..dialects.model_names import dialect_of
from ..errors import UnspoolError

DETECTED: Final = "unspool"
"""The parser name for which the dialect is detected from the model's chat template and tokenizer."""
REPLACE: Final = "UNSPOOL_REPLACE"
"""Environment variable that lists the engine's own parser names to replace; ``all`` replaces all of them."""
_PREFIXES: Final = (f"{DETECTED}:", f"{DETECTED}_")
_NAME: Final = re.compile(rf"\b{DETECTED}[:_][\w.:+-]+")


def dialect_name(name: str) -> str | None:
    """Return the dialect that a parser name of this plug-in names, or None for other names.

    >>> dialect_name("unspool:hermes"), dialect_name("unspool_hermes"), dialect_name("hermes")
    ('hermes', 'hermes', None)
    """
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            dialect = name.removeprefix(prefix)
            return dialect if is_known(dialect) else None
    return DETECTED if name == DETECTED else None


@cache
def is_known(name: str) -> bool:
    """Return whether a name is that of a dialect, or of a parser or checkpoint with a known dialect."""
    try:
        dialect_of(name)
    except UnspoolError:
        return False
    return True


def parser_names() -> dict[str, str]:
    """Return a parser name for each dialect, with the name of the dialect."""
    return {f"{DETECTED}_{dialect.name}": dialect.name for dialect in list_dialects()}


def names_on_command_line(arguments: Sequence[str] | None = None) -> dict[str, str]:
    """Return the parser names in the command line and in its configuration file, with their dialects.

    An engine checks the names of its command line against its list of names.

    :param arguments: the command line; by default, that of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for flag, value in pairwise([*words, ""]):
        if flag == "--config" or flag.startswith("--config="):
            words.append(_read(flag.partition("=")[2] or value))
    names = dict.fromkeys(name for word in words for name in _NAME.findall(word))
    return {name: dialect for name in names if (dialect := dialect_name(name)) is not None}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""  # the engine reports this better


class NamesOnDemand(dict[str, Any]):
    """Registry of an engine that also finds the names of dialects, which it does not list."""

    def __init__(self, entries: Mapping[str, Any], make: Callable[[str, str], Any]) -> None:
        """Create a registry.

        :param make: function that makes the entry for a parser name and its dialect.
        """
        super().__init__(entries)
        self._make = make
        self._made: dict[str, Any] = {}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and dialect_name(name) is not None)

    def __missing__(self, name: str) -> Any:
        dialect = dialect_name(name)
        if dialect is None:
            raise KeyError(name)
        if name not in self._made:  # kept apart, because engines list the registry's own entries
            self._made[name] = self._make(name, dialect)
        return self._made[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry for a name; unlike that of a plain dictionary, it makes missing entries."""
        try:
            return self[name]
        except KeyError:
            return default


def names_to_replace(own: Iterable[str]) -> tuple[str, ...]:
    """Return the engine's own parser names that the user wants to give to unspool's parsers."""
    requested = _requested_names()
    return tuple(name for name in own if name in requested or requested == {"all"})


def unknown_names(own: Iterable[str]) -> tuple[str, ...]:
    """Return the parser names that the user wants to replace but the engine does not have."""
    return tuple(sorted(_requested_names() - {"all", *own}))


def _requested_names() -> set[str]:
    return {name.strip() for name in os.environ.get(REPLACE, "").split(",")} - {""}
