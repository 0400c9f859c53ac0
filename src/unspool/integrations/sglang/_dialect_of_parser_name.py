"""Lookup of the dialect for a parser name, which is one of unspool's names or one of SGLang's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ...dialects import Dialect, combined, find, get_dialect
from ...errors import UsageError
from ...policies import Policies
from ...tokens import as_tokenizer
from .. import _registered_parser_names
from .._detect_from_tokenizer import detect_served_dialect
from .._plug_in_policies import policies_for
from .._registered_parser_names import DETECTED
from ._compat import log

_CHECKPOINT_DEFINED: Final = ("response_template",)
"""SGLang's parser names that unspool cannot replace, because each checkpoint declares its own format."""


class _RegisteredNames(set[str]):
    """Names of detectors; the names of dialects belong to the set before they are looked up."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and bool(self) and is_unspool_name(name))


REGISTERED_NAMES: Final = _RegisteredNames()
"""The names under which unspool's detectors are registered; empty if SGLang's release is not supported."""

_resolved: dict[tuple[str | None, str | None, int], tuple[object, Dialect]] = {}
"""Cache of resolved dialects.  A key consists of the tool parser's name, the reasoning parser's name and
``id(tokenizer)``.  A value also contains the tokenizer, so that Python does not reuse the tokenizer's
``id()``."""


def is_unspool_name(name: str | None) -> bool:
    """Return whether the plug-in adds this parser name to SGLang."""
    return name is not None and _registered_parser_names.dialect_name(name) is not None


def names_to_replace(own: Iterable[str]) -> tuple[str, ...]:
    """Return SGLang's own parser names that the user wants to give to unspool's parsers."""
    return tuple(
        name for name in _registered_parser_names.names_to_replace(own) if name not in _CHECKPOINT_DEFINED
    )


def resolve_dialect(tool: str | None, reasoning: str | None, tokenizer: object | None) -> Dialect:
    """Return the dialect for the name of a tool call parser and the name of a reasoning parser.

    If a tokenizer is passed, its vocabulary determines which variant of the dialect is returned.
    """
    key = (tool, reasoning, id(tokenizer))
    cached = _resolved.get(key)
    if cached is None:
        cached = _resolved[key] = (tokenizer, _resolve(tool, reasoning, tokenizer))
    return cached[1]


def policies_of(dialect: Dialect, tokenizer: object | None) -> Policies:
    """Return the policies for the outputs of a model."""
    path = getattr(tokenizer, "name_or_path", "")
    return policies_for("sglang", dialect.name, path if isinstance(path, str) else "")


def _resolve(tool: str | None, reasoning: str | None, tokenizer: object | None) -> Dialect:
    name = tool or reasoning or DETECTED
    calls = _detect(tokenizer) if name == DETECTED else find(_dialect_name(name), _readable(tokenizer))
    if reasoning in (None, DETECTED, name):
        return calls
    # In a parser name of the form "calls+reasoning", the part after the plus sign is first looked up among
    # the reasoning parsers, then among the dialects.
    thoughts = get_dialect(f"passthrough+{_dialect_name(reasoning)}")
    if thoughts.reasoning == calls.reasoning:
        return calls
    return replace(combined(calls, thoughts), name=f"{calls.name}+{_dialect_name(reasoning)}")


def _dialect_name(name: str | None) -> str:
    name = name or ""
    return _registered_parser_names.dialect_name(name) or name


def _detect(tokenizer: object | None) -> Dialect:
    if tokenizer is None:
        raise ValueError(
            f"the parser {DETECTED!r} needs the model's tokenizer, but there is no tokenizer: "
            f"use a parser name with a dialect, such as {DETECTED}_hermes"
        )
    try:
        dialect, why = detect_served_dialect(tokenizer)
    except UsageError as error:
        raise ValueError(f"unspool: {error}") from error  # SGLang expects a ValueError from parsers
    log.info("unspool: the model uses the dialect %s. %s", dialect.name, why)
    return dialect


def _readable(tokenizer: object | None) -> object | None:
    """Return the tokenizer, or None if unspool cannot read its vocabulary."""
    try:
        if tokenizer is not None:
            as_tokenizer(tokenizer)
    except UsageError:
        return None
    return tokenizer
