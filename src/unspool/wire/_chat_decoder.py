"""Reading ``chat.completion.chunk`` streams back, strictly.

Clients disagree about broken streams: one concatenates a name that comes twice,
one loses a call without index, one throws.  :class:`ChatStreamDecoder` accepts only
what all of them read the same way, and says which rule a chunk breaks.  It knows
nothing about parsers, so it can judge the stream of any server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NoReturn, TypeGuard, get_args

from ..errors import ProtocolError
from ..events import Channel, FinishReason
from ..message import Message, Part, TextPart, ToolCall
from ._poisoned_calls import is_poisoned

RULES: Final[dict[str, str]] = {
    "choices": "a chunk has a list of choices, each with an index and a delta object",
    "role": "the role is 'assistant'; it comes in the first delta and never again",
    "text": "content and reasoning are strings, and both reasoning fields say the same",
    "index": "every call delta has an index, and calls are opened as 0, 1, 2, ...",
    "id": "a call's id is a string of its own; it comes in the opener and never again",
    "name": "a call's name is a string; it comes whole in the opener and never again",
    "type": "a call's type is 'function'; it comes in the opener and never again",
    "arguments": "arguments are pieces of JSON text: strings, never objects",
    "null": "what a delta does not change is left out, not null",
    "retraction": "what was sent of a call stays as it is",
    "end": "no delta follows the terminal chunk",
    "finish": "finish_reason comes exactly once and fits what was sent",
    "usage": "usage comes once, after the terminal chunk, in a chunk with 'choices': []",
    "json": "the arguments of a call, joined, are one JSON value, or end with poison: nothing that runs",
}
"""What a stream must keep to, by the name that a ``ProtocolError`` gives."""

_DELTA_KEYS: Final = {"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls"}
_REASONS: Final[dict[object, FinishReason]] = {reason: reason for reason in get_args(FinishReason)}


class _Call:
    """A call that is being put together."""

    __slots__ = ("id", "name", "pieces")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class _Run:
    """A stretch of text in one channel."""

    __slots__ = ("channel", "pieces")

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.pieces: list[str] = []


class ChatStreamDecoder:
    """Folds the chunks of one choice into a message; rejects what breaks a rule.

    >>> stream = ChatStreamDecoder()
    >>> stream.feed({"role": "assistant", "content": ""})
    >>> stream.feed({"content": "Hi"})
    >>> stream.feed({"delta": {}, "finish_reason": "stop"})
    >>> stream.message().content
    'Hi'
    >>> stream.feed({"content": "!"})
    Traceback (most recent call last):
    ...
    unspool.ProtocolError: chunk 3 breaks rule 'end': it follows the terminal chunk (chunk 2)
        rule: no delta follows the terminal chunk
        chunk: {"content": "!"}
    """

    def __init__(self, *, index: int = 0, lenient: bool = False, check_json: bool = True) -> None:
        self.index = index
        """The choice to read; deltas of the others are skipped."""
        self.lenient = lenient
        """Read null keys as absent, and let usage or ``choices: []`` come at any
        time: many servers do so, and most clients can read it."""
        self.check_json = check_json
        """Apply the rule ``json``: what was sent of a call that broke must end with poison
        (see ``unspool.wire._poisoned_calls``)."""
        self.usage: Mapping[str, object] | None = None
        """What the usage chunk said."""
        self._count = -1
        self._chunk: object = None
        self._begun = False
        self._end: int | None = None
        self._reason: FinishReason = "stop"
        self._reasoning_fields = ""
        self._parts: list[_Run | _Call] = []
        self._calls: list[_Call] = []

    @property
    def finished(self) -> bool:
        """Whether the terminal chunk has come."""
        return self._end is not None

    def feed(self, chunk: Mapping[str, object]) -> None:
        """Take the next chunk, as the JSON object that came over the wire.

        A choice or a delta out of one will do.  Raises ``ProtocolError`` if the
        chunk breaks a rule; the stream cannot be continued then.
        """
        self._count += 1
        self._chunk = chunk
        if "choices" in chunk:
            self._whole(chunk)
        elif "delta" in chunk or "finish_reason" in chunk:
            if chunk.get("index", self.index) == self.index:
                self._choice(chunk.get("delta", {}), chunk.get("finish_reason"))
        elif chunk.keys() <= _DELTA_KEYS:
            self._choice(chunk, None)
        else:
            self._fail("usage" if "usage" in chunk else "choices", "it has no key 'choices'")

    def message(self) -> Message:
        """The message, once the stream is finished."""
        if not self.finished:
            raise ProtocolError(
                f"the stream breaks rule 'finish': it ended after {self._count + 1} chunks "
                "without a finish_reason"
            )
        parts: list[Part] = []
        texts: dict[Channel, str] = {"content": "", "reasoning": ""}
        for part in self._parts:
            joined = "".join(part.pieces)
            if isinstance(part, _Run):
                parts.append(TextPart(part.channel, joined))
                texts[part.channel] += joined
            else:
                parts.append(ToolCall(part.id, part.name, joined))
        return Message(
            reasoning=texts["reasoning"] or None,
            content=texts["content"] or None,
            tool_calls=tuple(part for part in parts if isinstance(part, ToolCall)),
            finish_reason=self._reason,
            parts=tuple(parts),
        )

    def _whole(self, chunk: Mapping[str, object]) -> None:
        choices = chunk["choices"]
        if not isinstance(choices, list):
            self._fail("choices", f"'choices' is {_show(choices)}")
        for choice in choices:
            if not isinstance(choice, Mapping) or not _is_index(choice.get("index")):
                self._fail("choices", f"a choice has no index: {_show(choice)}")
            if choice["index"] == self.index:
                self._choice(choice.get("delta"), choice.get("finish_reason"))
        if not (choices or self.finished or self.lenient):
            self._fail("usage", "'choices' is empty before the terminal chunk")
        usage = chunk.get("usage")
        if usage is not None:
            self._usage(usage, alone=not choices)

    def _usage(self, usage: object, *, alone: bool) -> None:
        if not isinstance(usage, Mapping):
            self._fail("usage", f"it is {_show(usage)}")
        if not (alone or self.lenient):
            self._fail("usage", "it is in a chunk that has choices")
        if not (self.usage is None or self.lenient):
            self._fail("usage", "it comes again")
        self.usage = usage

    def _choice(self, delta: object, reason: object) -> None:
        if self._end is not None:
            rule = "end" if reason is None else "finish"
            self._fail(rule, f"it follows the terminal chunk (chunk {self._end})")
        if not isinstance(delta, Mapping):
            self._fail("choices", f"'delta' is {_show(delta)}")
        self._delta(delta)
        if reason is not None:
            self._finish(reason)

    def _delta(self, delta: Mapping[str, object]) -> None:
        first, self._begun = not self._begun, True
        # OpenAI's own first delta may have null content.
        delta = self._without_nulls(delta, "the delta", allowed=first)
        role = delta.get("role")
        if first and role != "assistant":
            self._fail("role", f"in the first delta it is {_show(role)}")
        if not first and "role" in delta:
            self._fail("role", f"it comes again: {_show(role)}")
        self._text(delta)
        entries = delta.get("tool_calls", [])
        if not isinstance(entries, list):
            self._fail("index", f"'tool_calls' is not a list: {_show(entries)}")
        for entry in entries:
            self._call(entry)

    def _text(self, delta: Mapping[str, object]) -> None:
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
                self._fail("text", f"reasoning was in {self._reasoning_fields} before, now in {fields}")
            if len(set(texts.values())) > 1:
                self._fail("text", f"{fields} differ")
            self._reasoning_fields = fields
            self._append("reasoning", next(iter(texts.values())))
        if content:
            self._append("content", content)

    def _append(self, channel: Channel, text: str) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Run) or last.channel != channel:
            last = _Run(channel)
            self._parts.append(last)
        last.pieces.append(text)

    def _call(self, entry: object) -> None:
        index = entry.get("index") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not _is_index(index):
            self._fail("index", f"a call delta has no index: {_show(entry)}")
        if index > len(self._calls):
            self._fail("index", f"call {index} comes when the next to open is {len(self._calls)}")
        opener = index == len(self._calls)
        where = f"the {'opener' if opener else 'continuation'} of call {index}"
        entry = self._without_nulls(entry, where)
        function = entry.get("function", {})
        if not isinstance(function, Mapping):
            self._fail("arguments", f"'function' of {where} is {_show(function)}")
        function = self._without_nulls(function, where)
        given = {
            key: holder[key]
            for key, holder in (("id", entry), ("type", entry), ("name", function))
            if key in holder
        }
        if opener:
            self._open(given, where)
        else:
            self._continue(self._calls[index], given, where)
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            self._fail("arguments", f"in {where} they are {_show(arguments)}")
        if arguments:
            self._calls[index].pieces.append(arguments)

    def _open(self, given: Mapping[str, object], where: str) -> None:
        for key in ("id", "name", "type"):
            if key not in given:
                self._fail(key, f"{where} has none")
        call_id, name = given["id"], given["name"]
        if not isinstance(call_id, str) or not call_id:
            self._fail("id", f"in {where} it is {_show(call_id)}")
        if not isinstance(name, str) or not name:
            self._fail("name", f"in {where} it is {_show(name)}")
        if given["type"] != "function":
            self._fail("type", f"in {where} it is {_show(given['type'])}")
        if any(call.id == call_id for call in self._calls):
            self._fail("id", f"{where} has that of another call: {_show(call_id)}")
        call = _Call(call_id, name)
        self._calls.append(call)
        self._parts.append(call)

    def _continue(self, call: _Call, given: Mapping[str, object], where: str) -> None:
        known = {"id": call.id, "name": call.name, "type": "function"}
        for key, value in given.items():
            if value and value != known[key]:
                self._fail(
                    "retraction",
                    f"{where} changes the {key} from {_show(known[key])} to {_show(value)}; "
                    f"a further call would need index {len(self._calls)}",
                )
            self._fail(key, f"it comes again in {where}: {_show(value)}")

    def _finish(self, reason: object) -> None:
        known = _REASONS.get(reason) if isinstance(reason, str) else None
        if known is None:
            self._fail("finish", f"it is {_show(reason)}, not one of {', '.join(_REASONS.values())}")
        if known == "tool_calls" and not self._calls:
            self._fail("finish", "it is 'tool_calls', but there was no call")
        if self.check_json:
            for index, call in enumerate(self._calls):
                problem = "" if is_poisoned("".join(call.pieces)) else _json_problem(call.pieces)
                if problem:
                    self._fail("json", f"those of call {index} ({call.name}) are not: {problem}")
        self._reason = known
        self._end = self._count

    def _without_nulls(
        self, holder: Mapping[str, object], where: str, *, allowed: bool = False
    ) -> Mapping[str, object]:
        nulls = [key for key, value in holder.items() if value is None]
        if not nulls:
            return holder
        if not (allowed or self.lenient):
            self._fail("null", f"in {where}: {', '.join(nulls)}")
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
    """Why the pieces, joined, are not a JSON value, with a guess at the cause; empty if they are."""
    text = "".join(pieces)
    error = _json_error(text)
    if not error:
        return ""
    if not text:
        return "there are none; a call without arguments needs one delta '{}'"
    problem = f"{error} in {_show(text, 200)}"
    if len(pieces) > 1 and pieces[-1].startswith(pieces[-2]) and not _json_error(pieces[-1]):
        problem += "; the last delta alone is valid: a delta is what is new, not all so far"
    return problem


def _json_error(text: str) -> str:
    try:
        # Numbers stay text: Python refuses to read an integer of 5,000 digits.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
