"""Which dialect a name stands for: ours, and those of SGLang's own that ours is to stand under."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ..._core.token_ids.tokenizers import as_tokenizer
from ...dialects._declaration import Dialect
from ...dialects._registry import combined, find, get_dialect
from ...errors import UsageError
from .._engine import DETECTED, dialect_of_model, replaced
from ._compat import log

_TEMPLATED: Final = ("response_template",)
"""Names that stand for whatever the checkpoint's files say: those are no dialect of ours."""

STANDING: Final[set[str]] = set()
"""The names that our detectors stand under."""

_found: dict[tuple[str | None, str | None, int], tuple[object, Dialect]] = {}
"""By both names and the number of the tokenizer, which is kept so that its number stays its own."""


def is_ours(name: str | None) -> bool:
    """Whether a name is one that we add."""
    return name is not None and (name == DETECTED or name.startswith(f"{DETECTED}_"))


def taken_over(own: Iterable[str]) -> tuple[str, ...]:
    """Names of SGLang's own that the user wants ours under."""
    return tuple(name for name in replaced(own) if name not in _TEMPLATED)


def dialect_of(tool: str | None, reasoning: str | None, tokenizer: object | None) -> Dialect:
    """The one dialect that both halves are read by: the calls of one name, the reasoning of the other.

    With a tokenizer, it is the variant that the vocabulary calls for.
    """
    key = (tool, reasoning, id(tokenizer))
    known = _found.get(key)
    if known is None:
        known = _found[key] = (tokenizer, _dialect_of(tool, reasoning, tokenizer))
    return known[1]


def _dialect_of(tool: str | None, reasoning: str | None, tokenizer: object | None) -> Dialect:
    name = tool or reasoning or DETECTED
    calls = _detected(tokenizer) if name == DETECTED else find(_plain(name), _readable(tokenizer))
    if reasoning in (None, DETECTED, name):
        return calls
    # Behind the plus, names of reasoning parsers come first.
    thoughts = get_dialect(f"passthrough+{_plain(reasoning)}")
    if thoughts.reasoning == calls.reasoning:
        return calls
    return replace(combined(calls, thoughts), name=f"{calls.name}+{_plain(reasoning)}")


def _plain(name: str | None) -> str:
    return (name or "").removeprefix(f"{DETECTED}_")


def _detected(tokenizer: object | None) -> Dialect:
    if tokenizer is None:
        raise ValueError(f"the parser {DETECTED!r} finds the dialect in the model's tokenizer, and got none")
    try:
        found, why = dialect_of_model(tokenizer)
    except UsageError as error:
        raise ValueError(f"unspool: {error}") from error  # what SGLang expects of a parser
    log.info("unspool: the model speaks %s. %s", found.name, why)
    return found


def _readable(tokenizer: object | None) -> object | None:
    """The tokenizer, unless it is of a kind whose vocabulary cannot be asked."""
    try:
        if tokenizer is not None:
            as_tokenizer(tokenizer)
    except UsageError:
        return None
    return tokenizer
