"""Answers: events as each API sends them, streamed and whole.

The encoders of ``unspool.wire`` do the work.  What is added here: server-sent
events as bytes, token counts, log probabilities and ids in exactly one chunk
each, and errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...events import Event, Finish, FinishReason
from ...message import Message
from ...wire import (
    ChatStream,
    Chunk,
    MessagesStream,
    OllamaStream,
    ResponsesStream,
)
from ...wire._chat import error_chunk
from ...wire._messages import error_event
from ...wire._ollama import Form, ollama_error
from ..generation.reader import Reader
from ..http.errors import ANTHROPIC_TYPES, OPENAI_TYPES, Failure
from ..http.exchange import EVENTS, LINES, Headers
from ..http.json_encoding import encoded, raw_json
from ..upstreams.base import Usage
from .chat.request import Api, Job

DONE: Final = b"data: [DONE]\n\n"

_BREAKS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Characters at which some line readers break, as JSON may write them."""


def encode(value: object) -> bytes:
    """JSON on one line, for every kind of line reader."""
    data = encoded(value)
    if not data.isascii():
        for character, escaped in _BREAKS:
            data = data.replace(character, escaped)
    return data


class Answer:
    """An answer that is streamed."""

    headers: Headers = EVENTS
    ping = b": ping\n\n"
    """What clients pass over, and connections live on."""
    end = b""
    """What follows an error."""

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        self.job = job
        self.model = model
        self.readers = readers
        self.usage = Usage()
        """Token counts so far."""
        self._finish: list[Event] = []

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error, because the output is one."""
        raise NotImplementedError

    def opening(self) -> bytes:
        """What comes before anything is known."""
        raise NotImplementedError

    def feed(self, choice: int, events: Iterable[Event]) -> bytes:
        """What these events of a choice come to."""
        raise NotImplementedError

    def closing(self) -> bytes:
        """The end; all choices are over."""
        raise NotImplementedError

    def failing(self, failure: Failure) -> bytes:
        """The end of an answer that cannot go on."""
        raise NotImplementedError

    def finish_reasons(self) -> list[FinishReason]:
        """How each choice ended, as far as it has come."""
        raise NotImplementedError

    def _without_finish(self, events: Iterable[Event]) -> list[Event]:
        """Events; the last of all waits in ``_finish`` for the token counts that go with it."""
        found = list(events)
        if found and isinstance(found[-1], Finish):
            self._finish = [found.pop()]
        return found

    def reasoning_tokens(self) -> int:
        """Of all choices."""
        return sum(reader.reasoning_tokens for reader in self.readers)


class ChatAnswer(Answer):
    """Chat Completions."""

    end = DONE

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        super().__init__(job, model, readers)
        first = ChatStream(readers[0].planned, model=model)
        self._streams = [
            ChatStream(
                reader.planned,
                model=model,
                id=first.id,
                created=first.created,
                index=index,
                include_usage=job.include_usage,
            )
            for index, reader in enumerate(readers)
        ]
        self.prompt_token_ids: Sequence[int] | None = None
        self._tells = reader_tells(job, readers[0])
        head = {"id": first.id, "object": "chat.completion.chunk", "created": first.created, "model": model}
        self._head = b'data: %b,"choices":' % encode(head)[:-1]
        """What all chunks begin with: encoded once, because it is longer than most deltas."""
        self._foot = b',"usage":null}\n\n' if job.include_usage else b"}\n\n"

    @property
    def failed(self) -> bool:
        return any(stream.failed for stream in self._streams)

    def opening(self) -> bytes:
        return self._sse(chunk for stream in self._streams for chunk in stream.encode(()))

    def feed(self, choice: int, events: Iterable[Event]) -> bytes:
        chunks = self._streams[choice].encode(events)
        if self._tells and chunks and "choices" in chunks[0]:
            self._tell(chunks[0], self.readers[choice])
        return self._sse(chunks)

    def finish_reasons(self) -> list[FinishReason]:
        return [stream.finish_reason for stream in self._streams]

    def _tell(self, chunk: Chunk, reader: Reader) -> None:
        inner: Any = chunk["choices"]
        if self.job.logprobs is not None:
            logprobs = reader.take_logprobs()
            if logprobs:
                inner[0]["logprobs"] = {"content": logprobs, "refusal": None}
        if self.job.token_ids:
            ids = reader.take_token_ids()
            if ids:
                inner[0]["token_ids"] = ids
            if self.prompt_token_ids is not None:
                chunk["prompt_token_ids"] = list(self.prompt_token_ids)
                self.prompt_token_ids = None

    def closing(self) -> bytes:
        chunks = self._streams[0].usage_chunk(chat_usage(self.usage, self.reasoning_tokens()))
        return b"".join([*(_data(chunk) for chunk in chunks), DONE])

    def failing(self, failure: Failure) -> bytes:
        return _data(error_object("chat", failure)) + self.end

    def _sse(self, chunks: Iterable[Chunk]) -> bytes:
        if self.job.continuous_usage:
            usage = chat_usage(self.usage, self.reasoning_tokens())
            return b"".join([_data({**chunk, "usage": usage}) for chunk in chunks])
        if self._tells:
            return b"".join([_data(chunk) for chunk in chunks])
        return b"".join([self._choices(chunk) for chunk in chunks])

    def _choices(self, chunk: Chunk) -> bytes:
        if "choices" not in chunk:
            return _data(chunk)
        return b"%b%b%b" % (self._head, encode(chunk["choices"]), self._foot)


class ResponsesAnswer(Answer):
    """Responses."""

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        super().__init__(job, model, readers)
        self.response: Any = None
        """The whole response, when it is over."""
        self._stream = responses_stream(job, model, readers[0])
        self._tells = reader_tells(job, readers[0])

    @property
    def failed(self) -> bool:
        return self._stream.failed

    def opening(self) -> bytes:
        return self._sse(self._stream.encode(()))

    def feed(self, choice: int, events: Iterable[Event]) -> bytes:
        found = self._without_finish(events)
        if self._tells:
            self._stream.logprobs += self.readers[choice].take_content_logprobs()
        return self._sse(self._stream.encode(found))

    def closing(self) -> bytes:
        self._stream.usage = responses_usage(self.usage, self.reasoning_tokens())
        chunks = self._stream.encode(self._finish)
        self.response = chunks[-1]["response"]
        return self._sse(chunks)

    def failing(self, failure: Failure) -> bytes:
        self._stream.usage = None
        return self._sse(self._stream.fail(responses_code(failure), failure.message))

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def _sse(self, chunks: Iterable[Chunk]) -> bytes:
        return b"".join([_event(chunk) for chunk in chunks])


class MessagesAnswer(Answer):
    """Messages."""

    ping = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        super().__init__(job, model, readers)
        self._stream = MessagesStream(readers[0].planned, model=model)
        self._fold = None if job.thread is None else readers[0].planned.fold()

    @property
    def failed(self) -> bool:
        return self._stream.failed

    def opening(self) -> bytes:
        return self._sse(self._stream.encode(()))

    def feed(self, choice: int, events: Iterable[Event]) -> bytes:  # noqa: ARG002 - there is one
        found = list(events)
        if self._fold is not None:
            self._fold.push(found)
        return self._sse(self._stream.encode(self._without_finish(found)))

    def whole(self) -> Chunk | None:
        """The message, if a thread is to keep it."""
        if self._fold is None:
            return None
        stream = MessagesStream(
            self.readers[0].planned, model=self.model, id=self._stream.id, load_arguments=raw_json
        )
        return stream.response(self._fold.message())

    def closing(self) -> bytes:
        stream = self._stream
        stream.input_tokens = self.usage.prompt
        stream.output_tokens = self.usage.completion
        stream.stop_sequence = self.readers[0].stopped_by
        return self._sse(stream.encode(self._finish))

    def failing(self, failure: Failure) -> bytes:
        return b"event: error\n" + _data(error_object("messages", failure))

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def _sse(self, chunks: Iterable[Chunk]) -> bytes:
        return b"".join([_event(chunk) for chunk in chunks])


class OllamaAnswer(Answer):
    """Ollama's two APIs: a line for each chunk."""

    headers = LINES

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        super().__init__(job, model, readers)
        self._stream = ollama_stream(job, model, readers[0])
        self._began = time.monotonic_ns()
        self._tells = reader_tells(job, readers[0])
        # Its clients read every line as a chunk.
        self.ping = self._lines([self._stream.keep_alive()])

    @property
    def failed(self) -> bool:
        return self._stream.failed

    def opening(self) -> bytes:
        return b""

    def feed(self, choice: int, events: Iterable[Event]) -> bytes:
        chunks = self._stream.encode(self._without_finish(events))
        if self._tells and chunks:
            chunks[0]["logprobs"] = self.readers[choice].take_logprobs()
        return self._lines(chunks)

    def closing(self) -> bytes:
        self._stream.counts = ollama_counts(self.usage, self._began)
        return self._lines(self._stream.encode(self._finish))

    def failing(self, failure: Failure) -> bytes:
        return self._lines([error_object("ollama", failure)])

    def finish_reasons(self) -> list[FinishReason]:
        return [self._stream.finish_reason]

    def _lines(self, chunks: Iterable[Chunk]) -> bytes:
        return b"".join([encode(chunk) + b"\n" for chunk in chunks])


ANSWERS: Final[dict[Api, type[Answer]]] = {
    "chat": ChatAnswer,
    "responses": ResponsesAnswer,
    "messages": MessagesAnswer,
    "ollama": OllamaAnswer,
    "ollama_generate": OllamaAnswer,
}


JSON_ERROR_APIS: Final[dict[str, Api]] = {
    "chat": "chat",
    "responses": "responses",
    "messages": "messages",
    "count_tokens": "messages",
    "ollama": "ollama",
    "ollama_generate": "ollama_generate",
}
"""APIs by the names of their endpoints."""


class Whole:
    """An answer that is sent when it is complete."""

    def __init__(self, job: Job, model: str, readers: Sequence[Reader]) -> None:
        self.job = job
        self.model = model
        self.readers = readers
        self.usage = Usage()
        self.prompt_token_ids: Sequence[int] | None = None
        self._began = time.monotonic_ns()
        self._folds = [reader.planned.fold() for reader in readers]

    def feed(self, choice: int, events: Iterable[Event]) -> None:
        """Take further events of a choice."""
        self._folds[choice].push(events)

    def finish_reasons(self) -> list[FinishReason]:
        """How each choice ended, as far as it has come."""
        return [fold.finish_reason for fold in self._folds]

    def body(self) -> Chunk:
        """The response; all choices are over."""
        messages = [fold.message() for fold in self._folds]
        thoughts = sum(reader.reasoning_tokens for reader in self.readers)
        if self.job.api == "chat":
            return self._chat(messages, thoughts)
        reader, message = self.readers[0], messages[0]
        if self.job.api == "responses":
            stream = responses_stream(self.job, self.model, reader)
            stream.usage = responses_usage(self.usage, thoughts)
            if reader_tells(self.job, reader):
                stream.logprobs = reader.take_content_logprobs()
            return stream.response(message)
        if self.job.api in ("ollama", "ollama_generate"):
            lines = ollama_stream(self.job, self.model, reader)
            lines.counts = ollama_counts(self.usage, self._began)
            answer = lines.response(message)
            if reader_tells(self.job, reader):
                answer["logprobs"] = reader.take_logprobs()
            return answer
        whole = MessagesStream(
            reader.planned, model=self.model, input_tokens=self.usage.prompt, load_arguments=raw_json
        )
        whole.output_tokens = self.usage.completion
        whole.stop_sequence = reader.stopped_by
        return whole.response(message)

    def _chat(self, messages: Sequence[Message], thoughts: int) -> Chunk:
        usage = chat_usage(self.usage, thoughts)
        out = ChatStream(self.readers[0].planned, model=self.model).response(*messages, usage=usage)
        choices: Any = out["choices"]
        for choice, reader in zip(choices, self.readers, strict=True):
            if not reader_tells(self.job, reader):
                continue
            if self.job.logprobs is not None:
                choice["logprobs"] = {"content": reader.take_logprobs(), "refusal": None}
            if self.job.token_ids:
                choice["token_ids"] = reader.take_token_ids()
        if self.job.token_ids and self.prompt_token_ids is not None:
            out["prompt_token_ids"] = list(self.prompt_token_ids)
        return out


def reader_tells(job: Job, reader: Reader) -> bool:
    """Whether the client may see tokens: not if they would show it the reasoning that is hidden."""
    return (job.logprobs is not None or job.token_ids) and reader.plan.include_reasoning


def responses_stream(job: Job, model: str, reader: Reader) -> ResponsesStream:
    """The encoder of a response."""
    return ResponsesStream(
        reader.planned,
        model=model,
        custom_tools=job.custom_tools,
        namespaces=job.namespaces,
        echo=job.echo,
        seal=job.seal,
    )


def ollama_stream(job: Job, model: str, reader: Reader) -> OllamaStream:
    """The encoder of one of Ollama's APIs."""
    form: Form = "generate" if job.api == "ollama_generate" else "chat"
    return OllamaStream(reader.planned, model=model, form=form, load_arguments=raw_json)


# -- token counts


def ollama_counts(usage: Usage, began: int) -> dict[str, int]:
    """As Ollama has them: counts, and nanoseconds; the upstream does not tell which part took how long."""
    elapsed = time.monotonic_ns() - began
    return {
        "total_duration": elapsed,
        "load_duration": 0,
        "prompt_eval_count": usage.prompt,
        "prompt_eval_duration": 0,
        "eval_count": usage.completion,
        "eval_duration": elapsed,
    }


def chat_usage(usage: Usage, thoughts: int) -> dict[str, Any]:
    """As Chat Completions have them."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": min(thoughts, usage.completion)},
    }


def responses_usage(usage: Usage, thoughts: int) -> dict[str, Any]:
    """As Responses have them."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": min(thoughts, usage.completion)},
        "total_tokens": usage.prompt + usage.completion,
    }


# -- errors


def responses_code(failure: Failure) -> str:
    """Clients know a few codes of failed responses; others are the server's."""
    return {"rate_limit": "rate_limit_exceeded"}.get(failure.kind, "server_error")


def error_object(api: Api, failure: Failure, request_id: str | None = None) -> Chunk:
    """An error as the API spells it."""
    if api in ("ollama", "ollama_generate"):
        return ollama_error(failure.message)
    if api == "messages":
        out = error_event(failure.message, kind=ANTHROPIC_TYPES[failure.kind], details=failure.details)
        return out if request_id is None else {**out, "request_id": request_id}
    return error_chunk(
        failure.message, kind=OPENAI_TYPES[failure.kind], param=failure.param, code=failure.code
    )


def _data(chunk: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % encode(chunk)


def _event(chunk: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(chunk["type"]).encode(), encode(chunk))
