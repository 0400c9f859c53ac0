"""Records of the latest requests, with raw output, plan and times, in a limited amount of memory.

While a request is running, its record only copies text: :meth:`RequestRecord.on_batch` is called once
per read of the upstream's stream and parses nothing.  When a record is opened on the page, its raw
output is parsed again with the same plan.  Parsing does not depend on chunk boundaries, so the page
shows the same message that the client received.

A record contains only what the page shows: the end of the prompt, the tools as JSON, and the
beginning of the output.  The log removes its oldest records when there are too many records or when
their total size is too large.
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
from ...wire import Delta
from ..generation.prepare_request import PreparedRequest
from ..generation.request import GenerationRequest
from ..generation.served_models import ServedModel
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.json_encoding import encode_line
from ..upstreams.base import Batch, Stream

MAX_OUTPUT: Final = 1 << 16
"""Maximum number of characters of raw output in a record."""
MAX_PROMPT: Final = 1 << 16
"""Maximum number of characters from the end of the prompt in a record."""
MAX_FIELD: Final = 1 << 14
"""Maximum number of characters in a record for one field of the request to the upstream."""
MAX_TOOLS: Final = 1 << 18
"""Maximum size in bytes of the tools in a record, as JSON."""
LARGE_REQUEST: Final = 1 << 20
"""Request size in bytes above which a record omits the prompt, the tools and the upstream request."""
MAX_LOG: Final = 1 << 23
"""Maximum total size of all records, in bytes."""
_CALL_SIZE: Final = 64
"""Estimated size of a tool call in bytes, without its arguments."""
_RECORD_SIZE: Final = 1 << 12
"""Estimated size of a record in bytes, without its contents."""
_HIDDEN_FIELDS: Final = ("prompt", "messages", "tools", "model")
"""Fields of the upstream request that a record omits, because the record has them elsewhere."""

LISTENER: Final = "unspool.listener"
"""Name of the ASGI scope extension that contains a :class:`Listener` for the request."""


class Listener(Protocol):
    """Listener that is called, like a request's record, while the request is answered."""

    record: RequestRecord | None

    async def on_open(self) -> None:
        """Handle the upstream's acceptance of the request."""
        ...

    async def on_batch(self, batch: Batch) -> None:
        """Handle the deltas from one read of the upstream's stream."""
        ...


class RawOutput:
    """Raw output of one choice: text, and the tool calls and reasoning that the upstream parsed itself."""

    __slots__ = ("_pieces", "_text", "finish", "ids", "stopped_by", "write")

    def __init__(self) -> None:
        self._pieces: list[str | Delta] = []
        """Parts of the output, in order: texts, and deltas with more than text.  The latest text is in
        ``_text``.
        """
        self.finish: FinishReason | None = None
        self.stopped_by: str | None = None
        self.ids: array[int] = array("Q")
        """Token ids, if the upstream sends them."""
        self._text = StringIO()
        self.write = self._text.write

    def add(self, delta: Delta, text: str) -> None:
        """Add a delta that contains more than text.

        :param text: the part of the delta's text to store.
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
        """Return all parts of the output so far, in order: texts, and deltas with more than text."""
        text = self._text.getvalue()
        return [*self._pieces, text] if text else list(self._pieces)

    def text(self) -> str:
        """Return all text so far."""
        return "".join(piece for piece in self.pieces() if isinstance(piece, str))


class RequestRecord:
    """Record of one request, which is filled while the request is answered."""

    def __init__(self, exchange: Exchange, log: RequestLog | None) -> None:
        self.id = exchange.id
        self.tenant = exchange.tenant
        self.path = exchange.path
        self.time = time.time()
        """The start of the request, in seconds since the epoch."""
        self.started_at = exchange.started_at
        """The start of the request, on the same monotonic clock as the other times."""
        self.first_delta_at: float | None = None
        """The time of the upstream's first delta, on the monotonic clock."""
        self.finished_at: float | None = None
        """The end of the request, on the monotonic clock; None while the request is running."""
        self.status = 0
        self.error = ""
        self.code = ""
        self.disconnected = ""
        """The reason why the client did not read the whole answer; empty if the client read all of it."""
        self.model = ""
        self.api = ""
        self.stream = False
        self.deltas = 0
        """The number of deltas from the upstream."""
        self.truncated = False
        """True if the raw output is too long to be stored completely."""
        self.large = exchange.size > LARGE_REQUEST
        """True if the request is so large that its prompt and its tools are not stored."""
        self.plan: Plan | None = None
        self.policies = Policies()
        self.reads_ids = False
        self.tools: bytes | None = None
        """The tools as JSON; None if there are none or they are too large."""
        self.tool_count = 0
        self.prompt: str | None = None
        """The end of the prompt; None if the upstream renders the prompt or the request is too large."""
        self.prompt_length = 0
        self.upstream_body: dict[str, Any] | None = None
        """The fields of the upstream request; None if the request was not sent or not recorded."""
        self.outputs: dict[int, RawOutput] = {}
        """Raw output of each choice, keyed by the choice's index."""
        self.listener: Listener | None = None
        self.free = MAX_OUTPUT
        """Number of characters that can still be added to the raw output."""
        self.fixed_size = _RECORD_SIZE
        """Size in bytes of everything except the raw output."""
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
        """Record the plan, the prompt and the tools."""
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
        """Record the body of the upstream request; if there are several requests, record the last one."""
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
        """Return the upstream's stream, which passes every batch to the listener if there is one."""
        if self.listener is None:
            return stream
        await self.listener.on_open()
        return _ListenedStream(stream, self.listener)

    def on_batch(self, batch: Batch) -> None:
        """Record the deltas from one read of the upstream's stream."""
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
        """Reserve space for everything in a delta except its text; return whether there is enough space.

        A delta with a finish reason is always accepted.
        """
        size = len(delta.reasoning) + 8 * len(delta.token_ids or ())
        for call in delta.calls:
            size += _CALL_SIZE + len(call.arguments)
        if size > self.free and delta.finish is None:
            self.truncated = True
            return False
        self.free = max(0, self.free - size)
        return True

    def on_finish(self, exchange: Exchange, failure: Failure | None) -> None:
        """Record the end of the request."""
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
    """Stream that passes each batch to a listener before it returns the batch."""

    def __init__(self, stream: Stream, listener: Listener) -> None:
        self._stream = stream
        self._listener = listener

    async def next(self) -> Batch | None:
        """Return the next batch, or None at the end."""
        batch = await self._stream.next()
        if batch is not None:
            await self._listener.on_batch(batch)
        return batch

    async def close(self) -> None:
        """Close the stream."""
        await self._stream.close()


class RequestLog:
    """Log of the latest requests, newest first."""

    def __init__(self, capacity: int) -> None:
        """Create an empty log.

        :param capacity: maximum number of records; 0 to store none.
        """
        self.capacity = capacity
        self._records: deque[RequestRecord] = deque()

    def begin(self, exchange: Exchange) -> RequestRecord | None:
        """Start and return the record of a request.

        Return None if the log is disabled and the request has no listener.
        """
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
        """Remove the oldest records if the total size of all records is too large."""
        # The newest records come first.  Keep records while their total size is within the limit.
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
        """Return a tenant's record by the id of its request, or None if there is none."""
        return next((record for record in self.records(tenant) if record.id == id), None)

    def forget(self, tenant: str) -> None:
        """Remove all records of one tenant."""
        self._records = deque(record for record in self._records if record.tenant != tenant)


def _clip(value: str | Mapping[str, Any] | Sequence[Any]) -> tuple[object, int]:
    """Shorten a field's value if it is too long for the page; return the value and its size."""
    if isinstance(value, str):
        if len(value) > MAX_FIELD:
            return f"{value[:MAX_FIELD]}... ({len(value):,} characters)", MAX_FIELD
        return value, len(value)
    text = encode_line(value)
    if len(text) > MAX_FIELD:
        shown = text[:MAX_FIELD].decode(errors="ignore")
        return f"{shown}... ({len(text):,} bytes of JSON)", MAX_FIELD
    return value, len(text)
