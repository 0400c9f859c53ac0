"""Threads of ``/v1/messages``: the client sends only new messages, and the gateway adds the earlier ones.

Each reply of a thread is stored together with the messages of its request and the id of the previous
reply.  The tools and the system prompt of the first request apply to the whole thread.  If a
thread is no longer stored, the error contains a code that makes client libraries send the whole
conversation again.
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
    from ..http.thread_pools import RunWork

_KIND: Final = "thread"
_THREAD_FIELDS: Final = ("system", "tools")
"""Fields that apply to the whole thread, unless a later request replaces them."""


@dataclass(frozen=True, slots=True)
class MessageThread:
    """Thread that a request creates or continues."""

    messages: Sequence[Mapping[str, Any]]
    """Messages that the request adds to the thread."""
    fields: Mapping[str, Any]
    """Fields that apply to the whole thread, with their values."""
    previous: str | None = None
    """Id of the stored reply that the request continues; None for a new thread."""


async def resume(
    store: Store, bodies: BodyReader, exchange: Exchange, body: Mapping[str, Any], *, keeps: bool
) -> tuple[dict[str, Any], MessageThread | None]:
    """Return the request body with the whole conversation, and the thread.

    The thread is None if the request does not use one.

    :param keeps: True if the gateway stores threads.
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
    """Return a thread's messages up to the reply with this id, and the fields that apply to the thread."""
    turns: list[list[Row]] = []
    head = b"{}"
    current = id
    while current:
        entry = await store.get(exchange.tenant, current)
        if entry is None or entry.kind != _KIND:
            raise Failure(
                "not_found",
                f"thread: {current!r} is not stored here; send the whole conversation",
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
    """Store a reply together with the messages of its request."""
    id = str(answer["id"])

    def packed() -> Packed:
        content = [_with_text(block) for block in answer["content"]]
        messages = [*thread.messages, {"role": "assistant", "content": content}]
        items = [{"id": f"{id}_{at}", "message": message} for at, message in enumerate(messages)]
        return pack(_KIND, thread.fields, items, thread.previous or "")

    await store.put(tenant, id, await run(packed))


def _with_text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the block; the input of a tool_use block becomes the JSON text that the model wrote.

    Decoding the input could change how its numbers are written.  The next prompt would then differ from this
    one, and the engine could reuse less of its prefix cache.
    """
    arguments = block.get("input")
    return {**block, "input": bytes(arguments).decode()} if isinstance(arguments, msgspec.Raw) else block
