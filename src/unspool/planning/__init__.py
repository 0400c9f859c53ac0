"""The request side: what a backend is told, and how its output is to be read."""

from ._build_plan import plan
from ._plan import Constraint, Plan
from ._prompt_end import start_state

__all__ = ["Constraint", "Plan", "plan", "start_state"]
