"""unspool: a streaming parser for the raw output of language models.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')

This module has the names that most programs need.  The submodules have the other names:

``dialects``
    declare a dialect, describe it, convert it to and from JSON
``events``, ``message``, ``parser``, ``streaming``, ``policies``, ``errors``
    definitions of the names in this module, and related types
``stages``
    filters and builders for the events of a parser
``models``
    detection of dialects from files and servers, the doctor, converters
``planning``, ``templates``, ``grammar``
    plans, chat templates and grammars for requests
``wire``
    encoders for the APIs, and the decoder
``tokens``
    token ids: labels, masks, tokenizers
``testing``
    laws for dialects
"""

from typing import TYPE_CHECKING

from ._lazy_names import lazy_names, publish
from ._version import __version__
from .dialects import Dialect, get_dialect, list_dialects, register
from .errors import ArgumentsError, MalformedOutput, SpecError, UnknownDialect, UnspoolError, UsageError
from .events import CallArgs, CallEnd, CallStart, Diagnostic, Event, Finish, Markup, Text
from .message import Message, ToolCall
from .parser import Parser, parse
from .policies import Policies
from .streaming import astream, stream

if TYPE_CHECKING:
    from ._core.render.message import render
    from ._core.stages.partial_arguments import PartialArguments
    from .models import detect
    from .planning import plan

__all__ = [
    "ArgumentsError",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Diagnostic",
    "Dialect",
    "Event",
    "Finish",
    "MalformedOutput",
    "Markup",
    "Message",
    "Parser",
    "PartialArguments",
    "Policies",
    "SpecError",
    "Text",
    "ToolCall",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
    "__version__",
    "astream",
    "detect",
    "get_dialect",
    "list_dialects",
    "parse",
    "plan",
    "register",
    "render",
    "stream",
]

_LATER = {
    "PartialArguments": "._core.stages.partial_arguments",
    "detect": ".models",
    "plan": ".planning",
    "render": "._core.render.message",
}
"""Map from each name that is imported on first use to its module; parsing does not need these names."""

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept misspelt names
    __getattr__ = lazy_names(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _name in __all__:
    if _name not in _LATER:
        publish(globals()[_name], __name__)
del _name
