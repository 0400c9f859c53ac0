"""Encoder that turns events into Messages responses, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....events import Event, FinishReason
from ....message import Message
from ....wire import MessagesStream, WireOptions
from ...generation.planned_choice_reader import Reader
from ...generation.request import GenerationRequest
from ...generation.response_encoder import ResponseEncoder
from ...http.failure import Failure
from ...http.json_encoding import encode_line, raw_json
from ..error_bodies import anthropic_error
from ..sse import named_events


class MessagesEncoder(ResponseEncoder):
    """Encoder for the response to one Messages request."""

    def __init__(
        self, request: GenerationRequest, model: str, readers: Sequence[Reader], options: WireOptions
    ) -> None:
        super().__init__(request, model, readers, options)
        self._stream = MessagesStream(readers[0].planned, model=model, options=options)
        self.ping = named_events([self._stream.keep_alive()])
        # If the request belongs to a thread, the reply is stored, so the encoder also builds the complete
        # message.
        self._builder = None if request.thread is None or not request.stream else readers[0].planned.fold()

    def opening(self) -> bytes:
        return named_events(self._stream.feed(()))

    def feed(self, choice: int, events: list[Event]) -> bytes:  # noqa: ARG002 - there is one
        if self._builder is not None:
            self._builder.feed(events)
        data = named_events(self._stream.feed(self._hold_back_finish(events)))
        self.failed = self._stream.failed
        return data

    def closing(self) -> bytes:
        stream = self._stream
        stream.stop_sequence = self.readers[0].stopped_by
        return named_events(stream.feed(self._finish, usage=self.wire_usage()))

    def streamed_response(self) -> dict[str, Any] | None:
        if self._builder is None:
            return None
        planned = self.readers[0].planned
        stream = MessagesStream(
            planned, model=self.model, options=self.options, id=self._stream.id, load_arguments=raw_json
        )
        return stream.response(self._builder.message, usage=self.wire_usage())

    def failing(self, failure: Failure) -> bytes:
        return b"event: error\ndata: %b\n\n" % encode_line(anthropic_error(failure))

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        reader = self.readers[0]
        stream = MessagesStream(
            reader.planned,
            model=self.model,
            options=self.options,
            load_arguments=raw_json,
        )
        stream.stop_sequence = reader.stopped_by
        return stream.response(messages[0], usage=self.wire_usage())
