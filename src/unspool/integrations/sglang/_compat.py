"""All modules and names of SGLang that the plug-in needs, in one place.

A release that has moved one of them is unknown to this plug-in.  Whatever depends on the missing name is then
left to SGLang's own code, with one warning for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final, NamedTuple

log: Final = logging.getLogger("unspool.integrations.sglang")

TESTED_VERSION: Final = "0.5.23"
"""The release that the plug-in was tested with; releases since 0.5.20 have the same names."""

TOOL_NAMES: Final = "sglang.srt.function_call.parser_names"
REASONING_NAMES: Final = "sglang.srt.parser.reasoning_parser_names"
"""Lists of names for the command line; importing them is cheap."""
TOOLS: Final = "sglang.srt.function_call.function_call_parser"
REASONING: Final = "sglang.srt.parser.reasoning_parser"
CHAT: Final = "sglang.srt.entrypoints.openai.serving_chat"
RESPONSES: Final = "sglang.srt.entrypoints.openai.serving_responses"
MESSAGES: Final = "sglang.srt.entrypoints.anthropic.serving"

_warned = False


class ToolClasses(NamedTuple):
    """SGLang's classes for detectors of tool calls."""

    parser: Any
    registry: dict[str, type]
    base: type
    item: Any
    result: Any


class ReasoningClasses(NamedTuple):
    """SGLang's classes for detectors of reasoning."""

    registry: dict[str, type]
    base: type
    result: Any


def tool_classes(module: ModuleType) -> ToolClasses:
    """Return the classes of the module that holds the registry of tool detectors."""
    from importlib import import_module

    types = import_module("sglang.srt.function_call.core_types")
    parser, base = module.FunctionCallParser, module.BaseFormatDetector
    registry = parser.ToolCallParserEnum
    return ToolClasses(parser, registry, base, types.ToolCallItem, types.StreamingParseResult)


def reasoning_classes(module: ModuleType) -> ReasoningClasses:
    """Return the classes of the module that holds the registry of reasoning detectors."""
    registry = module.ReasoningParser.DetectorMap
    return ReasoningClasses(registry, module.BaseReasoningFormatDetector, module.StreamingParseResult)


def structural_tag(tag: dict[str, Any]) -> Any:
    """Return a structural tag as an object of the class that the server uses."""
    from xgrammar import StructuralTag

    return StructuralTag.model_validate(tag)


def has_structural_tags() -> bool:
    """Return whether xgrammar is installed and has structural tags."""
    try:
        from xgrammar import StructuralTag  # noqa: F401
    except ImportError:
        return False
    return True


def run_guarded(step: Callable[[], None]) -> bool:
    """Run a step that needs names of SGLang, and return whether it succeeded."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - a plug-in must never stop its engine
        warn_unknown_release(error)
        return False
    return True


def warn_unknown_release(error: Exception) -> None:
    """Warn, once per process, that the plug-in does not fit this release."""
    global _warned  # noqa: PLW0603 - one line per process
    log.debug("unknown release", exc_info=error)
    if _warned:
        return
    _warned = True
    try:
        installed = version("sglang")
    except PackageNotFoundError:
        installed = "of an unknown version"
    log.warning(
        "unspool was tested with SGLang %s; this is SGLang %s and differs (%s: %s), so SGLang's own parsers "
        "stay in use",
        TESTED_VERSION,
        installed,
        type(error).__name__,
        error,
    )
