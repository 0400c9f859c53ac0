"""What a model may write, before it is spelt for an engine.

A small algebra.  The walk over a dialect's templates builds it once, and every
writer reads it: GBNF expands all of it to rules, structural tags keep what
their engine can do itself (JSON schemas, text up to a marker).

===============  ==============================================================
``Exact``        this text
``Chars``        one character of a set
``Seq``          one after the other
``OneOf``        one of these
``Repeat``       again and again
``Many``         at least one, with a separator
``SchemaValue``  a value by its JSON schema, in some notation
``UpTo``         text up to a marker, and the marker
``Free``         text
``Dispatch``     text, in which a trigger begins something fixed
``Named``        the same under a name, for readers
``Ref``          a rule; only what has been expanded has these
===============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points from and to, sorted, without overlaps."""
Schema: TypeAlias = Mapping[str, Any] | bool
"""A JSON schema."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A given text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of these."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    """One after the other; empty: nothing."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same several times."""

    item: Node
    least: int = 0
    most: int | None = None
    """``None``: as often as you like."""


@dataclass(frozen=True, slots=True)
class Many:
    """At least one, with a separator between two."""

    item: Node
    separator: str


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """A value that satisfies a schema."""

    schema: Schema = field(hash=False)
    """Self-contained: references point into its own ``$defs``."""
    notation: Literal["json", "python", "bare"] = "json"
    arguments: bool = False
    """The arguments of a call, which Python writes in its own way."""
    quote: str = '"'
    """String delimiter of the bare notation."""
    without: tuple[str, ...] = ()
    """What must not occur in strings, because nothing protects it there."""


@dataclass(frozen=True, slots=True)
class UpTo:
    """Text up to the first occurrence of a marker, and the marker."""

    end: str
    without: tuple[str, ...] = ()
    """What must not occur in the text either."""


@dataclass(frozen=True, slots=True)
class Free:
    """Text to the end of the output, or to what it must not contain."""

    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Text to the end of the output, unless the trigger occurs: there ``then`` begins, and is the rest."""

    trigger: str
    then: Node
    """Begins with the trigger."""
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """The same under a name."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Ref:
    """A rule by its name."""

    name: str


Node: TypeAlias = (
    Exact | Chars | Seq | OneOf | Repeat | Many | SchemaValue | UpTo | Free | Dispatch | Named | Ref
)

NOTHING: Final = Seq(())


def seq(*parts: Node | str) -> Node:
    """One after the other, with neighbouring texts joined."""
    out: list[Node] = []
    texts: list[str] = []  # neighbours, joined once
    for part in parts:
        node = Exact(part) if isinstance(part, str) else part
        for inner in node.parts if isinstance(node, Seq) else (node,):
            if isinstance(inner, Exact):
                texts.append(inner.text)
                continue
            _put_text(texts, out)
            out.append(inner)
    _put_text(texts, out)
    return out[0] if len(out) == 1 else Seq(tuple(out))


def _put_text(texts: list[str], out: list[Node]) -> None:
    text = "".join(texts)
    if text:
        out.append(Exact(text))
    texts.clear()


def choice(options: Iterable[Node]) -> Node:
    """One of these, each once."""
    out: dict[Node, None] = {}
    for option in options:
        out.update(dict.fromkeys(option.options if isinstance(option, OneOf) else (option,)))
    return next(iter(out)) if len(out) == 1 else OneOf(tuple(out))


def optional(*parts: Node | str) -> Node:
    """That, or nothing."""
    node = seq(*parts)
    return NOTHING if node == NOTHING else Repeat(node, 0, 1)


def up_to(end: str, without: Iterable[str] = ()) -> Node:
    """Text up to a marker; what must not occur in it may overlap with the marker.

    Where the marker contains one of them, the text ends there already.

    >>> up_to("</city>", ["</"])
    Seq(parts=(UpTo(end='</', without=()), Exact(text='city>')))
    """
    others = [other for other in dict.fromkeys(without) if other != end]
    ends = [end.find(other) + len(other) for other in others if other in end]
    cut = min(ends, default=len(end))
    # A longer text that contains the marker cannot come before it.
    kept = [other for other in others if end[:cut] not in other]
    return seq(UpTo(end[:cut], tuple(kept)), end[cut:])


def first_text(node: Node) -> str:
    """The text that something certainly begins with."""
    if isinstance(node, Exact):
        return node.text
    if isinstance(node, Seq) and node.parts:
        return first_text(node.parts[0])
    if isinstance(node, Named):
        return first_text(node.node)
    if isinstance(node, Many):
        return first_text(node.item)
    if isinstance(node, OneOf):
        return _common_prefix([first_text(option) for option in node.options])
    return ""


def strip_prefix(node: Node, prefix: str) -> Node:
    """What follows the text that something begins with."""
    if not prefix:
        return node
    if isinstance(node, Exact) and node.text.startswith(prefix):
        return Exact(node.text[len(prefix) :])
    if isinstance(node, Seq) and node.parts:
        return seq(strip_prefix(node.parts[0], prefix), *node.parts[1:])
    if isinstance(node, Named):
        return Named(node.name, strip_prefix(node.node, prefix))
    if isinstance(node, Many):
        return seq(strip_prefix(node.item, prefix), Repeat(seq(node.separator, node.item)))
    if isinstance(node, OneOf):
        return choice(strip_prefix(option, prefix) for option in node.options)
    raise ValueError(f"{node!r} does not begin with {prefix!r}")


def _common_prefix(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)
    for at, char in enumerate(low):
        if char != high[at : at + 1]:
            return low[:at]
    return low


# --- sets of characters

_LAST: Final = 0x10FFFF


def chars(text: str) -> Ranges:
    """A set, written as in a regular expression: ``a-z0-9_``; a leading ``^`` takes all others."""
    negated = text.startswith("^") and len(text) > 1
    text = text[1:] if negated else text
    pairs: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            pairs.append((ord(text[at]), ord(text[at + 2])))
            at += 3
        else:
            pairs.append((ord(text[at]), ord(text[at])))
            at += 1
    ranges = union(tuple(pairs))
    return complement(ranges) if negated else ranges


def union(*sets: Ranges) -> Ranges:
    """What is in one of the sets."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(pair for ranges in sets for pair in ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    """What is not in the set."""
    out: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if low > at:
            out.append((at, low - 1))
        at = high + 1
    if at <= _LAST:
        out.append((at, _LAST))
    return tuple(out)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """What is in both sets."""
    return complement(union(complement(one), complement(other)))


def contains(ranges: Ranges, char: str) -> bool:
    """Whether the set has this character."""
    return any(low <= ord(char) <= high for low, high in ranges)
