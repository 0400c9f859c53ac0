"""The proof of what was rendered: the parser reads it, and what it reads is the message.

Nothing escapes text for people, and some dialects have calls only where no text
came before; so a message may hold what a dialect has words for and still not
come back.  Nobody can tell from the templates, so the parser itself is asked.
White space at the ends of a text is not compared: it is framing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from ...message import BrokenCall, TextPart, ToolCall
from ...parser import ToolList, parse
from ...policies import Policies

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect

# An id behind the arguments counts only where calls are announced whole.
_POLICIES = Policies(commit="call")


def difference(
    dialect: Dialect,
    text: str,
    parts: Sequence[TextPart | ToolCall],
    ids: AbstractSet[str],
    tools: ToolList | None = None,
) -> str:
    """What does not come back of parts that were written as ``text``, for people; nothing if all does.

    :param ids: those that stand in the text as such.
    :param tools: those that it is read with; without, such as fit the calls.
    """
    if tools is None:
        tools = _declared([part for part in parts if isinstance(part, ToolCall)]) or None
    read = parse(text, dialect, tools=tools, policies=_POLICIES)
    found = [part for part in read.parts if not isinstance(part, BrokenCall)]  # with this policy, none is
    for number, part in enumerate(parts):
        if isinstance(part, TextPart):
            here = _of_text(part, found)
        elif not part.id and "" in ids:
            here = _of_call(part, found, "") and "has no id, which this dialect needs"
        else:
            usable = part.id in ids and dialect.id_format.accepts(part.id)
            here = _of_call(part, found, part.id if usable else "")
        if here:
            return f"part {number}, {_described(part)}, {here}"
    found = [part for part in found if isinstance(part, ToolCall) or part.text.strip()]
    return f"behind the last part is read {_described(found[0])}" if found else ""


def _of_text(part: TextPart, found: list[TextPart | ToolCall]) -> str:
    """What is wrong with a text; what was read of it is taken off."""
    text = part.text.strip()
    if not text:
        return ""
    _skip_blanks(found)
    first = found[0] if found else None
    rest = first.text.lstrip() if isinstance(first, TextPart) and first.channel == part.channel else ""
    if not rest.startswith(text):
        return "is lost" if first is None else f"is read as {_described(first)}"
    found[0] = TextPart(part.channel, rest[len(text) :])
    return ""


def _of_call(call: ToolCall, found: list[TextPart | ToolCall], id: str) -> str:
    """The same for a call; no text may be left before it."""
    _skip_blanks(found)
    first = found.pop(0) if found else None
    if first is None:
        return "is lost"
    if not isinstance(first, ToolCall) or first.name != call.name:
        return f"is read as {_described(first)}"
    if not _same(call.arguments.strip() or "{}", first.arguments):
        return f"is read with the arguments {_short(first.arguments)}"
    return f"is read with the id {first.id!r}" if id and id != first.id else ""


def _skip_blanks(found: list[TextPart | ToolCall]) -> None:
    while found and isinstance(found[0], TextPart) and not found[0].text.strip():
        del found[0]


def _same(expected: str, found: str) -> bool:
    """Whether two texts stand for the same arguments; 1, 1.0, "1" and true differ."""
    if expected == found:
        return True
    try:
        return _spelt(expected) == _spelt(found)
    except (ValueError, RecursionError):
        return False


def _spelt(arguments: str) -> str:
    # Some templates sort the keys, and objects in JSON have no order.
    return json.dumps(json.loads(arguments), sort_keys=True)


def _described(part: TextPart | ToolCall) -> str:
    if isinstance(part, TextPart):
        return f"{part.channel} {_short(part.text)}"
    return f"a call of {part.name!r} with {_short(part.arguments)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# -- schemas

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def _declared(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Tools that say of each argument what it is: between tags, a number and its text look alike."""
    given: dict[str, list[object]] = {}
    for call in calls:
        arguments = given.setdefault(call.name, [])
        try:
            arguments.append(json.loads(call.arguments))
        except (ValueError, RecursionError):
            continue
    return [
        {"name": name, "parameters": {**_schema(arguments), "type": "object"}}
        for name, arguments in given.items()
    ]


def _schema(values: Sequence[object]) -> dict[str, Any]:
    """What all these values have in common."""
    types = {_TYPES.get(type(value), "null") for value in values}
    # Among numbers an integer is one, too, and keeps its spelling; an integer's type would not let 0.0 be.
    schema: dict[str, Any] = {"type": sorted(types - {"integer"} if "number" in types else types)}
    objects = [value for value in values if isinstance(value, dict)]
    if objects:
        keys = dict.fromkeys(key for value in objects for key in value)
        schema["properties"] = {
            key: _schema([value[key] for value in objects if key in value]) for key in keys
        }
    items = [item for value in values if isinstance(value, list) for item in value]
    return {**schema, "items": _schema(items)} if items else schema
