"""Conversion of Anthropic's content blocks to Chat Completions messages.

The thinking, text and tool_use blocks of an assistant message become one message.  Each tool_result block
of a user message becomes a message with the role ``tool``, which precedes the user's own text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...conversation import media
from ...conversation.media import Part
from ...http.failure import Failure, invalid
from ..validation import string_at

Block = Mapping[str, Any]

_VENDOR_BLOCKS: Final = ("server_tool_use", "mcp_tool_use", "mcp_tool_result", "container_upload")
"""Content block types of tools that only Anthropic can run."""


class MessageHistory:
    """Converter that turns a conversation of content blocks into Chat Completions messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ignored: list[str] = []
        """One log entry per ignored block, with the reason why it was ignored."""

    def add(self, role: str, content: str | Sequence[Block], place: str) -> None:
        """Convert one message of the request, and append the result to ``messages``."""
        if isinstance(content, str):
            self.messages.append({"role": role, "content": content})
        elif role == "assistant":
            self.messages.append(self._assistant(content, place))
        elif role == "system":
            text = read_text(content, f"{place}.content")
            self.messages.append({"role": "system", "content": text})
        else:
            self._user(content, place)

    def _assistant(self, blocks: Sequence[Block], place: str) -> dict[str, Any]:
        texts: list[str] = []
        reasoning: list[str] = []
        calls: list[dict[str, Any]] = []
        for at, block in enumerate(blocks):
            where = f"{place}.content[{at}]"
            match block.get("type"):
                case "thinking":
                    reasoning.append(string_at(block, "thinking", where))
                case "tool_use":
                    calls.append(_read_call(block, where))
                case "redacted_thinking":
                    pass  # only the vendor can decrypt this block
                case _:
                    parts = self._block(block, where)
                    texts += [part["text"] if "text" in part else media.describe(part) for part in parts]
        turn: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or (None if calls else "")}
        if reasoning:
            turn["reasoning_content"] = "\n".join(reasoning)
        if calls:
            turn["tool_calls"] = calls
        return turn

    def _user(self, blocks: Sequence[Block], place: str) -> None:
        parts: list[Part] = []
        result_count = 0
        for at, block in enumerate(blocks):
            where = f"{place}.content[{at}]"
            if block.get("type") != "tool_result":
                parts += self._block(block, where)
                continue
            result_count += 1
            id = string_at(block, "tool_use_id", where)
            self.messages.append({"role": "tool", "tool_call_id": id, "content": self._result(block, where)})
        if parts or not result_count:
            self.messages.append({"role": "user", "content": media.join_parts(parts)})

    def _result(self, block: Block, where: str) -> str | list[Part]:
        parts = self._content(block.get("content"), f"{where}.content")
        if not block.get("is_error"):
            return media.join_parts(parts)
        if parts and parts[0]["type"] == "text":
            return media.join_parts([{"type": "text", "text": f"Error: {parts[0]['text']}"}, *parts[1:]])
        return media.join_parts([{"type": "text", "text": "Error: "}, *parts])

    def _content(self, content: object, place: str) -> list[Part]:
        """Convert a block's content; the content is a string or a list of blocks."""
        if content is None or isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        if not isinstance(content, Sequence):
            raise _invalid_content(place)
        return [part for at, block in enumerate(content) for part in self._block(block, f"{place}[{at}]")]

    def _block(self, block: object, where: str) -> list[Part]:
        """Convert a block of any type except thinking, tool_use and tool_result."""
        if not isinstance(block, Mapping):
            raise unknown_block(type(block).__name__, where)
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
                return [{"type": "text", "text": f"The tool {block.get('tool_name')} is available."}]
            case "compaction":
                return self._content(block.get("content"), f"{where}.content")
            case str(kind) if kind in _VENDOR_BLOCKS or kind.endswith("_tool_result"):
                self.ignored.append(f"{kind} in a conversation: only the API's vendor can run such tools")
                return []
            case kind:
                raise unknown_block(kind, where)

    def _document(self, block: Block, where: str) -> list[Part]:
        heading = [str(block[key]) for key in ("title", "context") if block.get(key)]
        source = block.get("source")
        is_inline = isinstance(source, Mapping) and source.get("type") in ("text", "content")
        if not is_inline:
            return [self._source("document", block, where)]
        head: list[Part] = [{"type": "text", "text": "\n".join(heading) + ":"}] if heading else []
        content = block["source"].get("data", block["source"].get("content"))
        return [*head, *self._content(content, f"{where}.source.content")]

    def _source(self, kind: str, block: Block, where: str) -> Part:
        source = block.get("source")
        source = source if isinstance(source, Mapping) else {}
        name = str(block.get("title") or "")
        match source.get("type"):
            case "base64" if isinstance(source.get("data"), str):
                media_type, data = str(source.get("media_type") or "application/octet-stream"), source["data"]
                if kind == "image":
                    return media.image_part(f"data:{media_type};base64,{data}")
                return media.document_part(name, media_type, data)
            case "url" if isinstance(source.get("url"), str):
                url = str(source["url"])
                if kind == "image":
                    return media.image_part(url)
                return media.reference_part(kind, f"{name} {url}".strip())
            case "file":
                return media.reference_part(kind, f"{name} {source.get('file_id')}".strip())
            case _:
                raise invalid(
                    f"{where}.source is not valid; send base64 data, a url or a file id", f"{where}.source"
                )


def _read_call(block: Block, where: str) -> dict[str, Any]:
    arguments = block.get("input")
    # If a client cannot parse the input of a call, the client sends the input back as a string.
    if not isinstance(arguments, Mapping | str):
        raise invalid(f"{where}.input is not an object", f"{where}.input", "invalid_type")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": string_at(block, "name", where), "arguments": text}
    return {"id": string_at(block, "id", where), "type": "function", "function": function}


def read_text(blocks: object, place: str) -> str:
    """Return the joined text of blocks, which must all be text blocks."""
    if not isinstance(blocks, Sequence):
        raise _invalid_content(place)
    texts: list[str] = []
    for at, block in enumerate(blocks):
        if not isinstance(block, Mapping) or block.get("type") != "text":
            kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
            raise unknown_block(kind, f"{place}[{at}]")
        texts.append(string_at(block, "text", f"{place}[{at}]"))
    return "\n".join(texts)


def _invalid_content(place: str) -> Failure:
    return invalid(f"{place} is not a string or a list of blocks", place, "invalid_type")


def unknown_block(kind: object, place: str) -> Failure:
    """Return the failure for a block type that the gateway does not support."""
    return invalid(f"{place}.type is {kind!r}, which is not supported here", f"{place}.type")
