"""Parser classes for vLLM's registries; each class is created when vLLM first needs it.

vLLM's registries import this module and read an attribute: ``tools:hermes`` is the tool parser for the
dialect ``hermes``, and ``reasoning:hermes`` is the reasoning parser.  If unspool is not compatible with
vLLM's release, the attribute is vLLM's own parser instead.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from ...dialects import get_dialect
from ...models.doctor.engine_parser_table import PARSERS
from .._registered_parser_names import DETECTED

Kind = Literal["tools", "reasoning"]

OWN_PARSERS: Final[dict[tuple[str, str], tuple[str, str]]] = {}
"""Module and class name of each of vLLM's own parsers, keyed by kind and parser name."""

log = logging.getLogger("vllm.unspool")
"""A child of vLLM's logger, so that log lines have the same format as the engine's own lines."""


@cache
def parser_class(attribute: str) -> Any:
    """Return the parser class for an attribute of the form ``KIND:DIALECT``."""
    kind, _, name = attribute.partition(":")
    if _failure:
        return _own_parser_class(kind, name, _failure[0])
    try:
        from ._reasoning_and_tool_parsers import UnspoolReasoningParser, UnspoolToolParser
    except Exception as error:  # noqa: BLE001 - the engine must start, whatever an unknown release raises
        return _own_parser_class(kind, name, error)
    base: Any = UnspoolToolParser if kind == "tools" else UnspoolReasoningParser
    return type(f"{base.__name__}_{name}", (base,), {"dialect_name": name})


def _own_parser_class(kind: str, name: str, error: Exception) -> Any:
    """Return vLLM's own parser for a name; used if unspool's parsers cannot be imported."""
    warn_unknown_release(error)
    place = OWN_PARSERS.get((kind, name))
    if place is None and name != DETECTED:
        row = PARSERS.get(get_dialect(name).name)
        own = "" if row is None else row.vllm if kind == "tools" else row.vllm_reasoning
        place = OWN_PARSERS.get((kind, own))
    if place is None:
        raise AttributeError(
            f"vLLM has no parser of its own for {name}: remove unspool's parser from vLLM's command line"
        )
    module, class_name = place
    return getattr(import_module(module), class_name)


_failure: Final[list[Exception]] = []
"""The error because of which unspool's names stand for vLLM's own parsers."""


def use_own_parsers(error: Exception, registries: Iterable[Any]) -> None:
    """Make unspool's names stand for vLLM's own parsers, because unspool's do not work in this release.

    :param registries: vLLM's registries, which may have cached unspool's classes.
    """
    _failure[:] = [error]
    parser_class.cache_clear()
    for registry in registries:
        classes = getattr(registry, "tool_parsers", None) or getattr(registry, "reasoning_parsers", {})
        for name in [name for name, found in classes.items() if hasattr(found, "dialect_name")]:
            del classes[name]
    warn_unknown_release(error)


@cache
def warn_unknown_name(name: str) -> None:
    """Log a warning, once, about a name in ``UNSPOOL_REPLACE``."""
    if multiprocessing.parent_process() is None:
        log.warning("unspool: UNSPOOL_REPLACE names %s, which vLLM does not have", name)


def warn_unknown_release(error: Exception, consequence: str = "vLLM's own parsers are used") -> None:
    """Log a warning, once, that unspool or a part of it is not in use, and what happens instead."""
    _warn_once(str(error).partition(" (/")[0], consequence)  # without the file path at the message's end


@cache
def _warn_once(reason: str, consequence: str) -> None:
    if multiprocessing.parent_process() is None:  # child processes would log the same line again
        log.warning("unspool does not support this release of vLLM (%s): %s", reason, consequence)


def __getattr__(name: str) -> Any:
    if ":" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return parser_class(name)
