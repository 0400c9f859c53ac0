"""Token ids: what every one of them is, in an output or in a conversation.

>>> reading = read(ids, "hermes", tokenizer=tokenizer)  # doctest: +SKIP
>>> reading.message, reading.labels, reading.mask()  # doctest: +SKIP
"""

from .._core.token_ids.labels import BROKEN, KIND, SHARED, Label
from ..chat_templates._turn_openers import turn_openers
from ._conversation import Conversation, Turn, conversation
from ._display import page, terminal
from ._extend import Extension, extend
from ._label_tokens import Attempt, Reading, TokenProblem, mask, read
from ._reasoning_end import ReasoningCounter, ReasoningIds

__all__ = [
    "BROKEN",
    "KIND",
    "SHARED",
    "Attempt",
    "Conversation",
    "Extension",
    "Label",
    "Reading",
    "ReasoningCounter",
    "ReasoningIds",
    "TokenProblem",
    "Turn",
    "conversation",
    "extend",
    "mask",
    "page",
    "read",
    "terminal",
    "turn_openers",
]
