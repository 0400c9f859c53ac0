"""Base class for the encoders that turn events into an API's response, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import wire
from ...events import Event, Finish, FinishReason
from ...message import Message
from ...wire import WireOptions
from ..http.exchange import EVENTS, Headers
from ..http.failure import Failure
from ..upstreams.base import Usage
from .planned_choice_reader import Reader
from .request import GenerationRequest


class ResponseEncoder:
    """Encoder for one response.

    For a streamed response, call ``opening()``, then ``feed()`` for the events of each batch, and at the end
    ``closing()``, or ``failing()`` after an error.  For a response that is not streamed, call only
    ``response()``.  Set ``usage`` and ``prompt_token_ids`` before the call that encodes them.
    """

    headers: Headers = EVENTS
    """Headers of a streamed response."""
    ping = b": ping\n\n"
    """Bytes that keep an idle connection open and that clients ignore."""
    end = b""
    """Bytes to send after an error in a stream."""

    def __init__(
        self, request: GenerationRequest, model: str, readers: Sequence[Reader], options: WireOptions
    ) -> None:
        self.request = request
        self.model = model
        self.options = options
        self.readers = readers
        """One reader per choice."""
        self.usage = Usage()
        """Token counts so far."""
        self.prompt_token_ids: Sequence[int] | None = None
        """Token ids of the prompt, if the client asked for ids and the upstream sent them."""
        self.failed = False
        """True if the last ``feed()`` encoded an error, because the policies reject the output."""
        self._finish: list[Event] = []
        """The ``Finish`` event, which is held back until the token counts are known."""

    def opening(self) -> bytes:
        """Return the encoded start of a stream, which precedes the output."""
        raise NotImplementedError

    def feed(self, choice: int, events: list[Event]) -> bytes:
        """Encode a choice's next events, and return the bytes to send."""
        raise NotImplementedError

    def closing(self) -> bytes:
        """Return the bytes that end a stream after all choices have finished."""
        raise NotImplementedError

    def failing(self, failure: Failure) -> bytes:
        """Return the bytes that end a stream after a failure."""
        raise NotImplementedError

    def finish_reasons(self) -> list[FinishReason]:
        """Return the finish reason of each choice of a stream."""
        raise NotImplementedError

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the body of a response that is not streamed, given the message of each choice."""
        raise NotImplementedError

    def streamed_response(self) -> dict[str, Any] | None:
        """Return the complete response after the end of a stream, or None if it need not be stored."""
        return None

    def reasoning_tokens(self) -> int:
        """Return the number of reasoning tokens of all choices."""
        count = 0
        for reader in self.readers:
            count += reader.reasoning_tokens
        return count

    def wire_usage(self) -> wire.Usage:
        """Return the token counts in the form that the encoders of ``unspool.wire`` accept."""
        usage = self.usage
        reasoning = min(self.reasoning_tokens(), usage.completion)
        return wire.Usage(usage.prompt, usage.completion, usage.cached, reasoning)

    def exposes_tokens(self) -> bool:
        """Return whether the client asked for log probabilities or token ids and is allowed to see them.

        If the request hides reasoning, the client may not see log probabilities or token ids, because they
        would reveal the reasoning.
        """
        wanted = self.request.logprobs is not None or self.request.token_ids
        return wanted and self.readers[0].plan.include_reasoning

    def _hold_back_finish(self, events: list[Event]) -> list[Event]:
        """Hold back ``Finish`` for ``closing()``, and return the other events."""
        if events and isinstance(events[-1], Finish):
            self._finish = [events[-1]]
            return events[:-1]
        return events
