"""The last requests: raw text, plan and times, bounded, and made readable only when somebody looks.

What a request costs is one :meth:`RequestRecord.take` for every read of the upstream's stream, which
copies text; nothing is parsed.  Whoever looks at a note has its raw text read once more,
by the same plan: chunks do not matter, so the message is the one that the client got.

A note holds what the page shows, and no more: of the conversation only the end of the
prompt, of the tools their JSON, of the text its beginning.  When there are too many notes,
or too much is in them together, the oldest go.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from ...events import FinishReason
from ...policies import Policies
from ..apis.answers import encode
from ..http.errors import Failure
from ..upstreams.base import Batch, Delta, Stream

if TYPE_CHECKING:
    from ...planning import Plan
    from ..apis.chat.request import Job
    from ..generation.model import Prepared
    from ..generation.served_models import Served
    from ..http.exchange import Exchange
    from .tee import Watcher

MOST_RAW: Final = 1 << 16
"""Characters of raw text that are kept of a request."""
MOST_PROMPT: Final = 1 << 16
"""Characters of the prompt: its end."""
MOST_TOLD: Final = 1 << 14
"""Characters of a field that the upstream was told."""
MOST_TOOLS: Final = 1 << 18
"""Bytes of the tools."""
LARGE: Final = 1 << 20
"""Bytes of a request of which nothing but raw text and times is kept."""
MOST_ALL: Final = 1 << 23
"""Bytes of all notes together."""
_PIECE: Final = 64
"""What a piece that is no text counts for, besides its text."""
_SELF: Final = 1 << 12
"""What a note counts for, besides what it holds."""
_ELSEWHERE: Final = ("prompt", "messages", "tools", "model")
"""What the upstream is told and is shown elsewhere, or is its own business."""


class Raw:
    """What the upstream wrote for one choice: texts, and what it had told apart by itself."""

    __slots__ = ("_text", "finish", "ids", "pieces", "stopped_by", "write")

    def __init__(self) -> None:
        self.pieces: list[str | Delta] = []
        """What came before the text that is being written."""
        self.finish: FinishReason | None = None
        self.stopped_by: str | None = None
        self.ids: array[int] = array("Q")
        """Token ids, where they were told."""
        self._text = StringIO()
        self.write = self._text.write

    def take(self, delta: Delta, text: str) -> None:
        """A delta that is more than text; of its text, this much."""
        if delta.reasoning:
            self._between(Delta(0, "", reasoning=delta.reasoning))
        self.write(text)
        if delta.calls:
            self._between(Delta(0, "", calls=delta.calls))
        if delta.token_ids:
            self.ids.extend(delta.token_ids)
        self.finish = delta.finish or self.finish
        self.stopped_by = delta.stopped_by or self.stopped_by

    def _between(self, piece: Delta) -> None:
        self.pieces = [*self.all()] if self._text.tell() else self.pieces
        self.pieces.append(piece)
        self._text = StringIO()
        self.write = self._text.write

    def all(self) -> list[str | Delta]:
        """All pieces so far."""
        text = self._text.getvalue()
        return [*self.pieces, text] if text else list(self.pieces)

    def text(self) -> str:
        """The text so far."""
        return "".join(piece for piece in self.all() if isinstance(piece, str))


class RequestRecord:
    """What is remembered of one request."""

    def __init__(self, exchange: Exchange, notes: RequestLog | None) -> None:
        self.id = exchange.id
        self.owner = exchange.owner
        self.path = exchange.path
        self.at = time.time()
        """When it began, by the calendar ..."""
        self.began = exchange.began
        """... and by the clock that the next two are of."""
        self.first: float | None = None
        """When the upstream first said something."""
        self.ended: float | None = None
        """When the answer was over; None: it goes on."""
        self.status = 0
        self.error = ""
        self.code = ""
        self.gone = ""
        """Why nobody read the answer to its end."""
        self.model = ""
        self.api = ""
        self.stream = False
        self.deltas = 0
        """How many the upstream sent."""
        self.cut = False
        """There was more raw text than is kept."""
        self.large = exchange.size > LARGE
        """The request is too large for its prompt and its tools to be kept."""
        self.plan: Plan | None = None
        self.policies = Policies()
        self.reads_ids = False
        self.tools: bytes | None = None
        """As JSON; None: there are none, or more than is kept."""
        self.many_tools = 0
        """How many there were."""
        self.prompt: str | None = None
        """The end of the prompt; None: the upstream has written it."""
        self.prompt_length = 0
        self.told: dict[str, Any] | None = None
        """What the upstream was told, in its own words; None: it was not asked."""
        self.raws: dict[int, Raw] = {}
        self.watcher: Watcher | None = None
        """Who looks on while it is answered."""
        self._notes = notes
        self._room = MOST_RAW
        self._told_size = 0

    # -- while it is answered

    def planned(self, served: Served, job: Job, prepared: Prepared, policies: Policies, *, ids: bool) -> None:
        """It is known what is to be done."""
        self.policies = policies
        self.model = served.model.name
        self.api = job.api
        self.stream = job.stream
        self.reads_ids = ids
        self.many_tools = len(prepared.tools)
        self.plan = prepared.plan.without_request()
        if self.large:
            return
        if prepared.plan.tools:
            tools = encode(prepared.plan.tools)
            self.tools = tools if len(tools) <= MOST_TOOLS else None
        if prepared.prompt is not None:
            self.prompt_length = len(prepared.prompt)
            self.prompt = prepared.prompt[-MOST_PROMPT:]

    def tell(self, body: Mapping[str, Any]) -> None:
        """What the upstream is told; of several choices, about the last of them."""
        if not self.large:
            shown = {name: _bounded(value) for name, value in body.items() if name not in _ELSEWHERE}
            self.told = {name: value for name, (value, _) in shown.items()}
            self._told_size = sum(size for _, size in shown.values())

    async def tap(self, stream: Stream) -> Tapped:
        """A stream, from now on with this note taken of it."""
        if self.watcher is not None:
            await self.watcher.planned()
        return Tapped(stream, self)

    def take(self, batch: Batch) -> None:
        """What one read brought."""
        if self.first is None and batch.deltas:
            self.first = time.monotonic()
        raws = self.raws
        for delta in batch.deltas:
            self.deltas += 1
            text = delta.text
            if len(text) > self._room:
                text, self.cut = text[: self._room], True
            self._room -= len(text)
            raw = raws.get(delta.choice)
            if raw is None:
                raw = raws[delta.choice] = Raw()
            if delta.text_only:
                raw.write(text)
            elif self._has_room(delta):
                raw.take(delta, text)

    def _has_room(self, delta: Delta) -> bool:
        """Whether what the upstream has told apart may be kept, too; its end always is."""
        more = len(delta.reasoning) + sum(_PIECE + len(call.arguments) for call in delta.calls)
        more += 8 * len(delta.token_ids or ())
        if more > self._room and delta.finish is None:
            self.cut = True
            return False
        self._room = max(0, self._room - more)
        return True

    def over(self, exchange: Exchange, failed: Failure | None) -> None:
        """It has been answered."""
        self.ended = time.monotonic()
        self.status = exchange.status or 499
        self.gone = exchange.gone
        if failed is not None:
            self.error, self.code = failed.message, failed.code
        elif "error" in exchange.fields:
            self.code = str(exchange.fields["error"])
        if self._notes is not None:
            self._notes.trim()

    def size(self) -> int:
        """What it counts for."""
        return (
            MOST_RAW - self._room + len(self.tools or b"") + len(self.prompt or "") + self._told_size + _SELF
        )


class Tapped:
    """A stream of which a note is taken, at the very place where the upstream's text comes in."""

    def __init__(self, stream: Stream, note: RequestRecord) -> None:
        self._stream = stream
        self._note = note

    async def next(self) -> Batch | None:
        """What has come in since."""
        batch = await self._stream.next()
        if batch is not None:
            note = self._note
            note.take(batch)
            if note.watcher is not None:
                await note.watcher.raw(batch)
        return batch

    async def close(self) -> None:
        """Stop generating."""
        await self._stream.close()


class RequestLog:
    """The last requests, newest first."""

    def __init__(self, most: int) -> None:
        """Keep notes.

        :param most: how many; 0: none.
        """
        self.most = most
        self._notes: deque[RequestRecord] = deque()

    def begin(self, exchange: Exchange) -> RequestRecord | None:
        """Remember a request from now on; None: nobody wants to know."""
        watcher: Watcher | None = exchange.extension(WATCHER)
        if not self.most and watcher is None:
            return None
        note = RequestRecord(exchange, self if self.most else None)
        note.watcher = watcher
        if watcher is not None:
            watcher.note = note
        if self.most:
            self._notes.appendleft(note)
            if len(self._notes) > self.most:
                self._notes.pop()
        exchange.note = note
        return note

    def trim(self) -> None:
        """Let the oldest go if there is too much in all of them."""
        total = 0
        for count, note in enumerate(self._notes):
            total += note.size()
            if total > MOST_ALL:
                while len(self._notes) > max(count, 1):
                    self._notes.pop()
                return

    def of(self, owner: str) -> Iterator[RequestRecord]:
        """Those of one owner."""
        return (note for note in self._notes if note.owner == owner)

    def find(self, owner: str, id: str) -> RequestRecord | None:
        """One of an owner's."""
        return next((note for note in self.of(owner) if note.id == id), None)

    def forget(self, owner: str) -> None:
        """Let all of one owner's go."""
        self._notes = deque(note for note in self._notes if note.owner != owner)


WATCHER: Final = "unspool.watcher"
"""The extension of a request's scope that says who looks on."""


def _bounded(value: object) -> tuple[object, int]:
    """A value that the upstream was told, if it is not too long for a page; and its length."""
    if isinstance(value, str):
        if len(value) > MOST_TOLD:
            return f"{value[:MOST_TOLD]}... ({len(value):,} characters)", MOST_TOLD
        return value, len(value)
    if isinstance(value, (Mapping, Sequence)):
        text = encode(value)
        if len(text) > MOST_TOLD:
            shown = text[:MOST_TOLD].decode(errors="ignore")
            return f"{shown}... ({len(text):,} bytes of JSON)", MOST_TOLD
        return value, len(text)
    return value, 0
