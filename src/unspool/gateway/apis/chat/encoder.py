"""Encoder that turns events into Chat Completions responses, streamed or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....events import Event, FinishReason
from ....message import Message
from ....wire import ChatStream, Chunk, WireOptions
from ...generation.planned_choice_reader import Reader
from ...generation.request import GenerationRequest
from ...generation.response_encoder import ResponseEncoder
from ...http.failure import Failure
from ...http.json_encoding import encode_line
from ..error_bodies import openai_error
from ..sse import DONE, data_event


class ChatEncoder(ResponseEncoder):
    """Encoder for the response to one Chat Completions request."""

    end = DONE

    def __init__(
        self, request: GenerationRequest, model: str, readers: Sequence[Reader], options: WireOptions
    ) -> None:
        super().__init__(request, model, readers, options)
        self._streams: list[ChatStream] = []
        """One encoder per choice, which creates the chunks of that choice."""
        self._exposes_tokens = self.exposes_tokens()
        self._head = b""
        """Encoded start of every chunk: the JSON fields before ``choices``.

        These fields are the same in all chunks and longer than most deltas, so they are encoded only once.
        """
        self._tail = b',"usage":null}\n\n' if request.include_usage else b"}\n\n"

    def opening(self) -> bytes:
        request, model = self.request, self.model
        first = ChatStream(
            self.readers[0].planned, model=model, options=self.options, include_usage=request.include_usage
        )
        self._streams = [first]
        for index in range(1, len(self.readers)):
            self._streams.append(
                ChatStream(
                    self.readers[index].planned,
                    model=model,
                    options=self.options,
                    id=first.id,
                    created=first.created,
                    index=index,
                    include_usage=request.include_usage,
                )
            )
        head = {"id": first.id, "object": "chat.completion.chunk", "created": first.created, "model": model}
        self._head = b'data: %b,"choices":' % encode_line(head)[:-1]
        chunks: list[Chunk] = []
        for stream in self._streams:
            chunks += stream.feed(())
        return self._sse(chunks)

    def feed(self, choice: int, events: list[Event]) -> bytes:
        stream = self._streams[choice]
        chunks = stream.feed(events)
        if stream.failed:
            self.failed = True
        if self._exposes_tokens and chunks and "choices" in chunks[0]:
            self._add_tokens(chunks[0], self.readers[choice])
        return self._sse(chunks)

    def finish_reasons(self) -> list[FinishReason]:
        return [stream.finish_reason for stream in self._streams]

    def closing(self) -> bytes:
        chunks = self._streams[0].feed((), usage=self.wire_usage())
        return b"".join([*map(data_event, chunks), DONE])

    def failing(self, failure: Failure) -> bytes:
        return data_event(openai_error(failure)) + self.end

    def response(self, messages: Sequence[Message]) -> dict[str, Any]:
        usage = self.wire_usage()
        out = ChatStream(self.readers[0].planned, model=self.model, options=self.options).response(
            *messages, usage=usage
        )
        choices: Any = out["choices"]
        if self._exposes_tokens:
            for choice, reader in zip(choices, self.readers, strict=True):
                if self.request.logprobs is not None:
                    choice["logprobs"] = {"content": reader.take_logprobs(), "refusal": None}
                if self.request.token_ids:
                    choice["token_ids"] = reader.take_token_ids()
        if self.request.token_ids and self.prompt_token_ids is not None:
            out["prompt_token_ids"] = list(self.prompt_token_ids)
        return out

    def _add_tokens(self, chunk: Chunk, reader: Reader) -> None:
        """Add to a chunk the log probabilities and token ids that have not been sent yet."""
        choices: Any = chunk["choices"]
        if self.request.logprobs is not None:
            logprobs = reader.take_logprobs()
            if logprobs:
                choices[0]["logprobs"] = {"content": logprobs, "refusal": None}
        if self.request.token_ids:
            ids = reader.take_token_ids()
            if ids:
                choices[0]["token_ids"] = ids
            if self.prompt_token_ids is not None:
                chunk["prompt_token_ids"] = list(self.prompt_token_ids)
                self.prompt_token_ids = None

    def _sse(self, chunks: Iterable[Chunk]) -> bytes:
        if self.request.continuous_usage:
            usage = self.wire_usage().to_chat()
            return b"".join([data_event({**chunk, "usage": usage}) for chunk in chunks])
        out = []
        for chunk in chunks:
            if self._exposes_tokens or "choices" not in chunk:
                out.append(data_event(chunk))
            else:
                out.append(b"%b%b%b" % (self._head, encode_line(chunk["choices"]), self._tail))
        return b"".join(out)
