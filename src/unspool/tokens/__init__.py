"""Token ids: what they say about an output, beyond the parser that reads them.

>>> reasoning = ReasoningIds("hermes", tokenizer)  # doctest: +SKIP
>>> reasoning.ended(prompt_ids)  # doctest: +SKIP
"""

from .reasoning import ReasoningCounter, ReasoningIds

__all__ = ["ReasoningCounter", "ReasoningIds"]
