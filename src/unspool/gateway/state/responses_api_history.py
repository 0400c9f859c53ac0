"""Loading of the stored data that a ``/v1/responses`` request refers to, and storage of the response.

A response is stored with its own input and output, and with the id of the response that it
continues.  Following these ids yields the whole conversation.  If a request names a conversation
object, the input and the output are also added to that object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain as chained
from typing import TYPE_CHECKING, Any, Final

from ...dialects import IdFormat
from ...wire import is_poisoned_as_malformed
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_json
from .store import Item, Packed, Row, Store, decoded, pack_items

if TYPE_CHECKING:
    from ..http.exchange import Exchange
    from ..http.request_body import BodyReader
    from ..http.thread_pools import RunWork

RESPONSE: Final = "response"
CONVERSATION: Final = "conversation"

_IDS: Final = {
    "message": IdFormat("msg_{random}"),
    "reasoning": IdFormat("rs_{random}"),
    "function_call": IdFormat("fc_{random}"),
    "function_call_output": IdFormat("fco_{random}"),
    "custom_tool_call": IdFormat("ctc_{random}"),
    "custom_tool_call_output": IdFormat("ctco_{random}"),
}
_OTHER_ID: Final = IdFormat("item_{random}")


@dataclass(frozen=True, slots=True)
class StoredContext:
    """Stored data that a request refers to."""

    items: Sequence[Item] = ()
    """Items of earlier turns, which precede the input of the request."""
    referred: Mapping[str, Item] = field(default_factory=dict)
    """Stored items that the input refers to, by id."""
    conversation: str | None = None
    """Id of the conversation object to which input and output are added."""


def as_item(data: Mapping[str, Any]) -> Item:
    """Return an item in its stored form: every item has an id, and a message's text is a content part."""
    kind = data.get("type", "message")
    id = data.get("id")
    if not isinstance(id, str) or not id:
        id = _IDS.get(kind, _OTHER_ID).new("", 0)
    item = {"type": kind, **data, "id": id}
    if kind != "reasoning":
        item["status"] = data.get("status") or "completed"
    content = data.get("content")
    if kind == "message" and isinstance(content, str):
        part = "output_text" if data.get("role") == "assistant" else "input_text"
        more: dict[str, Any] = {"annotations": [], "logprobs": []} if part == "output_text" else {}
        item["content"] = [{"type": part, "text": content, **more}]
    return item


async def load_context(
    store: Store, bodies: BodyReader, exchange: Exchange, body: Mapping[str, Any]
) -> StoredContext:
    """Return the stored data that a request refers to.

    The request is rejected if the data is too large, or if a response or conversation is missing.  Before
    the data is decoded, its size is added to the size of the request, once for each reference.
    """
    tenant = exchange.tenant
    previous, conversation = body.get("previous_response_id"), _conversation(body.get("conversation"))
    if previous and conversation:
        raise invalid("send either previous_response_id or conversation, not both", "conversation")
    rows: Sequence[Row] = ()
    if isinstance(previous, str) and previous:
        rows = await _before(store, bodies, exchange, previous)
    elif conversation:
        entry = await store.get(tenant, conversation)
        if entry is None or entry.kind != CONVERSATION:
            raise not_found("conversation", conversation, "conversation")
        bodies.charge(exchange, *entry.weight)
        rows = await store.rows(tenant, conversation)
    references = await bodies.run(exchange, _references, body.get("input"))
    for id, weight in (await store.weigh(tenant, list(references)) if references else {}).items():
        bodies.charge(exchange, *weight, references[id])
    referred = await store.find(tenant, list(references)) if references else {}

    def decode() -> StoredContext:
        items = [decoded(row.data) for row in rows]
        if conversation is None:
            items = [item for item in items if _can_be_answered(item)]
        return StoredContext(items, {id: decoded(data) for id, data in referred.items()}, conversation)

    return await bodies.run(exchange, decode)


def _references(data: object) -> Counter[str]:
    """Return the ids of the items that the input refers to, each with the number of references to it."""
    return Counter(
        str(item["id"])
        for item in (data if isinstance(data, list) else ())
        if isinstance(item, Mapping) and item.get("type") == "item_reference" and "id" in item
    )


def _conversation(value: object) -> str | None:
    id = value.get("id") if isinstance(value, Mapping) else value
    if id is None:
        return None
    if not isinstance(id, str) or not id:
        raise invalid("conversation: expected an id, or an object with an id", "conversation", "invalid_type")
    return id


async def _before(store: Store, bodies: BodyReader, exchange: Exchange, id: str) -> list[Row]:
    """Return all items up to the end of the response with this id."""
    rows = await chain(store, bodies, exchange, id)
    if rows is None:
        raise invalid(
            f"previous_response_id: {id!r} is not stored here; send the whole conversation as input",
            "previous_response_id",
            "previous_response_not_found",
        )
    return rows


async def chain(store: Store, bodies: BodyReader, exchange: Exchange, id: str) -> list[Row] | None:
    """Return the items of a response and of all responses that it continues, oldest first.

    Return None if one of these responses is no longer stored.
    """
    out: list[list[Row]] = []
    current = id
    while current:
        entry = await store.get(exchange.tenant, current)
        if entry is None or entry.kind != RESPONSE:
            return None
        bodies.charge(exchange, *entry.weight)
        out.append(await store.rows(exchange.tenant, current))
        current = entry.previous
    return list(chained.from_iterable(reversed(out)))


def _can_be_answered(item: Mapping[str, Any]) -> bool:
    """Return whether a conversation can continue after this item.

    A conversation cannot continue after a truncated call.  After a malformed call, a conversation can
    continue, because the result of the call reports the error to the model.
    """
    if item.get("status") != "incomplete" or "content" in item:
        return True
    return is_poisoned_as_malformed(str(item.get("arguments")))


async def keep_response(
    store: Store,
    tenant: str,
    response: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]],
    *,
    conversation: str | None,
    stored: bool,
    run: RunWork,
) -> None:
    """Store a response: by itself, in a conversation object, or both.

    :param items: input items of the request.
    :param conversation: id of the conversation object to which input and output are added, or None.
    :param stored: True to store the response by itself.
    :param run: function that runs the encoding, in a thread if the response is large.
    """

    def packed() -> tuple[list[Row], Packed]:
        # Each item is converted when it is encoded.  Garbage collections would be long if all were kept.
        input_rows, output = pack_items(map(as_item, items)), pack_items(response["output"])
        added = [row for row, item in zip(output, response["output"], strict=True) if _can_be_answered(item)]
        head = {
            "response": {key: value for key, value in response.items() if key != "output"},
            "conversation": conversation,
            "input": len(input_rows),
        }
        previous = response.get("previous_response_id") or ""
        return [*input_rows, *added], Packed(RESPONSE, encode_json(head), [*input_rows, *output], previous)

    if conversation is None and not stored:
        return
    added, entry = await run(packed)
    if conversation is not None:
        await store.extend(tenant, conversation, added)
    if stored:
        await store.put(tenant, response["id"], entry)


def not_found(kind: str, id: str, param: str | None = None) -> Failure:
    """Return the failure for data that is not stored, or that belongs to another tenant."""
    message = f"{kind} {id!r} is not stored here; it may have been deleted"
    return Failure("not_found", message, param=param, code=f"{kind.replace(' ', '_')}_not_found")
