"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from ._chat import DONE, ChatStream, Chunk, sse
from ._chat_decoder import RULES, ChatStreamDecoder
from ._choice_reader import ChoiceReader
from ._event_reader import EventReader, LineReader
from ._messages import MessagesStream, messages_sse
from ._ollama import OllamaStream
from ._output_delta import FINISH_REASONS, CallDelta, Delta, read_chat_choice
from ._responses import ResponsesStream
from ._surrogate_joiner import SurrogateJoiner
from ._upstream_calls import UpstreamCalls

__all__ = [
    "DONE",
    "FINISH_REASONS",
    "RULES",
    "CallDelta",
    "ChatStream",
    "ChatStreamDecoder",
    "ChoiceReader",
    "Chunk",
    "Delta",
    "EventReader",
    "LineReader",
    "MessagesStream",
    "OllamaStream",
    "ResponsesStream",
    "SurrogateJoiner",
    "UpstreamCalls",
    "messages_sse",
    "read_chat_choice",
    "sse",
]
