"""unspool: a model's raw output, taken apart while it streams.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')
"""

from importlib import import_module
from typing import TYPE_CHECKING, get_type_hints

from ._core.ends.fold import Fold
from ._core.ends.parser import Parser, parse, seeded_ids
from ._core.ends.tidy import Tidy
from ._core.tokens.tokens import AnyTokenizer, Tokenizer
from ._core.values.errors import (
    MalformedOutput,
    ProtocolError,
    SpecError,
    UnknownDialect,
    UnspoolError,
    UsageError,
)
from ._core.values.events import (
    NOTE_KINDS,
    CallArgs,
    CallEnd,
    CallStart,
    Channel,
    Event,
    Finish,
    FinishReason,
    Markup,
    Note,
    Role,
    Status,
    Text,
    normalise,
)
from ._core.values.ids import IdFormat
from ._core.values.message import BrokenCall, Message, Part, Problem, TextPart, ToolCall
from ._core.values.policies import STRICT, Policies
from ._core.words.dialect import Dialect, Envelope, Family, Frame, Names, Prompt, Route, Values
from ._core.words.facts import RequestFacts, Thinking
from ._version import __version__
from .dialects._registry import get_dialect, list_dialects, register

if TYPE_CHECKING:
    from ._core.ends.explain import explain, state_diagram
    from ._core.ends.halves import Halves, ReasoningHalf
    from ._core.ends.render import render
    from ._models.detect import detect
    from ._models.detection import Detection, Reasoning
    from ._models.dialect_json import dialect_from_json, dialect_schema, dialect_to_json
    from ._models.response_template import from_response_template
    from ._models.to_template import ExportError, to_response_template
    from ._request import Constraint, Plan, plan

__all__ = [
    "NOTE_KINDS",
    "STRICT",
    "AnyTokenizer",
    "BrokenCall",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Channel",
    "Constraint",
    "Detection",
    "Dialect",
    "Envelope",
    "Event",
    "ExportError",
    "Family",
    "Finish",
    "FinishReason",
    "Fold",
    "Frame",
    "Halves",
    "IdFormat",
    "MalformedOutput",
    "Markup",
    "Message",
    "Names",
    "Note",
    "Parser",
    "Part",
    "Plan",
    "Policies",
    "Problem",
    "Prompt",
    "ProtocolError",
    "Reasoning",
    "ReasoningHalf",
    "RequestFacts",
    "Role",
    "Route",
    "SpecError",
    "Status",
    "Text",
    "TextPart",
    "Thinking",
    "Tidy",
    "Tokenizer",
    "ToolCall",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
    "Values",
    "__version__",
    "detect",
    "dialect_from_json",
    "dialect_schema",
    "dialect_to_json",
    "explain",
    "from_response_template",
    "get_dialect",
    "list_dialects",
    "normalise",
    "parse",
    "plan",
    "register",
    "render",
    "seeded_ids",
    "state_diagram",
    "to_response_template",
]

_LATER = {
    "Constraint": "_request",
    "Detection": "_models.detection",
    "ExportError": "_models.to_template",
    "Halves": "_core.ends.halves",
    "Plan": "_request",
    "Reasoning": "_models.detection",
    "ReasoningHalf": "_core.ends.halves",
    "detect": "_models.detect",
    "dialect_from_json": "_models.dialect_json",
    "dialect_schema": "_models.dialect_json",
    "dialect_to_json": "_models.dialect_json",
    "explain": "_core.ends.explain",
    "from_response_template": "_models.response_template",
    "plan": "_request",
    "render": "_core.ends.render",
    "state_diagram": "_core.ends.explain",
    "to_response_template": "_models.to_template",
}
"""What parsing does without, and where it is: imported when it is asked for."""


def _publish(value: object) -> None:
    """A class is called by the name that users import it by: in tracebacks, in pickles, in ``help``."""
    if isinstance(value, type):
        # Those who ask for type hints look for the names in the module that the class says it is from.
        value.__annotations__ = get_type_hints(value, include_extras=True)
        value.__module__ = __name__


if not TYPE_CHECKING:  # for a checker, every name that is misspelt would be an object

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        _publish(value)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _name in __all__:
    if _name not in _LATER:
        _publish(globals()[_name])
del _name
