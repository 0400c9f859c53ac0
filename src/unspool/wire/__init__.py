"""Wire formats: encoders that turn events into API responses, and a strict decoder for chat chunks."""

from ._chat import DONE, ChatStream, Chunk, error_chunk, sse
from ._chat_decoder import RULES, ChatStreamDecoder
from ._chat_repair import ChatRepair
from ._choice_reader import ChoiceReader
from ._event_reader import EventReader, LineReader
from ._messages import MessagesStream, error_event, messages_sse
from ._messages_repair import MessagesRepair
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
    "ChatRepair",
    "ChatStream",
    "ChatStreamDecoder",
    "ChoiceReader",
    "Chunk",
    "Delta",
    "EventReader",
    "LineReader",
    "MessagesRepair",
    "MessagesStream",
    "OllamaStream",
    "ResponsesStream",
    "SurrogateJoiner",
    "UpstreamCalls",
    "error_chunk",
    "error_event",
    "messages_sse",
    "read_chat_choice",
    "sse",
]
