"""Plans: the settings that a request requires of the backend, and the parser for the backend's output."""

from ._build_plan import plan
from ._content_parsers import ContentParsers
from ._plan import Constraint, Plan
from ._prompt_end import start_state
from ._special_token_fields import special_token_fields

__all__ = ["Constraint", "ContentParsers", "Plan", "plan", "special_token_fields", "start_state"]
