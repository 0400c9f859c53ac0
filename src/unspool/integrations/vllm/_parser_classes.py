"""The classes behind the names, made when vLLM asks for one.

vLLM's registries import this module and take an attribute of it: ``tools:hermes``
is the tool parser of that dialect, ``reasoning:hermes`` its reasoning parser.
Where vLLM is none that we know, the attribute is its own parser instead.
"""

from __future__ import annotations

import logging
import multiprocessing
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from ...dialects._registry import get_dialect
from ...errors import UnspoolError
from ...models.doctor.engine_parsers import PARSERS
from .._engine import DETECTED

Kind = Literal["tools", "reasoning"]

OWN: Final[dict[tuple[str, str], tuple[str, str]]] = {}
"""Where vLLM keeps its own parsers, by kind and name."""

log = logging.getLogger("vllm.unspool")
"""Below vLLM's own logger, so that it speaks as the engine does."""


def is_known(name: str) -> bool:
    """Whether a name of vLLM's means a dialect."""
    try:
        get_dialect(name)
    except UnspoolError:
        return False
    return True


@cache
def part(attribute: str) -> Any:
    """The class of a parser."""
    kind, _, name = attribute.partition(":")
    try:
        from ._split_parsers import ReasoningPart, ToolPart
    except Exception as error:  # noqa: BLE001 - whatever an unknown engine raises, it must start
        return _own(kind, name, error)
    base: Any = ToolPart if kind == "tools" else ReasoningPart
    return type(f"{base.__name__}_{name}", (base,), {"speaks": name})


def _own(kind: str, name: str, error: Exception) -> Any:
    """The parser that vLLM has for the same, since ours cannot be had."""
    step_back(error)
    place = OWN.get((kind, name))
    if place is None and name != DETECTED:
        row = PARSERS.get(get_dialect(name).name)
        own = "" if row is None else row.vllm if kind == "tools" else row.vllm_reasoning
        place = OWN.get((kind, own))
    if place is None:
        raise AttributeError(f"vLLM has no parser of its own for {name}")
    module, found = place
    return getattr(import_module(module), found)


def step_back(error: Exception) -> None:
    """Say that the engine does without us."""
    _say_once(str(error).partition(" (/")[0])  # importers name the file, too


@cache
def _say_once(why: str) -> None:
    if multiprocessing.parent_process() is None:  # the processes that the engine starts would only repeat it
        log.warning("unspool does not know this release of vLLM (%s): its own parsers are used", why)


def __getattr__(name: str) -> Any:
    if ":" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return part(name)
