"""Labels that classify the tokens of an output or a conversation as reasoning, content, arguments or markup.

>>> reading = label_tokens(ids, "hermes", tokenizer=tokenizer)  # doctest: +SKIP
>>> reading.message, reading.labels, reading.mask()  # doctest: +SKIP
"""

from .._core.token_ids.labels import LABEL_MASK, Label, LabelFlag
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, Tokenizer
from ..templates import turn_openers
from ._decode_ids import as_tokenizer, decode
from ._label_conversation import Conversation, Turn, conversation
from ._label_tokens import Array, CallSpan, Ids, Reading, TokenDiagnostic, as_ids, label_tokens, mask
from ._next_prompt import Extension, extend
from ._reasoning_tokens import ReasoningCounter, ReasoningIds
from ._show_labels import pieces, to_ansi, to_html

__all__ = [
    "LABEL_MASK",
    "AnyTokenizer",
    "Array",
    "CallSpan",
    "Conversation",
    "Extension",
    "Ids",
    "Label",
    "LabelFlag",
    "Reading",
    "ReasoningCounter",
    "ReasoningIds",
    "TokenDiagnostic",
    "Tokenizer",
    "Turn",
    "as_ids",
    "as_tokenizer",
    "conversation",
    "decode",
    "extend",
    "label_tokens",
    "mask",
    "pieces",
    "to_ansi",
    "to_html",
    "turn_openers",
]
