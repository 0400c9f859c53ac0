"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from .._core.conversions.poison import (
    MALFORMED,
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
    unsendable_call,
)
from ..errors import ProtocolError
from ._base_encoder import DONE, Chunk, StreamEncoder, sse
from ._chat import ChatStream, error_chunk
from ._chat_decoder import RULES, ChatStreamDecoder
from ._messages import MessagesStream, error_event
from ._ollama import Form, OllamaStream, ollama_error
from ._options import OPTION_VALUES, WireChoice, WireOptions
from ._responses import CUSTOM_INPUT, ResponsesStream
from ._sent_calls import SentCalls
from ._usage import AnyUsage, Usage

__all__ = [
    "CUSTOM_INPUT",
    "DONE",
    "MALFORMED",
    "OPTION_VALUES",
    "RULES",
    "AnyUsage",
    "ChatStream",
    "ChatStreamDecoder",
    "Chunk",
    "Form",
    "MessagesStream",
    "OllamaStream",
    "ProtocolError",
    "ResponsesStream",
    "SentCalls",
    "StreamEncoder",
    "Usage",
    "WireChoice",
    "WireOptions",
    "error_chunk",
    "error_event",
    "is_poisoned",
    "is_poisoned_as_malformed",
    "make_poison",
    "ollama_error",
    "remove_poison",
    "sse",
    "unsendable_call",
]
