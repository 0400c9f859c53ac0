"""unspool: a model's raw output, taken apart while it streams.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')
"""

from typing import TYPE_CHECKING

from ._dialect import Dialect, Frame, Route
from ._errors import (
    MalformedOutput,
    ProtocolError,
    SpecError,
    UnknownDialect,
    UnspoolError,
    UsageError,
)
from ._events import (
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
from ._explain import explain, state_diagram
from ._ids import IdFormat
from ._message import Message, Part, Problem, TextPart, ToolCall
from ._parser import Parser, fold, get_parser, parse
from ._plan import Constraint, Plan, plan
from ._policies import STRICT, Policies
from ._registry import get_dialect, list_dialects, register
from ._render import render
from ._response_template import from_response_template
from ._switches import RequestFacts, Thinking
from ._tidy import Tidy
from ._version import __version__

if TYPE_CHECKING:
    from ._detect import Detection, detect

__all__ = [
    "NOTE_KINDS",
    "STRICT",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Constraint",
    "Detection",
    "Dialect",
    "Event",
    "Finish",
    "Frame",
    "IdFormat",
    "MalformedOutput",
    "Markup",
    "Message",
    "Note",
    "Parser",
    "Part",
    "Plan",
    "Policies",
    "Problem",
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
        from . import _detect

        return getattr(_detect, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
