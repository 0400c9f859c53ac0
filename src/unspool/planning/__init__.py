"""Plans: the backend settings that a request requires, and the parser for the backend's output."""

from ._build_plan import DECISIONS, plan
from ._plan import Constraint, Plan
from ._read_request import tool_name
from ._truth_table import switch
from .prompt_end import start_state

__all__ = ["DECISIONS", "Constraint", "Plan", "plan", "start_state", "switch", "tool_name"]
