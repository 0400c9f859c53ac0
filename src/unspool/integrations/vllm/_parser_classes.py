"""Parser classes for vLLM's registries; each class is created when vLLM first needs it.

vLLM's registries import this module and read an attribute: ``tools:hermes`` is the tool parser for the
dialect ``hermes``, and ``reasoning:hermes`` is the reasoning parser.  If unspool is not compatible with
vLLM's release, the attribute is vLLM's own parser instead.
"""

from __future__ import annotations

import logging
import multiprocessing
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from ...dialects import get_dialect
from ...dialects.model_names import dialect_of
from ...errors import UnspoolError
from ...models.doctor.engine_parser_table import PARSERS
from .._registered_parser_names import DETECTED

Kind = Literal["tools", "reasoning"]

OWN_PARSERS: Final[dict[tuple[str, str], tuple[str, str]]] = {}
"""Module and class name of each of vLLM's own parsers, keyed by kind and parser name."""

log = logging.getLogger("vllm.unspool")
"""A child of vLLM's logger, so that log lines have the same format as the engine's own lines."""


def is_known(name: str) -> bool:
    """Return whether a parser name of vLLM is also the name of a dialect."""
    try:
        dialect_of(name)
    except UnspoolError:
        return False
    return True


@cache
def parser_class(attribute: str) -> Any:
    """Return the parser class for an attribute of the form ``KIND:DIALECT``."""
    kind, _, name = attribute.partition(":")
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


def warn_unknown_release(error: Exception) -> None:
    """Log once that vLLM's own parsers are used, as a warning."""
    _warn_once(str(error).partition(" (/")[0])  # leave out the file path at the end


@cache
def _warn_once(reason: str) -> None:
    if multiprocessing.parent_process() is None:  # child processes would log the same line again
        log.warning("unspool does not support this release of vLLM (%s): vLLM's own parsers are used", reason)


def __getattr__(name: str) -> Any:
    if ":" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return parser_class(name)
