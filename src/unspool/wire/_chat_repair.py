"""Repair of Chat Completions from servers that leave markup in the text.

:class:`ChatRepair` parses the text of a response, streamed or not, and encodes the result as a response
again.  Everything else passes unchanged: unknown fields, usage, chunks without choices, errors, and the
reasoning and tool calls that the server has parsed itself.

Some text is held back until its meaning is certain.  So for one chunk from the server, the client may receive
no chunk or several chunks.  Log probabilities and token ids of held-back text are sent with the next chunk of
the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import ProtocolError
from ..events import FinishReason
from ._base_encoder import Chunk
from ._chat_encoder import ChatStream
from ._choice_reader import ChoiceReader
from ._output_delta import FINISH_REASONS, Delta, read_chat_choice

_CONSTANT: Final = frozenset(("id", "object", "created", "model", "choices"))
"""Fields of a chunk that contain no output, such as its id."""
_CHOICE_FIELDS: Final = frozenset(("index", "delta", "message", "finish_reason", "logprobs", "token_ids"))
_TEXT_FIELDS: Final = ("content", "reasoning_content", "reasoning")
_CALL_FIELDS: Final = frozenset(("index", "id", "type", "function"))


class ChatRepair:
    """Repair of one chat completion, which arrives in chunks or as a whole.

    >>> from unspool import Parser
    >>> repair = ChatRepair(lambda: ChoiceReader(Parser("hermes"), lambda: Parser("hermes")))
    >>> delta = {"content": '<tool_call>{"name": "now", "arguments": {}}</tool_call>'}
    >>> for chunk in repair.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}):
    ...     print(chunk["choices"][0]["finish_reason"], *chunk["choices"][0]["delta"])
    None role content
    None tool_calls
    None tool_calls
    tool_calls
    """

    def __init__(self, new_reader: Callable[[], ChoiceReader]) -> None:
        """Create a repair.

        :param new_reader: function that returns a new reader for a choice.
        """
        self._new_reader = new_reader
        self._choices: dict[int, _Choice] = {}
        self._head: Chunk = {}
        """All fields of the latest chunk except its choices."""
        self.failed = False
        """True if the last chunk is an error, because the policies reject the output."""

    def feed(self, chunk: Mapping[str, Any]) -> list[Chunk]:
        """Return the repaired chunks for the server's next chunk.

        :raises ProtocolError: if the server sends output that does not belong to the API.
        """
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return [dict(chunk)]
        if self.failed:
            return []
        head = {name: value for name, value in chunk.items() if name != "choices"}
        is_news = any(
            value is not None and name not in _CONSTANT and value != self._head.get(name)
            for name, value in head.items()
        )
        self._head = head
        usage = head.get("usage")
        if usage is not None:
            head = {**head, "usage": None}
        out: list[Chunk] = []
        for choice in choices:
            out += self._encode(self._find(choice).feed(choice), head)
        if is_news and not out:
            # The text is held back, but the other fields must not be lost.
            out.append({**head, "choices": [_chunk_choice(choices[0].get("index", 0))]})
        if usage is not None and out:
            out[-1]["usage"] = usage
        return out

    def finish(self, *, end_marked: bool) -> list[Chunk]:
        """End the response after the server's last chunk, and return the chunks that were held back.

        :param end_marked: True if the server has marked the end of the stream.  Choices without a finish
            reason are then treated as complete.  Without an end mark, such choices count as truncated, and
            the client receives no finish reason for them.
        """
        out: list[Chunk] = []
        if self.failed:
            return out
        head = {name: value for name, value in self._head.items() if name in _CONSTANT}
        for choice in self._choices.values():
            if not choice.finished:
                chunks = choice.finish("stop" if end_marked else "length")
                if not end_marked:
                    chunks = [chunk for chunk in chunks if not _is_terminal(chunk)]
                out += self._encode(chunks, head)
        return out

    def response(self, body: Mapping[str, Any]) -> Chunk:
        """Return the repaired version of a response that is not streamed.

        :raises MalformedOutput: if the policies reject the output.
        :raises ProtocolError: if the server sends output that does not belong to the API.
        """
        choices = body.get("choices")
        if not isinstance(choices, list):
            return dict(body)
        return {**body, "choices": [self._find(choice).response(choice) for choice in choices]}

    def _find(self, choice: object) -> _Choice:
        index = choice.get("index", 0) if isinstance(choice, Mapping) else None
        if isinstance(index, bool) or not isinstance(index, int):
            raise ProtocolError("the upstream sent a choice that is not an object with an index")
        if index not in self._choices:
            self._choices[index] = _Choice(index, self._new_reader())
        return self._choices[index]

    def _encode(self, chunks: list[Chunk], head: Chunk) -> list[Chunk]:
        """Return the encoder's chunks with the fields of the server's latest chunk added."""
        out: list[Chunk] = []
        for chunk in chunks:
            if "choices" in chunk:
                out.append({**head, "choices": chunk["choices"]})
            else:
                self.failed = True
                out.append(chunk)
        return out


class _Choice:
    """Repair of one choice."""

    def __init__(self, index: int, reader: ChoiceReader) -> None:
        self.finished = False
        self._reader = reader
        self._stream = ChatStream(reader.planned, index=index)
        self._index = index
        self._call_fields: dict[str, dict[str, Any]] = {}
        """Additional fields of the server's own calls, by call id."""

    def feed(self, choice: Mapping[str, Any]) -> list[Chunk]:
        """Return chunks with the repaired choice."""
        known, extra = self._split(choice, "delta")
        reason = _finish_reason(choice)
        if self.finished:
            if any(known["delta"].values()):
                message = f"the upstream sent output for choice {self._index}, which has finished"
                raise ProtocolError(message)
            return []
        delta = read_chat_choice(known, _standard(reason), logprobs=_logprobs(choice))
        chunks = self._stream.feed(self._reader.feed(delta))
        if self._stream.failed:
            return chunks
        if extra and not chunks:
            chunks.append({"choices": [_chunk_choice(self._index)]})
        choices: list[Any] = [_choice_of(chunk) for chunk in chunks]
        for one in choices:
            for call in one["delta"].get("tool_calls", ()):
                call.update(self._call_fields.get(call.get("id", ""), {}))
        if choices:
            choices[-1]["delta"] |= extra
            choices[-1].update(_other_fields(choice))
            self._add_tokens(choices[0])
        if reason is not None:
            self.finished = True
            choices[-1]["finish_reason"] = _shown_reason(reason, choices[-1]["finish_reason"], extra)
        return chunks

    def finish(self, reason: FinishReason) -> list[Chunk]:
        """Return the chunks that were held back, and the terminal chunk."""
        self.finished = True
        return self._stream.feed(self._reader.feed(Delta(self._index, "", finish=reason)))

    def response(self, choice: Mapping[str, Any]) -> Chunk:
        """Return the repaired choice of a response that is not streamed."""
        if not isinstance(choice.get("message"), Mapping):
            return dict(choice)
        known, extra = self._split(choice, "message")
        reason = _finish_reason(choice)
        delta = read_chat_choice(known, _standard(reason) or "stop", logprobs=_logprobs(choice))
        builder = self._reader.planned.fold()
        builder.feed(self._reader.feed(delta))
        encoded: Any = self._stream.response(builder.message)["choices"]
        message = encoded[0]["message"]
        for call in message.get("tool_calls", ()):
            call.update(self._call_fields.get(call["id"], {}))
        unread = choice["message"].keys() - {*_TEXT_FIELDS, "tool_calls"}
        rest = {name: choice["message"][name] for name in unread}
        out = {
            **choice,
            "message": {**rest, **message, **extra},
            "finish_reason": _shown_reason(reason, encoded[0]["finish_reason"], extra),
        }
        self._add_tokens(out)
        return out

    def _split(self, choice: Mapping[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split a choice into the fields that the reader understands and the fields that pass unchanged.

        :param name: the field with the output: ``delta`` or ``message``.
        """
        source = choice.get(name)
        if source is None:
            source = {}
        if not isinstance(source, Mapping):
            raise ProtocolError(f"the upstream sent a choice whose {name} is not an object")
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for field, value in source.items():
            if field in _TEXT_FIELDS and isinstance(value, str):
                known[field] = value
            elif field == "tool_calls" and _are_functions(value):
                known[field] = value
                for call in value:
                    fields = {key: call[key] for key in call.keys() - _CALL_FIELDS}
                    if fields and call.get("id"):
                        self._call_fields[call["id"]] = fields
            elif field != "role" and value is not None and value != []:
                extra[field] = value
        ids = choice.get("token_ids")
        ids = ids if isinstance(ids, list) else None
        return {"index": self._index, "delta": known, "token_ids": ids}, extra

    def _add_tokens(self, choice: dict[str, Any]) -> None:
        """Add the log probabilities and token ids that have not been sent yet."""
        logprobs, ids = self._reader.take_logprobs(), self._reader.take_token_ids()
        if logprobs:
            choice["logprobs"] = {"content": logprobs, "refusal": None}
        if ids:
            choice["token_ids"] = ids


def _chunk_choice(index: int) -> Chunk:
    """Return the choice of a chunk without output."""
    return {"index": index, "delta": {}, "finish_reason": None}


def _choice_of(chunk: Chunk) -> Any:
    choices: Any = chunk["choices"]
    return choices[0]


def _is_terminal(chunk: Chunk) -> bool:
    return "choices" in chunk and _choice_of(chunk)["finish_reason"] is not None


def _are_functions(calls: object) -> bool:
    """Return whether the value is a list of function calls whose fields have the right types."""
    if not isinstance(calls, list) or not calls:
        return False
    for call in calls:
        if not isinstance(call, Mapping) or call.get("type") not in (None, "", "function"):
            return False
        function = call.get("function")
        if not isinstance(function, (Mapping, type(None))):
            return False
        texts = (call.get("id"), (function or {}).get("name"))
        if not all(isinstance(text, (str, type(None))) for text in texts):
            return False
        if not isinstance(call.get("index"), (int, type(None))):
            return False
    return True


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) and reason else None


def _standard(reason: str | None) -> FinishReason | None:
    """Return the standard form of a finish reason; other reasons, such as ``abort``, count as truncation."""
    return None if reason is None else FINISH_REASONS.get(reason, "length")


def _shown_reason(reason: str | None, ours: str | None, extra: Mapping[str, Any]) -> str | None:
    """Return the finish reason for the client."""
    if reason is None or (reason in FINISH_REASONS and "tool_calls" not in extra):
        return ours
    return reason


def _logprobs(choice: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return content if isinstance(content, list) else None


def _other_fields(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {name: choice[name] for name in choice.keys() - _CHOICE_FIELDS}
