"""Plans: the backend settings that a request requires, and the parser for the backend's output."""

from ._build_plan import plan
from ._plan import Constraint, Plan
from ._prompt_end import start_state

__all__ = ["Constraint", "Plan", "plan", "start_state"]
