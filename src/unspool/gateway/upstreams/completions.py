"""Upstream for ``/v1/completions``, where the gateway renders the prompt and the engine continues it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec

from ...events import FinishReason
from ...wire import FINISH_REASONS, Delta, SurrogateJoiner
from ..http.failure import Failure
from ..http.json_decoding import decoder_of
from ..telemetry.logs import log_once
from .base import Batch, Stream, UpstreamRequest, Usage
from .engines import ENGINES, OWNERS, Engine
from .failures import error_object_failure, message_of, redact
from .http_client import Connection, Events, ForwardedResponse
from .logprobs import Logprobs, convert_logprobs
from .parallel_choices import ParallelStreams

_CLOSE_TIMEOUT: Final = 5.0
"""Seconds to wait for the end of a stream after its last choice has finished."""
_MAX_CONTAINERS: Final = 1 << 18
"""Maximum number of arrays and objects per event, because decoding them blocks the event loop."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
"""Token count or token id.  The maximum is far above real values, and is exact as a double."""


class _PromptDetails(msgspec.Struct):
    cached_tokens: Count | None = None


class UsageChunk(msgspec.Struct):
    """Token counts as engines send them."""

    prompt_tokens: Count | None = 0
    completion_tokens: Count | None = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Choice(msgspec.Struct):
    text: str | None = ""
    index: int = 0
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None
    logprobs: Logprobs | None = None
    token_ids: list[Count] | None = None
    prompt_token_ids: list[Count] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: UsageChunk | None = None
    error: Any = None
    object: str = ""
    message: str = ""


class CompletionsUpstream:
    """Upstream for an engine with an OpenAI-compatible completions endpoint."""

    renders = False

    def __init__(
        self,
        connection: Connection,
        *,
        engine: Engine | None = None,
        model: str = "",
        bos_token: str = "",
        default_tokens: int = 4096,
    ) -> None:
        """Create an upstream; call :meth:`start` to connect it.

        :param engine: kind of engine; None to detect it.
        :param model: model name on the upstream; empty to use the first model that the upstream lists.
        :param bos_token: beginning-of-sequence token that the chat template writes.
        :param default_tokens: token limit for requests that set no limit, if the engine needs one.
        """
        self.connection = connection
        self.engine = engine or ENGINES["openai"]
        self.model = model
        """Model name on the upstream."""
        self.bos_token = bos_token
        """Beginning-of-sequence token that the chat template writes."""
        self._adds_bos: bool | None = None
        self._detect = engine is None
        self._default_tokens = default_tokens

    @property
    def constraints(self) -> Sequence[str]:
        """Output constraints that the engine supports."""
        return self.engine.constraints

    async def start(self) -> None:
        """Connect, and detect the engine and the model if they are not configured."""
        await self.connection.start()
        if self._detect or not self.model:
            await self.identify()

    async def identify(self) -> None:
        """Detect the kind of engine and the name of its model, unless they are known."""
        listed = await self.connection.get("/v1/models")
        entries = listed.get("data") if isinstance(listed, Mapping) else None
        first = entries[0] if isinstance(entries, list) and entries else {}
        if not isinstance(first, Mapping):
            first = {}
        name = first.get("id")
        if not self.model and isinstance(name, str):
            self.model = name
        if not self._detect:
            return
        owner = OWNERS.get(str(first.get("owned_by", "")).lower())
        if owner is None:
            info = await self.connection.get("/info")
            owner = "tgi" if isinstance(info, Mapping) and "max_input_tokens" in info else None
        if owner is not None:
            self.engine = ENGINES[owner]
        # If the server did not answer, the next request repeats the detection.
        self._detect = owner is None and not first

    async def tokenizer_config(self) -> Mapping[str, Any] | None:
        """Return the tokenizer configuration with the chat template; None if the engine does not serve it."""
        # vLLM serves its configuration only with --enable-tokenizer-info-endpoint.
        paths = {"llamacpp": "/props", "vllm": "/tokenizer_info"}
        path = paths.get(self.engine.name)
        config = None if path is None else await self.connection.get(path)
        return config if isinstance(config, Mapping) else None

    async def stop(self) -> None:
        """Close all connections."""
        await self.connection.stop()

    async def ready(self) -> bool:
        """Return whether the engine answers."""
        if self._detect or not self.model:
            await self.identify()
        return await self.connection.reachable()

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return the token ids of ``text``, or None if the engine has no tokenizer endpoint."""
        if self.engine.name not in ("vllm", "llamacpp"):
            return None
        body = {
            "model": self.model,
            "prompt": text,
            "content": text,  # llama.cpp's name for the prompt
            "add_special_tokens": special,
            "add_special": special,
            "parse_special": True,
        }
        reply = await self.connection.post_json("/tokenize", body)
        tokens = reply.get("tokens") if isinstance(reply, Mapping) else None
        return tokens if isinstance(tokens, list) else None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text for token ids, or None if the engine has no tokenizer endpoint."""
        if self.engine.name not in ("vllm", "llamacpp"):
            return None
        body = {"model": self.model, "tokens": list(tokens)}
        reply = await self.connection.post_json("/detokenize", body)
        text = reply.get("prompt", reply.get("content")) if isinstance(reply, Mapping) else None
        return text if isinstance(text, str) else None

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Forward a request to another endpoint of the engine."""
        if self._detect or not self.model:
            await self.identify()
        body = {**body, "model": self.model} if self.model else body
        return await self.connection.forward(path, body, headers)

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start generation."""
        if self._detect or not self.model:
            await self.identify()
        self.engine.check_supported(request)
        if request.n > 1 and not self.engine.supports_n:
            # Build the constraint once for all choices.
            await request.run_if_large(
                builds_constraint(request), partial(self.engine.constraint_fields, request)
            )
            return await ParallelStreams.open(
                request.n, lambda index: self._open_one(single_choice(request, index))
            )
        return await self._open_one(request)

    async def _build_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        """Return the fields of the request body, with the names that the engine uses."""
        work = partial(self.engine.completion_fields, request, self._default_tokens)
        return await request.run_if_large(builds_constraint(request), work)

    async def _open_one(self, request: UpstreamRequest) -> Stream:
        body = {
            **await self._build_fields(request),
            "prompt": await self._without_bos(request.prompt or ""),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.model:
            body["model"] = self.model
        if request.on_body is not None:
            request.on_body(body)
        events = await self.connection.post("/v1/completions", body, request.headers)
        return CompletionStream(events, request, finish_optional=self.engine.finish_optional)

    async def _without_bos(self, prompt: str) -> str:
        """Return the prompt without its beginning-of-sequence token if the engine adds the token itself."""
        if not self.engine.adds_bos or not self.bos_token or not prompt.startswith(self.bos_token):
            return prompt
        if self._adds_bos is None:
            # Whether llama.cpp adds the token depends on the model, so tokenize an empty string to find out.
            # All other engines with adds_bos always add the token.
            reply = None
            if self.engine.name == "llamacpp":
                reply = await self.connection.post_json("/tokenize", {"content": "", "add_special": True})
            self._adds_bos = not isinstance(reply, Mapping) or bool(reply.get("tokens"))
        return prompt.removeprefix(self.bos_token) if self._adds_bos else prompt


def builds_constraint(request: UpstreamRequest) -> bool:
    """Return whether the upstream request needs a grammar or a schema, which may take long to build."""
    return request.plan.constraint.kind != "none" or request.schema is not None


def single_choice(request: UpstreamRequest, index: int) -> UpstreamRequest:
    """Return the request for one of n choices."""
    # With the same seed, all choices would have the same text.
    seed = request.sampling.get("seed")
    sampling = {**request.sampling, "seed": seed + index} if isinstance(seed, int) else request.sampling
    # Some engines reject a request whose id is the id of a running request.
    headers = {
        name: f"{value}-{index}" if name == "X-Request-Id" else value
        for name, value in request.headers.items()
    }
    return replace(request, n=1, sampling=sampling, headers=headers)


def short_name(model: str) -> str:
    """Return a model's name without directory, suffix and quantisation.

    >>> short_name("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    'SmolLM2-135M-Instruct'
    """
    if not model.endswith(".gguf"):
        return model
    stem = PurePath(model).stem
    head, _, quantisation = stem.rpartition(".")
    return head if head and quantisation[:1] in "QFIB" else stem


class CompletionStream:
    """Stream of the chunks of one completion."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def __init__(self, events: Events, request: UpstreamRequest, *, finish_optional: bool) -> None:
        """Create a stream.

        :param finish_optional: True if the upstream may end the stream without a finish reason.
        """
        self._events = events
        self._open = set(range(request.n))
        """Indices of the choices that have not finished."""
        self._top = request.logprobs
        self._finish_optional = finish_optional
        self._limit = request.max_tokens if request.n == 1 else None
        self._completed = 0
        """Number of completion tokens so far, if the upstream reports it."""
        self._surrogates = SurrogateJoiner()
        self._failure: Failure | None = None
        """Failure that followed deltas in the same network read; the next call to :meth:`next` raises it."""

    async def next(self) -> Batch | None:
        """Return the next batch, or None at the end."""
        if self._failure is not None:
            raise self._failure
        payloads = await (self._events.read() if self._open else self._read_after_end())
        if payloads is None:
            if self._open and self._finish_optional and self._events.end_marked:
                return self._finish_open_choices()
            if self._open:
                raise Failure(
                    "upstream",
                    "the upstream closed the stream before the output was complete",
                    code="upstream_lost",
                )
            return None
        batch = Batch([])
        try:
            for payload in payloads:
                chunk = decode_chunk(payload, self.decoder, self._surrogates)
                if chunk.error is not None or chunk.object == "error":
                    error = chunk.error if chunk.error is not None else {"message": chunk.message}
                    raise error_object_failure({"error": error})
                self.read_chunk(chunk, batch)
        except Failure as failure:
            if not batch.deltas and batch.usage is None:
                raise
            # First return the deltas that came before the failure; the next call raises the failure.
            self._failure = failure
        if batch.deltas:
            self._events.idle_timer.reset()
        elif self._open:
            self._events.idle_timer.check()
        if batch.usage is not None:
            self._completed = batch.usage.completion
        return batch

    async def _read_after_end(self) -> list[bytes] | None:
        """Return events that follow the end of the last choice; wait only a few seconds for them."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                return await self._events.read()
        except (TimeoutError, Failure) as error:
            log_once("upstream_stream_not_closed", type(error).__name__)
            return None

    def _finish_open_choices(self) -> Batch:
        """Return a batch that finishes all open choices after a stream without finish reasons."""
        log_once("upstream_finish_reason_missing", "streams without a finish reason are treated as complete")
        cut_off = self._limit is not None and self._completed >= self._limit
        reason: FinishReason = "length" if cut_off else "stop"
        choices, self._open = sorted(self._open), set()
        return Batch([Delta(choice, "", finish=reason) for choice in choices])

    def read_chunk(self, chunk: Any, batch: Batch) -> None:
        """Add the deltas of a chunk to a batch."""
        for choice in chunk.choices or ():
            if choice.index not in self._open:
                if choice.text or choice.finish_reason:
                    raise choice_failure(choice.index)
                continue
            if choice.finish_reason is None and choice.logprobs is None and choice.token_ids is None:
                batch.deltas.append(Delta(choice.index, choice.text or ""))
                continue
            reason = read_finish_reason(choice.finish_reason)
            stopped = choice.stop_reason if choice.stop_reason is not None else choice.matched_stop
            if reason is not None:
                self._open.discard(choice.index)
            if choice.prompt_token_ids is not None:
                batch.prompt_token_ids = choice.prompt_token_ids
            batch.deltas.append(
                Delta(
                    choice.index,
                    choice.text or "",
                    finish=reason,
                    stopped_by=stopped if isinstance(stopped, str) else None,
                    logprobs=convert_logprobs(choice.logprobs, self._top),
                    token_ids=choice.token_ids,
                )
            )
        if chunk.usage is not None:
            batch.usage = read_usage(chunk.usage)

    async def close(self) -> None:
        """Stop generation."""
        await self._events.close()


def choice_failure(index: int) -> Failure:
    """Return the failure for output that belongs to a finished or unknown choice."""
    message = f"the upstream sent output for choice {index}, which has finished or does not exist"
    return Failure("upstream", message, code="upstream_protocol")


def read_usage(usage: UsageChunk) -> Usage:
    """Return the token counts of a chunk."""
    details = usage.prompt_tokens_details or _PromptDetails()
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, details.cached_tokens or 0)


def decode_chunk(payload: bytes, decoder: msgspec.json.Decoder[Any], surrogates: SurrogateJoiner) -> Any:
    """Decode a chunk; raise a failure for error objects and invalid data."""
    if len(payload) > _MAX_CONTAINERS and payload.count(b"[") + payload.count(b"{") > _MAX_CONTAINERS:
        raise Failure("upstream", "the upstream sent an event with too many values", code="upstream_protocol")
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # msgspec rejects lone surrogates, which some servers send, so try again with the json module.
        try:
            value = json.loads(payload, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            value = None
        if message_of(value):
            raise error_object_failure(value) from None
        with suppress(msgspec.ValidationError, RecursionError):
            if value is not None:
                return msgspec.convert(surrogates.join(value), decoder.type)
        problem = "bytes that are not UTF-8" if not _is_utf8(payload) else "an event that is not a chunk"
        raise Failure("upstream", f"the upstream sent {problem}", code="upstream_protocol") from error


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reject_constant(text: str) -> None:
    raise ValueError(text)


def read_finish_reason(reason: str | None) -> FinishReason | None:
    """Convert an engine's finish reason to the standard one; return None if ``reason`` is empty."""
    if reason is None or reason == "":
        return None
    finish_reason = FINISH_REASONS.get(reason)
    if finish_reason is None:
        message = f"the upstream aborted: {redact(reason)}"
        raise Failure("upstream", message, code="upstream_error")
    return finish_reason
