"""Plans: the backend settings that a request requires, and the parser for the backend's output."""

from ._build_plan import DECISIONS, plan
from ._parsers_without_reasoning import ContentParsers
from ._plan import Constraint, Plan
from ._read_request import tool_name
from ._special_token_fields import special_token_fields
from ._truth_table_page import switch
from .prompt_end import start_state

__all__ = [
    "DECISIONS",
    "Constraint",
    "ContentParsers",
    "Plan",
    "plan",
    "special_token_fields",
    "start_state",
    "switch",
    "tool_name",
]
