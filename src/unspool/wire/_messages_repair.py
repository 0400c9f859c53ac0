"""Repair of Messages responses from servers that leave markup in the text.

:class:`MessagesRepair` parses the text blocks of a response and encodes them as blocks again: thinking,
text and tool calls.  Every other block passes unchanged, with a new index.  Each text block is parsed on its
own, as if the output ended with the block.  A text block that follows reasoning or calls is parsed as content
from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .._core.conversions.chat import reason_of
from ..events import FinishReason
from ..parser import Parser
from ._base_encoder import Chunk
from ._messages_encoder import MessagesStream

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class MessagesRepair:
    """Repair of one message, which arrives as a stream of events or as a whole.

    >>> repair = MessagesRepair(Parser("hermes"), lambda: Parser("hermes"))
    >>> text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    >>> body = {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    >>> answer = repair.response(body)
    >>> answer["stop_reason"], answer["content"][0]["name"]
    ('tool_use', 'now')
    """

    def __init__(self, parser: Parser, content_parser: Callable[[], Parser]) -> None:
        """Create a repair.

        :param parser: parser of the whole output.
        :param content_parser: function that returns a new parser for text after blocks that the server has
            parsed itself.
        """
        self._parser: Parser | None = parser
        self._content_parser = content_parser
        self._text: _TextBlock | None = None
        """Text block that has not been finished."""
        self._next_index = 0
        """Index of the next block for the client."""
        self._indices: dict[object, int] = {}
        """The client's index of each block that passes unchanged, keyed by the server's index."""
        self._has_calls = False
        self._is_cut = False
        """True if the last text block ends within a call."""
        self._finished = False
        self.failed = False
        """True if the last event is an error, because the policies reject the output."""

    def feed(self, event: Mapping[str, Any]) -> list[Chunk]:
        """Return the repaired events for the next event of the server's stream."""
        if self.failed:
            return []
        kind = event.get("type")
        if kind == "content_block_start":
            return self._start_block(event)
        if kind == "content_block_delta":
            return self._continue_block(event)
        if kind == "content_block_stop":
            index = self._indices.get(event.get("index"))
            return [] if index is None else [{**event, "index": index}]
        if kind == "message_delta":
            return self._end_message(event)
        if kind == "message_stop":
            return [*self.finish(), dict(event)]
        return [dict(event)]

    def finish(self) -> list[Chunk]:
        """End the response after the server's last event, and return the events that were held back.

        If the server has sent no stop reason, the output is truncated.
        """
        return [] if self._finished or self.failed else self._end_text("length")

    def response(self, body: Mapping[str, Any]) -> Chunk:
        """Return the repaired version of a response that is not streamed.

        :raises MalformedOutput: if the policies reject the output, or if a call is malformed.
        """
        blocks = body.get("content")
        if not isinstance(blocks, list):
            return dict(body)
        content: list[Any] = []
        for position, block in enumerate(blocks):
            if not _is_text(block):
                self._parser = None
                content.append(block)
                continue
            is_last = position == len(blocks) - 1
            parser = self._take_parser()
            events = parser.feed(block["text"])
            events += parser.finish(_standard(body.get("stop_reason")) if is_last else "stop")
            message = parser.message(events)
            parsed: Any = MessagesStream(parser).response(message)
            self._record(reason_of(message))
            other = {name: block[name] for name in block.keys() - {"type", "text"}}
            content += [{**one, **other} if one["type"] == "text" else one for one in parsed["content"]]
        out = {**body, "content": content or blocks}
        if "stop_reason" in body:
            out["stop_reason"] = self._stop_reason(body["stop_reason"])
        return out

    def _take_parser(self) -> Parser:
        """Return the parser for the next text block."""
        parser, self._parser = self._parser, None
        return parser or self._content_parser()

    def _start_block(self, event: Mapping[str, Any]) -> list[Chunk]:
        out = self._end_text("stop")
        block = event.get("content_block")
        if isinstance(block, Mapping) and _is_text(block):
            self._text = _TextBlock(self._take_parser(), self._next_index)
            return out + self._check(self._text.feed(block["text"]))
        self._parser = None  # the next text block does not begin the output
        self._indices[event.get("index")] = self._next_index
        out.append({**event, "index": self._next_index})
        self._next_index += 1
        return out

    def _continue_block(self, event: Mapping[str, Any]) -> list[Chunk]:
        index = self._indices.get(event.get("index"))
        if index is not None:
            return [{**event, "index": index}]
        delta = event.get("delta")
        text = delta.get("text") if isinstance(delta, Mapping) else None
        if self._text is None:
            return [dict(event)]
        if isinstance(text, str):
            return self._check(self._text.feed(text))
        return [{**event, "index": self._text.index}]

    def _end_message(self, event: Mapping[str, Any]) -> list[Chunk]:
        delta = event.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, Mapping) else None
        if self._finished or not isinstance(delta, Mapping) or reason is None:
            return [dict(event)]
        self._finished = True
        out = self._end_text(_standard(reason))
        if not self.failed:
            out.append({**event, "delta": {**delta, "stop_reason": self._stop_reason(reason)}})
        return out

    def _end_text(self, reason: FinishReason) -> list[Chunk]:
        """Finish the open text block, and return its last events."""
        text, self._text = self._text, None
        if text is None:
            return []
        out = self._check(text.finish(reason))
        self._next_index = text.index + 1
        self._record(text.finish_reason)
        return out

    def _record(self, reason: FinishReason) -> None:
        """Record the finish reason of a text block."""
        self._has_calls = self._has_calls or reason == "tool_calls"
        self._is_cut = reason == "length"

    def _check(self, chunks: list[Chunk]) -> list[Chunk]:
        self.failed = self.failed or any(chunk["type"] == "error" for chunk in chunks)
        return chunks

    def _stop_reason(self, reason: object) -> object:
        """Return the stop reason for the client."""
        if reason not in ("end_turn", "stop_sequence"):
            return reason
        return "max_tokens" if self._is_cut else "tool_use" if self._has_calls else reason


class _TextBlock:
    """Text block from the server, which is converted to any number of blocks for the client."""

    def __init__(self, parser: Parser, first_index: int) -> None:
        self.index = first_index - 1
        """Index of the latest block that was sent to the client."""
        self._parser = parser
        self._stream = MessagesStream(parser)
        self._stream.feed(())  # discard the message start, which the server has already sent
        self._first_index = first_index

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason of the block, after it has been finished."""
        return self._stream.finish_reason

    def feed(self, text: str) -> list[Chunk]:
        """Return stream events for more text."""
        return self._shift(self._stream.feed(self._parser.feed(text)))

    def finish(self, reason: FinishReason) -> list[Chunk]:
        """Return the last events."""
        chunks = self._stream.feed(self._parser.finish(reason))
        return self._shift(
            [chunk for chunk in chunks if chunk["type"] not in ("message_delta", "message_stop")]
        )

    def _shift(self, chunks: list[Chunk]) -> list[Chunk]:
        for chunk in chunks:
            if "index" in chunk:
                self.index = self._first_index + int(str(chunk["index"]))
                chunk["index"] = self.index
        return chunks


def _is_text(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _standard(reason: object) -> FinishReason:
    """Return the standard form of a stop reason; an unknown reason means that the output is complete."""
    return _FINISH_REASONS.get(reason, "stop") if isinstance(reason, str) else "stop"
