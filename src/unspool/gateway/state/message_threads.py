"""Threads of ``/v1/messages``: a client sends a turn, and the turns before it are kept here.

A message of a thread is kept with what was sent for it, and with the id of the one
that it went on from.  Tools and system prompt of the first request hold for the whole
thread.  A thread that is gone is told in the words on
which client libraries send everything again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..http.errors import Failure, invalid
from .store import Packed, Row, Store, decoded, pack

if TYPE_CHECKING:
    from ..http.exchange import Exchange
    from ..http.request_body import BodyReader
    from ..http.worker_pools import RunWork

_KIND: Final = "thread"
_SAID_ONCE: Final = ("system", "tools")
"""Fields that hold for the whole thread, unless a later request says otherwise."""


@dataclass(frozen=True, slots=True)
class MessageThread:
    """A thread, and what a request adds to it."""

    said: Sequence[Mapping[str, Any]]
    """The messages of the request."""
    fields: Mapping[str, Any]
    """What was said once."""
    previous: str | None = None
    """The message that it goes on from."""


async def resume(
    store: Store, bodies: BodyReader, exchange: Exchange, body: Mapping[str, Any], *, keeps: bool
) -> tuple[dict[str, Any], MessageThread | None]:
    """The whole request that a request in a thread stands for, and the thread; None: it is in none.

    :param keeps: whether there is room for anything.
    """
    given = body.get("thread")
    if given is None:
        return dict(body), None
    if not keeps:
        raise Failure(
            "invalid_request",
            "thread: this gateway keeps nothing (max_stored_bytes); send the whole conversation",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in ("create", "continue"):
        raise invalid(f"thread.type is {kind!r}; choose create or continue", "thread.type")
    said = body.get("messages")
    said = said if isinstance(said, list) else []
    own = {key: body[key] for key in _SAID_ONCE if body.get(key) is not None}
    if kind == "create":
        return dict(body), MessageThread(said, own)
    id = given.get("previous_message_id")
    if not isinstance(id, str) or not id:
        field = "thread.previous_message_id"
        raise invalid(f"{field} is required", field, "missing_required_parameter")
    before, fields = await _before(store, bodies, exchange, id)
    fields = {**fields, **own}
    return {**body, **fields, "messages": [*before, *said]}, MessageThread(said, fields, id)


async def _before(
    store: Store, bodies: BodyReader, exchange: Exchange, id: str
) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Return the messages up to this one, and the fields that hold for its thread."""
    turns: list[list[Row]] = []
    head = b"{}"
    before = id
    while before:
        kept = await store.get(exchange.tenant, before)
        if kept is None or kept.kind != _KIND:
            raise Failure(
                "not_found",
                f"thread: {before!r} is not kept here, or not any more; send the whole conversation",
                param="thread.previous_message_id",
                code="thread_not_found",
                details={"error_code": "thread_not_found"},
            )
        if not turns:
            head = kept.head
            bodies.charge(exchange, len(head), 0)
        bodies.charge(exchange, *kept.weight)
        turns.append(await store.rows(exchange.tenant, before))
        before = kept.previous

    def decode() -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
        messages = [decoded(row.data)["message"] for turn in reversed(turns) for row in turn]
        return messages, decoded(head)

    return await bodies.run(exchange, decode)


async def keep_turn(
    store: Store, owner: str, answer: Mapping[str, Any], thread: MessageThread, run: RunWork
) -> None:
    """Keep a message and what was sent for it."""
    id = str(answer["id"])

    def packed() -> Packed:
        content = [_with_text(block) for block in answer["content"]]
        said = [*thread.said, {"role": "assistant", "content": content}]
        items = [{"id": f"{id}_{at}", "message": message} for at, message in enumerate(said)]
        return pack(_KIND, thread.fields, items, thread.previous or "")

    await store.put(owner, id, await run(packed))


def _with_text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block with its input, if it has one, as the text that the model wrote.

    Decoded it would lose the spelling of its numbers, and the next prompt the prefix that it shares.
    """
    given = block.get("input")
    return {**block, "input": bytes(given).decode()} if isinstance(given, msgspec.Raw) else block
