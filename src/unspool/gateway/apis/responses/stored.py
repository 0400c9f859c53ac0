"""``/v1/responses/{id}`` and ``/v1/conversations``: what is kept, for those who made it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....dialects._id_format import IdFormat
from ...http.errors import Failure, invalid
from ...http.exchange import Exchange
from ...http.json_encoding import encode_json, encode_line
from ...http.request_body import BodyReader
from ...state.response_history import CONVERSATION, RESPONSE, as_item, chain, not_found
from ...state.store import Item, Kept, Packed, Row, Store, decoded, pack, pack_items
from ..validation import checked

_CONVERSATION_ID: Final = IdFormat("conv_{random}")
_MOST_ITEMS: Final = 100
_MOST_NEW: Final = 1000


class _NewItems(msgspec.Struct):
    items: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=_MOST_NEW)]


class _NewConversation(msgspec.Struct):
    items: Annotated[list[dict[str, Any]], Meta(max_length=_MOST_NEW)] | None = None
    metadata: dict[str, str] | None = None


class _Metadata(msgspec.Struct):
    metadata: dict[str, str]


class _Page(msgspec.Struct):
    limit: Annotated[int, Meta(ge=1, le=_MOST_ITEMS)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    include: list[str] | None = None


class StoredObjects:
    """Handlers of what is kept."""

    def __init__(self, store: Store, bodies: BodyReader) -> None:
        self._store = store
        self._bodies = bodies

    async def _entry(self, exchange: Exchange, kind: str) -> Kept:
        id = exchange.path_param("id")
        kept = await self._store.get(exchange.tenant, id)
        if kept is None or kept.kind != kind:
            raise not_found(kind, id)
        return kept

    async def _head(self, exchange: Exchange, kept: Kept) -> dict[str, Any]:
        exchange.size += len(kept.head)
        return await self._bodies.run(exchange, decoded, kept.head)

    async def _send(self, exchange: Exchange, work: Callable[..., bytes], *args: Any, **more: Any) -> None:
        await exchange.respond(200, await self._bodies.run(exchange, work, *args, **more))

    # -- responses

    async def get_response(self, exchange: Exchange) -> None:
        """Send a response as it was sent before."""
        if exchange.query().get("stream") == "true":
            told = "stream: only a response in the background can be streamed again, and there are none here"
            raise invalid(told, "stream", "unsupported_parameter")
        kept = await self._entry(exchange, RESPONSE)
        head = await self._head(exchange, kept)
        rows = await self._store.rows(exchange.tenant, exchange.path_param("id"), head["input"])
        await self._send(exchange, lambda: _with_rows(encode_line(head["response"]), "output", rows))

    async def delete_response(self, exchange: Exchange) -> None:
        """Delete a response."""
        await self._entry(exchange, RESPONSE)
        id = exchange.path_param("id")
        await self._store.delete(exchange.tenant, id)
        await exchange.respond(200, encode_line({"id": id, "object": "response", "deleted": True}))

    async def cancel_response(self, exchange: Exchange) -> None:
        """Refuse: there is nothing to cancel."""
        await self._entry(exchange, RESPONSE)
        raise invalid("only a response in the background can be cancelled, and there are none here")

    async def input_items(self, exchange: Exchange) -> None:
        """List what a response was made from: its own input, and what that referred back to."""
        kept = await self._entry(exchange, RESPONSE)
        head = await self._head(exchange, kept)
        own = await self._store.rows(exchange.tenant, exchange.path_param("id"), 0, head["input"])
        before: Sequence[Row] = ()
        if kept.previous:
            before = await chain(self._store, self._bodies, exchange, kept.previous) or ()
        elif head["conversation"]:
            conversation = await self._store.get(exchange.tenant, head["conversation"])
            if conversation is not None and own:
                self._bodies.charge(exchange, *conversation.weight)
                before = await self._store.rows(exchange.tenant, head["conversation"])
        page = _page_of(exchange)

        def listed() -> bytes:
            known = before
            if not kept.previous and own:
                known = list(takewhile(lambda row: row.id != own[0].id, before))
                known = known if len(known) < len(before) else []
            return _listed(_cut([*known, *own], page), page.limit)

        await self._send(exchange, listed)

    # -- conversations

    async def create_conversation(self, exchange: Exchange) -> None:
        """Create a conversation, which may begin with items."""
        body = await self._bodies.read(exchange)
        id = _CONVERSATION_ID.new("", 0)

        def packed() -> tuple[dict[str, Any], Packed]:
            shape = checked(body, _NewConversation)
            head = {"created_at": int(time.time()), "metadata": shape.metadata or {}}
            return head, pack(CONVERSATION, head, _new(shape.items or ()))

        head, entry = await self._bodies.run(exchange, packed)
        if not await self._store.put(exchange.tenant, id, entry):
            raise _no_room()
        await self._send(exchange, _shown, id, head)

    async def get_conversation(self, exchange: Exchange) -> None:
        """Send a conversation's metadata."""
        head = await self._head(exchange, await self._entry(exchange, CONVERSATION))
        await self._send(exchange, _shown, exchange.path_param("id"), head)

    async def update_conversation(self, exchange: Exchange) -> None:
        """Replace a conversation's metadata."""
        body = await self._bodies.read(exchange)
        id = exchange.path_param("id")
        head = await self._head(exchange, await self._entry(exchange, CONVERSATION))

        def changed() -> tuple[dict[str, Any], bytes]:
            new = {**head, "metadata": checked(body, _Metadata).metadata}
            return new, encode_json(new)

        new, data = await self._bodies.run(exchange, changed)
        await self._store.change(exchange.tenant, id, data)
        await self._send(exchange, _shown, id, new)

    async def delete_conversation(self, exchange: Exchange) -> None:
        """Delete a conversation."""
        await self._entry(exchange, CONVERSATION)
        id = exchange.path_param("id")
        await self._store.delete(exchange.tenant, id)
        await exchange.respond(
            200, encode_line({"id": id, "object": "conversation.deleted", "deleted": True})
        )

    async def list_items(self, exchange: Exchange) -> None:
        """List items of a conversation."""
        await self._entry(exchange, CONVERSATION)
        page = _page_of(exchange)
        rows = await self._store.page(
            exchange.tenant,
            exchange.path_param("id"),
            page.after,
            page.limit + 1,
            newest_first=page.order == "desc",
        )
        if rows is None:
            raise _nowhere(page)
        exchange.size += sum([len(row.data) for row in rows])
        await self._send(exchange, _listed, rows, page.limit)

    async def add_items(self, exchange: Exchange) -> None:
        """Add items to a conversation."""
        body = await self._bodies.read(exchange)
        rows = await self._bodies.run(exchange, lambda: pack_items(_new(checked(body, _NewItems).items)))
        await self._entry(exchange, CONVERSATION)
        if not await self._store.extend(exchange.tenant, exchange.path_param("id"), rows):
            raise _no_room()
        await self._send(exchange, _listed, rows, len(rows))

    async def get_item(self, exchange: Exchange) -> None:
        """Send one item."""
        await self._entry(exchange, CONVERSATION)
        row = await self._store.item(exchange.tenant, exchange.path_param("id"), exchange.path_param("item"))
        if row is None:
            raise not_found("item", exchange.path_param("item"))
        await exchange.respond(200, row.data)

    async def delete_item(self, exchange: Exchange) -> None:
        """Delete one item."""
        kept = await self._entry(exchange, CONVERSATION)
        id, item = exchange.path_param("id"), exchange.path_param("item")
        if not await self._store.delete(exchange.tenant, id, item):
            raise not_found("item", item)
        await self._send(exchange, _shown, id, await self._head(exchange, kept))


def _new(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    for at, item in enumerate(items):
        if not isinstance(item.get("type", "message"), str):
            raise invalid(f"items[{at}].type is not a string", f"items[{at}].type", "invalid_type")
    return [as_item(item) for item in items]


def _no_room() -> Failure:
    told = "there is no room to keep that (the gateway's setting max_stored_bytes)"
    return Failure("too_large", told, code="store_full")


def _shown(id: str, head: Mapping[str, Any]) -> bytes:
    known = {"created_at": head["created_at"], "metadata": head["metadata"]}
    return encode_line({"id": id, "object": "conversation", **known})


def _page_of(exchange: Exchange) -> _Page:
    """Return the part of a list that a request asks for."""
    asked: dict[str, Any] = dict(exchange.query())
    limit = asked.get("limit", "")
    if limit.isdecimal() and len(limit) < 10:
        asked["limit"] = int(limit)
    return checked({key: value for key, value in asked.items() if key in ("limit", "order", "after")}, _Page)


def _cut(rows: Sequence[Row], page: _Page) -> Sequence[Row]:
    """Return the items of a page, and one more if there are more."""
    listed = rows if page.order == "asc" else rows[::-1]
    start = 0
    if page.after is not None:
        start = next((at for at, row in enumerate(listed, 1) if row.id == page.after), -1)
        if start < 0:
            raise _nowhere(page)
    return listed[start : start + page.limit + 1]


def _nowhere(page: _Page) -> Failure:
    return invalid(f"after: there is no item {page.after!r}", "after")


def _listed(rows: Sequence[Row], limit: int) -> bytes:
    """Return a list as clients read it, of items that stay encoded."""
    shown = rows[:limit]
    about = {
        "object": "list",
        "first_id": shown[0].id if shown else None,
        "last_id": shown[-1].id if shown else None,
        "has_more": len(rows) > limit,
    }
    return _with_rows(encode_line(about), "data", shown)


def _with_rows(head: bytes, name: str, rows: Sequence[Row]) -> bytes:
    """Return an object with one more member: a list of items."""
    return b'%b,"%b":[%b]}' % (head[:-1], name.encode(), b",".join([row.data for row in rows]))
