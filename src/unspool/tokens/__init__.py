"""Token ids: what every one of them is, in an output or in a conversation.

>>> reading = read(ids, "hermes", tokenizer=tokenizer)  # doctest: +SKIP
>>> reading.message, reading.labels, reading.mask()  # doctest: +SKIP
"""

from .._core.tokens.labels import BROKEN, KIND, SHARED, Label
from ..template.openers import turn_openers
from .conversation import Conversation, Turn, conversation
from .extend import Extension, extend
from .picture import page, terminal
from .read import Attempt, Reading, TokenProblem, mask, read
from .reasoning import ReasoningCounter, ReasoningIds

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
