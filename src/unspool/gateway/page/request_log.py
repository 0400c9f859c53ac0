"""Records of the latest requests: raw output, plan and times, within bounds.

A record costs one :meth:`RequestRecord.on_batch` per read of the upstream's stream, which copies
text and parses nothing.  Opening a record on the page parses its raw output again, with the
same plan.  The result does not depend on chunk boundaries, so the page shows the message that
the client got.

A record keeps no more than the page shows: of the conversation only the end of the prompt, of
the tools their JSON, of the output its beginning.  The log drops its oldest records when there
are too many, or when all of them together are too large.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final, Protocol

from ...events import FinishReason
from ...planning import Plan
from ...policies import Policies
from ..generation.prepare_request import PreparedRequest
from ..generation.request import GenerationRequest
from ..generation.served_models import ServedModel
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.json_encoding import encode_line
from ..upstreams.base import Batch, Delta, Stream

MAX_OUTPUT: Final = 1 << 16
"""Characters of raw output in a record, at most."""
MAX_PROMPT: Final = 1 << 16
"""Characters of the prompt's end in a record, at most."""
MAX_FIELD: Final = 1 << 14
"""Characters of one field of the upstream's body in a record, at most."""
MAX_TOOLS: Final = 1 << 18
"""Bytes of tools in a record, at most."""
LARGE_REQUEST: Final = 1 << 20
"""Bytes of a request above which its record has only raw output and times."""
MAX_LOG: Final = 1 << 23
"""Bytes of all records together, at most."""
_CALL_SIZE: Final = 64
"""Bytes that a tool call counts for, besides its arguments."""
_RECORD_SIZE: Final = 1 << 12
"""Bytes that a record counts for, besides its content."""
_HIDDEN_FIELDS: Final = ("prompt", "messages", "tools", "model")
"""Fields of the upstream's body that the page shows elsewhere, or that concern only the upstream."""

LISTENER: Final = "unspool.listener"
"""The key of a scope's extension: a :class:`Listener` of the request's record."""


class Listener(Protocol):
    """Listener that gets what a record gets, while the request is answered."""

    record: RequestRecord | None

    async def on_open(self) -> None:
        """Handle that the upstream has accepted the request."""
        ...

    async def on_batch(self, batch: Batch) -> None:
        """Handle what one read of the upstream's stream brought."""
        ...


class RawOutput:
    """Raw output of one choice: texts, and the calls and reasoning that the upstream itself parsed."""

    __slots__ = ("_pieces", "_text", "finish", "ids", "stopped_by", "write")

    def __init__(self) -> None:
        self._pieces: list[str | Delta] = []
        """The pieces in front of the text that is being written."""
        self.finish: FinishReason | None = None
        self.stopped_by: str | None = None
        self.ids: array[int] = array("Q")
        """Token ids, if the upstream sends them."""
        self._text = StringIO()
        self.write = self._text.write

    def add(self, delta: Delta, text: str) -> None:
        """Add a delta that has more than text.

        :param text: the part of the delta's text to keep.
        """
        if delta.reasoning:
            self._add_piece(Delta(0, "", reasoning=delta.reasoning))
        self.write(text)
        if delta.calls:
            self._add_piece(Delta(0, "", calls=delta.calls))
        if delta.token_ids:
            self.ids.extend(delta.token_ids)
        self.finish = delta.finish or self.finish
        self.stopped_by = delta.stopped_by or self.stopped_by

    def _add_piece(self, piece: Delta) -> None:
        self._pieces = [*self.pieces(), piece]
        self._text = StringIO()
        self.write = self._text.write

    def pieces(self) -> list[str | Delta]:
        """Return all pieces so far."""
        text = self._text.getvalue()
        return [*self._pieces, text] if text else list(self._pieces)

    def text(self) -> str:
        """Return the text so far."""
        return "".join(piece for piece in self.pieces() if isinstance(piece, str))


class RequestRecord:
    """Record of one request; observes how it is generated."""

    def __init__(self, exchange: Exchange, log: RequestLog | None) -> None:
        self.id = exchange.id
        self.tenant = exchange.tenant
        self.path = exchange.path
        self.time = time.time()
        """The start of the request, in seconds since the epoch."""
        self.started_at = exchange.started_at
        """The start of the request, on the monotonic clock of the next two."""
        self.first_delta_at: float | None = None
        """The time of the upstream's first delta."""
        self.finished_at: float | None = None
        """The end of the answer; None: the request is running."""
        self.status = 0
        self.error = ""
        self.code = ""
        self.disconnected = ""
        """The reason why nobody read the answer to its end."""
        self.model = ""
        self.api = ""
        self.stream = False
        self.deltas = 0
        """The number of the upstream's deltas."""
        self.truncated = False
        """The raw output is longer than the record."""
        self.large = exchange.size > LARGE_REQUEST
        """The request is too large for its prompt and its tools to be kept."""
        self.plan: Plan | None = None
        self.policies = Policies()
        self.reads_ids = False
        self.tools: bytes | None = None
        """The tools as JSON; None: there are none, or they are too large."""
        self.tool_count = 0
        self.prompt: str | None = None
        """The end of the prompt; None: the upstream renders it."""
        self.prompt_length = 0
        self.upstream_body: dict[str, Any] | None = None
        """The fields of the body that the upstream got; None: it was not called."""
        self.outputs: dict[int, RawOutput] = {}
        """Raw output by choice."""
        self.listener: Listener | None = None
        self.free = MAX_OUTPUT
        """Bytes of raw output that still fit."""
        self.fixed_size = _RECORD_SIZE
        """Bytes of all but the raw output."""
        self._body_size = 0
        self._log = log

    # -- while the request is answered

    def on_plan(
        self,
        served: ServedModel,
        request: GenerationRequest,
        prepared: PreparedRequest,
        policies: Policies,
        *,
        reads_ids: bool,
    ) -> None:
        """Keep the plan."""
        self.policies = policies
        self.model = served.model.name
        self.api = request.api
        self.stream = request.stream
        self.reads_ids = reads_ids
        self.tool_count = len(prepared.tools)
        self.plan = prepared.plan.without_request()
        if self.large:
            return
        if prepared.plan.tools:
            tools = encode_line(prepared.plan.tools)
            if len(tools) <= MAX_TOOLS:
                self.tools = tools
                self.fixed_size += len(tools)
        if prepared.prompt is not None:
            self.prompt_length = len(prepared.prompt)
            self.prompt = prepared.prompt[-MAX_PROMPT:]
            self.fixed_size += len(self.prompt)

    def on_upstream_request(self, body: Mapping[str, Any]) -> None:
        """Keep the upstream's body; of several choices, that of the last one."""
        if self.large:
            return
        shown: dict[str, Any] = {}
        total = 0
        for name, value in body.items():
            if name in _HIDDEN_FIELDS:
                continue
            if isinstance(value, (str, Mapping, Sequence)):
                shown[name], size = _clip(value)
                total += size
            else:
                shown[name] = value
        self.upstream_body = shown
        self.fixed_size += total - self._body_size
        self._body_size = total

    async def on_open(self, stream: Stream) -> Stream:
        """Return the stream, wrapped if somebody listens."""
        if self.listener is None:
            return stream
        await self.listener.on_open()
        return _ListenedStream(stream, self.listener)

    def on_batch(self, batch: Batch) -> None:
        """Keep what one read of the upstream's stream brought."""
        if self.first_delta_at is None and batch.deltas:
            self.first_delta_at = time.monotonic()
        outputs = self.outputs
        for delta in batch.deltas:
            self.deltas += 1
            text = delta.text
            if len(text) > self.free:
                text, self.truncated = text[: self.free], True
            self.free -= len(text)
            output = outputs.get(delta.choice)
            if output is None:
                output = outputs[delta.choice] = RawOutput()
            if delta.text_only:
                output.write(text)
            elif self._fits(delta):
                output.add(delta, text)

    def _fits(self, delta: Delta) -> bool:
        """Return whether what a delta has besides text fits; the last delta always does."""
        size = len(delta.reasoning) + 8 * len(delta.token_ids or ())
        for call in delta.calls:
            size += _CALL_SIZE + len(call.arguments)
        if size > self.free and delta.finish is None:
            self.truncated = True
            return False
        self.free = max(0, self.free - size)
        return True

    def on_finish(self, exchange: Exchange, failure: Failure | None) -> None:
        """Keep the end of the request."""
        self.finished_at = time.monotonic()
        self.status = exchange.status or 499
        self.disconnected = exchange.disconnected
        if failure is not None:
            self.error, self.code = failure.message, failure.code
        elif "error" in exchange.log_fields:
            self.code = str(exchange.log_fields["error"])
        if self._log is not None:
            self._log.trim()


class _ListenedStream:
    """A stream whose batches a listener gets before the reader."""

    def __init__(self, stream: Stream, listener: Listener) -> None:
        self._stream = stream
        self._listener = listener

    async def next(self) -> Batch | None:
        """Return what the next read brings."""
        batch = await self._stream.next()
        if batch is not None:
            await self._listener.on_batch(batch)
        return batch

    async def close(self) -> None:
        """Close the stream."""
        await self._stream.close()


class RequestLog:
    """The latest requests, newest first."""

    def __init__(self, capacity: int) -> None:
        """Create an empty log.

        :param capacity: the number of records, at most; 0: keep none.
        """
        self.capacity = capacity
        self._records: deque[RequestRecord] = deque()

    def begin(self, exchange: Exchange) -> RequestRecord | None:
        """Start the record of a request; None if nothing is kept and nobody listens."""
        listener: Listener | None = exchange.extension(LISTENER)
        if not self.capacity and listener is None:
            return None
        record = RequestRecord(exchange, self if self.capacity else None)
        record.listener = listener
        if listener is not None:
            listener.record = record
        if self.capacity:
            self._records.appendleft(record)
            if len(self._records) > self.capacity:
                self._records.pop()
        exchange.on_finish = record.on_finish
        return record

    def trim(self) -> None:
        """Drop the oldest records if all of them together are too large."""
        total = 0
        for count, record in enumerate(self._records):
            total += record.fixed_size + MAX_OUTPUT - record.free
            if total > MAX_LOG:
                while len(self._records) > max(count, 1):
                    self._records.pop()
                return

    def records(self, tenant: str) -> Iterator[RequestRecord]:
        """Return the records of one tenant."""
        return (record for record in self._records if record.tenant == tenant)

    def find(self, tenant: str, id: str) -> RequestRecord | None:
        """Return a tenant's record by the id of the request."""
        return next((record for record in self.records(tenant) if record.id == id), None)

    def forget(self, tenant: str) -> None:
        """Drop all records of one tenant."""
        self._records = deque(record for record in self._records if record.tenant != tenant)


def _clip(value: str | Mapping[str, Any] | Sequence[Any]) -> tuple[object, int]:
    """Return a value of the upstream's body, shortened if it is too long for the page, and its size."""
    if isinstance(value, str):
        if len(value) > MAX_FIELD:
            return f"{value[:MAX_FIELD]}... ({len(value):,} characters)", MAX_FIELD
        return value, len(value)
    text = encode_line(value)
    if len(text) > MAX_FIELD:
        shown = text[:MAX_FIELD].decode(errors="ignore")
        return f"{shown}... ({len(text):,} bytes of JSON)", MAX_FIELD
    return value, len(text)
