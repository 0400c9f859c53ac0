"""What a response's request refers back to, and what is kept of a response.

A response is kept with its own input and output, and with the id of the one that it
went on from: the conversation is found by going back.  One that belongs to a
conversation adds to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .._core.values.ids import IdFormat
from ..wire.broken import is_spoilt_as_malformed
from .failure import Failure, invalid
from .store import Grown, Item, Kept, Store

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
class Past:
    """What a request refers back to."""

    items: Sequence[Item] = ()
    """What was said before its input."""
    referred: Mapping[str, Item] = field(default_factory=dict)
    """Items that its input refers to, as far as they are kept, by their ids."""
    conversation: str | None = None
    """What its input and its output are to be added to."""


def as_item(given: Mapping[str, Any]) -> Item:
    """An item of an input as it is kept and listed: with an id, and a message's text in a part."""
    kind = given.get("type", "message")
    id = given.get("id")
    if not isinstance(id, str) or not id:
        id = _IDS.get(kind, _OTHER_ID).new("", 0)
    item = {"type": kind, **given, "id": id}
    if kind != "reasoning":
        item["status"] = given.get("status") or "completed"
    content = given.get("content")
    if kind == "message" and isinstance(content, str):
        part = "output_text" if given.get("role") == "assistant" else "input_text"
        more: dict[str, Any] = {"annotations": [], "logprobs": []} if part == "output_text" else {}
        item["content"] = [{"type": part, "text": content, **more}]
    return item


async def recall(store: Store, owner: str, body: Mapping[str, Any], grown: Grown) -> Past:
    """What the request refers back to; a failure if that is not there."""
    previous, conversation = body.get("previous_response_id"), _conversation(body.get("conversation"))
    if previous and conversation:
        raise invalid("give previous_response_id or conversation, not both", "conversation")
    items: Sequence[Item] = ()
    if isinstance(previous, str) and previous:
        items = await _before(store, owner, previous, grown)
    elif conversation:
        kept = await store.get(owner, conversation)
        if kept is None or kept.head.get("kind") != "conversation":
            raise not_found("conversation", conversation, "conversation")
        grown(kept.size)
        items = kept.items
    listed = body.get("input")
    wanted = [
        item["id"]
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, Mapping) and item.get("type") == "item_reference" and "id" in item
    ]
    found = {str(id): await store.item(owner, str(id)) for id in wanted}
    return Past(items, {id: item for id, item in found.items() if item is not None}, conversation)


def _conversation(given: object) -> str | None:
    id = given.get("id") if isinstance(given, Mapping) else given
    if id is None:
        return None
    if not isinstance(id, str) or not id:
        raise invalid("conversation: an id, or an object that has one", "conversation", "invalid_type")
    return id


async def _before(store: Store, owner: str, id: str, grown: Grown) -> list[Item]:
    """What was said up to the end of a response."""
    found = await chain(store, owner, id, grown)
    if found is None:
        raise invalid(
            f"previous_response_id: {id!r} is not kept here, or not any more; "
            "send the whole conversation as input",
            "previous_response_id",
            "previous_response_not_found",
        )
    return [item for kept in found for item in kept.items if _can_be_answered(item)]


async def chain(store: Store, owner: str, id: str, grown: Grown) -> list[Kept] | None:
    """A response and those that it went on from, the first of them first; None: one of them is gone."""
    out: list[Kept] = []
    before: str | None = id
    while before:
        kept = await store.get(owner, before)
        if kept is None or kept.head.get("kind") != "response":
            return None
        grown(kept.size)
        out.append(kept)
        before = kept.head["previous"]
    return out[::-1]


def _can_be_answered(item: Mapping[str, Any]) -> bool:
    """Whether a conversation can go on from an item: not from half a call; what is wrong with one is told."""
    if item.get("status") != "incomplete" or "content" in item:
        return True
    return is_spoilt_as_malformed(str(item.get("arguments")))


async def keep(
    store: Store,
    owner: str,
    response: Mapping[str, Any],
    items: Sequence[Item],
    *,
    conversation: str | None,
    stored: bool,
) -> None:
    """Keep a response.

    :param items: its input.
    :param conversation: what to add to.
    :param stored: whether it is kept by itself, too.
    """
    output = response["output"]
    if conversation is not None:
        await store.extend(owner, conversation, [*items, *filter(_can_be_answered, output)])
    if stored:
        head = {
            "kind": "response",
            "response": {key: value for key, value in response.items() if key != "output"},
            "previous": response.get("previous_response_id"),
            "conversation": conversation,
            "input": len(items),
        }
        await store.put(owner, response["id"], head, [*items, *output])


def not_found(kind: str, id: str, param: str | None = None) -> Failure:
    """Something that is not kept, or not for this owner."""
    told = f"{kind} {id!r} is not kept here, or not any more"
    return Failure("not_found", told, param=param, code=f"{kind.replace(' ', '_')}_not_found")
