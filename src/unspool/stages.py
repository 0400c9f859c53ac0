"""Stages after the parser, which convert the parser's events to other events, text or a message.

``parser.tidy()`` creates a ``WhitespaceFilter``, and ``parser.fold()`` a ``MessageBuilder``, with the
parser's policies.
"""

from ._core.stages.message_builder import MessageBuilder
from ._core.stages.reasoning_only_parser import ReasoningSplit, ReasoningSplitter
from ._core.stages.whitespace_filter import WhitespaceFilter
from ._lazy_names import publish

__all__ = ["MessageBuilder", "ReasoningSplit", "ReasoningSplitter", "WhitespaceFilter"]

for _value in (MessageBuilder, ReasoningSplit, ReasoningSplitter, WhitespaceFilter):
    publish(_value, __name__)
del _value
