"""Dialects: the language to declare them, the registry, and facts about the built-in families.

A dialect describes how a family of models writes reasoning, content and tool calls.  ``families`` contains
the built-in declarations, and ``templates`` the language of their templates.
"""

from typing import TYPE_CHECKING

from .._lazy_names import lazy_names

if TYPE_CHECKING:
    from .._core.explain import (
        explain as explain,
    )
    from .._core.explain import (
        state_diagram as state_diagram,
    )
    from ._control_tokens import (
        CONTROL_TOKEN as CONTROL_TOKEN,
    )
    from ._control_tokens import (
        is_control_token as is_control_token,
    )
    from ._control_tokens import (
        split_at_control_tokens as split_at_control_tokens,
    )
    from ._declaration import (
        Dialect as Dialect,
    )
    from ._declaration import (
        Envelope as Envelope,
    )
    from ._declaration import (
        Family as Family,
    )
    from ._declaration import (
        Frame as Frame,
    )
    from ._declaration import (
        Names as Names,
    )
    from ._declaration import (
        Notation as Notation,
    )
    from ._declaration import (
        Prompt as Prompt,
    )
    from ._declaration import (
        Route as Route,
    )
    from ._declaration import (
        Values as Values,
    )
    from ._dialect_json import (
        dialect_from_json as dialect_from_json,
    )
    from ._dialect_json import (
        dialect_schema as dialect_schema,
    )
    from ._dialect_json import (
        dialect_to_json as dialect_to_json,
    )
    from ._dialect_texts import (
        dialect_texts as dialect_texts,
    )
    from ._id_format import (
        OPENAI_ID as OPENAI_ID,
    )
    from ._id_format import (
        IdFormat as IdFormat,
    )
    from ._registry import (
        built_in_dialects as built_in_dialects,
    )
    from ._registry import (
        checkpoint as checkpoint,
    )
    from ._registry import (
        combined as combined,
    )
    from ._registry import (
        ends_of_turn as ends_of_turn,
    )
    from ._registry import (
        facts_of as facts_of,
    )
    from ._registry import (
        find as find,
    )
    from ._registry import (
        get_dialect as get_dialect,
    )
    from ._registry import (
        is_dialect as is_dialect,
    )
    from ._registry import (
        list_dialects as list_dialects,
    )
    from ._registry import (
        plain_name as plain_name,
    )
    from ._registry import (
        register as register,
    )
    from ._registry import (
        role_markers as role_markers,
    )
    from ._request_facts import (
        ANY as ANY,
    )
    from ._request_facts import (
        BOOLEANS as BOOLEANS,
    )
    from ._request_facts import (
        MODEL as MODEL,
    )
    from ._request_facts import (
        NO_REASONING as NO_REASONING,
    )
    from ._request_facts import (
        SWITCHES as SWITCHES,
    )
    from ._request_facts import (
        UNSWITCHED as UNSWITCHED,
    )
    from ._request_facts import (
        Answer as Answer,
    )
    from ._request_facts import (
        Mode as Mode,
    )
    from ._request_facts import (
        RequestFacts as RequestFacts,
    )
    from ._request_facts import (
        Thinking as Thinking,
    )

__all__ = [
    "ANY",
    "BOOLEANS",
    "CONTROL_TOKEN",
    "MODEL",
    "NO_REASONING",
    "OPENAI_ID",
    "SWITCHES",
    "UNSWITCHED",
    "Answer",
    "Dialect",
    "Envelope",
    "Family",
    "Frame",
    "IdFormat",
    "Mode",
    "Names",
    "Notation",
    "Prompt",
    "RequestFacts",
    "Route",
    "Thinking",
    "Values",
    "built_in_dialects",
    "checkpoint",
    "combined",
    "dialect_from_json",
    "dialect_schema",
    "dialect_texts",
    "dialect_to_json",
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
    "explain": ".._core.explain",
    "state_diagram": ".._core.explain",
    "CONTROL_TOKEN": "._control_tokens",
    "is_control_token": "._control_tokens",
    "split_at_control_tokens": "._control_tokens",
    "Dialect": "._declaration",
    "Envelope": "._declaration",
    "Family": "._declaration",
    "Frame": "._declaration",
    "Names": "._declaration",
    "Notation": "._declaration",
    "Prompt": "._declaration",
    "Route": "._declaration",
    "Values": "._declaration",
    "dialect_from_json": "._dialect_json",
    "dialect_schema": "._dialect_json",
    "dialect_to_json": "._dialect_json",
    "dialect_texts": "._dialect_texts",
    "IdFormat": "._id_format",
    "OPENAI_ID": "._id_format",
    "built_in_dialects": "._registry",
    "checkpoint": "._registry",
    "combined": "._registry",
    "ends_of_turn": "._registry",
    "facts_of": "._registry",
    "find": "._registry",
    "get_dialect": "._registry",
    "is_dialect": "._registry",
    "list_dialects": "._registry",
    "plain_name": "._registry",
    "register": "._registry",
    "role_markers": "._registry",
    "ANY": "._request_facts",
    "Answer": "._request_facts",
    "BOOLEANS": "._request_facts",
    "MODEL": "._request_facts",
    "Mode": "._request_facts",
    "NO_REASONING": "._request_facts",
    "RequestFacts": "._request_facts",
    "SWITCHES": "._request_facts",
    "Thinking": "._request_facts",
    "UNSWITCHED": "._request_facts",
}
"""Module of each name.  It is imported when the name is first used."""

if not TYPE_CHECKING:  # with this function, a type checker would accept misspelt names
    __getattr__ = lazy_names(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
