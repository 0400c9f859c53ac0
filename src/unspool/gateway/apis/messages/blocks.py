"""The conversation of ``/v1/messages``: blocks as messages of chat completions.

Thinking, text and tool_use of an assistant are one turn; results of tools in a user's
message are messages of the role tool, before the user's own text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...conversation import media
from ...conversation.media import Part
from ...http.errors import Failure, invalid
from ..validation import string_at

Block = Mapping[str, Any]

_RUN_BY_VENDOR: Final = ("server_tool_use", "mcp_tool_use", "mcp_tool_result", "container_upload")


class MessageHistory:
    """Messages from blocks."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        """For the log."""

    def take(self, role: str, content: str | Sequence[Block], place: str) -> None:
        """The next message."""
        if isinstance(content, str):
            self.messages.append({"role": role, "content": content})
        elif role == "assistant":
            self.messages.append(self._assistant(content, place))
        elif role == "system":
            self.messages.append({"role": "system", "content": text_of(content, f"{place}.content")})
        else:
            self._user(content, place)

    def _assistant(self, blocks: Sequence[Block], place: str) -> dict[str, Any]:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[dict[str, Any]] = []
        for at, block in enumerate(blocks):
            where = f"{place}.content[{at}]"
            match block.get("type"):
                case "thinking":
                    thoughts.append(string_at(block, "thinking", where))
                case "tool_use":
                    calls.append(_call(block, where))
                case "redacted_thinking":
                    pass  # nobody but its vendor can read it
                case _:
                    parts = self._block(block, where)
                    texts += [part["text"] if "text" in part else media.described(part) for part in parts]
        turn: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or (None if calls else "")}
        if thoughts:
            turn["reasoning_content"] = "\n".join(thoughts)
        if calls:
            turn["tool_calls"] = calls
        return turn

    def _user(self, blocks: Sequence[Block], place: str) -> None:
        parts: list[Part] = []
        results = 0
        for at, block in enumerate(blocks):
            where = f"{place}.content[{at}]"
            if block.get("type") != "tool_result":
                parts += self._block(block, where)
                continue
            results += 1
            id = string_at(block, "tool_use_id", where)
            self.messages.append({"role": "tool", "tool_call_id": id, "content": self._result(block, where)})
        if parts or not results:
            self.messages.append({"role": "user", "content": media.joined(parts)})

    def _result(self, block: Block, where: str) -> str | list[Part]:
        parts = self._content(block.get("content"), f"{where}.content")
        if not block.get("is_error"):
            return media.joined(parts)
        if parts and parts[0]["type"] == "text":
            return media.joined([{"type": "text", "text": f"Error: {parts[0]['text']}"}, *parts[1:]])
        return media.joined([{"type": "text", "text": "Error: "}, *parts])

    def _content(self, given: object, place: str) -> list[Part]:
        """Content inside of a block: text, or blocks."""
        if given is None or isinstance(given, str):
            return [{"type": "text", "text": given}] if given else []
        if not isinstance(given, Sequence):
            raise _no_content(place)
        return [part for at, block in enumerate(given) for part in self._block(block, f"{place}[{at}]")]

    def _block(self, block: object, where: str) -> list[Part]:
        """A block that is no call, no thought and no result of a tool."""
        if not isinstance(block, Mapping):
            raise unreadable(type(block).__name__, where)
        match block.get("type"):
            case "text":
                return [{"type": "text", "text": string_at(block, "text", where)}]
            case "image":
                return [self._source("image", block, where)]
            case "document":
                return self._document(block, where)
            case "search_result":
                head = {"type": "text", "text": f"{block.get('title')} ({block.get('source')}):"}
                return [head, *self._content(block.get("content"), f"{where}.content")]
            case "tool_reference":
                return [{"type": "text", "text": f"The tool {block.get('tool_name')} is offered."}]
            case "compaction":
                return self._content(block.get("content"), f"{where}.content")
            case str(kind) if kind in _RUN_BY_VENDOR or kind.endswith("_tool_result"):
                self.left_out.append(f"{kind} in a conversation: only its vendor can run it")
                return []
            case kind:
                raise unreadable(kind, where)

    def _document(self, block: Block, where: str) -> list[Part]:
        about = [str(block[key]) for key in ("title", "context") if block.get(key)]
        source = block.get("source")
        inside = isinstance(source, Mapping) and source.get("type") in ("text", "content")
        if not inside:
            return [self._source("document", block, where)]
        head: list[Part] = [{"type": "text", "text": "\n".join(about) + ":"}] if about else []
        given = block["source"].get("data", block["source"].get("content"))
        return [*head, *self._content(given, f"{where}.source.content")]

    def _source(self, kind: str, block: Block, where: str) -> Part:
        source = block.get("source")
        source = source if isinstance(source, Mapping) else {}
        name = str(block.get("title") or "")
        match source.get("type"):
            case "base64" if isinstance(source.get("data"), str):
                media_type, data = str(source.get("media_type") or "application/octet-stream"), source["data"]
                if kind == "image":
                    return media.image(f"data:{media_type};base64,{data}")
                return media.document(name, media_type, data)
            case "url" if isinstance(source.get("url"), str):
                url = str(source["url"])
                return media.image(url) if kind == "image" else media.absent(kind, f"{name} {url}".strip())
            case "file":
                return media.absent(kind, f"{name} {source.get('file_id')}".strip())
            case _:
                raise invalid(f"{where}.source: expected {kind} as base64, url or file", f"{where}.source")


def _call(block: Block, where: str) -> dict[str, Any]:
    arguments = block.get("input")
    # Clients send text back that they could not read.
    if not isinstance(arguments, Mapping | str):
        raise invalid(f"{where}.input is not an object", f"{where}.input", "invalid_type")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": string_at(block, "name", where), "arguments": text}
    return {"id": string_at(block, "id", where), "type": "function", "function": function}


def text_of(blocks: object, place: str) -> str:
    """The text of blocks that must be text."""
    if not isinstance(blocks, Sequence):
        raise _no_content(place)
    texts: list[str] = []
    for at, block in enumerate(blocks):
        if not isinstance(block, Mapping) or block.get("type") != "text":
            kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
            raise unreadable(kind, f"{place}[{at}]")
        texts.append(string_at(block, "text", f"{place}[{at}]"))
    return "\n".join(texts)


def _no_content(place: str) -> Failure:
    return invalid(f"{place} is not a string or a list of blocks", place, "invalid_type")


def unreadable(kind: object, place: str) -> Failure:
    """A block that nobody knows."""
    return invalid(f"{place}.type is {kind!r}, which this gateway cannot read here", f"{place}.type")
