"""unspool: a model's raw output, taken apart while it streams.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')
"""

from typing import TYPE_CHECKING

from ._core.ends.explain import explain, state_diagram
from ._core.ends.parser import Parser, fold, get_parser, parse
from ._core.ends.render import render
from ._core.ends.tidy import Tidy
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
    Event,
    Finish,
    Markup,
    Note,
    Text,
    normalise,
)
from ._core.values.ids import IdFormat
from ._core.values.message import Message, Part, Problem, TextPart, ToolCall
from ._core.values.policies import STRICT, Policies
from ._core.words.dialect import Dialect, Envelope, Family, Frame, Names, Prompt, Route, Values
from ._core.words.facts import RequestFacts, Thinking
from ._models.response_template import from_response_template
from ._request import Constraint, Plan, plan
from ._version import __version__
from .dialects._registry import get_dialect, list_dialects, register

if TYPE_CHECKING:
    from ._models.detect import Detection, detect

__all__ = [
    "NOTE_KINDS",
    "STRICT",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Constraint",
    "Detection",
    "Dialect",
    "Envelope",
    "Event",
    "Family",
    "Finish",
    "Frame",
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
    "RequestFacts",
    "Route",
    "SpecError",
    "Text",
    "TextPart",
    "Thinking",
    "Tidy",
    "ToolCall",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
    "Values",
    "__version__",
    "detect",
    "explain",
    "fold",
    "from_response_template",
    "get_dialect",
    "get_parser",
    "list_dialects",
    "normalise",
    "parse",
    "plan",
    "register",
    "render",
    "state_diagram",
]


def __getattr__(name: str) -> object:
    # Detection needs much that parsing does not; it is imported when it is asked for.
    if name in ("Detection", "detect"):
        from ._models import detect as _detect

        return getattr(_detect, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
