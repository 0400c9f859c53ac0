"""Strict decoder for ``chat.completion.chunk`` streams.

Clients read invalid streams in different ways.  If the name of a call is sent twice, some clients concatenate
the two names.  If a call has no index, some clients lose the call and others raise an error.
:class:`ChatStreamDecoder` accepts only streams that all clients read in the same way.  If a chunk breaks
a rule, the error names the rule.  The decoder needs no parser, so it can check the streams of any
server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NoReturn, TypeGuard, get_args

from .._core.conversions.broken_calls import call_from
from .._core.conversions.make_broken_arguments_unparsable import is_poisoned
from ..errors import ProtocolError
from ..events import Channel, FinishReason
from ..message import BrokenCall, Message, Part, TextPart

RULES: Final[dict[str, str]] = {
    "choices": "a chunk has a list of choices, each with an index and a delta object",
    "role": "the first delta has the role 'assistant', and no later delta has a role",
    "text": "content and reasoning are strings, and both reasoning fields are equal",
    "index": "every call delta has an index, and calls are opened as 0, 1, 2, ...",
    "id": "the first delta of a call has the id, a unique string, and later deltas do not repeat it",
    "name": "the first delta of a call has the whole name, a string, and later deltas do not repeat it",
    "type": "the first delta of a call has the type 'function', and later deltas do not repeat it",
    "arguments": "arguments are pieces of JSON text: strings, never objects",
    "null": "a delta leaves out fields that it does not change; no value is null (of an SDK's chunk, pass "
    "chunk.model_dump(exclude_unset=True))",
    "retraction": "the id, name and type of a call never change",
    "end": "no delta follows the terminal chunk",
    "finish": "a stream has exactly one finish_reason, and it fits the content",
    "usage": "usage is sent once, after the terminal chunk, in a chunk with 'choices': []",
    "json": "the joined arguments of a call are one JSON value, or end with poison",
}
"""Rules for valid streams, keyed by the name that a ``ProtocolError`` contains.

The *terminal chunk* is the chunk with a finish reason.
"""

_DELTA_KEYS: Final = {"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls"}
_FINISH_REASONS: Final[dict[object, FinishReason]] = {reason: reason for reason in get_args(FinishReason)}


class _Call:
    """Call with the argument deltas received so far."""

    __slots__ = ("id", "name", "pieces")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class _TextRun:
    """Adjacent text deltas of one channel."""

    __slots__ = ("channel", "pieces")

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.pieces: list[str] = []


class ChatStreamDecoder:
    """Decoder that turns the chunks of one choice into a message, and rejects chunks that break a rule.

    >>> stream = ChatStreamDecoder()
    >>> stream.feed({"role": "assistant", "content": ""})
    >>> stream.feed({"content": "Hi"})
    >>> stream.feed({"delta": {}, "finish_reason": "stop"})
    >>> stream.message.content
    'Hi'
    >>> stream.feed({"content": "!"})
    Traceback (most recent call last):
    ...
    unspool.errors.ProtocolError: chunk 3 breaks rule 'end': the chunk follows the terminal chunk (chunk 2)
        rule: no delta follows the terminal chunk
        chunk: {"content": "!"}
    """

    def __init__(self, *, index: int = 0, lenient: bool = False, check_json: bool = True) -> None:
        self.index = index
        """Index of the choice to read; other choices are skipped."""
        self.lenient = lenient
        """True to treat null values as absent, and to accept usage or ``choices: []`` in any chunk.

        Many servers send such chunks, and most clients accept them.
        """
        self.check_json = check_json
        """True to apply the rule ``json``: the arguments of a call must be JSON.

        The only exception is a broken call, whose arguments must end with poison, the text that makes them
        unreadable (see ``unspool.wire.make_poison``).
        """
        self.usage: Mapping[str, object] | None = None
        """Token counts from the usage chunk."""
        self._count = -1
        self._chunk: object = None
        self._started = False
        self._end: int | None = None
        self._reason: FinishReason | None = None
        self._reasoning_fields = ""
        self._parts: list[_TextRun | _Call] = []
        self._calls: list[_Call] = []

    @property
    def finished(self) -> bool:
        """True after the terminal chunk, which has the finish reason."""
        return self._end is not None

    def feed(self, chunk: Mapping[str, object]) -> None:
        """Read the next chunk; pass the whole chunk object, one entry of its ``choices``, or only a delta.

        :raises ProtocolError: if the chunk breaks a rule; do not feed further chunks after that.
        """
        self._count += 1
        self._chunk = chunk
        if "choices" in chunk:
            self._read_chunk(chunk)
        elif "delta" in chunk or "finish_reason" in chunk:
            if chunk.get("index", self.index) == self.index:
                self._read_choice(chunk.get("delta", {}), chunk.get("finish_reason"))
        elif chunk.keys() <= _DELTA_KEYS:
            self._read_choice(chunk, None)
        else:
            self._fail("usage" if "usage" in chunk else "choices", "the key 'choices' is missing")

    @property
    def message(self) -> Message:
        """Message of the chunks so far.

        Before the terminal chunk, its ``finish_reason`` is None, and no call is among its ``tool_calls``,
        because any call may still continue.  Such calls, and calls whose arguments end with poison, are
        :class:`~unspool.message.BrokenCall` values among its ``parts``.
        """
        parts: list[Part] = []
        for part in self._parts:
            joined = "".join(part.pieces)
            if isinstance(part, _TextRun):
                parts.append(TextPart(part.channel, joined))
            elif self.finished:
                parts.append(call_from(part.id, part.name, joined))
            else:
                parts.append(BrokenCall(part.id, part.name, joined, "truncated", "", "content"))
        return Message(parts=parts, finish_reason=self._reason)

    def finish(self) -> Message:
        """End the stream, and return the whole message.

        :raises ProtocolError: if the stream has no terminal chunk.
        """
        if not self.finished:
            raise ProtocolError(
                f"the stream breaks rule 'finish': it ended after {self._count + 1} chunks "
                "without a finish_reason"
            )
        return self.message

    def _read_chunk(self, chunk: Mapping[str, object]) -> None:
        choices = chunk["choices"]
        if not isinstance(choices, list):
            self._fail("choices", f"'choices' is {_show(choices)}")
        for choice in choices:
            if not isinstance(choice, Mapping) or not _is_index(choice.get("index")):
                self._fail("choices", f"a choice has no index: {_show(choice)}")
            if choice["index"] == self.index:
                self._read_choice(choice.get("delta"), choice.get("finish_reason"))
        if not (choices or self.finished or self.lenient):
            self._fail("usage", "'choices' is empty before the terminal chunk")
        usage = chunk.get("usage")
        if usage is not None:
            self._read_usage(usage, alone=not choices)

    def _read_usage(self, usage: object, *, alone: bool) -> None:
        if not isinstance(usage, Mapping):
            self._fail("usage", f"usage is {_show(usage)}")
        if not (alone or self.lenient):
            self._fail("usage", "usage is in a chunk that has choices")
        if not (self.usage is None or self.lenient):
            self._fail("usage", "usage is sent again")
        self.usage = usage

    def _read_choice(self, delta: object, reason: object) -> None:
        if self._end is not None:
            rule = "end" if reason is None else "finish"
            self._fail(rule, f"the chunk follows the terminal chunk (chunk {self._end})")
        if not isinstance(delta, Mapping):
            self._fail("choices", f"'delta' is {_show(delta)}")
        self._read_delta(delta)
        if reason is not None:
            self._finish(reason)

    def _read_delta(self, delta: Mapping[str, object]) -> None:
        first, self._started = not self._started, True
        # OpenAI itself may send null as the content of the first delta.
        delta = self._drop_nulls(delta, "the delta", allowed=first)
        role = delta.get("role")
        if first and role != "assistant":
            self._fail("role", f"the role in the first delta is {_show(role)}")
        if not first and "role" in delta:
            self._fail("role", f"the role is sent again: {_show(role)}")
        self._read_text(delta)
        entries = delta.get("tool_calls", [])
        if not isinstance(entries, list):
            self._fail("index", f"'tool_calls' is not a list: {_show(entries)}")
        for entry in entries:
            self._read_call(entry)

    def _read_text(self, delta: Mapping[str, object]) -> None:
        texts: dict[str, str] = {}
        for field in ("reasoning_content", "reasoning", "content"):
            text = delta.get(field, "")
            if not isinstance(text, str):
                self._fail("text", f"{field!r} is {_show(text)}")
            if text:
                texts[field] = text
        content = texts.pop("content", "")
        if texts:
            fields = " and ".join(texts)
            if self._reasoning_fields not in ("", fields):
                self._fail(
                    "text", f"reasoning was in {self._reasoning_fields} before, and now it is in {fields}"
                )
            if len(set(texts.values())) > 1:
                self._fail("text", f"{fields} differ")
            self._reasoning_fields = fields
            self._append("reasoning", next(iter(texts.values())))
        if content:
            self._append("content", content)

    def _append(self, channel: Channel, text: str) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _TextRun) or last.channel != channel:
            last = _TextRun(channel)
            self._parts.append(last)
        last.pieces.append(text)

    def _read_call(self, entry: object) -> None:
        index = entry.get("index") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not _is_index(index):
            self._fail("index", f"a call delta has no index: {_show(entry)}")
        if index > len(self._calls):
            self._fail(
                "index", f"a delta has the call index {index}, but the next call has index {len(self._calls)}"
            )
        is_new = index == len(self._calls)
        where = f"the {'first' if is_new else 'next'} delta of call {index}"
        entry = self._drop_nulls(entry, where)
        function = entry.get("function", {})
        if not isinstance(function, Mapping):
            self._fail("arguments", f"'function' in {where} is {_show(function)}")
        function = self._drop_nulls(function, where)
        head = {
            key: holder[key]
            for key, holder in (("id", entry), ("type", entry), ("name", function))
            if key in holder
        }
        if is_new:
            self._open_call(head, where)
        else:
            self._check_continuation(self._calls[index], head, where)
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            self._fail("arguments", f"the arguments in {where} are {_show(arguments)}")
        if arguments:
            self._calls[index].pieces.append(arguments)

    def _open_call(self, head: Mapping[str, object], where: str) -> None:
        for key in ("id", "name", "type"):
            if key not in head:
                self._fail(key, f"{where} has no {key}")
        call_id, name = head["id"], head["name"]
        if not isinstance(call_id, str) or not call_id:
            self._fail("id", f"the id in {where} is {_show(call_id)}")
        if not isinstance(name, str) or not name:
            self._fail("name", f"the name in {where} is {_show(name)}")
        if head["type"] != "function":
            self._fail("type", f"the type in {where} is {_show(head['type'])}")
        if any(call.id == call_id for call in self._calls):
            self._fail("id", f"{where} has the id of another call: {_show(call_id)}")
        call = _Call(call_id, name)
        self._calls.append(call)
        self._parts.append(call)

    def _check_continuation(self, call: _Call, head: Mapping[str, object], where: str) -> None:
        opened = {"id": call.id, "name": call.name, "type": "function"}
        for key, value in head.items():
            if value and value != opened[key]:
                self._fail(
                    "retraction",
                    f"{where} changes the {key} from {_show(opened[key])} to {_show(value)}; "
                    f"another call needs index {len(self._calls)}",
                )
            self._fail(key, f"the {key} is sent again in {where}: {_show(value)}")

    def _finish(self, reason: object) -> None:
        finish_reason = _FINISH_REASONS.get(reason) if isinstance(reason, str) else None
        if finish_reason is None:
            expected = ", ".join(_FINISH_REASONS.values())
            self._fail("finish", f"finish_reason is {_show(reason)}, not one of {expected}")
        if finish_reason == "tool_calls" and not self._calls:
            self._fail("finish", "finish_reason is 'tool_calls', but there was no call")
        if self.check_json:
            for index, call in enumerate(self._calls):
                problem = "" if is_poisoned("".join(call.pieces)) else _json_problem(call.pieces)
                if problem:
                    self._fail("json", f"the arguments of call {index} ({call.name}) are not JSON: {problem}")
        self._reason = finish_reason
        self._end = self._count

    def _drop_nulls(
        self, holder: Mapping[str, object], where: str, *, allowed: bool = False
    ) -> Mapping[str, object]:
        nulls = [key for key, value in holder.items() if value is None]
        if not nulls:
            return holder
        if not (allowed or self.lenient):
            self._fail("null", f"null in {where}: {', '.join(nulls)}")
        return {key: value for key, value in holder.items() if value is not None}

    def _fail(self, rule: str, detail: str) -> NoReturn:
        raise ProtocolError(
            f"chunk {self._count} breaks rule {rule!r}: {detail}\n"
            f"    rule: {RULES[rule]}\n"
            f"    chunk: {_show(self._chunk, 400)}"
        )


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _show(value: object, limit: int = 80) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _json_problem(pieces: list[str]) -> str:
    """Return the reason why the joined argument deltas are not JSON, or an empty string if they are JSON."""
    text = "".join(pieces)
    error = _json_error(text)
    if not error:
        return ""
    if not text:
        return "they are empty; a call without arguments needs one delta '{}'"
    problem = f"{error} in {_show(text, 200)}"
    if len(pieces) > 1 and pieces[-1].startswith(pieces[-2]) and not _json_error(pieces[-1]):
        problem += "; the last delta alone is valid JSON: send only what is new, not the whole text so far"
    return problem


def _json_error(text: str) -> str:
    try:
        # Keep numbers as strings: Python refuses to convert an integer with 5,000 digits.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
