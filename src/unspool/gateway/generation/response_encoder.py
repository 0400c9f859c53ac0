"""Base class of the encoders that turn events into an API's response, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...events import Event, Finish, FinishReason
from ...message import Message
from ..http.exchange import EVENTS, Headers
from ..http.failure import Failure
from ..upstreams.base import Usage
from .choice_reader import Reader
from .request import GenerationRequest


class ResponseEncoder:
    """Encoder of one response.

    For a stream: ``opening()``, ``feed()`` for the events of each batch, then ``closing()``; ``failing()``
    ends it early.  Without streaming: ``response()``, once.  The caller sets ``usage`` and
    ``prompt_token_ids`` before the call that encodes them.
    """

    headers: Headers = EVENTS
    """Headers of a stream."""
    ping = b": ping\n\n"
    """Bytes that clients ignore, sent to keep an idle connection open."""
    end = b""
    """Bytes that follow an error inside a stream."""

    def __init__(self, request: GenerationRequest, model: str, readers: Sequence[Reader]) -> None:
        self.request = request
        self.model = model
        self.readers = readers
        """One reader per choice."""
        self.usage = Usage()
        """Token counts so far."""
        self.prompt_token_ids: Sequence[int] | None = None
        """Token ids of the prompt, if the client asked for ids and the upstream sent them."""
        self.failed = False
        """True if the last ``feed()`` encoded an error, because the policies reject the output."""
        self._finish: list[Event] = []
        """Last event of the output, which waits for the token counts of its chunk."""

    def opening(self) -> bytes:
        """Start a stream; return the chunks in front of the output."""
        raise NotImplementedError

    def feed(self, choice: int, events: list[Event]) -> bytes:
        """Encode further events of a choice."""
        raise NotImplementedError

    def closing(self) -> bytes:
        """Encode the end of a stream whose choices have all finished."""
        raise NotImplementedError

    def failing(self, failure: Failure) -> bytes:
        """Encode the end of a stream that cannot continue."""
        raise NotImplementedError

    def finish_reasons(self) -> list[FinishReason]:
        """Return the finish reason of each choice of a stream."""
        raise NotImplementedError

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the response without streaming, with one message per choice."""
        raise NotImplementedError

    def streamed_response(self) -> dict[str, Any] | None:
        """Return the response of a closed stream for the store, or None if it need not be stored."""
        return None

    def reasoning_tokens(self) -> int:
        """Return the number of reasoning tokens of all choices."""
        count = 0
        for reader in self.readers:
            count += reader.reasoning_tokens
        return count

    def exposes_tokens(self) -> bool:
        """Return whether the client asked for token data and may see it.

        Token data would reveal reasoning that is hidden from the client.
        """
        wanted = self.request.logprobs is not None or self.request.token_ids
        return wanted and self.readers[0].plan.include_reasoning

    def _hold_back_finish(self, events: list[Event]) -> list[Event]:
        """Return the events without ``Finish``, which waits for ``closing()``."""
        if events and isinstance(events[-1], Finish):
            self._finish = [events[-1]]
            return events[:-1]
        return events
