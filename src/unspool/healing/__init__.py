"""Recovery from outputs whose calls cannot be run.

``feedback`` returns the messages that ask a model to correct its calls.
"""

from ._feedback import feedback
from ._neutralise import neutralise

__all__ = ["feedback", "neutralise"]
