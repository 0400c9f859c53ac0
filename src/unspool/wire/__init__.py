"""Wire formats: encoders from events to API responses, and a strict decoder for chat chunks."""

from .._core.conversions.make_broken_arguments_unparsable import (
    MALFORMED,
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
    unsendable_call,
)
from ..errors import ProtocolError
from ._base_encoder import DONE, Chunk, StreamEncoder, sse
from ._chat_encoder import ChatStream, error_chunk
from ._chat_repair import ChatRepair
from ._choice_reader import ChoiceReader
from ._compatibility_options import OPTION_VALUES, WireChoice, WireOptions
from ._event_reader import EventReader, LineReader
from ._messages_encoder import MessagesStream, error_event
from ._messages_repair import MessagesRepair
from ._ollama_encoder import Form, OllamaStream, ollama_error
from ._output_delta import FINISH_REASONS, CallDelta, Delta, read_chat_choice
from ._poison_broken_calls import SentCalls
from ._responses_encoder import CUSTOM_INPUT, ResponsesStream
from ._strict_chat_decoder import RULES, ChatStreamDecoder
from ._surrogate_joiner import SurrogateJoiner
from ._upstream_tool_calls import UpstreamCalls
from ._usage import AnyUsage, Usage

__all__ = [
    "CUSTOM_INPUT",
    "DONE",
    "FINISH_REASONS",
    "MALFORMED",
    "OPTION_VALUES",
    "RULES",
    "AnyUsage",
    "CallDelta",
    "ChatRepair",
    "ChatStream",
    "ChatStreamDecoder",
    "ChoiceReader",
    "Chunk",
    "Delta",
    "EventReader",
    "Form",
    "LineReader",
    "MessagesRepair",
    "MessagesStream",
    "OllamaStream",
    "ProtocolError",
    "ResponsesStream",
    "SentCalls",
    "StreamEncoder",
    "SurrogateJoiner",
    "UpstreamCalls",
    "Usage",
    "WireChoice",
    "WireOptions",
    "error_chunk",
    "error_event",
    "is_poisoned",
    "is_poisoned_as_malformed",
    "make_poison",
    "ollama_error",
    "read_chat_choice",
    "remove_poison",
    "sse",
    "unsendable_call",
]
