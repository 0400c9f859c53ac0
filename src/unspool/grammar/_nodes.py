"""Nodes of a grammar, in a form that does not depend on any engine.

``_dialect_grammar`` builds a tree of these nodes, and every writer reads it.
The GBNF writer expands all nodes into rules.  The writer of structural tags expands fewer nodes, because
xgrammar supports JSON schemas and text up to a marker directly.

===============  ==============================================================
``Exact``        fixed text
``Chars``        one character of a set
``Seq``          a sequence of nodes
``OneOf``        one of several nodes
``Repeat``       a repeated node
``Separated``    a node, once or more, with a separator in between
``SchemaValue``  a value that satisfies a JSON schema, in a given notation
``TextUpTo``     text up to and including a marker
``AnyText``      text up to the end of the output
``Dispatch``     text up to a trigger, which begins another node
``Named``        a node with a name, for people who read the grammar
``Ref``          a reference to a rule; appears only after expansion
===============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""A set of characters, as inclusive ranges of code points that are sorted and do not overlap."""
Schema: TypeAlias = Mapping[str, Any] | bool
"""A JSON schema."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Fixed text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence of nodes; an empty sequence stands for empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several nodes."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A node that is repeated."""

    item: Node
    least: int = 0
    most: int | None = None
    """Maximum number of repetitions; ``None`` means no limit."""


@dataclass(frozen=True, slots=True)
class Separated:
    """A node that occurs once or more, with a separator between two occurrences."""

    item: Node
    separator: str


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """A value that satisfies a JSON schema."""

    schema: Schema = field(hash=False)
    """The schema; all of its references must point into its own ``$defs``."""
    notation: Literal["json", "python", "bare"] = "json"
    arguments: bool = False
    """True if the value is the arguments of a call; in Python notation, these are keyword arguments."""
    quote: str = '"'
    """String delimiter in ``bare`` notation."""
    without: tuple[str, ...] = ()
    """Markers that must not occur in strings, because the parser would read them as markup."""


@dataclass(frozen=True, slots=True)
class TextUpTo:
    """Text up to and including the first occurrence of a marker."""

    end: str
    without: tuple[str, ...] = ()
    """Other markers that must not occur before ``end``."""


@dataclass(frozen=True, slots=True)
class AnyText:
    """Text to the end of the output."""

    without: tuple[str, ...] = ()
    """Markers that must not occur in the text."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Text to the end of the output, or text up to a trigger that begins the node ``then``."""

    trigger: str
    then: Node
    """The node that begins with the trigger."""
    without: tuple[str, ...] = ()
    """Markers that must not occur in the text before the trigger."""


@dataclass(frozen=True, slots=True)
class Named:
    """A node with a name; the name helps people to read the grammar."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a rule."""

    name: str


Node: TypeAlias = (
    Exact
    | Chars
    | Seq
    | OneOf
    | Repeat
    | Separated
    | SchemaValue
    | TextUpTo
    | AnyText
    | Dispatch
    | Named
    | Ref
)

NOTHING: Final = Seq(())


def seq(*parts: Node | str) -> Node:
    """Return a sequence node; nested sequences are unpacked, and adjacent fixed texts are joined."""
    out: list[Node] = []
    texts: list[str] = []  # adjacent fixed texts, to be joined and added to ``out``
    for part in parts:
        node = Exact(part) if isinstance(part, str) else part
        for inner in node.parts if isinstance(node, Seq) else (node,):
            if isinstance(inner, Exact):
                texts.append(inner.text)
                continue
            _flush_texts(texts, out)
            out.append(inner)
    _flush_texts(texts, out)
    return out[0] if len(out) == 1 else Seq(tuple(out))


def _flush_texts(texts: list[str], out: list[Node]) -> None:
    text = "".join(texts)
    if text:
        out.append(Exact(text))
    texts.clear()


def choice(options: Iterable[Node]) -> Node:
    """Return a choice node; nested choices are unpacked, and duplicates are removed."""
    out: dict[Node, None] = {}
    for option in options:
        out.update(dict.fromkeys(option.options if isinstance(option, OneOf) else (option,)))
    return next(iter(out)) if len(out) == 1 else OneOf(tuple(out))


def optional(*parts: Node | str) -> Node:
    """Return a node for an optional sequence of these parts."""
    node = seq(*parts)
    return NOTHING if node == NOTHING else Repeat(node, 0, 1)


def up_to(end: str, without: Iterable[str] = ()) -> Node:
    """Return a node for text up to and including a marker; the text must not contain other markers.

    If ``end`` contains one of the other markers, the text stops at that shorter marker, and the rest of
    ``end`` follows:

    >>> up_to("</city>", ["</"])
    Seq(parts=(TextUpTo(end='</', without=()), Exact(text='city>')))
    """
    others = [other for other in dict.fromkeys(without) if other != end]
    ends = [end.find(other) + len(other) for other in others if other in end]
    cut = min(ends, default=len(end))
    # A marker that contains ``end`` need not be excluded, because the text already stops at ``end``.
    kept = [other for other in others if end[:cut] not in other]
    return seq(TextUpTo(end[:cut], tuple(kept)), end[cut:])


def literal_prefix(node: Node) -> str:
    """Return the longest fixed text with which every text of a node begins; it may be empty."""
    if isinstance(node, Exact):
        return node.text
    if isinstance(node, Seq) and node.parts:
        return literal_prefix(node.parts[0])
    if isinstance(node, Named):
        return literal_prefix(node.node)
    if isinstance(node, Separated):
        return literal_prefix(node.item)
    if isinstance(node, OneOf):
        return _common_prefix([literal_prefix(option) for option in node.options])
    return ""


def strip_prefix(node: Node, prefix: str) -> Node:
    """Return a node for the texts of this node without their common prefix ``prefix``."""
    if not prefix:
        return node
    if isinstance(node, Exact) and node.text.startswith(prefix):
        return Exact(node.text[len(prefix) :])
    if isinstance(node, Seq) and node.parts:
        return seq(strip_prefix(node.parts[0], prefix), *node.parts[1:])
    if isinstance(node, Named):
        return Named(node.name, strip_prefix(node.node, prefix))
    if isinstance(node, Separated):
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


def char_class(text: str) -> Ranges:
    """Parse a regular expression's character set: ``a-z0-9_``, or ``^a-z`` for all characters except a-z."""
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
    """Return the characters that are in at least one of the sets."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(pair for ranges in sets for pair in ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    """Return the characters that are not in a set."""
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
    """Return the characters that are in both sets."""
    return complement(union(complement(one), complement(other)))


def contains(ranges: Ranges, char: str) -> bool:
    """Return whether a character is in a set."""
    return any(low <= ord(char) <= high for low, high in ranges)
