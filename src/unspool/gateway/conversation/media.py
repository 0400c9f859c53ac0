"""Pictures, documents and sounds in a conversation.

They stay in the history of an agent's session, so that a request that is refused for
one is refused for ever.  An upstream that takes them gets them; for any other a text
stands in their place, which says what was there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..http.errors import invalid

Part: TypeAlias = dict[str, Any]
Message: TypeAlias = Mapping[str, Any]

TEXTS: Final = ("text", "input_text", "refusal")
IMAGES: Final = ("image_url",)
_KINDS: Final = {
    "image_url": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "file": "file",
}
"""Parts that chat completions and their extensions have besides text."""


# -- parts, whichever API they come from


def image(url: str) -> Part:
    """A picture at an address, or in one that holds it."""
    return {"type": "image_url", "image_url": {"url": url}}


def document(name: str, media_type: str, data: str) -> Part:
    """A file with its content, encoded as base64; the content itself if it is text."""
    if media_type.startswith("text/") or media_type == "application/json":
        text = _decoded(data)
        if text is not None:
            return {"type": "text", "text": f"{name}:\n{text}" if name else text}
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}


def absent(kind: str, name: str) -> Part:
    """Something that is kept elsewhere, and cannot be fetched here."""
    return {"type": "text", "text": f"[{kind}: {name}]"}


def _decoded(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def joined(parts: Sequence[Part]) -> str | list[Part]:
    """Content: text, or a list of parts if there is more than text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


# -- what stands in their place


def described(part: Mapping[str, Any]) -> str:
    """A text that says what was there.

    >>> described(image("data:image/png;base64,AAAA"))
    '[image: image/png, 3 bytes, which this model cannot see]'
    """
    kind = _KINDS[part["type"]]
    inner = part.get(part["type"])
    inner = inner if isinstance(inner, Mapping) else {"url": inner}
    told = [str(inner[key]) for key in ("filename", "file_id", "format") if inner.get(key)]
    address = next(
        (inner[key] for key in ("url", "file_data", "data") if isinstance(inner.get(key), str)), ""
    )
    head, comma, data = address.partition(",")
    if address.startswith("data:") and comma:
        told += [head.removeprefix("data:").removesuffix(";base64"), _size(data)]
    elif "url" in inner and address:
        told.append(address)
    elif address:
        told.append(_size(address))
    return f"[{', '.join([f'{kind}: {told[0]}' if told else kind, *told[1:]])}, which this model cannot see]"


def _size(data: str) -> str:
    count = len(data.rstrip("=")) * 3 // 4
    return f"{count} bytes" if count < 10_000 else f"{count // 1000} kB"


def has_media(messages: Iterable[Message]) -> bool:
    """Whether there is anything but text in a conversation."""
    return any(_is_media(part) for message in messages for part in _parts(message))


def without_media(messages: Sequence[Message], *, keep: Sequence[str] = ()) -> list[Message]:
    """The same conversation, with texts in the places of what is not kept.

    :param keep: types of parts that stay.
    """
    return [_replaced(message, keep, described) for message in messages]


def check_parts(messages: Sequence[Message]) -> None:
    """Refuse parts that nobody knows."""
    for at, message in enumerate(messages):
        for number, part in enumerate(_parts(message)):
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind not in TEXTS and kind not in _KINDS:
                place = f"messages[{at}].content[{number}]"
                known = ", ".join(("text", *_KINDS))
                raise invalid(f"{place}.type is {kind!r}; known are {known}", f"{place}.type")


def results_as_text(messages: Sequence[Message]) -> list[Message]:
    """The same conversation, with what tools returned besides text shown by the user behind their results.

    That is where servers look for pictures.
    """
    out: list[Message] = []
    shown: list[Part] = []
    for message in messages:
        if message["role"] == "tool" and has_media([message]):
            id = message.get("tool_call_id")
            own = [part for part in _parts(message) if _is_media(part)]
            shown += [{"type": "text", "text": f"Returned by the tool call {id}:"}, *own]
            message = _replaced(message, (), lambda part: f"[{_KINDS[part['type']]}: shown below]")  # noqa: PLW2901
        elif message["role"] != "tool" and shown:
            out.append({"role": "user", "content": shown})
            shown = []
        out.append(message)
    return [*out, {"role": "user", "content": shown}] if shown else out


def _parts(message: Message) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _is_media(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _KINDS


def _replaced(message: Message, keep: Sequence[str], text_for: Callable[[Part], str]) -> Message:
    parts = _parts(message)
    if not any(_is_media(part) and part["type"] not in keep for part in parts):
        return message
    content = [
        {"type": "text", "text": text_for(part)} if _is_media(part) and part["type"] not in keep else part
        for part in parts
    ]
    return {**message, "content": joined(content)}
