"""Wires: event streams as the API responses that clients read, and back."""

from .chat import DONE, ChatStream, Chunk, sse
from .messages import MessagesStream, messages_sse
from .ollama import OllamaStream
from .reconstruct import RULES, Reconstructor
from .responses import ResponsesStream

__all__ = [
    "DONE",
    "RULES",
    "ChatStream",
    "Chunk",
    "MessagesStream",
    "OllamaStream",
    "Reconstructor",
    "ResponsesStream",
    "messages_sse",
    "sse",
]
