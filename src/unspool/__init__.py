"""unspool: a streaming parser for the raw output of language models.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')
"""

from importlib import import_module
from typing import TYPE_CHECKING, get_type_hints

from ._core.stages.message_builder import MessageBuilder
from ._core.stages.whitespace_filter import WhitespaceFilter
from ._core.token_ids.tokenizer_adapters import AnyTokenizer, Tokenizer
from ._version import __version__
from .dialects._declaration import (
    Dialect,
    Envelope,
    Family,
    Frame,
    Names,
    Prompt,
    Route,
    Values,
)
from .dialects._id_format import IdFormat
from .dialects._registry import get_dialect, list_dialects, register
from .dialects._request_facts import RequestFacts, Thinking
from .errors import (
    MalformedOutput,
    ProtocolError,
    SpecError,
    UnknownDialect,
    UnspoolError,
    UsageError,
)
from .events import (
    DIAGNOSTIC_KINDS,
    CallArgs,
    CallEnd,
    CallStart,
    Channel,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Markup,
    MarkupKind,
    Status,
    Text,
    normalise,
)
from .message import BrokenCall, Message, Part, TextPart, ToolCall
from .parser import Parser, parse, seeded_ids
from .policies import Policies

if TYPE_CHECKING:
    from ._core.explain import explain, state_diagram
    from ._core.render.message import render
    from ._core.stages.reasoning_splitter import ReasoningSplit, ReasoningSplitter
    from .models.convert.dialect_json import dialect_from_json, dialect_schema, dialect_to_json
    from .models.convert.from_response_template import from_response_template
    from .models.convert.to_response_template import ExportError, to_response_template
    from .models.detect.detect_dialect import detect
    from .models.detect.result import Detection, Reasoning
    from .planning import Constraint, Plan, plan

__all__ = [
    "DIAGNOSTIC_KINDS",
    "AnyTokenizer",
    "BrokenCall",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Channel",
    "Constraint",
    "Detection",
    "Diagnostic",
    "Dialect",
    "Envelope",
    "Event",
    "ExportError",
    "Family",
    "Finish",
    "FinishReason",
    "Frame",
    "IdFormat",
    "MalformedOutput",
    "Markup",
    "MarkupKind",
    "Message",
    "MessageBuilder",
    "Names",
    "Parser",
    "Part",
    "Plan",
    "Policies",
    "Prompt",
    "ProtocolError",
    "Reasoning",
    "ReasoningSplit",
    "ReasoningSplitter",
    "RequestFacts",
    "Route",
    "SpecError",
    "Status",
    "Text",
    "TextPart",
    "Thinking",
    "Tokenizer",
    "ToolCall",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
    "Values",
    "WhitespaceFilter",
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
    "Constraint": "planning",
    "Detection": "models.detect.result",
    "ExportError": "models.convert.to_response_template",
    "ReasoningSplit": "_core.stages.reasoning_splitter",
    "Plan": "planning",
    "Reasoning": "models.detect.result",
    "ReasoningSplitter": "_core.stages.reasoning_splitter",
    "detect": "models.detect.detect_dialect",
    "dialect_from_json": "models.convert.dialect_json",
    "dialect_schema": "models.convert.dialect_json",
    "dialect_to_json": "models.convert.dialect_json",
    "explain": "_core.explain",
    "from_response_template": "models.convert.from_response_template",
    "plan": "planning",
    "render": "_core.render.message",
    "state_diagram": "_core.explain",
    "to_response_template": "models.convert.to_response_template",
}
"""Module of each name that parsing does not need.  It is imported when the name is first used."""


def _publish(value: object) -> None:
    """Make tracebacks, pickles and ``help`` show a class under the name that users import."""
    if isinstance(value, type):
        # `get_type_hints` resolves names in the class's module, so call it before `__module__` changes.
        value.__annotations__ = get_type_hints(value, include_extras=True)
        value.__module__ = __name__


if not TYPE_CHECKING:  # with this function, a type checker would accept misspelt names

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
