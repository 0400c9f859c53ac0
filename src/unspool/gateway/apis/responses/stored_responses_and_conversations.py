"""Handlers for stored objects: ``/v1/responses/{id}`` and ``/v1/conversations``.

A tenant can see only its own objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....dialects import IdFormat
from ...http.exchange import Exchange
from ...http.failure import Failure, invalid
from ...http.json_encoding import encode_json, encode_line
from ...http.request_body import BodyReader
from ...state.responses_api_history import CONVERSATION, RESPONSE, as_item, chain, not_found
from ...state.store import Item, Kept, Packed, Row, Store, decoded, pack, pack_items
from ..validation import decode_body

_CONVERSATION_ID: Final = IdFormat("conv_{random}")
_MAX_PAGE: Final = 100
"""Maximum number of items per page of a list."""
_MAX_NEW: Final = 1000
"""Maximum number of items that one request can add."""


class _NewItems(msgspec.Struct):
    items: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=_MAX_NEW)]


class _NewConversation(msgspec.Struct):
    items: Annotated[list[dict[str, Any]], Meta(max_length=_MAX_NEW)] | None = None
    metadata: dict[str, str] | None = None


class _Metadata(msgspec.Struct):
    metadata: dict[str, str]


class _Page(msgspec.Struct):
    limit: Annotated[int, Meta(ge=1, le=_MAX_PAGE)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    include: list[str] | None = None


class StoredObjects:
    """Handlers for requests about stored responses and conversations."""

    def __init__(self, store: Store, bodies: BodyReader) -> None:
        self._store = store
        self._bodies = bodies

    async def _find(self, exchange: Exchange, kind: str) -> Kept:
        """Return the stored object that the request path names."""
        id = exchange.path_param("id")
        stored = await self._store.get(exchange.tenant, id)
        if stored is None or stored.kind != kind:
            raise not_found(kind, id)
        return stored

    async def _decode_head(self, exchange: Exchange, stored: Kept) -> dict[str, Any]:
        exchange.size += len(stored.head)
        return await self._bodies.run(exchange, decoded, stored.head)

    async def _send(self, exchange: Exchange, work: Callable[..., bytes], *args: Any, **kwargs: Any) -> None:
        """Run a function and send the bytes that it returns; if the exchange is large, use a thread."""
        await exchange.respond(200, await self._bodies.run(exchange, work, *args, **kwargs))

    # -- responses

    async def get_response(self, exchange: Exchange) -> None:
        """Send a stored response."""
        if exchange.query().get("stream") == "true":
            message = "stored responses cannot be streamed; leave out stream"
            raise invalid(message, "stream", "unsupported_parameter")
        stored = await self._find(exchange, RESPONSE)
        head = await self._decode_head(exchange, stored)
        rows = await self._store.rows(exchange.tenant, exchange.path_param("id"), head["input"])
        await self._send(exchange, lambda: _with_rows(encode_line(head["response"]), "output", rows))

    async def delete_response(self, exchange: Exchange) -> None:
        """Delete a stored response."""
        await self._find(exchange, RESPONSE)
        id = exchange.path_param("id")
        await self._store.delete(exchange.tenant, id)
        await exchange.respond(200, encode_line({"id": id, "object": "response", "deleted": True}))

    async def cancel_response(self, exchange: Exchange) -> None:
        """Reject the request, because only background responses can be cancelled."""
        await self._find(exchange, RESPONSE)
        raise invalid("only background responses can be cancelled; this gateway has none")

    async def input_items(self, exchange: Exchange) -> None:
        """List all items that precede a response: items of earlier turns, then items of its own request."""
        stored = await self._find(exchange, RESPONSE)
        head = await self._decode_head(exchange, stored)
        own = await self._store.rows(exchange.tenant, exchange.path_param("id"), 0, head["input"])
        earlier: Sequence[Row] = ()
        if stored.previous:
            earlier = await chain(self._store, self._bodies, exchange, stored.previous) or ()
        elif head["conversation"]:
            conversation = await self._store.get(exchange.tenant, head["conversation"])
            if conversation is not None and own:
                self._bodies.charge(exchange, *conversation.weight)
                earlier = await self._store.rows(exchange.tenant, head["conversation"])
        page = _read_page(exchange)

        def encode_items() -> bytes:
            items = earlier
            if not stored.previous and own:
                # The conversation may contain later turns, so list only the items before this response's own
                # input.  If that input was deleted from the conversation, its position is unknown, and no
                # earlier items are listed.
                items = list(takewhile(lambda row: row.id != own[0].id, earlier))
                items = items if len(items) < len(earlier) else []
            return _encode_list(_select_page([*items, *own], page), page.limit)

        await self._send(exchange, encode_items)

    # -- conversations

    async def create_conversation(self, exchange: Exchange) -> None:
        """Create a conversation with the items in the request, if there are any."""
        body = await self._bodies.read(exchange)
        id = _CONVERSATION_ID.new("", 0)

        def pack_conversation() -> tuple[dict[str, Any], Packed]:
            shape = decode_body(body, _NewConversation)
            head = {"created_at": int(time.time()), "metadata": shape.metadata or {}}
            return head, pack(CONVERSATION, head, _prepare_items(shape.items or ()))

        head, entry = await self._bodies.run(exchange, pack_conversation)
        if not await self._store.put(exchange.tenant, id, entry):
            raise _store_full()
        await self._send(exchange, _encode_conversation, id, head)

    async def get_conversation(self, exchange: Exchange) -> None:
        """Send a conversation's metadata."""
        head = await self._decode_head(exchange, await self._find(exchange, CONVERSATION))
        await self._send(exchange, _encode_conversation, exchange.path_param("id"), head)

    async def update_conversation(self, exchange: Exchange) -> None:
        """Replace a conversation's metadata."""
        body = await self._bodies.read(exchange)
        id = exchange.path_param("id")
        head = await self._decode_head(exchange, await self._find(exchange, CONVERSATION))

        def update_head() -> tuple[dict[str, Any], bytes]:
            new = {**head, "metadata": decode_body(body, _Metadata).metadata}
            return new, encode_json(new)

        new, data = await self._bodies.run(exchange, update_head)
        await self._store.change(exchange.tenant, id, data)
        await self._send(exchange, _encode_conversation, id, new)

    async def delete_conversation(self, exchange: Exchange) -> None:
        """Delete a conversation."""
        await self._find(exchange, CONVERSATION)
        id = exchange.path_param("id")
        await self._store.delete(exchange.tenant, id)
        await exchange.respond(
            200, encode_line({"id": id, "object": "conversation.deleted", "deleted": True})
        )

    async def list_items(self, exchange: Exchange) -> None:
        """Send one page of a conversation's items."""
        await self._find(exchange, CONVERSATION)
        page = _read_page(exchange)
        rows = await self._store.page(
            exchange.tenant,
            exchange.path_param("id"),
            page.after,
            page.limit + 1,
            newest_first=page.order == "desc",
        )
        if rows is None:
            raise _no_item(page)
        exchange.size += sum([len(row.data) for row in rows])
        await self._send(exchange, _encode_list, rows, page.limit)

    async def add_items(self, exchange: Exchange) -> None:
        """Add items to a conversation."""
        body = await self._bodies.read(exchange)
        rows = await self._bodies.run(
            exchange, lambda: pack_items(_prepare_items(decode_body(body, _NewItems).items))
        )
        await self._find(exchange, CONVERSATION)
        if not await self._store.extend(exchange.tenant, exchange.path_param("id"), rows):
            raise _store_full()
        await self._send(exchange, _encode_list, rows, len(rows))

    async def get_item(self, exchange: Exchange) -> None:
        """Send one item of a conversation."""
        await self._find(exchange, CONVERSATION)
        row = await self._store.item(exchange.tenant, exchange.path_param("id"), exchange.path_param("item"))
        if row is None:
            raise not_found("item", exchange.path_param("item"))
        await exchange.respond(200, row.data)

    async def delete_item(self, exchange: Exchange) -> None:
        """Delete one item of a conversation."""
        stored = await self._find(exchange, CONVERSATION)
        id, item = exchange.path_param("id"), exchange.path_param("item")
        if not await self._store.delete(exchange.tenant, id, item):
            raise not_found("item", item)
        await self._send(exchange, _encode_conversation, id, await self._decode_head(exchange, stored))


def _prepare_items(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    for at, item in enumerate(items):
        if not isinstance(item.get("type", "message"), str):
            raise invalid(f"items[{at}].type is not a string", f"items[{at}].type", "invalid_type")
    return [as_item(item) for item in items]


def _store_full() -> Failure:
    message = "the store is full; raise max_stored_bytes in the gateway's settings"
    return Failure("too_large", message, code="store_full")


def _encode_conversation(id: str, head: Mapping[str, Any]) -> bytes:
    fields = {"created_at": head["created_at"], "metadata": head["metadata"]}
    return encode_line({"id": id, "object": "conversation", **fields})


def _read_page(exchange: Exchange) -> _Page:
    """Return the page parameters in the query string."""
    query: dict[str, Any] = dict(exchange.query())
    limit = query.get("limit", "")
    if limit.isdecimal() and len(limit) < 10:
        query["limit"] = int(limit)
    return decode_body(
        {key: value for key, value in query.items() if key in ("limit", "order", "after")}, _Page
    )


def _select_page(rows: Sequence[Row], page: _Page) -> Sequence[Row]:
    """Return the items of a page and, if another page follows, the first item of that page."""
    ordered = rows if page.order == "asc" else rows[::-1]
    start = 0
    if page.after is not None:
        start = next((at for at, row in enumerate(ordered, 1) if row.id == page.after), -1)
        if start < 0:
            raise _no_item(page)
    return ordered[start : start + page.limit + 1]


def _no_item(page: _Page) -> Failure:
    return invalid(f"after: there is no item {page.after!r}", "after")


def _encode_list(rows: Sequence[Row], limit: int) -> bytes:
    """Return an encoded list object for items that are already encoded."""
    items = rows[:limit]
    head = {
        "object": "list",
        "first_id": items[0].id if items else None,
        "last_id": items[-1].id if items else None,
        "has_more": len(rows) > limit,
    }
    return _with_rows(encode_line(head), "data", items)


def _with_rows(head: bytes, name: str, rows: Sequence[Row]) -> bytes:
    """Add a list of encoded items to an encoded object, under the key ``name``."""
    return b'%b,"%b":[%b]}' % (head[:-1], name.encode(), b",".join([row.data for row in rows]))
