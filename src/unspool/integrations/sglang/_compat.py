"""All of SGLang's modules and names that the plug-in uses, in one place.

If an SGLang release lacks one of these names, SGLang's own code provides the features that depend on the
name.  The plug-in logs a single warning, even if several names are missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final, NamedTuple

log: Final = logging.getLogger("unspool.integrations.sglang")

TESTED_VERSION: Final = "0.5.23"
"""The SGLang release with which the plug-in was tested; all releases since 0.5.20 have the same names."""

TOOL_NAMES: Final = "sglang.srt.function_call.parser_names"
REASONING_NAMES: Final = "sglang.srt.parser.reasoning_parser_names"
"""Modules that list the parser names for the command line; these modules are fast to import."""
TOOLS: Final = "sglang.srt.function_call.function_call_parser"
REASONING: Final = "sglang.srt.parser.reasoning_parser"
CHAT: Final = "sglang.srt.entrypoints.openai.serving_chat"
RESPONSES: Final = "sglang.srt.entrypoints.openai.serving_responses"
MESSAGES: Final = "sglang.srt.entrypoints.anthropic.serving"

_warned = False


class ToolClasses(NamedTuple):
    """SGLang's classes for tool call detection."""

    parser: Any
    registry: dict[str, type]
    base: type
    item: Any
    result: Any

    def set_registry(self, registry: dict[str, type]) -> None:
        """Replace the registry of detectors."""
        self.parser.ToolCallParserEnum = registry


class ReasoningClasses(NamedTuple):
    """SGLang's classes for reasoning detection."""

    parser: Any
    registry: dict[str, type]
    base: type
    result: Any

    def set_registry(self, registry: dict[str, type]) -> None:
        """Replace the registry of detectors."""
        self.parser.DetectorMap = registry


def tool_classes(module: ModuleType) -> ToolClasses:
    """Return the classes for tool call detection, from the module with the detector registry."""
    from importlib import import_module

    types = import_module("sglang.srt.function_call.core_types")
    parser, base = module.FunctionCallParser, module.BaseFormatDetector
    registry = parser.ToolCallParserEnum
    return ToolClasses(parser, registry, base, types.ToolCallItem, types.StreamingParseResult)


def reasoning_classes(module: ModuleType) -> ReasoningClasses:
    """Return the classes for reasoning detection, from the module with the detector registry."""
    parser = module.ReasoningParser
    base, result = module.BaseReasoningFormatDetector, module.StreamingParseResult
    return ReasoningClasses(parser, parser.DetectorMap, base, result)


def structural_tag(tag: dict[str, Any]) -> Any:
    """Convert a structural tag to an instance of the class that the server uses."""
    from xgrammar import StructuralTag

    return StructuralTag.model_validate(tag)


def has_structural_tags() -> bool:
    """Return whether an xgrammar release with structural tags is installed."""
    try:
        from xgrammar import StructuralTag  # noqa: F401
    except ImportError:
        return False
    return True


def run_guarded(step: Callable[[], None]) -> bool:
    """Run a step that uses SGLang's names, and return whether the step succeeded."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - a plug-in must never stop its engine
        warn_unknown_release(error)
        return False
    return True


def warn_unknown_release(error: Exception) -> None:
    """Log a warning, once per process, that the plug-in is not compatible with this release."""
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
