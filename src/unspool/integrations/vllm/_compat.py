"""vLLM's own classes, wherever its release keeps them.

The import path of each class that depends on vLLM's release is here, and nowhere else.  Each name lists its
possible places, the newest first; they were checked against releases 0.29 to 0.32.  With any other release
the import of this module may fail with the name that is missing.  Its importers catch that error and use
vLLM's own parsers.  The registries of parsers are imported in ``__init__.py``, because vLLM loads that file
first and in every process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final


def _find(*places: str) -> Any:
    """Return the first object that exists among places of the form ``module:name``."""
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


if TYPE_CHECKING:  # stubs of the members that unspool uses; vLLM may not be installed

    class Parser:
        """The parser of one choice."""

        _reasoning_parser: Any
        _stream_state: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def _initialize_history_tool_call_cnt(self, request: Any) -> None: ...

    class ReasoningParser:
        """The parser of reasoning."""

        model_tokenizer: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    class ToolParser:
        """The parser of tool calls."""

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
ResponsesRequest: Final = _find("vllm.entrypoints.openai.responses.protocol:ResponsesRequest")
StructuredOutputsParams: Final = _find("vllm.sampling_params:StructuredOutputsParams")

record_tool_parser_invocation: Final = _find_or_none("vllm.parser.metrics:record_tool_parser_invocation")
"""vLLM's own metric for tool parsers; None if the release has none."""
get_function_tools: Final = _find_or_none("vllm.tool_parsers.utils:get_function_tools")
"""vLLM's conversion of tools to the functions that the model sees; None if the release has none.

It flattens namespaces, and turns custom tools into functions."""


def anthropic_serving() -> Any:
    """Return the class of the Messages server; None if the release has none.

    Only the server process needs it, so it is not imported with this module.
    """
    return _find_or_none("vllm.entrypoints.anthropic.serving:AnthropicServingMessages")
