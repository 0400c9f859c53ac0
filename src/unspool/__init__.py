"""unspool: a streaming parser for the raw output of language models.

>>> message = parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes")
>>> message.tool_calls[0].name, message.finish_reason
('now', 'tool_calls')

This module has the names that most programs need.  The submodules have the other names; ``import unspool`` is
enough to use them, as in ``unspool.wire.ChatStream``:

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
``healing``
    messages that ask a model to correct its calls
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
    from . import conformance as conformance
    from . import grammar as grammar
    from . import healing as healing
    from . import models as models
    from . import planning as planning
    from . import stages as stages
    from . import templates as templates
    from . import testing as testing
    from . import tokens as tokens
    from . import wire as wire
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
_SUBMODULES = frozenset(
    (
        "conformance",
        "grammar",
        "healing",
        "models",
        "planning",
        "stages",
        "templates",
        "testing",
        "tokens",
        "wire",
    )
)
"""Submodules that are imported on first use, because parsing does not need them; none requires an extra."""

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept misspelt names
    __getattr__ = lazy_names(__name__, _LATER, _SUBMODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


for _name in __all__:
    if _name not in _LATER:
        publish(globals()[_name], __name__)
del _name
