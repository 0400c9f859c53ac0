"""Encoder that turns events into responses of Ollama's API, with one JSON line per chunk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ....events import Event, FinishReason
from ....message import Message
from ....wire import Chunk, Form, OllamaStream, Usage, WireOptions
from ...generation.planned_choice_reader import Reader
from ...generation.request import GenerationRequest
from ...generation.response_encoder import ResponseEncoder
from ...http.exchange import LINES
from ...http.failure import Failure
from ...http.json_encoding import encode_line, raw_json
from ..error_bodies import ollama_api_error


class OllamaEncoder(ResponseEncoder):
    """Encoder for the response to one ``/api/chat`` or ``/api/generate`` request."""

    headers = LINES

    def __init__(
        self, request: GenerationRequest, model: str, readers: Sequence[Reader], options: WireOptions
    ) -> None:
        super().__init__(request, model, readers, options)
        form: Form = "generate" if request.api == "ollama_generate" else "chat"
        self._stream = OllamaStream(
            readers[0].planned, model=model, options=options, form=form, load_arguments=raw_json
        )
        self._started = time.monotonic_ns()
        self._exposes_tokens = self.exposes_tokens()
        # Ollama clients read every line as a chunk, so a ping is a chunk without output.
        self.ping = _lines([self._stream.keep_alive()])

    def opening(self) -> bytes:
        return b""

    def feed(self, choice: int, events: list[Event]) -> bytes:
        chunks = self._stream.feed(self._hold_back_finish(events))
        self.failed = self._stream.failed
        if self._exposes_tokens and chunks:
            chunks[0]["logprobs"] = self.readers[choice].take_logprobs()
        return _lines(chunks)

    def closing(self) -> bytes:
        return _lines(self._stream.feed(self._finish, usage=self._usage()))

    def failing(self, failure: Failure) -> bytes:
        return _lines([ollama_api_error(failure)])

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        response = self._stream.response(messages[0], usage=self._usage())
        if self._exposes_tokens:
            response["logprobs"] = self.readers[0].take_logprobs()
        return response

    def _usage(self) -> Usage:
        return replace(self.wire_usage(), duration=time.monotonic_ns() - self._started)


def _lines(chunks: Iterable[Chunk]) -> bytes:
    return b"".join([encode_line(chunk) + b"\n" for chunk in chunks])
