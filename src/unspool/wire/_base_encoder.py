"""Base class of the encoders: the state that every wire format needs."""

from __future__ import annotations

from .._core.stages.whitespace_filter import WhitespaceFilter
from ..errors import UsageError
from ..events import Event, FinishReason
from ..parser import Parser
from ._poisoned_calls import SentCalls


class StreamEncoder:
    """Encoder that turns the events of one parser into the JSON objects of one API.

    An encoder serves one output.  It is *closed* after the parser's ``Finish`` event, or after a failure.
    """

    def __init__(self, parser: Parser, model: str) -> None:
        if not isinstance(parser, Parser):
            raise UsageError(
                f"{type(self).__name__} needs the parser whose events it encodes, "
                f"got {type(parser).__name__}: {type(self).__name__}(parser, model=...)"
            )
        self.model = model
        """Model name that the client sees."""
        self.failed = False
        """True if the stream has ended with an error: the policies reject the output, or the API cannot
        express it."""
        self._closed = False
        self._filter: WhitespaceFilter = parser.tidy()
        self._policies = parser.policies
        self._calls = SentCalls(parser)

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason so far, as Chat Completions names it."""
        return self._calls.finish_reason(self._filter.finish_reason)

    def _skips(self, event: Event) -> bool:
        """Return True if a closed encoder ignores the event; raise an error if it must not come.

        After a failure, the rest of the output is ignored.  After ``Finish``, an event is a mistake of the
        caller.  Encoders test ``_closed`` before this call, because they run once per delta.
        """
        if self.failed:
            return True
        name = type(self).__name__
        raise UsageError(f"{event!r} after Finish: create one {name} per output")
