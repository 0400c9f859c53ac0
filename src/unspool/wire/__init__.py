"""Wires: event streams as the API responses that clients read, and back."""

from .chat import DONE, ChatStream, Chunk, chat_completion, chat_message, sse
from .reconstruct import RULES, Reconstructor

__all__ = [
    "DONE",
    "RULES",
    "ChatStream",
    "Chunk",
    "Reconstructor",
    "chat_completion",
    "chat_message",
    "sse",
]
