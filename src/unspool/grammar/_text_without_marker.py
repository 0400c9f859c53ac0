"""Text that must not contain a marker, as rules.

No grammar has a "not".  But the characters that keep a text free of markers are
those that an Aho-Corasick automaton allows: its states are how much of a marker
has just been written.  Each state becomes a rule; a rule says which character
leads where, and has no alternative for the one that would complete a marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ._intermediate import (
    NOTHING,
    Chars,
    Exact,
    Node,
    OneOf,
    Ranges,
    Ref,
    Repeat,
    chars,
    choice,
    complement,
    intersection,
    seq,
    union,
)
from ._named_rules import Rules

EVERYTHING: Final = complement(())
"""All characters."""
_WORD_START: Final = chars("a-zA-Z_")
_WORD: Final = chars("a-zA-Z0-9_")
_LONGEST: Final = 64
"""Longer names are not written by chance."""


def text_rules(
    rules: Rules,
    end: str,
    without: Sequence[str],
    *,
    plain: Ranges = EVERYTHING,
    escape: Node = NOTHING,
) -> Node:
    """Text up to ``end``, and ``end``; if there is none, text to the end of the output.

    ``plain``: the characters that stand for themselves.  ``escape``: what else
    may stand for a character; it is no part of any marker.
    """
    markers = [marker for marker in (end, *without) if marker]
    if not markers:
        return Repeat(Chars(plain) if escape == NOTHING else choice((Chars(plain), escape)))
    states = dict.fromkeys(marker[:length] for marker in markers for length in range(len(marker) + 1))
    names = {state: rules.reserve("text") for state in states if not _is_final(state, markers)}
    alphabet = sorted({char for marker in markers for char in marker})
    for state, name in names.items():
        options: list[Node] = [] if end else [NOTHING]
        targets: dict[str, list[str]] = {}
        for char in alphabet:
            target = next(tail for tail in _tails(state + char) if tail in states)
            if target:
                targets.setdefault(target, []).append(char)
        special = set_of(char for found in targets.values() for char in found)
        options.append(seq(Chars(intersection(plain, complement(special))), Ref(names[""])))
        if escape != NOTHING:
            options.append(seq(escape, Ref(names[""])))
        for target, found in targets.items():
            if end and target.endswith(end):
                options.append(Exact(end[-1]))
            elif target in names and intersection(plain, set_of(found)):
                options.append(seq(Chars(intersection(plain, set_of(found))), Ref(names[target])))
        rules.define(name, OneOf(tuple(options)))
    return Ref(names[""])


def word_rules(rules: Rules, taken: frozenset[str]) -> Node:
    """A name that is not taken: one that leaves the tree of those that are, or ends inside it."""
    rest = Repeat(Chars(_WORD), 0, 30)
    words = [name for name in taken if len(name) <= _LONGEST and name.isascii() and name.isidentifier()]
    begun = {"", *(name[:length] for name in words for length in range(1, len(name) + 1))}
    rules.budget.spend(len(begun))
    after: dict[str, list[str]] = {}
    for name in sorted(begun - {""}):
        after.setdefault(name[:-1], []).append(name[-1])
    names = {prefix: rules.reserve("other-word") for prefix in sorted(begun)}
    for prefix, rule in names.items():
        following = after.get(prefix, [])
        leaving = intersection(_WORD if prefix else _WORD_START, complement(set_of(following)))
        options: list[Node] = [seq(Chars(leaving), rest)] if leaving else []
        options += [seq(char, Ref(names[prefix + char])) for char in following]
        if prefix and prefix not in taken:
            options.append(NOTHING)
        rules.define(rule, choice(options))
    return Ref(names[""])


def set_of(found: Iterable[str]) -> Ranges:
    """The set of these characters."""
    return union(*(((ord(char), ord(char)),) for char in found))


def _tails(text: str) -> Iterable[str]:
    """What ``text`` ends with, the longest first."""
    return (text[at:] for at in range(len(text) + 1))


def _is_final(state: str, markers: Sequence[str]) -> bool:
    return any(state.endswith(marker) for marker in markers)
