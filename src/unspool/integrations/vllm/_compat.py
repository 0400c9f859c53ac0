"""vLLM's own classes, wherever its release keeps them.

The only file that knows vLLM's paths.  Each name lists its places, the newest
first: those of 0.29 to 0.32 were looked up in the packages.  Importing this
module fails, with the name of what is missing, where the engine is none that
we know; whoever imports it steps back then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final


def _find(*places: str) -> Any:
    """The first of these that there is, each as ``module:name``."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"vLLM has no {places[0].replace(':', '.')}")


def _find_if_any(*places: str) -> Any:
    try:
        return _find(*places)
    except ImportError:
        return None


_PROTOCOL: Final = ("vllm.entrypoints.generate.base.protocol", "vllm.entrypoints.openai.engine.protocol")


def _of_protocol(name: str) -> Any:
    return _find(*(f"{module}:{name}" for module in _PROTOCOL))


if TYPE_CHECKING:  # what we use of them; the engine is not installed everywhere

    class Parser:
        """The parser of one choice."""

        _reasoning_parser: Any
        _stream_state: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def _initialize_history_tool_call_cnt(self, request: Any) -> None: ...

    class ReasoningParser:
        """What ends reasoning."""

        model_tokenizer: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    class ToolParser:
        """What reads calls."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
else:
    Parser = _find("vllm.parser.abstract_parser:Parser")
    ReasoningParser = _find("vllm.reasoning.abs_reasoning_parsers:ReasoningParser")
    ToolParser = _find("vllm.tool_parsers.abstract_tool_parser:ToolParser")

DeltaMessage: Final = _of_protocol("DeltaMessage")
DeltaToolCall: Final = _of_protocol("DeltaToolCall")
DeltaFunctionCall: Final = _of_protocol("DeltaFunctionCall")
ExtractedToolCallInformation: Final = _of_protocol("ExtractedToolCallInformation")
FunctionCall: Final = _of_protocol("FunctionCall")
ToolCall: Final = _of_protocol("ToolCall")
ResponsesRequest: Final = _find("vllm.entrypoints.openai.responses.protocol:ResponsesRequest")
StructuredOutputsParams: Final = _find("vllm.sampling_params:StructuredOutputsParams")

record_tool_parser_invocation: Final = _find_if_any("vllm.parser.metrics:record_tool_parser_invocation")
"""vLLM's own metric of its tool parsers; None: it has none."""
get_function_tools: Final = _find_if_any("vllm.tool_parsers.utils:get_function_tools")
"""The functions that the model is shown: those of namespaces are flattened, custom tools made functions."""


def anthropic_serving() -> Any:
    """The server of the Messages API, which only a server should import; None: there is none."""
    return _find_if_any("vllm.entrypoints.anthropic.serving:AnthropicServingMessages")
