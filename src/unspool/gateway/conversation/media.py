"""Images, documents and audio in conversations.

Media stays in the history of an agent's session, so after one rejection the gateway would have to reject
every later request of that session.  Upstreams that accept media receive the media unchanged.  For other
upstreams, the gateway replaces media with text that describes it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..http.failure import invalid

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
"""Types of media parts in Chat Completions and its extensions, with the words that describe them."""


# -- creating Chat Completions parts from the parts of any API


def image_part(url: str) -> Part:
    """Return an image part with a URL, which may be a data URL."""
    return {"type": "image_url", "image_url": {"url": url}}


def document_part(name: str, media_type: str, data: str) -> Part:
    """Return a text part if the base64 data is a text file, else a file part."""
    if media_type.startswith("text/") or media_type == "application/json":
        text = _decode_text(data)
        if text is not None:
            return {"type": "text", "text": f"{name}:\n{text}" if name else text}
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}


def reference_part(kind: str, name: str) -> Part:
    """Return a text part in place of media that the gateway cannot fetch."""
    return {"type": "text", "text": f"[{kind}: {name}]"}


def _decode_text(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def join_parts(parts: Sequence[Part]) -> str | list[Part]:
    """Return message content: one string if all parts are text, else the list of parts."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


# -- replacing media with text


def describe(part: Mapping[str, Any]) -> str:
    """Return text that describes a media part.

    >>> describe(image_part("data:image/png;base64,AAAA"))
    '[image: image/png, 3 bytes, which this model cannot see]'
    """
    kind = _KINDS[part["type"]]
    inner = part.get(part["type"])
    inner = inner if isinstance(inner, Mapping) else {"url": inner}
    details = [str(inner[key]) for key in ("filename", "file_id", "format") if inner.get(key)]
    address = next(
        (inner[key] for key in ("url", "file_data", "data") if isinstance(inner.get(key), str)), ""
    )
    head, comma, data = address.partition(",")
    if address.startswith("data:") and comma:
        details += [head.removeprefix("data:").removesuffix(";base64"), _size(data)]
    elif "url" in inner and address:
        details.append(address)
    elif address:
        details.append(_size(address))
    label = f"{kind}: {details[0]}" if details else kind
    return f"[{', '.join([label, *details[1:]])}, which this model cannot see]"


def _size(data: str) -> str:
    """Return the decoded size of base64 data in readable form."""
    count = len(data.rstrip("=")) * 3 // 4
    return f"{count} bytes" if count < 10_000 else f"{count // 1000} kB"


def has_media(messages: Iterable[Message]) -> bool:
    """Return whether a conversation contains media."""
    return any(_is_media(part) for message in messages for part in _parts(message))


def without_media(messages: Sequence[Message], *, keep: Sequence[str] = ()) -> list[Message]:
    """Return the conversation with descriptions in place of media.

    :param keep: types of media parts to keep.
    """
    return [_replace_media(message, keep, describe) for message in messages]


def check_parts(messages: Sequence[Message]) -> None:
    """Reject content parts of unknown types."""
    for at, message in enumerate(messages):
        for number, part in enumerate(_parts(message)):
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind not in TEXTS and kind not in _KINDS:
                place = f"messages[{at}].content[{number}]"
                expected = ", ".join(("text", *_KINDS))
                raise invalid(f"{place}.type is {kind!r}; choose one of {expected}", f"{place}.type")


def move_media_to_user(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with the media of tool results moved to a user message after the results.

    Servers accept media only in user messages.
    """
    out: list[Message] = []
    moved: list[Part] = []
    for message in messages:
        if message["role"] == "tool" and has_media([message]):
            id = message.get("tool_call_id")
            media = [part for part in _parts(message) if _is_media(part)]
            moved += [{"type": "text", "text": f"Returned by the tool call {id}:"}, *media]
            message = _replace_media(  # noqa: PLW2901
                message, (), lambda part: f"[{_KINDS[part['type']]}: shown below]"
            )
        elif message["role"] != "tool" and moved:
            out.append({"role": "user", "content": moved})
            moved = []
        out.append(message)
    return [*out, {"role": "user", "content": moved}] if moved else out


def _parts(message: Message) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _is_media(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _KINDS


def _replace_media(message: Message, keep: Sequence[str], text_for: Callable[[Part], str]) -> Message:
    parts = _parts(message)
    if not any(_is_media(part) and part["type"] not in keep for part in parts):
        return message
    content = [
        {"type": "text", "text": text_for(part)} if _is_media(part) and part["type"] not in keep else part
        for part in parts
    ]
    return {**message, "content": join_parts(content)}
