"""Base class for the encoders, with the state that every wire format needs."""

from __future__ import annotations

from .._core.stages.whitespace_filter import WhitespaceFilter
from ..errors import UsageError
from ..events import Event, FinishReason
from ..parser import Parser
from ._options import WireChoice, as_options
from ._poisoned_calls import SentCalls


class StreamEncoder:
    """Encoder that turns the events of one parser into the JSON objects of one API.

    Each output needs its own encoder.  The encoder is *closed* after ``Finish`` or a failure.
    """

    def __init__(self, parser: Parser, model: str, options: WireChoice | None) -> None:
        if not isinstance(parser, Parser):
            raise UsageError(
                f"{type(self).__name__} needs the parser whose events it encodes, "
                f"not {type(parser).__name__}; call {type(self).__name__}(parser, model=...)"
            )
        self.model = model
        """Model name that the client sees."""
        self.failed = False
        """True if the stream has ended with an error.

        Either the policies reject the output, or the API cannot express it.
        """
        self._closed = False
        self._filter: WhitespaceFilter = parser.tidy()
        self._policies = parser.policies
        self._forced = parser.forced
        self.options = as_options(options)
        """Options of the format."""
        self._calls = SentCalls(parser)

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason so far, as Chat Completions reports it."""
        return self._reported(self._calls.finish_reason(self._filter.finish_reason))

    def _reported(self, reason: FinishReason) -> FinishReason:
        """Return the finish reason to report, which the options determine for a forced call."""
        return self.options.finish_reason(reason, forced=self._forced)

    def _skips(self, event: Event) -> bool:
        """Return True if the event follows a failure, and raise an error if it follows ``Finish``.

        The rest of the output is ignored after a failure, but an event after ``Finish`` is a mistake of the
        caller.  To save time, encoders call this method only if ``_closed`` is True.
        """
        if self.failed:
            return True
        name = type(self).__name__
        raise UsageError(f"got {event!r} after Finish; create one {name} per output")
