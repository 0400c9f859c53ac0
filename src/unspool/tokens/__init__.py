"""Token ids: what they say about an output, beyond the parser that reads them.

>>> reasoning = ReasoningIds("hermes", tokenizer)  # doctest: +SKIP
>>> reasoning.ended(prompt_ids)  # doctest: +SKIP
"""

from .conversation import Conversation, Turn, conversation, turn_openers
from .extend import Extension, extend
from .labels import BROKEN, KIND, SHARED, Label
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
    "read",
    "turn_openers",
]
