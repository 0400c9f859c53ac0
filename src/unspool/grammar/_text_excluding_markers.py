"""Grammar rules for text that must not contain certain markers.

Grammars have no negation.  But an Aho-Corasick automaton recognises all markers
in one pass, and a grammar can copy its transitions, except for those that complete
a marker.  A state of the automaton is the longest suffix of the text so far that
is also a prefix of a marker.

Each state becomes a rule, with one alternative for each set of characters that
leads to the same next state.  A character that would complete a marker has no
alternative.  ``add_word_rules`` uses a similar method for a name that must not be one of
the names in a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ._named_rules import Rules
from ._nodes import (
    NOTHING,
    Chars,
    Exact,
    Node,
    OneOf,
    Ranges,
    Ref,
    Repeat,
    char_class,
    choice,
    complement,
    intersection,
    seq,
    union,
)

EVERYTHING: Final = complement(())
"""The set of all characters."""
_WORD_START: Final = char_class("a-zA-Z_")
_WORD: Final = char_class("a-zA-Z0-9_")
_LONGEST: Final = 64
"""Maximum length of the names to exclude. Longer names are not excluded, because a model does not write them
by accident."""


def add_text_rules(
    rules: Rules,
    end: str,
    without: Sequence[str],
    *,
    plain: Ranges = EVERYTHING,
    escape: Node = NOTHING,
) -> Node:
    """Add rules for text up to and including ``end``, and return a reference to the first rule.

    :param end: the marker that ends the text; empty for text to the end of the output.
    :param without: markers that must not occur in the text.
    :param plain: the characters that need no escape.
    :param escape: an escape sequence, which contains no marker.
    """
    markers = [marker for marker in (end, *without) if marker]
    if not markers:
        return Repeat(Chars(plain) if escape == NOTHING else choice((Chars(plain), escape)))
    states = dict.fromkeys(marker[:length] for marker in markers for length in range(len(marker) + 1))
    names = {state: rules.reserve("text") for state in states if not _is_final(state, markers)}
    alphabet = sorted({char for marker in markers for char in marker})
    for state, name in names.items():
        options: list[Node] = [] if end else [NOTHING]
        # For each next state, collect the marker characters that lead to it.
        targets: dict[str, list[str]] = {}
        for char in alphabet:
            target = next(suffix for suffix in _suffixes(state + char) if suffix in states)
            if target:
                targets.setdefault(target, []).append(char)
        # All other characters lead back to the start state, because no marker begins or continues with them.
        special = char_set(char for members in targets.values() for char in members)
        options.append(seq(Chars(intersection(plain, complement(special))), Ref(names[""])))
        if escape != NOTHING:
            options.append(seq(escape, Ref(names[""])))
        for target, members in targets.items():
            if end and target.endswith(end):
                options.append(Exact(end[-1]))
            elif target in names and intersection(plain, char_set(members)):
                options.append(seq(Chars(intersection(plain, char_set(members))), Ref(names[target])))
        rules.define(name, OneOf(tuple(options)))
    return Ref(names[""])


def add_word_rules(rules: Rules, excluded_names: frozenset[str]) -> Node:
    """Add rules for a name that is not in ``excluded_names``, and return a reference to the first rule.

    The rules follow the prefix tree of the excluded names.  A new name leaves this tree at some
    character, or ends at a prefix that is not itself an excluded name.
    """
    rest = Repeat(Chars(_WORD), 0, 30)
    words = [
        name for name in excluded_names if len(name) <= _LONGEST and name.isascii() and name.isidentifier()
    ]
    prefixes = {"", *(name[:length] for name in words for length in range(1, len(name) + 1))}
    rules.budget.spend(len(prefixes))
    next_chars: dict[str, list[str]] = {}
    for prefix in sorted(prefixes - {""}):
        next_chars.setdefault(prefix[:-1], []).append(prefix[-1])
    names = {prefix: rules.reserve("other-word") for prefix in sorted(prefixes)}
    for prefix, rule in names.items():
        following = next_chars.get(prefix, [])
        leaving = intersection(_WORD if prefix else _WORD_START, complement(char_set(following)))
        options: list[Node] = [seq(Chars(leaving), rest)] if leaving else []
        options += [seq(char, Ref(names[prefix + char])) for char in following]
        if prefix and prefix not in excluded_names:
            options.append(NOTHING)
        rules.define(rule, choice(options))
    return Ref(names[""])


def char_set(members: Iterable[str]) -> Ranges:
    """Return a set of characters."""
    return union(*(((ord(char), ord(char)),) for char in members))


def _suffixes(text: str) -> Iterable[str]:
    """Return all suffixes of a string, the longest first."""
    return (text[at:] for at in range(len(text) + 1))


def _is_final(state: str, markers: Sequence[str]) -> bool:
    return any(state.endswith(marker) for marker in markers)
