"""Labels for token ids of an output or a conversation, such as reasoning, content, arguments and markup.

>>> reading = label_tokens(ids, "hermes", tokenizer=tokenizer)  # doctest: +SKIP
>>> reading.message, reading.labels, reading.mask()  # doctest: +SKIP
"""

from .._core.token_ids.labels import LABEL_MASK, Label, LabelFlag
from ..chat_templates._turn_openers import turn_openers
from ._label_conversation import Conversation, Turn, conversation
from ._label_tokens import CallSpan, Reading, TokenDiagnostic, label_tokens, mask
from ._next_prompt import Extension, extend
from ._reasoning_end import ReasoningCounter, ReasoningIds
from ._show_labels import to_ansi, to_html

__all__ = [
    "LABEL_MASK",
    "CallSpan",
    "Conversation",
    "Extension",
    "Label",
    "LabelFlag",
    "Reading",
    "ReasoningCounter",
    "ReasoningIds",
    "TokenDiagnostic",
    "Turn",
    "conversation",
    "extend",
    "label_tokens",
    "mask",
    "to_ansi",
    "to_html",
    "turn_openers",
]
