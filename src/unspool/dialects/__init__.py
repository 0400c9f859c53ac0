"""Dialects: the language to declare them, the registry, and facts about the built-in families.

A dialect describes how a family of models writes reasoning, content and tool calls.  ``families`` contains
the built-in declarations, and ``templates`` the language of their templates.
"""

from typing import TYPE_CHECKING

from .._lazy_names import lazy_names

if TYPE_CHECKING:
    from .._core.explain_dialect import explain, state_diagram
    from ._control_token_pattern import CONTROL_TOKEN, is_control_token, split_at_control_tokens
    from ._declaration import (
        Dialect,
        Envelope,
        Family,
        Frame,
        Habits,
        Names,
        Notation,
        Prompt,
        Route,
        Values,
        Writing,
    )
    from ._dialect_json import dialect_from_json, dialect_schema, dialect_to_json
    from ._family_request_facts import (
        BOOLEANS,
        NO_REASONING,
        SWITCHES,
        UNSWITCHED,
        Mode,
        RequestFacts,
        Thinking,
        ThinkingHabits,
    )
    from ._id_format import OPENAI_ID, IdFormat
    from ._placed_templates import Opener, Section, Wrapper
    from ._registry import (
        built_in_dialects,
        checkpoint,
        combined,
        end_tokens,
        ends_of_turn,
        facts_of,
        find,
        get_dialect,
        is_dialect,
        list_dialects,
        plain_name,
        register,
        role_markers,
    )
    from .list_templates_and_markers import dialect_texts

__all__ = [
    "BOOLEANS",
    "CONTROL_TOKEN",
    "NO_REASONING",
    "OPENAI_ID",
    "SWITCHES",
    "UNSWITCHED",
    "Dialect",
    "Envelope",
    "Family",
    "Frame",
    "Habits",
    "IdFormat",
    "Mode",
    "Names",
    "Notation",
    "Opener",
    "Prompt",
    "RequestFacts",
    "Route",
    "Section",
    "Thinking",
    "ThinkingHabits",
    "Values",
    "Wrapper",
    "Writing",
    "built_in_dialects",
    "checkpoint",
    "combined",
    "dialect_from_json",
    "dialect_schema",
    "dialect_texts",
    "dialect_to_json",
    "end_tokens",
    "ends_of_turn",
    "explain",
    "facts_of",
    "find",
    "get_dialect",
    "is_control_token",
    "is_dialect",
    "list_dialects",
    "plain_name",
    "register",
    "role_markers",
    "split_at_control_tokens",
    "state_diagram",
]

_LATER = {
    "explain": ".._core.explain_dialect",
    "state_diagram": ".._core.explain_dialect",
    "CONTROL_TOKEN": "._control_token_pattern",
    "is_control_token": "._control_token_pattern",
    "split_at_control_tokens": "._control_token_pattern",
    "Dialect": "._declaration",
    "Envelope": "._declaration",
    "Family": "._declaration",
    "Frame": "._declaration",
    "Habits": "._declaration",
    "Names": "._declaration",
    "Notation": "._declaration",
    "Opener": "._placed_templates",
    "Prompt": "._declaration",
    "Route": "._declaration",
    "Section": "._placed_templates",
    "Values": "._declaration",
    "Wrapper": "._placed_templates",
    "Writing": "._declaration",
    "dialect_from_json": "._dialect_json",
    "dialect_schema": "._dialect_json",
    "dialect_to_json": "._dialect_json",
    "dialect_texts": ".list_templates_and_markers",
    "IdFormat": "._id_format",
    "OPENAI_ID": "._id_format",
    "built_in_dialects": "._registry",
    "checkpoint": "._registry",
    "combined": "._registry",
    "end_tokens": "._registry",
    "ends_of_turn": "._registry",
    "facts_of": "._registry",
    "find": "._registry",
    "get_dialect": "._registry",
    "is_dialect": "._registry",
    "list_dialects": "._registry",
    "plain_name": "._registry",
    "register": "._registry",
    "role_markers": "._registry",
    "BOOLEANS": "._family_request_facts",
    "Mode": "._family_request_facts",
    "NO_REASONING": "._family_request_facts",
    "RequestFacts": "._family_request_facts",
    "SWITCHES": "._family_request_facts",
    "Thinking": "._family_request_facts",
    "ThinkingHabits": "._family_request_facts",
    "UNSWITCHED": "._family_request_facts",
}
"""Map from each name to its module.  The module is imported when the name is first used."""

if not TYPE_CHECKING:  # with this function, a type checker would accept misspelt names
    __getattr__ = lazy_names(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
