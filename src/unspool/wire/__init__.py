"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from ._chat import DONE, ChatStream, Chunk, sse
from ._chat_decoder import RULES, ChatStreamDecoder
from ._messages import MessagesStream, messages_sse
from ._ollama import OllamaStream
from ._responses import ResponsesStream

__all__ = [
    "DONE",
    "RULES",
    "ChatStream",
    "ChatStreamDecoder",
    "Chunk",
    "MessagesStream",
    "OllamaStream",
    "ResponsesStream",
    "messages_sse",
    "sse",
]
