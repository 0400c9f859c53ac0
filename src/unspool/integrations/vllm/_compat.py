"""vLLM's own classes, imported from the modules in which the installed release defines them.

This file imports every class whose module depends on vLLM's release.  For each name, the possible modules are
listed, the newest first.  The imports were tried with releases 0.30 to 0.33.  With another release,
importing this module may fail with an ``ImportError`` for the missing name.  The importing code then falls
back to vLLM's own parsers.  The parser registries are the exception: ``__init__.py`` imports them, because
vLLM loads that file first and in every process.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

TESTED: Final = ("0.32", "0.33")
"""The releases of vLLM with which the plug-in was tested."""


@cache
def warn_untested_release() -> None:
    """Log a line, once, if this release of vLLM is newer than the tested ones."""
    try:
        release = version("vllm")
    except PackageNotFoundError:
        return
    numbers = release.split(".")[:2]
    if all(map(str.isdigit, numbers)) and list(map(int, numbers)) > list(map(int, TESTED[-1].split("."))):
        from ._parser_classes import log

        log.info("unspool was tested with vLLM %s to %s, not with %s", TESTED[0], TESTED[-1], release)


def _find(*places: str) -> Any:
    """Return the first existing object among ``places``, which have the form ``module:name``."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"vLLM has no {places[0].replace(':', '.')}")


def _find_or_none(*places: str) -> Any:
    try:
        return _find(*places)
    except ImportError:
        return None


_PROTOCOL: Final = ("vllm.entrypoints.generate.base.protocol", "vllm.entrypoints.openai.engine.protocol")


def _find_in_protocol(name: str) -> Any:
    return _find(*(f"{module}:{name}" for module in _PROTOCOL))


if TYPE_CHECKING:  # stubs for type checkers, because vLLM may not be installed

    class Parser:
        """vLLM's base class for parsers; each parser instance handles one choice of a response."""

        _reasoning_parser: Any
        _stream_state: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def _initialize_history_tool_call_cnt(self, request: Any) -> None: ...

    class ReasoningParser:
        """vLLM's base class of reasoning parsers."""

        model_tokenizer: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    class ToolParser:
        """vLLM's base class of tool call parsers."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
else:
    Parser = _find("vllm.parser.abstract_parser:Parser")
    ReasoningParser = _find("vllm.reasoning.abs_reasoning_parsers:ReasoningParser")
    ToolParser = _find("vllm.tool_parsers.abstract_tool_parser:ToolParser")

DeltaMessage: Final = _find_in_protocol("DeltaMessage")
DeltaToolCall: Final = _find_in_protocol("DeltaToolCall")
DeltaFunctionCall: Final = _find_in_protocol("DeltaFunctionCall")
ExtractedToolCallInformation: Final = _find_in_protocol("ExtractedToolCallInformation")
FunctionCall: Final = _find_in_protocol("FunctionCall")
ToolCall: Final = _find_in_protocol("ToolCall")
ChatCompletionRequest: Final = _find("vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest")
ResponsesRequest: Final = _find("vllm.entrypoints.openai.responses.protocol:ResponsesRequest")
StructuredOutputsParams: Final = _find("vllm.sampling_params:StructuredOutputsParams")

record_tool_parser_invocation: Final = _find_or_none("vllm.parser.metrics:record_tool_parser_invocation")
"""vLLM's function that counts the use of tool parsers; None if the release does not have it."""
get_function_tools: Final = _find_or_none("vllm.tool_parsers.utils:get_function_tools")
"""vLLM's function that converts tools to functions for the model; None if the release does not have it.

The function flattens namespaces, and converts custom tools to functions."""


def reports_engine_finish_reason() -> bool:
    """Return whether the server reports the engine's finish reason for truncated calls by itself."""
    return _find_or_none("vllm.entrypoints.serve.utils.tool_calls_utils:resolve_finish_reason") is not None


def chat_serving() -> Any:
    """Return the class of the Chat Completions server, which only the server process needs."""
    return _find_or_none("vllm.entrypoints.openai.chat_completion.serving:OpenAIServingChat")


def anthropic_serving() -> Any:
    """Return the class of the Messages server; None if the release does not have it.

    Only the server process needs this class, so it is not imported together with this module.
    """
    return _find_or_none("vllm.entrypoints.anthropic.serving:AnthropicServingMessages")
