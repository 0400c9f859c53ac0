"""Threads of ``/v1/messages``: the client sends one turn, and the gateway stores the turns before it.

A message of a thread is stored with the messages that were sent for it, and with the id of the
message that it continues.  Tools and system prompt of the first request hold for the whole
thread.  If a thread is not stored any more, the error has the code at which client libraries
send the whole conversation again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..http.failure import Failure, invalid
from .store import Packed, Row, Store, decoded, pack

if TYPE_CHECKING:
    from ..http.exchange import Exchange
    from ..http.request_body import BodyReader
    from ..http.worker_pools import RunWork

_KIND: Final = "thread"
_THREAD_FIELDS: Final = ("system", "tools")
"""Fields that hold for the whole thread, unless a later request sets them again."""


@dataclass(frozen=True, slots=True)
class MessageThread:
    """A thread, and the messages that a request adds to it."""

    messages: Sequence[Mapping[str, Any]]
    """The messages of the request."""
    fields: Mapping[str, Any]
    """The fields that hold for the whole thread."""
    previous: str | None = None
    """The id of the message that the request continues."""


async def resume(
    store: Store, bodies: BodyReader, exchange: Exchange, body: Mapping[str, Any], *, keeps: bool
) -> tuple[dict[str, Any], MessageThread | None]:
    """Return the request with the whole conversation, and its thread; None: it has no thread.

    :param keeps: the store has room for threads.
    """
    option = body.get("thread")
    if option is None:
        return dict(body), None
    if not keeps:
        raise Failure(
            "invalid_request",
            "thread: this gateway stores nothing (max_stored_bytes is 0); send the whole conversation",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    kind = option.get("type") if isinstance(option, Mapping) else None
    if kind not in ("create", "continue"):
        raise invalid(f"thread.type is {kind!r}; choose create or continue", "thread.type")
    messages = body.get("messages")
    messages = messages if isinstance(messages, list) else []
    new_fields = {key: body[key] for key in _THREAD_FIELDS if body.get(key) is not None}
    if kind == "create":
        return dict(body), MessageThread(messages, new_fields)
    id = option.get("previous_message_id")
    if not isinstance(id, str) or not id:
        field = "thread.previous_message_id"
        raise invalid(f"{field} is required", field, "missing_required_parameter")
    earlier, fields = await _before(store, bodies, exchange, id)
    fields = {**fields, **new_fields}
    return {**body, **fields, "messages": [*earlier, *messages]}, MessageThread(messages, fields, id)


async def _before(
    store: Store, bodies: BodyReader, exchange: Exchange, id: str
) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Return the messages of a thread up to this one, and the fields that hold for it."""
    turns: list[list[Row]] = []
    head = b"{}"
    current = id
    while current:
        entry = await store.get(exchange.tenant, current)
        if entry is None or entry.kind != _KIND:
            raise Failure(
                "not_found",
                f"thread: {current!r} is not stored here, or not any more; send the whole conversation",
                param="thread.previous_message_id",
                code="thread_not_found",
                details={"error_code": "thread_not_found"},
            )
        if not turns:
            head = entry.head
            bodies.charge(exchange, len(head), 0)
        bodies.charge(exchange, *entry.weight)
        turns.append(await store.rows(exchange.tenant, current))
        current = entry.previous

    def decode() -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
        messages = [decoded(row.data)["message"] for turn in reversed(turns) for row in turn]
        return messages, decoded(head)

    return await bodies.run(exchange, decode)


async def keep_turn(
    store: Store, tenant: str, answer: Mapping[str, Any], thread: MessageThread, run: RunWork
) -> None:
    """Store a message and the messages that were sent for it."""
    id = str(answer["id"])

    def packed() -> Packed:
        content = [_with_text(block) for block in answer["content"]]
        messages = [*thread.messages, {"role": "assistant", "content": content}]
        items = [{"id": f"{id}_{at}", "message": message} for at, message in enumerate(messages)]
        return pack(_KIND, thread.fields, items, thread.previous or "")

    await store.put(tenant, id, await run(packed))


def _with_text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block whose input, if it has one, is the JSON text that the model wrote.

    Decoding would change the form of numbers, so the next prompt would share a shorter prefix with this one.
    """
    arguments = block.get("input")
    return {**block, "input": bytes(arguments).decode()} if isinstance(arguments, msgspec.Raw) else block
