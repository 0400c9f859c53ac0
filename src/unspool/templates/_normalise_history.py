"""Conversion of a request's messages to the form that a chat template can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._core.render.message import render
from .._core.schema.numbers import in_range
from ..dialects import OPENAI_ID, IdFormat, find
from ..dialects.parse_templates import parse_template, split_at
from ..errors import UsageError
from ..message import Message, ToolCall
from ._capabilities import REASONING_KEYS, ChatMessage, text_part
from ._chat_template import ChatTemplate, as_chat

if TYPE_CHECKING:
    from ..dialects import Dialect

MALFORMED_KEY: Final = "malformed_arguments"
"""Key under which arguments that are not a JSON object are stored as text."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
"""Unpaired surrogates, which cannot be encoded as UTF-8."""
_MAX_DEPTH: Final = 64
"""Maximum nesting depth of arguments, because templates read them recursively.  Arguments that are nested
more deeply are treated as malformed."""


def normalise_history(
    messages: Iterable[object], template: ChatTemplate, *, dialect: str | Dialect | None = None
) -> list[ChatMessage]:
    """Return the messages of a request in the form that the template can read.

    Everything that the template can express is kept. The input is not changed. Equal histories always have
    equal results, including ids; otherwise the next prompt of a conversation would not begin with the
    previous prompt.

    * Arguments become objects, or JSON text if the template needs text.  Arguments that are
      not a JSON object become an object with their text under ``MALFORMED_KEY``.
    * Call ids are converted to the dialect's format; a call and its result still have equal ids.
    * Reasoning moves to the key that the template reads.
    * If the template cannot write calls, calls become content in the dialect's markup.  If
      the template can write only one call per message, several calls become several messages.
    * Content becomes text or a list of parts, depending on what the template reads. Missing content becomes
      an empty string or None, depending on what the template needs.

    :param dialect: the dialect that defines the format of ids and the markup of calls.
    """
    spec = None if dialect is None else find(dialect)
    ids = _Ids(OPENAI_ID if spec is None else spec.id_format)
    out: list[ChatMessage] = []
    for at, original in enumerate(as_chat(messages)):
        message = {key: value for key, value in original.items() if value is not None or key == "content"}
        role = message.get("role")
        if not isinstance(role, str):
            raise UsageError(f"message {at} has no role: give it one of system, user, assistant, tool")
        if isinstance(message.get("content"), list) and role not in template.capabilities.roles_with_parts:
            message["content"] = _join_text_parts(message["content"], at, role)
        if role == "assistant":
            message = _assistant(message, at, template, spec, ids)
            if (
                "tool_calls" in message
                and message["content"]
                and not template.capabilities.content_before_calls
            ):
                out.append({"role": role, "content": message["content"]})
                message["content"] = template.capabilities.empty_content
        elif role == "tool":
            message["tool_call_id"] = ids.result(message.get("tool_call_id"))
        if role != "assistant" and message.get("content") is None:
            message["content"] = ""
        out.append(message)
    if template.capabilities.calls == "one":
        out = list(_split_calls(out))
    for message in out:
        if message["role"] in template.capabilities.roles_with_parts_only and isinstance(
            message["content"], str
        ):
            message["content"] = text_part(message["content"])
    return out


def _join_text_parts(parts: Sequence[object], at: int, role: str) -> str:
    """Return the text of content parts, joined by newlines; raise an error for parts that are not text."""
    texts = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise UsageError(
                f"message {at}: this template accepts only text from the role {role!r}; "
                f"remove the part of type {kind!r}"
            )
        texts.append(text)
    return "\n".join(texts)


def _assistant(
    message: ChatMessage, at: int, template: ChatTemplate, dialect: Dialect | None, ids: _Ids
) -> ChatMessage:
    """Return an assistant message in the form that the template can read."""
    capabilities = template.capabilities
    reasonings = [message.pop(key, None) for key in REASONING_KEYS]
    reasoning = next((text for text in reasonings if text and isinstance(text, str)), "")
    original_calls = message.pop("tool_calls", None) or ()
    # Keep arguments as text if the template can read text, because the text has the model's exact bytes.
    calls = [_call(call, at, ids, as_object=capabilities.arguments == "object") for call in original_calls]
    content = message.get("content")
    if calls and capabilities.calls == "none" and dialect is not None:
        inline = reasoning if _closer(dialect) in template.source else ""
        # The round-trip check would reject some messages, but the model must see all of its earlier output.
        content = render(_as_message(inline, content, calls), dialect, check=False)
    elif calls:
        message["tool_calls"] = calls
        if reasoning and content and isinstance(content, str) and not capabilities.content_with_reasoning:
            reasoning, content = f"{reasoning}\n\n{content}", None
    if not content:
        content = capabilities.empty_content if "tool_calls" in message else ""
    if reasoning and capabilities.reasoning_key == "parts":
        parts = content if isinstance(content, list) else text_part(content or "")
        content = [{"type": "thinking", "thinking": reasoning}, *parts]
    elif reasoning and capabilities.reasoning_key:
        message[capabilities.reasoning_key] = reasoning
    message["content"] = content
    return message


def _closer(dialect: Dialect) -> str:
    """Return the closing reasoning marker; if there is none, return a text that no template contains."""
    if not dialect.reasoning:
        return "\0"
    _, _, after = split_at(parse_template(dialect.reasoning[0]), "text")
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
    """Return a call with only the standard fields, because some templates print all fields."""
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


def _arguments(value: object, *, as_object: bool) -> object:
    """Return arguments as an object, or as the JSON text of an object."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    arguments = _object(text)
    if arguments is None:
        arguments = {MALFORMED_KEY: _encodable(text)}
    elif arguments and not as_object:
        return _encodable(text)
    return arguments if as_object else json.dumps(arguments, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text contains; None if templates cannot handle the value."""
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
    arguments: dict[str, Any] = value
    return arguments


def _encodable(text: str) -> str:
    """Return text with unpaired surrogates replaced by U+FFFD."""
    return text if _is_encodable(text) else _SURROGATE.sub("\ufffd", text)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(value: object) -> int:
    """Return the nesting depth of a value."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [x for item in containers for x in (item.values() if isinstance(item, dict) else item)]
    return depth


def _finite(text: str) -> float:
    """Return a number that JSON can represent; raise ``ValueError`` for other numbers."""
    if not in_range(text):
        raise ValueError(text)
    return float(text)


class _Ids:
    """Converter of call ids to the model family's format; a call and its result receive equal ids."""

    def __init__(self, form: IdFormat) -> None:
        self._form = form
        self._index = 0
        self._used: set[str] = set()
        self._new_ids: dict[str, str] = {}
        """The new id for each original id."""
        self._open: dict[str, None] = {}
        """New ids of the calls that have no result yet."""

    def call(self, original: object, name: str) -> str:
        """Return an id for the next call, in the model family's format."""
        id = (
            original
            if isinstance(original, str) and self._fits(original, name)
            else self._make_id(original, name)
        )
        self._index += 1
        self._used.add(id)
        if isinstance(original, str):
            self._new_ids[original] = id
        self._open[id] = None
        return id

    def result(self, original: object) -> str:
        """Return the id of the call to which a result belongs.

        A result belongs to the call with the same original id or, without such a call, to the first call that
        has no result yet.
        """
        id = self._new_ids.get(original) if isinstance(original, str) else None
        if id is None:
            id = next(iter(self._open), None) or self._make_id(original, "tool")
        self._open.pop(id, None)
        return id

    def _fits(self, original: str, name: str) -> bool:
        pattern = re.escape(self._form.pattern)
        if not self._form.accepts(original) or original in self._used:
            return False
        if r"\{name\}" not in pattern and r"\{index\}" not in pattern:
            return True
        pattern = pattern.replace(r"\{name\}", re.escape(name)).replace(r"\{index\}", r"\d+")
        return re.fullmatch(pattern.replace(r"\{random\}", r"\w+"), original) is not None

    def _make_id(self, original: object, name: str) -> str:
        """Return an id that depends only on the history, so that equal histories render to equal prompts."""
        form = self._form
        # If the format has no random part, every attempt produces the same id, so make only one attempt.
        for attempt in range(len(self._used) + 1 if "{random}" in form.pattern else 1):
            id = form.seeded(f"{original}\0{attempt}")(name, self._index)
            if id not in self._used:
                break
        return id


def _split_calls(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Yield the messages with at most one call per message, each followed by the call's result."""
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
