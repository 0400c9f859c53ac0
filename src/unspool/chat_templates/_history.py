"""The history of a request in the form that a template reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._core.render.message import render
from .._core.schema.number_range import in_range
from ..dialects._id_format import OPENAI_ID, IdFormat
from ..dialects._registry import find
from ..dialects._templates import parse_template, split_at, split_marks
from ..errors import UsageError
from ..message import Message, ToolCall
from ._capabilities import REASONING_KEYS, ChatMessage, text_part
from ._chat_template import ChatTemplate, as_chat

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect

MALFORMED_KEY: Final = "malformed_arguments"
"""Arguments in the history that are not a JSON object are passed on as text under this key."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character: no prompt that holds one can be encoded."""
_MAX_DEPTH: Final = 64
"""Arguments that are nested deeper are malformed: templates recurse, too."""


def normalise_history(
    messages: Iterable[object], template: ChatTemplate, *, dialect: str | Dialect | None = None
) -> list[ChatMessage]:
    """The messages of a request in the form that the template reads.

    Nothing is lost that the template can express, the messages given stay as
    they are, and the same history always gives the same messages, so that the
    prompts of a conversation extend each other.

    * Arguments are objects, or text where the template wants text; what is not
      a JSON object goes under ``MALFORMED_KEY``.
    * Ids have the dialect's format, the same in a call and its result.
    * Reasoning stands under the key that the template reads.
    * Calls that the template would not write are written into the content, in
      the words of the dialect; several calls become several messages for a
      template that takes one.
    * Content is text where a template cannot read a list of parts, a list of
      parts where it cannot read text, and absent content is what the template
      needs in its place.

    :param dialect: the family: it knows how ids look and how calls are written.
    """
    spec = None if dialect is None else find(dialect)
    ids = _Ids(OPENAI_ID if spec is None else spec.id_format)
    out: list[ChatMessage] = []
    for at, given in enumerate(as_chat(messages)):
        message = {key: value for key, value in given.items() if value is not None or key == "content"}
        role = message.get("role")
        if not isinstance(role, str):
            raise UsageError(f"message {at} has no role: give it one of system, user, assistant, tool")
        if isinstance(message.get("content"), list) and role not in template.wants.parts:
            message["content"] = _flat(message["content"], at, role)
        if role == "assistant":
            message = _assistant(message, at, template, spec, ids)
            if "tool_calls" in message and message["content"] and not template.wants.beside:
                out.append({"role": role, "content": message["content"]})
                message["content"] = template.wants.empty
        elif role == "tool":
            message["tool_call_id"] = ids.result(message.get("tool_call_id"))
        if role != "assistant" and message.get("content") is None:
            message["content"] = ""
        out.append(message)
    if template.wants.calls == "one":
        out = list(_one_by_one(out))
    for message in out:
        if message["role"] in template.wants.only_parts and isinstance(message["content"], str):
            message["content"] = text_part(message["content"])
    return out


def _flat(parts: Sequence[object], at: int, role: str) -> str:
    """Parts of text as one text."""
    texts = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise UsageError(
                f"message {at}: this template takes nothing but text from the role {role!r}; "
                f"leave out the part of type {kind!r}"
            )
        texts.append(text)
    return "\n".join(texts)


def _assistant(
    message: ChatMessage, at: int, template: ChatTemplate, dialect: Dialect | None, ids: _Ids
) -> ChatMessage:
    """A turn of the model as the template wants it."""
    wants = template.wants
    found = [message.pop(key, None) for key in REASONING_KEYS]
    reasoning = next((text for text in found if text and isinstance(text, str)), "")
    given = message.pop("tool_calls", None) or ()
    # Arguments that are fine as they are stay text: the very bytes that the model wrote.
    calls = [_call(call, at, ids, as_object=wants.arguments == "object") for call in given]
    content = message.get("content")
    if calls and wants.calls == "none" and dialect is not None:
        inline = reasoning if _closer(dialect) in template.source else ""
        # For the model to see, not to be parsed: a history that no parser would read is still what happened.
        content = render(dialect, _as_message(inline, content, calls), check=False)
    elif calls:
        message["tool_calls"] = calls
        if reasoning and content and isinstance(content, str) and not wants.both:
            reasoning, content = f"{reasoning}\n\n{content}", None
    if not content:
        content = wants.empty if "tool_calls" in message else ""
    if reasoning and wants.reasoning == "parts":
        parts = content if isinstance(content, list) else text_part(content or "")
        content = [{"type": "thinking", "thinking": reasoning}, *parts]
    elif reasoning and wants.reasoning:
        message[wants.reasoning] = reasoning
    message["content"] = content
    return message


def _closer(dialect: Dialect) -> str:
    """What ends reasoning; a text that no template holds if nothing does."""
    if not dialect.reasoning:
        return "\0"
    _, _, after = split_at(parse_template(split_marks(dialect.reasoning[0])[1]), "text")
    return "".join(piece.text for piece in after).strip() or "\0"


def _as_message(reasoning: str, content: object, calls: Sequence[ChatMessage]) -> Message:
    called = []
    for call in calls:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        called.append(ToolCall(call["id"], call["function"]["name"], text))
    text = content if isinstance(content, str) else ""
    return Message(reasoning=reasoning or None, content=text or None, tool_calls=tuple(called))


def _call(call: object, at: int, ids: _Ids, *, as_object: bool) -> ChatMessage:
    """A call with nothing in it but what belongs there: some templates dump it as it is."""
    function = call.get("function", call) if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(name, str):
        raise UsageError(f"message {at}: a tool call needs a function with a name, got {call!r}")
    arguments = _arguments(function.get("arguments"), as_object=as_object)
    return {
        "id": ids.call(call.get("id"), name),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _arguments(given: object, *, as_object: bool) -> object:
    """Arguments as an object or as the text of one, whatever was given."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    value = _object(text)
    if value is None:
        value = {MALFORMED_KEY: _encodable(text)}
    elif value and not as_object:
        return _encodable(text)
    return value if as_object else json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    """The object that a text holds; None if it holds something else, or what no template survives."""
    if text.strip() in ("", "null"):
        return {}
    try:
        value: Any = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _depth(value) > _MAX_DEPTH:
        return None
    if "\\ud" in text or "\\uD" in text or not _is_encodable(text):
        value = json.loads(_encodable(json.dumps(value, ensure_ascii=False)))
    found: dict[str, Any] = value
    return found


def _encodable(text: str) -> str:
    """The text with a sign in place of each half of a character."""
    return text if _is_encodable(text) else _SURROGATE.sub("\ufffd", text)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(value: object) -> int:
    """How deep containers are nested."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [x for item in containers for x in (item.values() if isinstance(item, dict) else item)]
    return depth


def _finite(text: str) -> float:
    """Return a number that JSON can write again."""
    if not in_range(text):
        raise ValueError(text)
    return float(text)


class _Ids:
    """Gives every call an id in the family's format, and its result the same one."""

    def __init__(self, form: IdFormat) -> None:
        self._form = form
        self._index = 0
        self._used: set[str] = set()
        self._names: dict[str, str] = {}
        """The id that a call has now, by the one it came with."""
        self._open: dict[str, None] = {}
        """Ids of calls that have no result yet, as they are now."""

    def call(self, given: object, name: str) -> str:
        """The id of the next call."""
        id = given if isinstance(given, str) and self._fits(given, name) else self._made(given, name)
        self._index += 1
        self._used.add(id)
        if isinstance(given, str):
            self._names[given] = id
        self._open[id] = None
        return id

    def result(self, given: object) -> str:
        """The id of a result: its call's; the first call without a result if it does not say."""
        id = self._names.get(given) if isinstance(given, str) else None
        if id is None:
            id = next(iter(self._open), None) or self._made(given, "tool")
        self._open.pop(id, None)
        return id

    def _fits(self, given: str, name: str) -> bool:
        pattern = re.escape(self._form.pattern)
        if not self._form.accepts(given) or given in self._used:
            return False
        if r"\{name\}" not in pattern and r"\{index\}" not in pattern:
            return True
        pattern = pattern.replace(r"\{name\}", re.escape(name)).replace(r"\{index\}", r"\d+")
        return re.fullmatch(pattern.replace(r"\{random\}", r"\w+"), given) is not None

    def _made(self, given: object, name: str) -> str:
        """An id that depends on the history only: prompts must not differ from request to request."""
        form = self._form
        # Without a random part every attempt gives the same id.
        for attempt in range(len(self._used) + 1 if "{random}" in form.pattern else 1):
            id = form.seeded(f"{given}\0{attempt}")(name, self._index)
            if id not in self._used:
                break
        return id


def _one_by_one(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Each call in a message of its own, followed by its result."""
    done: set[int] = set()
    for at, message in enumerate(messages):
        calls = message.get("tool_calls", ())
        if at in done:
            continue
        if len(calls) < 2:
            yield message
            continue
        results: dict[object, list[int]] = {}
        for i in range(at + 1, len(messages)):
            if messages[i]["role"] != "tool":
                break
            results.setdefault(messages[i].get("tool_call_id"), []).append(i)
        for number, call in enumerate(calls):
            alone = dict(message) if number == 0 else {"role": message["role"], "content": ""}
            yield alone | {"tool_calls": [call]}
            for i in results.pop(call["id"], ()):
                done.add(i)
                yield messages[i]
