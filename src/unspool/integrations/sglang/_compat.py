"""Everything of SGLang that is asked for by name, in one place.

A release that has moved one of these is one that we do not know: what belongs to it
is left as it is, with one warning for all of them, and the engine goes on without us.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final, NamedTuple

log: Final = logging.getLogger("unspool.integrations.sglang")

KNOWN: Final = "0.5.23"
"""The release that this was tried with; the names are those of 0.5.20 and later."""

TOOL_NAMES: Final = "sglang.srt.function_call.parser_names"
REASONING_NAMES: Final = "sglang.srt.parser.reasoning_parser_names"
"""Lists of names for the command line, which cost nothing to import."""
TOOLS: Final = "sglang.srt.function_call.function_call_parser"
REASONING: Final = "sglang.srt.parser.reasoning_parser"
CHAT: Final = "sglang.srt.entrypoints.openai.serving_chat"
RESPONSES: Final = "sglang.srt.entrypoints.openai.serving_responses"
MESSAGES: Final = "sglang.srt.entrypoints.anthropic.serving"

_stepped_back = False


class ToolWorld(NamedTuple):
    """What detectors of calls are made of."""

    parser: Any
    registry: dict[str, type]
    base: type
    item: Any
    result: Any


class ReasoningWorld(NamedTuple):
    """What detectors of reasoning are made of."""

    registry: dict[str, type]
    base: type
    result: Any


def tool_world(module: ModuleType) -> ToolWorld:
    """The names of the module that holds the registry of calls."""
    from importlib import import_module

    types = import_module("sglang.srt.function_call.core_types")
    parser, base = module.FunctionCallParser, module.BaseFormatDetector
    registry = parser.ToolCallParserEnum
    return ToolWorld(parser, registry, base, types.ToolCallItem, types.StreamingParseResult)


def reasoning_world(module: ModuleType) -> ReasoningWorld:
    """The names of the module that holds the registry of reasoning."""
    registry = module.ReasoningParser.DetectorMap
    return ReasoningWorld(registry, module.BaseReasoningFormatDetector, module.StreamingParseResult)


def structural_tag(tag: dict[str, Any]) -> Any:
    """The tag as the server's own class."""
    from xgrammar import StructuralTag

    return StructuralTag.model_validate(tag)


def has_structural_tags() -> bool:
    """Whether that class is there."""
    try:
        from xgrammar import StructuralTag  # noqa: F401
    except ImportError:
        return False
    return True


def guarded(step: Callable[[], None]) -> bool:
    """Do something that needs names of SGLang; whether it has them."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - a plug-in must never stop its engine
        step_back(error)
        return False
    return True


def step_back(error: Exception) -> None:
    """Say once that this release is not known."""
    global _stepped_back  # noqa: PLW0603 - one line per process
    log.debug("stepped back", exc_info=error)
    if _stepped_back:
        return
    _stepped_back = True
    try:
        found = version("sglang")
    except PackageNotFoundError:
        found = "of an unknown version"
    log.warning(
        "unspool knows SGLang %s, and this is %s, which differs (%s: %s): its own parsers stay",
        KNOWN,
        found,
        type(error).__name__,
        error,
    )
