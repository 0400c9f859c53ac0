"""Wires: event streams as the API responses that clients read, and back."""

from .chat import DONE, ChatStream, Chunk, chat_completion, chat_message, sse
from .messages import MessagesStream, messages_object, messages_sse
from .reconstruct import RULES, Reconstructor
from .responses import ResponsesStream, response_object

__all__ = [
    "DONE",
    "RULES",
    "ChatStream",
    "Chunk",
    "MessagesStream",
    "Reconstructor",
    "ResponsesStream",
    "chat_completion",
    "chat_message",
    "messages_object",
    "messages_sse",
    "response_object",
    "sse",
]
