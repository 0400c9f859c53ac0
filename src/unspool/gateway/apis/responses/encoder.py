"""Encoder that turns events into responses of the Responses API, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....events import Event, FinishReason
from ....message import Message
from ....wire import ResponsesStream, WireOptions
from ...generation.planned_choice_reader import Reader
from ...generation.request import GenerationRequest
from ...generation.response_encoder import ResponseEncoder
from ...http.failure import Failure
from ..sse import named_events


class ResponsesEncoder(ResponseEncoder):
    """Encoder for the response to one Responses request."""

    def __init__(
        self, request: GenerationRequest, model: str, readers: Sequence[Reader], options: WireOptions
    ) -> None:
        super().__init__(request, model, readers, options)
        self._response: Any = None
        """Complete response, built at the end of a stream."""
        self._stream = ResponsesStream(
            readers[0].planned,
            model=model,
            options=options,
            custom_tools=request.custom_tools,
            namespaces=request.namespaces,
            echo=request.echo,
            seal=request.seal,
        )
        self._exposes_tokens = self.exposes_tokens()

    def opening(self) -> bytes:
        return named_events(self._stream.feed(()))

    def feed(self, choice: int, events: list[Event]) -> bytes:
        if self._exposes_tokens:
            self._stream.logprobs += self.readers[choice].take_content_logprobs()
        data = named_events(self._stream.feed(self._hold_back_finish(events)))
        self.failed = self._stream.failed
        return data

    def closing(self) -> bytes:
        chunks = self._stream.feed(self._finish, usage=self.wire_usage())
        self._response = chunks[-1]["response"]
        return named_events(chunks)

    def streamed_response(self) -> dict[str, Any] | None:
        response: dict[str, Any] | None = self._response
        return response

    def failing(self, failure: Failure) -> bytes:
        self._stream.usage = None
        # Clients know only a few error codes, so report all failures except rate limits as server errors.
        code = "rate_limit_exceeded" if failure.kind == "rate_limit" else "server_error"
        return named_events(self._stream.fail(code, failure.message))

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        if self._exposes_tokens:
            self._stream.logprobs = self.readers[0].take_content_logprobs()
        return self._stream.response(messages[0], usage=self.wire_usage())
