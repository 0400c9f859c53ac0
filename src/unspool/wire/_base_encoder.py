"""Base class for the encoders, with the state that every wire format needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from .._core.stages.whitespace_filter import WhitespaceFilter
from ..errors import UsageError
from ..events import Event, FinishReason
from ..parser import Parser
from ._compatibility_options import WireChoice, as_options
from ._poison_broken_calls import SentCalls
from ._usage import AnyUsage, Usage, as_usage

Chunk: TypeAlias = dict[str, object]
"""JSON object that an API sends."""

DONE: Final = "data: [DONE]\n\n"
"""Server-sent event that follows the last chunk and ends a Chat Completions stream."""


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
        self.usage: Usage | None = None
        """The token counts that were last passed to ``feed``."""
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

    def feed(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> list[Chunk]:
        """Return the JSON objects for further events of the parser; the first call also opens the stream.

        :param usage: token counts so far.  Pass the counts with the last events at the latest; the encoder
            sends the counts in the chunk in which the API expects them.
        """
        raise NotImplementedError

    def sse(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> str:
        """Return the text to send for further events: server-sent events, or lines of JSON for Ollama."""
        return "".join(map(sse, self.feed(events, usage=usage)))

    def _count(self, usage: AnyUsage | None) -> None:
        if usage is not None:
            self.usage = as_usage(usage)

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason so far, as Chat Completions reports it."""
        return self._reported(self._calls.finish_reason(self._filter.finish_reason))

    def _reported(self, reason: FinishReason) -> FinishReason:
        """Return the finish reason to report; if the request forced a call, the options determine it."""
        return self.options.finish_reason(reason, forced=self._forced)

    def _skips(self, event: Event) -> bool:
        """Return True if the event comes after a failure; raise an error if it comes after ``Finish``.

        After a failure, the rest of the output is ignored.  An event after ``Finish`` is a mistake of the
        caller.  To save time, encoders call this method only if ``_closed`` is True.
        """
        if self.failed:
            return True
        name = type(self).__name__
        raise UsageError(f"got {event!r} after Finish; create one {name} per output")


def sse(chunk: Mapping[str, object]) -> str:
    r"""Return a chunk as a server-sent event, with an ``event`` line if the chunk has a type.

    >>> sse({"choices": []})
    'data: {"choices":[]}\n\n'
    >>> sse({"type": "message_stop"})
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    """
    # The JSON is ASCII, because some clients treat U+2028 and U+0085 as line breaks, and because a lone
    # surrogate cannot be encoded in UTF-8.
    data = f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"
    return f"event: {chunk['type']}\n{data}" if "type" in chunk else data
