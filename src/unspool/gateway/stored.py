"""``/v1/responses/{id}`` and ``/v1/conversations``: what is kept, for those who made it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from .._core.values.ids import IdFormat
from .answers import encode
from .body import checked
from .exchange import Exchange
from .failure import Failure, invalid
from .intake import Intake
from .past import as_item, chain, not_found
from .store import Item, Kept, Store

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


class Stored:
    """Handlers of what is kept."""

    def __init__(self, store: Store, intake: Intake) -> None:
        self._store = store
        self._intake = intake

    # -- responses

    async def _response(self, exchange: Exchange) -> Kept:
        id = exchange.part("id")
        kept = await self._store.get(exchange.owner, id)
        if kept is None or kept.head.get("kind") != "response":
            raise not_found("response", id)
        return kept

    async def get_response(self, exchange: Exchange) -> None:
        """A response, as it was sent."""
        if exchange.query().get("stream") == "true":
            told = "stream: only a response in the background can be streamed again, and there are none here"
            raise invalid(told, "stream", "unsupported_parameter")
        kept = await self._response(exchange)
        output = kept.items[kept.head["input"] :]
        await exchange.respond(200, encode({**kept.head["response"], "output": output}))

    async def delete_response(self, exchange: Exchange) -> None:
        """Forget a response."""
        await self._response(exchange)
        id = exchange.part("id")
        await self._store.delete(exchange.owner, id)
        await exchange.respond(200, encode({"id": id, "object": "response", "deleted": True}))

    async def cancel_response(self, exchange: Exchange) -> None:
        """There is nothing to cancel."""
        await self._response(exchange)
        raise invalid("only a response in the background can be cancelled, and there are none here")

    async def input_items(self, exchange: Exchange) -> None:
        """What a response was made from: its own input, and what that referred back to."""
        kept = await self._response(exchange)
        own = kept.items[: kept.head["input"]]
        before: Sequence[Item] = ()
        if kept.head["previous"]:
            grown = self._intake.grown(exchange)
            found = await chain(self._store, exchange.owner, kept.head["previous"], grown)
            before = [item for one in found or () for item in one.items]
        elif kept.head["conversation"]:
            conversation = await self._store.get(exchange.owner, kept.head["conversation"])
            ids = [item["id"] for item in conversation.items] if conversation else []
            if conversation and own and own[0]["id"] in ids:
                before = conversation.items[: ids.index(own[0]["id"])]
        await exchange.respond(200, encode(_page([*before, *own], exchange)))

    # -- conversations

    async def _conversation(self, exchange: Exchange) -> Kept:
        id = exchange.part("id")
        kept = await self._store.get(exchange.owner, id)
        if kept is None or kept.head.get("kind") != "conversation":
            raise not_found("conversation", id)
        return kept

    async def create_conversation(self, exchange: Exchange) -> None:
        """A new one, with items to begin with."""
        shape = checked(await self._intake.body(exchange), _NewConversation)
        id = _CONVERSATION_ID.new("", 0)
        head = {"kind": "conversation", "created_at": int(time.time()), "metadata": shape.metadata or {}}
        items = _new(shape.items or ())
        if not await self._store.put(exchange.owner, id, head, items):
            raise _no_room()
        await exchange.respond(200, encode(_shown(id, head)))

    async def get_conversation(self, exchange: Exchange) -> None:
        """What is known about one."""
        kept = await self._conversation(exchange)
        await exchange.respond(200, encode(_shown(exchange.part("id"), kept.head)))

    async def update_conversation(self, exchange: Exchange) -> None:
        """Other metadata."""
        shape = checked(await self._intake.body(exchange), _Metadata)
        kept = await self._conversation(exchange)
        head = {**kept.head, "metadata": shape.metadata}
        await self._store.change(exchange.owner, exchange.part("id"), head)
        await exchange.respond(200, encode(_shown(exchange.part("id"), head)))

    async def delete_conversation(self, exchange: Exchange) -> None:
        """Forget one."""
        await self._conversation(exchange)
        id = exchange.part("id")
        await self._store.delete(exchange.owner, id)
        await exchange.respond(200, encode({"id": id, "object": "conversation.deleted", "deleted": True}))

    async def list_items(self, exchange: Exchange) -> None:
        """What was said."""
        kept = await self._conversation(exchange)
        await exchange.respond(200, encode(_page(kept.items, exchange)))

    async def add_items(self, exchange: Exchange) -> None:
        """Say more."""
        items = _new(checked(await self._intake.body(exchange), _NewItems).items)
        await self._conversation(exchange)
        if not await self._store.extend(exchange.owner, exchange.part("id"), items):
            raise _no_room()
        await exchange.respond(200, encode(_listed(items, more=False)))

    async def get_item(self, exchange: Exchange) -> None:
        """One item."""
        kept = await self._conversation(exchange)
        for item in kept.items:
            if item["id"] == exchange.part("item"):
                await exchange.respond(200, encode(item))
                return
        raise not_found("item", exchange.part("item"))

    async def delete_item(self, exchange: Exchange) -> None:
        """Take one item back."""
        kept = await self._conversation(exchange)
        id, item = exchange.part("id"), exchange.part("item")
        if not await self._store.delete(exchange.owner, id, item):
            raise not_found("item", item)
        await exchange.respond(200, encode(_shown(id, kept.head)))


def _new(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    for at, item in enumerate(items):
        if not isinstance(item.get("type", "message"), str):
            raise invalid(f"items[{at}].type is not a string", f"items[{at}].type", "invalid_type")
    return [as_item(item) for item in items]


def _no_room() -> Failure:
    told = "there is no room to keep that (the gateway's setting max_stored_bytes)"
    return Failure("too_large", told, code="store_full")


def _shown(id: str, head: Mapping[str, Any]) -> dict[str, Any]:
    known = {"created_at": head["created_at"], "metadata": head["metadata"]}
    return {"id": id, "object": "conversation", **known}


def _page(items: Sequence[Item], exchange: Exchange) -> dict[str, Any]:
    """The part of a list that a request asks for."""
    asked: dict[str, Any] = dict(exchange.query())
    if str(asked.get("limit", "")).isdecimal():
        asked["limit"] = int(asked["limit"])
    asked = {key: value for key, value in asked.items() if key in ("limit", "order", "after")}
    page = checked(asked, _Page)
    listed = list(items if page.order == "asc" else reversed(items))
    if page.after is not None:
        ids = [item["id"] for item in listed]
        if page.after not in ids:
            raise invalid(f"after: there is no item {page.after!r}", "after")
        listed = listed[ids.index(page.after) + 1 :]
    return _listed(listed[: page.limit], more=len(listed) > page.limit)


def _listed(items: Sequence[Item], *, more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": more,
    }
