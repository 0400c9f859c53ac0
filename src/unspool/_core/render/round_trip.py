"""Check that parsing a rendered message returns the same message.

Content is not escaped, and some dialects allow calls only before any text.  So parsing the text of a message
may return a different message, even if the dialect can express each part.  The templates do not show this, so
the check runs the parser.  The check ignores leading and trailing whitespace of texts, because templates add
such whitespace.
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

# Each call is reported only when it is complete, because its id may follow its arguments.
_POLICIES = Policies(commit="call")


def difference(
    dialect: Dialect,
    text: str,
    parts: Sequence[TextPart | ToolCall],
    ids: AbstractSet[str],
    tools: ToolList | None = None,
) -> str:
    """Return a description of the first part that changes when ``text`` is parsed, or an empty string.

    :param parts: the parts of the message from which ``text`` was rendered.
    :param ids: call ids that the text contains.
    :param tools: tools for the parser; None: tools that are generated from the calls.
    """
    if tools is None:
        tools = fitting_tools([part for part in parts if isinstance(part, ToolCall)]) or None
    read = parse(text, dialect, tools=tools, policies=_POLICIES)
    # There are no broken calls under this policy, but the type checker cannot infer this.
    parsed = [part for part in read.parts if not isinstance(part, BrokenCall)]
    for number, part in enumerate(parts):
        if isinstance(part, TextPart):
            problem = _text_problem(part, parsed)
        elif not part.id and "" in ids:
            problem = _call_problem(part, parsed, "") and "has no id, which this dialect needs"
        else:
            usable = part.id in ids and dialect.id_format.accepts(part.id)
            problem = _call_problem(part, parsed, part.id if usable else "")
        if problem:
            return f"part {number}, {_describe(part)}, {problem}"
    surplus = [part for part in parsed if isinstance(part, ToolCall) or part.text.strip()]
    return f"after the last part, {_describe(surplus[0])} is read" if surplus else ""


def _text_problem(part: TextPart, rest: list[TextPart | ToolCall]) -> str:
    """Return a description of how a text part changed, or an empty string.

    :param rest: the parsed parts that have not been compared yet; the text is removed from them.
    """
    text = part.text.strip()
    if not text:
        return ""
    _skip_whitespace(rest)
    first = rest[0] if rest else None
    parsed = first.text.lstrip() if isinstance(first, TextPart) and first.channel == part.channel else ""
    if not parsed.startswith(text):
        return "is lost" if first is None else f"is read as {_describe(first)}"
    rest[0] = TextPart(part.channel, parsed[len(text) :])
    return ""


def _call_problem(call: ToolCall, rest: list[TextPart | ToolCall], id: str) -> str:
    """Return a description of how a call changed, or an empty string.

    Text before the call is a change, too.

    :param rest: the parsed parts that have not been compared yet; the call is removed from them.
    :param id: the id that the parsed call must have; empty if the ids may differ.
    """
    _skip_whitespace(rest)
    first = rest.pop(0) if rest else None
    if first is None:
        return "is lost"
    if not isinstance(first, ToolCall) or first.name != call.name:
        return f"is read as {_describe(first)}"
    if not _same(call.arguments.strip() or "{}", first.arguments):
        return f"is read with the arguments {_shorten(first.arguments)}"
    return f"is read with the id {first.id!r}" if id and id != first.id else ""


def _skip_whitespace(parts: list[TextPart | ToolCall]) -> None:
    while parts and isinstance(parts[0], TextPart) and not parts[0].text.strip():
        del parts[0]


def _same(expected: str, actual: str) -> bool:
    """Return whether two JSON texts represent the same arguments; 1, 1.0, "1" and true are all different."""
    if expected == actual:
        return True
    try:
        return _canonical(expected) == _canonical(actual)
    except (ValueError, RecursionError):
        return False


def _canonical(arguments: str) -> str:
    # Keys are sorted, because some templates sort them, and the order of keys has no meaning in JSON.
    return json.dumps(json.loads(arguments), sort_keys=True)


def _describe(part: TextPart | ToolCall) -> str:
    if isinstance(part, TextPart):
        return f"{part.channel} {_shorten(part.text)}"
    return f"a call of {part.name!r} with {_shorten(part.arguments)}"


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# -- schemas

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def fitting_tools(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Return tools whose schemas declare the types of all arguments in these calls.

    In tagged parameters, the number 1 and the string "1" look the same without a schema.
    """
    arguments_by_name: dict[str, list[object]] = {}
    for call in calls:
        arguments = arguments_by_name.setdefault(call.name, [])
        try:
            arguments.append(json.loads(call.arguments))
        except (ValueError, RecursionError):
            continue
    return [
        {"name": name, "parameters": {**_schema(arguments), "type": "object"}}
        for name, arguments in arguments_by_name.items()
    ]


def _schema(values: Sequence[object]) -> dict[str, Any]:
    """Return a schema that all of these values satisfy."""
    types = {_TYPES.get(type(value), "null") for value in values}
    # The type "number" keeps the text of integers, while the type "integer" would change 0.0 to 0.
    schema: dict[str, Any] = {"type": sorted(types - {"integer"} if "number" in types else types)}
    objects = [value for value in values if isinstance(value, dict)]
    if objects:
        keys = dict.fromkeys(key for value in objects for key in value)
        schema["properties"] = {
            key: _schema([value[key] for value in objects if key in value]) for key in keys
        }
    items = [item for value in values if isinstance(value, list) for item in value]
    return {**schema, "items": _schema(items)} if items else schema
