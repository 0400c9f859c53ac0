"""Mutations of JSON trees: a value is replaced, removed, duplicated or moved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeAlias

from fuzz.forgiving import value_of

Path: TypeAlias = tuple[str | int, ...]

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, 10**30, 1e308, "", "x", "{name}", "{", "\n", "é\u0000", "auto", "^"),
    *([], {}, [[]], [{}], [None], {"": None}, {"type": "object"}, {"type": []}, {"text": 1}, ["a", "a"]),
)


def mutated(data: bytes, head: int, rng: Random) -> bytes:
    """Return an input with one to three changed values in the JSON after its first ``head`` bytes."""
    tree = value_of(data[head:].decode("utf-8", "replace"))
    for _ in range(rng.randint(1, 3)):
        tree = _changed(tree, rng)
    return data[:head].ljust(head, b"\0") + json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode(
        "utf-8", "replace"
    )


def _paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, (*path, key))
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            yield from _paths(value, (*path, at))


def _at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _changed(tree: Any, rng: Random) -> Any:
    paths = list(_paths(tree))
    path, other = rng.choice(paths), rng.choice(paths)
    new = _other(_at(tree, path), _at(tree, other), rng)
    if not path:
        return new
    holder, step = _at(tree, path[:-1]), path[-1]
    kind = rng.randrange(6)
    if kind == 0:
        del holder[step]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(rng.randint(0, len(holder)), json.loads(json.dumps(new)))
    elif kind == 1:
        holder[str(rng.choice((*path, *other, "x")))] = json.loads(json.dumps(new))
    else:
        holder[step] = json.loads(json.dumps(new))
    return tree


def _other(value: Any, elsewhere: Any, rng: Random) -> Any:
    kind = rng.randrange(5)
    if kind == 0:
        return elsewhere
    if kind == 1:
        return [value] if rng.random() < 0.5 else {str(elsewhere)[:20]: value}
    if kind == 2 and isinstance(value, str):
        at = rng.randint(0, len(value))
        piece = rng.choice(("", str(elsewhere)[:30], *map(str, _ODD)))
        return value[:at] + piece + value[at + rng.randint(0, 9) :]
    return rng.choice(_ODD)
