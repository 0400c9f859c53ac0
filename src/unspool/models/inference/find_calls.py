"""Search for calls in outputs, by the names of the tools and the keys of their arguments.

Each function assumes one way of writing calls:

* ``envelopes``: an object that contains the name and the arguments;
* ``name_and_object``: a name, and an object with the arguments;
* ``keywords``: a call in Python's notation;
* ``bare_objects``: a name, and an object without quotation marks.

Parameters in tags of their own are in ``find_parameters.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...dialects import Envelope, Notation, Values
from .common_text import common_prefix
from .found_calls import FoundCall, Reading, find_hole, placeholder_of
from .literals import end_of_brackets, end_of_keywords, json_object_at, json_objects, python_objects
from .outputs import Output
from .placeholder_characters import ARGS, ENVELOPE, NAME

_MAX_BETWEEN: Final = 200
"""Maximum number of characters between a name and its arguments."""
_PLAIN_VALUES: Final = Values()
_Role: TypeAlias = Literal["name", "args", "id"]
_Find: TypeAlias = Callable[[str], Iterator[tuple[int, int, dict[str, Any]]]]


def readings(outputs: Sequence[Output]) -> Iterator[Reading]:
    """Yield the calls under every assumption of this module that finds some."""
    for reading in (
        envelopes(outputs, json_objects, "an object with the name and the arguments"),
        envelopes(outputs, python_objects, "a Python dict with the name and the arguments"),
        name_and_object(outputs),
        keywords(outputs),
        bare_objects(outputs),
    ):
        if reading is not None and reading.count:
            yield reading


# -- an object with the name and the arguments


class _Keys(NamedTuple):
    """Keys of an object that is a call, in their order."""

    name: str
    keyed: bool
    roles: tuple[tuple[_Role, str], ...]


def envelopes(outputs: Sequence[Output], find: _Find, notation: str) -> Reading | None:
    """Find objects that contain the name of a tool and its arguments."""
    found: list[list[tuple[FoundCall, _Keys]]] = []
    for output in outputs:
        calls: list[tuple[FoundCall, _Keys]] = []
        for start, end, value in find(output.text):
            keys = None if calls and start < calls[-1][0].end else _keys_of(value, output.types)
            if keys is not None:
                calls.append((FoundCall(keys.name, start, end), keys))
        found.append(calls)
    usual = Counter((keys.keyed, keys.roles) for calls in found for _, keys in calls).most_common(1)
    if not usual:
        return None
    keyed, roles = usual[0][0]
    kept = tuple(tuple(call for call, keys in calls if keys.keyed == keyed) for calls in found)
    return Reading(
        notation,
        kept,
        ENVELOPE,
        args="python" if find is python_objects else "json",
        envelope=Envelope(keyed=True) if keyed else _envelope(dict(roles)),
    )


def _keys_of(value: Mapping[str, Any], types: Mapping[str, object]) -> _Keys | None:
    """Return the keys of an object if it is a call of one of the tools."""
    if len(value) == 1:
        name, arguments = next(iter(value.items()))
        if name in types and isinstance(arguments, dict):
            return _Keys(name, keyed=True, roles=())
    inner = value.get("function")
    for holder in (value, inner if isinstance(inner, dict) else {}):
        roles: dict[str, _Role] = {}
        for key, member in holder.items():
            if isinstance(member, str) and member in types and "name" not in roles.values():
                roles[key] = "name"
            elif "args" not in roles.values() and _is_object(member):
                roles[key] = "args"
            elif re.search(r"id$|^ref|^index$", key, re.IGNORECASE) and isinstance(member, str | int):
                roles[key] = "id"
        by_role = {role: key for key, role in roles.items()}
        if "name" in by_role and "args" in by_role:
            ordered = tuple((role, key) for key, role in roles.items() if by_role[role] == key)
            return _Keys(holder[by_role["name"]], keyed=False, roles=ordered)
    return None


def _is_object(member: object) -> bool:
    """Return whether a member is an object, or the JSON text of one."""
    if isinstance(member, str) and member.lstrip()[:1] == "{":
        found = json_object_at(member.strip(), 0)
        return found is not None
    return isinstance(member, dict)


def _envelope(keys: Mapping[_Role, str]) -> Envelope:
    """Return an envelope with these keys first, and the default keys after them."""
    default = Envelope()

    def all_keys(role: _Role, others: tuple[str, ...]) -> tuple[str, ...]:
        own = keys.get(role, others[0])
        taken = {key for each, key in keys.items() if each != role}
        return tuple(key for key in dict.fromkeys((own, *others)) if key not in taken)

    return Envelope(
        name_keys=all_keys("name", default.name_keys),
        args_keys=all_keys("args", default.args_keys),
        id_keys=all_keys("id", default.id_keys),
        order=tuple(keys),
    )


# -- a name, and the arguments after it


def name_and_object(outputs: Sequence[Output]) -> Reading | None:
    """Find names that a JSON object with the arguments follows."""

    def arguments(output: Output, name: re.Match[str]) -> tuple[int, int, int] | None:
        at = output.text.find("{", name.end(), name.end() + _MAX_BETWEEN)
        found = json_object_at(output.text, at) if at >= 0 else None
        if found is None or not _fits(found[1], output.types[name[0]]):
            return None
        return at, found[0], 1

    return _after_names(outputs, arguments, "the name and a JSON object")


def keywords(outputs: Sequence[Output]) -> Reading | None:
    """Find calls in Python's notation."""

    def arguments(output: Output, name: re.Match[str]) -> tuple[int, int, int] | None:
        end = end_of_keywords(output.text, name.end())
        return (name.end(), end, int(end - name.end() > 2)) if end else None

    return _after_names(outputs, arguments, "a call in Python's notation", args="python")


def bare_objects(outputs: Sequence[Output]) -> Reading | None:
    """Find names that an object without quotation marks around its keys follows."""
    quote = _bare_quote(outputs)

    def arguments(output: Output, name: re.Match[str]) -> tuple[int, int, int] | None:
        at = name.end()
        known = "|".join(map(re.escape, output.types[name[0]]))
        if not re.compile(rf"\{{(?:(?:{known})\s*:|\s*\}})").match(output.text, at):
            return None
        end = end_of_brackets(output.text, at, (quote,))
        return (at, end, 1) if end else None

    notation = "the name and an object without quoted keys"
    return _after_names(outputs, arguments, notation, args="bare", values=Values(quote=quote))


def _bare_quote(outputs: Sequence[Output]) -> str:
    """Return the text between the key and the value of most strings in objects without quoted keys."""
    after: list[str] = []
    for output in outputs:
        for types in output.types.values():
            strings = "|".join(re.escape(key) for key, kind in types.items() if kind == "string")
            if strings:
                pattern = rf"(?<=[{{,])(?:{strings})\s*:\s*"
                after += [output.text[match.end() :][:40] for match in re.finditer(pattern, output.text)]
    found = re.match(r"<[^<>]+>|\W+", common_prefix(after)) if after else None
    return found[0].strip() if found and found[0].strip() else '"'


def _after_names(
    outputs: Sequence[Output],
    arguments: Callable[[Output, re.Match[str]], tuple[int, int, int] | None],
    notation: str,
    *,
    args: Notation = "json",
    values: Values = _PLAIN_VALUES,
) -> Reading | None:
    """Find names of tools that arguments follow; between them, there may be an id or a number.

    :param arguments: a function that returns start, end and number of the arguments after a name.
    """
    found: list[list[tuple[FoundCall, str]]] = []
    for output in outputs:
        calls: list[tuple[FoundCall, str]] = []
        names = list(output.names())
        for match, following in zip(names, [*names[1:], None], strict=False):
            if calls and match.start() < calls[-1][0].end:
                continue  # the name is part of an argument
            span = arguments(output, match)
            if span is None or (following is not None and span[0] > following.start()):
                continue
            call = FoundCall(match[0], match.start(), span[1], span[2])
            calls.append((call, output.text[match.end() : span[0]]))
        found.append(calls)
    hole = find_hole([between for calls in found for _, between in calls])
    if hole is None:
        return None
    words = iter(hole.words)
    kept = [[(call, word) for call, _ in calls if (word := next(words)) is not None] for calls in found]
    placeholder, first = (
        placeholder_of([[word for _, word in calls] for calls in kept]) if hole.varies else ("", 0)
    )
    core = f"{NAME}{hole.before}{placeholder}{hole.after}{ARGS}"
    calls_only = tuple(tuple(call for call, _ in calls) for calls in kept)
    return Reading(notation, calls_only, core, args=args, values=values, first_index=first)


def _fits(arguments: Mapping[str, object], types: Mapping[str, str]) -> bool:
    """Return whether an object may be the arguments of a tool: most of its keys are declared."""
    known = sum(key in types for key in arguments)
    return 2 * known >= len(arguments)
