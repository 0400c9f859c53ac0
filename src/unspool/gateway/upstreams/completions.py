"""``/v1/completions``: we render the prompt, the engine continues it."""

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
from ..http.errors import Failure
from ..http.json_decoding import decoder_of
from ..telemetry.logs import log_once
from .base import Batch, Delta, Stream, UpstreamRequest, Usage
from .engines import ENGINES, OWNERS, Engine
from .errors import failed, message_of, without_places
from .fan_out import ManyStreams
from .http import Connection, Events, Passed
from .logprobs import Logprobs, logprobs_of

_AFTER: Final = 5.0
"""Seconds that a stream may take to end when its output is over."""
_MOST_CONTAINERS: Final = 1 << 18
"""Of one event; the loop stands still while it is decoded."""
_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
"""A number of tokens, or of one: more than any model has, and less than a double holds."""


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
    """An engine with an OpenAI-compatible completions endpoint."""

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
        """Prepare to use an engine.

        :param engine: None: it is asked who it is.
        """
        self.connection = connection
        self.engine = engine or ENGINES["openai"]
        self.model = model
        """Its name of the model."""
        self.bos_token = bos_token
        """What the template begins a prompt with."""
        self._adds_bos: bool | None = None
        self._detect = engine is None
        self._default_tokens = default_tokens

    @property
    def constraints(self) -> Sequence[str]:
        """What it can hold a model to."""
        return self.engine.constraints

    async def start(self) -> None:
        """Connect, and find out what is not known."""
        await self.connection.start()
        if self._detect or not self.model:
            await self.look()

    async def look(self) -> None:
        """Ask the engine who it is and what it serves."""
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
        # One that did not answer may be asked again.
        self._detect = owner is None and not first

    async def tokenizer_config(self) -> Mapping[str, Any] | None:
        """What the engine tells of its model's template, if it tells."""
        paths = {"llamacpp": "/props", "vllm": "/tokenizer_info"}  # vLLM tells if it was allowed to
        path = paths.get(self.engine.name)
        told = None if path is None else await self.connection.get(path)
        return told if isinstance(told, Mapping) else None

    async def stop(self) -> None:
        """Disconnect."""
        await self.connection.stop()

    async def ready(self) -> bool:
        """Whether the engine answers."""
        if self._detect or not self.model:
            await self.look()
        return await self.connection.reachable()

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """The tokens that the engine finds in a text, if it can be asked."""
        if self.engine.name not in ("vllm", "llamacpp"):
            return None
        body = {
            "model": self.model,
            "prompt": text,
            "content": text,  # what llama.cpp calls it
            "add_special_tokens": special,
            "add_special": special,
            "parse_special": True,
        }
        told = await self.connection.ask("/tokenize", body)
        found = told.get("tokens") if isinstance(told, Mapping) else None
        return found if isinstance(found, list) else None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """The text of tokens, if the engine can be asked."""
        if self.engine.name not in ("vllm", "llamacpp"):
            return None
        told = await self.connection.ask("/detokenize", {"model": self.model, "tokens": list(tokens)})
        found = told.get("prompt", told.get("content")) if isinstance(told, Mapping) else None
        return found if isinstance(found, str) else None

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Hand a request on to another of its endpoints."""
        if self._detect or not self.model:
            await self.look()
        return await self.connection.forward(path, {**body, "model": self.model} if self.model else body)

    async def open(self, task: UpstreamRequest) -> Stream:
        """Begin to generate."""
        if self._detect or not self.model:
            await self.look()
        self.engine.check(task)
        if task.n > 1 and not self.engine.many:
            await task.run_if_large(takes_grammar(task), partial(self.engine.held, task))  # once for all
            return await ManyStreams.open(task.n, lambda number: self._one(one_of(task, number)))
        return await self._one(task)

    async def _parameters(self, task: UpstreamRequest) -> dict[str, Any]:
        """Return the body for the engine, without the prompt."""
        make = partial(self.engine.completion, task, self._default_tokens)
        return await task.run_if_large(takes_grammar(task), make)

    async def _one(self, task: UpstreamRequest) -> Stream:
        body = {
            **await self._parameters(task),
            "prompt": await self._without_bos(task.prompt or ""),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.model:
            body["model"] = self.model
        if task.tell is not None:
            task.tell(body)
        events = await self.connection.post("/v1/completions", body)
        return CompletionStream(events, task, plain_end=self.engine.plain_end)

    async def _without_bos(self, prompt: str) -> str:
        """The prompt without the token of the beginning, if the engine adds that anyway."""
        if not self.engine.adds_bos or not self.bos_token or not prompt.startswith(self.bos_token):
            return prompt
        if self._adds_bos is None:
            # llama.cpp does what the model's file says, and tells; others do it always.
            told = None
            if self.engine.name == "llamacpp":
                told = await self.connection.ask("/tokenize", {"content": "", "add_special": True})
            self._adds_bos = not isinstance(told, Mapping) or bool(told.get("tokens"))
        return prompt.removeprefix(self.bos_token) if self._adds_bos else prompt


def takes_grammar(task: UpstreamRequest) -> bool:
    """Return whether the engine's body holds a grammar or a schema, which may take long to make."""
    return task.plan.constraint.kind != "none" or task.schema is not None


def one_of(task: UpstreamRequest, number: int) -> UpstreamRequest:
    """The task of one choice; a seed that all of them shared would make them all the same."""
    seed = task.sampling.get("seed")
    sampling = {**task.sampling, "seed": seed + number} if isinstance(seed, int) else task.sampling
    return replace(task, n=1, sampling=sampling)


def short_name(model: str) -> str:
    """/models/SmolLM2-135M-Instruct.Q4_1.gguf is SmolLM2-135M-Instruct to its users."""
    if not model.endswith(".gguf"):
        return model
    stem = PurePath(model).stem
    head, _, quantisation = stem.rpartition(".")
    return head if head and quantisation[:1] in "QFIB" else stem


class CompletionStream:
    """The chunks of one completion."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def __init__(self, events: Events, task: UpstreamRequest, *, plain_end: bool) -> None:
        """Prepare to read.

        :param plain_end: it may end without a finish reason.
        """
        self._events = events
        self._open = set(range(task.n))
        """The choices that have not finished."""
        self._top = task.logprobs
        self._plain_end = plain_end
        self._limit = task.max_tokens if task.n == 1 else None
        self._completed = 0
        """Tokens of the output, if it was told."""
        self._halves = SplitCharacters()
        self._failure: Failure | None = None
        """What the last read brought behind its deltas."""

    async def next(self) -> Batch | None:
        """What the next read brings."""
        if self._failure is not None:
            raise self._failure
        payloads = await (self._events.read() if self._open else self._read_after_end())
        if payloads is None:
            if self._open and self._plain_end and self._events.told_end:
                return self._ended()
            if self._open:
                raise Failure(
                    "upstream",
                    "the upstream ended the stream before the output was over",
                    code="upstream_lost",
                )
            return None
        batch = Batch([])
        try:
            for payload in payloads:
                chunk = decoded(payload, self.decoder, self._halves)
                if chunk.error is not None or chunk.object == "error":
                    error = chunk.error if chunk.error is not None else {"message": chunk.message}
                    raise failed({"error": error})
                self.take(chunk, batch)
        except Failure as failure:
            if not batch.deltas and batch.usage is None:
                raise
            self._failure = failure
        if batch.deltas:
            self._events.patience.since = None
        elif self._open:
            self._events.patience.tried()
        if batch.usage is not None:
            self._completed = batch.usage.completion
        return batch

    async def _read_after_end(self) -> list[bytes] | None:
        """Return the events of the next read; the output is complete, so they need not come."""
        try:
            async with asyncio.timeout(_AFTER):
                return await self._events.read()
        except (TimeoutError, Failure) as error:
            log_once("upstream", f"it does not end its streams in form: {type(error).__name__}")
            return None

    def _ended(self) -> Batch:
        """The end, where the upstream says that this was all, and not why."""
        log_once("upstream", "it ends streams without a finish reason: they are taken for complete")
        cut_off = self._limit is not None and self._completed >= self._limit
        reason: FinishReason = "length" if cut_off else "stop"
        choices, self._open = sorted(self._open), set()
        return Batch([Delta(choice, "", finish=reason) for choice in choices])

    def take(self, chunk: Any, batch: Batch) -> None:
        """Add what a chunk brought."""
        for choice in chunk.choices or ():
            if choice.index not in self._open:
                if choice.text or choice.finish_reason:
                    raise more_of(choice.index)
                continue
            if choice.finish_reason is None and choice.logprobs is None and choice.token_ids is None:
                batch.deltas.append(Delta(choice.index, choice.text or ""))
                continue
            reason = finish_of(choice.finish_reason)
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
                    logprobs=logprobs_of(choice.logprobs, self._top),
                    token_ids=choice.token_ids,
                )
            )
        if chunk.usage is not None:
            batch.usage = usage_of(chunk.usage)

    async def close(self) -> None:
        """Stop generating."""
        await self._events.close()


def more_of(choice: int) -> Failure:
    """The upstream goes on where there is nothing to go on with."""
    told = f"the upstream sent more of choice {choice}, which was over or never there"
    return Failure("upstream", told, code="upstream_protocol")


def usage_of(usage: UsageChunk) -> Usage:
    """The counts as the upstream told them."""
    details = usage.prompt_tokens_details or _PromptDetails()
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, details.cached_tokens or 0)


def decoded(payload: bytes, decoder: msgspec.json.Decoder[Any], halves: SplitCharacters) -> Any:
    """A chunk; an error object, or what is no chunk at all, is a failure."""
    if len(payload) > _MOST_CONTAINERS and payload.count(b"[") + payload.count(b"{") > _MOST_CONTAINERS:
        raise Failure("upstream", "the upstream sent an event of too many values", code="upstream_protocol")
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        try:
            found = json.loads(payload, parse_constant=_no_number)
        except (ValueError, RecursionError):
            found = None
        if message_of(found):
            raise failed(found) from None
        with suppress(msgspec.ValidationError, RecursionError):
            if found is not None:
                return msgspec.convert(halves.joined(found), decoder.type)
        what = "bytes that are not UTF-8" if not _is_utf8(payload) else "an event that is not a chunk"
        raise Failure("upstream", f"the upstream sent {what}", code="upstream_protocol") from error


class SplitCharacters:
    """Characters that a server has cut into two surrogates, one at the end of a chunk and one in the next.

    Half of one waits for the other half, at the place in the chunks where it was.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[object, ...], str] = {}

    def joined(self, value: Any, place: tuple[object, ...] = ()) -> Any:
        """A chunk with whole characters."""
        if isinstance(value, dict):
            return {_whole(key): self.joined(one, (*place, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [self.joined(one, (*place, _number(one, at))) for at, one in enumerate(value)]
        if not isinstance(value, str):
            return value
        text = self._waiting.pop(place, "") + value
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[place] = text[-1]
            text = text[:-1]
        return _whole(text)


def _whole(text: str) -> str:
    """Two halves next to each other as the character that they are; one alone is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(one: object, at: int) -> object:
    """The number of an entry in a list; choices and calls tell theirs."""
    told = one.get("index") if isinstance(one, dict) else None
    return told if isinstance(told, int) else at


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _no_number(text: str) -> None:
    raise ValueError(text)


def finish_of(reason: str | None) -> FinishReason | None:
    """An engine's finish reason in our words."""
    if reason is None or reason == "":
        return None
    found = _REASONS.get(reason)
    if found is None:
        told = f"the upstream gave up: {without_places(reason)}"
        raise Failure("upstream", told, code="upstream_error")
    return found
