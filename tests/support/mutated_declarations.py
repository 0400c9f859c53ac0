"""Generator of mutated declarations: valid dialects, some of whose fields are changed at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from random import Random
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from unspool import Dialect, SpecError, list_dialects
from unspool.dialects import (
    Envelope,
    Family,
    Frame,
    Names,
    Opener,
    Prompt,
    Route,
    Section,
    Values,
    Wrapper,
    Writing,
)
from unspool.dialects.parse_templates import PLACEHOLDERS

_PIECES: Final = (
    *(f"{{{name}}}" for name in PLACEHOLDERS),
    *("{{name}}", "{args:python}", "{args:bare}", "{envelope:json}", ' name="{name}"', ' key="{key}"'),
    *("<a>", "</a>", "<|b|>", "^", "!", "?", "[", "]", "{", "}", "\n", " ", "```", "x", "|", "'", '"', ":"),
)
_WRONG: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 3.5, 10**30, "", "no", "remove", "\n", [], {}, (), ("",), (None,), ["<a>"]),
    *(Dialect("inner", call=("<c>{envelope}</c>",)), Family(), Section("{calls}"), Wrapper("<t>{text}</t>")),
    *(Opener("<o>"), Route({}, "content"), Values(), Names(), Envelope(), Prompt(), object()),
)
_BASES: Final = (
    Dialect("base", call=("<c>{name}{args}</c>",)),
    Dialect(
        "base",
        call=("<c>{envelope}</c>",),
        section=("<s>{calls}</s>",),
        drop=("<d>",),
        writing=Writing(between_calls=", "),
        stop=("<|e|>",),
    ),
    Dialect(
        "base", call=("<c {name}>{params}</c>",), param=("<p {key}>{value}</p>",), content=("<a>{text}</a>",)
    ),
    Dialect(
        "base", section=(Section("[{calls}]", only_at_start=True),), call=("{name}{args}",), args="python"
    ),
    Dialect("base", call=("<c>{name}{args}</c>",), args="bare", values=Values(quote="'")),
    Dialect(
        "base",
        reasoning=(),
        frame=Frame(
            open=("<|s|>",),
            sep="<|m|>",
            ends=("<|e|>",),
            fields=(" to={to}",),
            routes=(Route({"to": "{name}"}, "{args}", " to={name}"), Route({}, "content", " to=user")),
        ),
        prompt=Prompt(ends=("<|s|>",), opens_message=True),
    ),
)


def mutated(rng: Random) -> Dialect | SpecError:
    """Return a mutated dialect, or the error with which it was refused.

    Any other exception is a defect of the validation.
    """
    bases = [*list_dialects(), *_BASES * 8]
    dialect = rng.choice(bases)
    try:
        dialect = replace(dialect, name=f"mutant_{rng.randrange(10**6)}")
        for _ in range(rng.choice((1, 1, 2, 3))):
            dialect = _change_dataclass(dialect, Dialect, rng)
    except SpecError as error:
        return error
    return dialect


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _mutate(value: Any, hint: Any, rng: Random) -> Any:
    """Return a changed copy of a value; sometimes of the wrong type."""
    if rng.random() < 0.04:
        return rng.choice(_WRONG)
    for kind, change in _CHANGES:
        if kind(value):
            return change(value, hint, rng)
    return rng.choice(_WRONG)


def _change_dataclass(value: Any, hint: object, rng: Random) -> Any:
    del hint
    name = rng.choice([field.name for field in fields(value) if field.name != "name"])
    cls: Any = type(value)
    hint = _hints(cls)[name]
    return replace(value, **{name: _mutate(getattr(value, name), hint, rng)})


def _change_tuple(value: tuple[Any, ...], hint: Any, rng: Random) -> Any:
    items = list(value)
    inner = _item_hint(hint)
    action = rng.randrange(6)
    if action == 0 or not items:
        items.insert(rng.randint(0, len(items)), _fresh(inner, rng))
    elif action == 1:
        del items[rng.randrange(len(items))]
    elif action == 2:
        items.insert(rng.randrange(len(items)), rng.choice(items))
    elif action == 3 and rng.random() < 0.3:
        return items if rng.random() < 0.5 else items[0]
    else:
        at = rng.randrange(len(items))
        items[at] = _mutate(items[at], inner, rng)
    return tuple(items)


def _change_text(value: str, hint: Any, rng: Random) -> Any:
    if get_origin(hint) is Literal:
        return rng.choice(get_args(hint)) if rng.random() < 0.9 else rng.choice(_WRONG)
    a, b = sorted((rng.randint(0, len(value)), rng.randint(0, len(value))))
    b = min(b, a + 6)
    action = rng.randrange(7)
    if action == 0:
        return value[:a] + value[b:]
    if action == 1:
        return value[a:b]
    if action == 2:
        return value[:b] + value[a:]
    if action == 3 and rng.random() < 0.3:
        return _template(rng)
    return value[:a] + rng.choice(_PIECES) + value[a if rng.random() < 0.7 else b :]


def _change_boolean(value: bool, hint: object, rng: Random) -> Any:
    del hint
    return not value if rng.random() < 0.9 else "no"


def _change_number(value: int, hint: object, rng: Random) -> Any:
    del hint
    return rng.choice((-1, 0, 8, 300, value + 1))


def _change_mapping(value: Mapping[str, str], hint: object, rng: Random) -> Any:
    del hint
    items = {key: _mutate(each, str, rng) for key, each in value.items()}
    if rng.random() < 0.3:
        items[rng.choice(("to", "channel", "x", ""))] = _template(rng)
    return items


def _item_hint(hint: Any) -> Any:
    arguments = get_args(hint)
    return arguments[0] if get_origin(hint) is tuple else hint


def _fresh(hint: Any, rng: Random) -> Any:
    """Return a new item for a tuple."""
    if get_origin(hint) in (Union, UnionType):
        hint = rng.choice(get_args(hint))
    if hint is Section:
        return Section(_template(rng), *(rng.random() < 0.4 for _ in range(3)))
    if hint is Wrapper:
        return Wrapper(_template(rng), *(rng.random() < 0.4 for _ in range(2)))
    if hint is Opener:
        return Opener(_template(rng), rng.random() < 0.5)
    if hint is Route:
        return Route({"to": _template(rng)}, rng.choice(("content", "drop", "{args}")), _template(rng))
    if hint is Dialect:
        return rng.choice(_BASES)
    return _template(rng) if rng.random() < 0.95 else rng.choice(_WRONG)


def _template(rng: Random) -> str:
    if rng.random() < 0.5:
        around = rng.choice(
            ("{calls}", "{text}", "{name}{args}", "{envelope}", "{name}{params}", "{value}", "{code}")
        )
        opener, closer = rng.choice(
            (("<a>", "</a>"), ("<|a|>", "<|z|>"), ("[", "]"), ("", ";"), ("a\n", ""), ("^", "!"))
        )
        return f"{opener}{around}{closer}"
    return "".join(rng.choice(_PIECES) for _ in range(rng.randint(0, 5)))


_CHANGES: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, Random], Any]], ...]] = (
    (lambda value: isinstance(value, bool), _change_boolean),
    (lambda value: isinstance(value, int), _change_number),
    (lambda value: isinstance(value, str), _change_text),
    (lambda value: isinstance(value, tuple), _change_tuple),
    (lambda value: isinstance(value, Mapping), _change_mapping),
    (lambda value: is_dataclass(value) and not isinstance(value, type), _change_dataclass),
)
