"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from .._core.conversions.poison import (
    MALFORMED,
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
    unsendable_call,
)
from ._base_encoder import DONE, Chunk, StreamEncoder, sse
from ._chat import ChatStream
from ._chat_decoder import RULES, ChatStreamDecoder
from ._messages import MessagesStream
from ._ollama import OllamaStream
from ._options import OPTION_VALUES, WireChoice, WireOptions
from ._responses import ResponsesStream
from ._sent_calls import SentCalls
from ._usage import AnyUsage, Usage

__all__ = [
    "DONE",
    "MALFORMED",
    "OPTION_VALUES",
    "RULES",
    "AnyUsage",
    "ChatStream",
    "ChatStreamDecoder",
    "Chunk",
    "MessagesStream",
    "OllamaStream",
    "ResponsesStream",
    "SentCalls",
    "StreamEncoder",
    "Usage",
    "WireChoice",
    "WireOptions",
    "is_poisoned",
    "is_poisoned_as_malformed",
    "make_poison",
    "remove_poison",
    "sse",
    "unsendable_call",
]
