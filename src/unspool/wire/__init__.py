"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from ._chat import DONE, ChatStream, Chunk, sse
from ._chat_decoder import RULES, ChatStreamDecoder
from ._messages import MessagesStream, messages_sse
from ._ollama import OllamaStream
from ._options import OPTION_VALUES, WireChoice, WireOptions
from ._responses import ResponsesStream

__all__ = [
    "DONE",
    "OPTION_VALUES",
    "RULES",
    "ChatStream",
    "ChatStreamDecoder",
    "Chunk",
    "MessagesStream",
    "OllamaStream",
    "ResponsesStream",
    "WireChoice",
    "WireOptions",
    "messages_sse",
    "sse",
]
