"""Random messages that call a few tools, with arguments of every type."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from unspool import Dialect, Message, ToolCall, UsageError, parse, render

_SUBJECTS: Final = ("We", "The user", "Oslo", "It", "Someone", "My plan", "Nothing", "A list", "This", "Rain")
_VERBS: Final = ("needs", "shows", "wants", "has", "is about", "asks for", "may be", "explains")
_OBJECTS: Final = (
    "the weather in Zürich",
    "two places: a quiet one and a cheap one",
    "a plan (in three parts)",
    "an answer, not a guess",
    "a mail to Zoë <zoe@example.org>",
    "5 < 7 and 8 > 3",
    "the tool get_weather",
    "東京の天気",
    "what is said in [1] and [2]",
    "some **bold** words",
)
_STRINGS: Final = (
    "Oslo",
    "San Francisco, CA",
    'a "quiet" café',
    "it's late",
    "first line\nsecond line\n\n  fourth line, indented",
    "東京 🌧",
    "SELECT * FROM t WHERE a < 5 AND b > 'x'",
    "42",
    "true",
    "path\\to\\file",
    "key: value; other = thing",
    "100 % {sure}",
    "x",
    "Dear all,\n\nthe meeting is at 9:30.\n- bring notes\n- be on time",
)
_TYPES: Final[dict[str, dict[str, str]]] = {
    "get_weather": {"city": "string", "days": "integer", "metric": "boolean"},
    "find_place": {"query": "string", "near": "string", "radius": "number", "open_now": "boolean"},
    "send_mail": {"recipient": "string", "subject": "string", "body": "string", "urgent": "boolean"},
    "plot": {"points": "array", "style": "object", "title": "string"},
    "run_query": {"sql": "string", "limit": "integer", "options": "object"},
    "now": {},
}
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Call {name}.",
            "parameters": {
                "type": "object",
                "properties": {
                    key: {"type": kind}
                    | ({"items": {"type": "number"}} if kind == "array" else {})
                    | (
                        {
                            "properties": {
                                "colour": {"type": "string"},
                                "width": {"type": "number"},
                                "flags": {"type": "object", "properties": {"dry": {"type": "boolean"}}},
                            }
                        }
                        if kind == "object"
                        else {}
                    )
                    for key, kind in types.items()
                },
            },
        },
    }
    for name, types in _TYPES.items()
]
"""The tools that the messages call."""


class VariedMessages:
    """Source of random messages; the same seed gives the same messages."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311

    def message(self) -> Message:
        """Return a message: reasoning, content and calls, each of them perhaps."""
        calls = self.random.choice((0, 1, 1, 1, 2, 3))
        content = self.text() if not calls or self.random.random() < 0.5 else None
        reasoning = self.text() if self.random.random() < 0.5 else None
        return Message(content, reasoning, tuple(self.call() for _ in range(calls)))

    def text(self) -> str:
        """Return a few sentences."""
        pick = self.random.choice
        lines = [
            f"{pick(_SUBJECTS)} {pick(_VERBS)} {pick(_OBJECTS)}{pick(('.', '!', '?', '.'))}"
            for _ in range(self.random.randint(1, 4))
        ]
        return pick((" ", "\n", "\n\n", " ")).join(lines)

    def call(self) -> ToolCall:
        """Return a call with some of the tool's parameters, in any order."""
        name = self.random.choice(list(_TYPES))
        keys = list(_TYPES[name])
        self.random.shuffle(keys)
        kept = keys[: self.random.randint(1, len(keys))] if keys else []
        arguments = {key: self.value(_TYPES[name][key]) for key in kept}
        id = "".join(self.random.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789", k=9))
        return ToolCall(id, name, json.dumps(arguments, ensure_ascii=False))

    def value(self, kind: str) -> object:
        """Return a value of a JSON type."""
        pick = self.random
        if kind == "string":
            return pick.choice(_STRINGS)
        if kind == "integer":
            return pick.choice((0, 1, 3, 7, 10, 42, -5, 123456))
        if kind == "number":
            return pick.choice((0.5, 2.75, 10.0, -1.25, 3, 1e-7))
        if kind == "boolean":
            return pick.random() < 0.5
        if kind == "array":
            return [pick.choice((1, 2.5, -3, 40)) for _ in range(pick.randint(1, 3))]
        members: dict[str, object] = {
            "colour": pick.choice(_STRINGS),
            "width": pick.choice((1, 2.5)),
            "flags": {"dry": pick.random() < 0.5},
        }
        keys = pick.sample(list(members), pick.randint(1, 3))
        return {key: members[key] for key in keys}


def rendered_outputs(dialect: Dialect, count: int, seed: int) -> Iterator[tuple[str, Message]]:
    """Yield outputs of a dialect, and the message that the dialect's parser returns for each.

    Messages that the dialect cannot express are left out.
    """
    source = VariedMessages(seed)
    found = 0
    for _ in range(100 * count):
        message = source.message()
        try:
            text = render(message, dialect)
        except UsageError:
            continue
        parsed = parse(text, dialect, tools=TOOLS)
        if parsed.diagnostics or not text:
            continue
        yield text, parsed
        found += 1
        if found == count:
            return
    raise AssertionError(f"{dialect.name} expresses only {found} of {100 * count} messages")


def comparable(message: Message) -> tuple[object, ...]:
    """Return reasoning, content and calls of a message in a form that can be compared."""
    calls = [(call.name, _value(call.arguments)) for call in message.tool_calls]
    return message.reasoning, message.content, calls


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
