"""Search for the markers around reasoning and content, and for the marker that ends a turn."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from .common_text import MARKER, common_prefix, common_suffix, has_marker, most_common, shared_substrings

_REASONING: Final = re.compile(
    r"think|thought|reason|analys|scratch|inner|reflect|cot|plan|brain|ponder|muse", re.IGNORECASE
)
_CONTENT: Final = re.compile(r"answer|response|content|final|text|reply|say|speak|output", re.IGNORECASE)
_END_OF_TURN: Final = re.compile(r"end|eot|eom|eos|stop|</s>|im_end|user|return|observation", re.IGNORECASE)
_MANY: Final = 0.5
"""Share of outputs that must end with a marker that ends a turn."""
_RARE: Final = 0.1
"""Share of outputs below which the same first characters are chance."""
_ROUNDS: Final = 4
"""Maximum number of wrappers in an output."""


class FoundWrapper(NamedTuple):
    """Markers around reasoning or content."""

    opener: str
    closer: str
    in_prompt: bool = False
    """True if outputs begin inside the wrapper, because the prompt ends with the opener."""


class FoundWrappers(NamedTuple):
    """All markers around reasoning and content."""

    reasoning: tuple[FoundWrapper, ...] = ()
    content: tuple[FoundWrapper, ...] = ()


def end_of_turn(texts: Sequence[str], with_calls: Sequence[bool]) -> str:
    """Return the marker with which most outputs end, with and without calls; it may be empty."""
    ends = [text.rstrip() for text in texts]
    found = [match[0] for end in ends if (match := re.search(rf"(?:{MARKER.pattern})$", end))]
    for marker, count in Counter(found).most_common():
        repeated = sum(text.count(marker) > 1 for text in texts)
        if count < max(3, _MANY * len(texts)) or repeated > _RARE * count or _closes_another(marker, texts):
            continue
        ending = [calls for end, calls in zip(ends, with_calls, strict=True) if end.endswith(marker)]
        # A marker at the end of calls only may belong to the calls.
        if not all(ending) or (all(with_calls) and _END_OF_TURN.search(marker)):
            return marker
    return ""


def _closes_another(marker: str, texts: Sequence[str]) -> bool:
    """Return whether the marker that a closing marker closes is in the texts."""
    opener = opener_of(marker)
    return bool(opener) and any(opener in text for text in texts)


def possible_wrappers(texts: Sequence[str]) -> Iterator[FoundWrappers]:
    """Yield the markers that may be around reasoning and content, the likeliest first.

    :param texts: the texts of outputs without their calls.
    """
    found = find_wrappers(texts)
    yield found
    if found.reasoning and found.content:
        yield FoundWrappers(found.reasoning)
    if found != FoundWrappers():
        yield FoundWrappers()


def find_wrappers(texts: Sequence[str]) -> FoundWrappers:
    """Return the markers around reasoning and content."""
    found: list[FoundWrapper] = []
    after: dict[FoundWrapper, list[str]] = {}
    rests = [text for text in texts if text.strip()]
    plain: list[str] = []
    for _ in range(_ROUNDS):
        groups, plain = _groups(rests)
        rests = list(plain)
        grown = False
        for opener, members in groups.items():
            wrapper = _closed(opener, members, list(groups) + [each.opener for each in found])
            if wrapper is None:
                plain += members
                continue
            grown = True
            ends = [member.partition(wrapper.closer)[2] for member in members if wrapper.closer in member]
            after.setdefault(wrapper, []).extend(ends)
            if wrapper not in found:
                found.append(wrapper)
            rests += [end for end in ends if end.strip()]
        if not grown:
            break
    if not found:
        seeded = _seeded(texts)
        return FoundWrappers((seeded,) if seeded else ())
    return _by_role(found, after, plain)


def _groups(texts: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Group texts by the marker with which they begin; return those without a common marker, too."""
    by_start: defaultdict[str, list[str]] = defaultdict(list)
    runs = Counter(_run_of_markers(text) for text in texts)
    for text in texts:
        run = _run_of_markers(text)
        few = runs[run] < max(2, _RARE * len(texts))
        marker = MARKER.match(text.lstrip())
        symbols = re.match(r"[^\w\s]{2,}", text.lstrip())
        start = symbols[0] if symbols else text.lstrip()[:3]
        if marker:
            start = marker[0] if few else run
        by_start[start].append(text.lstrip())
    groups: dict[str, list[str]] = {}
    rest: list[str] = []
    for start, members in by_start.items():
        opener = _opener(start, members)
        least = 4 if opener[:1].isalnum() else 2
        closing = opener.startswith(("</", "[/"))  # the rest of a call that is not complete
        if opener and not closing and len(members) >= max(least, _RARE * len(texts)):
            groups[opener] = members
        else:
            rest += members
    return groups, rest


def _run_of_markers(text: str) -> str:
    """Return the markers with which a text begins, with the words between them, such as a channel's name."""
    found = re.match(rf"(?:{MARKER.pattern})(?:\s*\w*(?!</)(?:{MARKER.pattern}))*", text.lstrip())
    return found[0] if found else ""


def _opener(start: str, members: Sequence[str]) -> str:
    """Return the marker with which texts begin, with the whitespace after it."""
    shared = common_prefix(members)
    if MARKER.match(start):
        following = re.match(r"\w*\n\s*|\s*", shared[len(start) :])
        return start + (following[0] if following else "")
    last = max((match.end() for match in re.finditer(r"[^\w\s]\s*", shared)), default=0)
    return shared[:last] if has_marker(shared[:last]) else ""


def _closed(opener: str, members: Sequence[str], openers: Sequence[str]) -> FoundWrapper | None:
    """Return the wrapper with an opener, or None if no common text closes it."""
    rests = [member[len(opener) :] for member in members]
    candidates: list[str] = []
    for shared in shared_substrings(rests):
        # The opener of the next wrapper may follow the closer.
        cuts = [at for each in openers if (at := shared.find(each.strip())) > 0]
        closer = _whole_marker(shared[: min(cuts, default=len(shared))])
        if has_marker(closer) and closer not in candidates:
            candidates.append(closer)
    if not candidates:
        return None
    word = "".join(re.findall(r"[^\W_]+", opener)).lower()
    mirrored = [each for each in candidates if word and word in "".join(re.findall(r"[^\W_]+", each)).lower()]
    closer = max(mirrored or candidates, key=lambda each: len(each.strip())).rstrip()
    ends = [rest.partition(closer)[2] for rest in rests if closer in rest]
    # Where calls follow, the whitespace may belong to them.
    spaces = [end[: len(end) - len(end.lstrip())] for end in ends if end.strip()]
    return FoundWrapper(opener, closer + most_common(spaces or ends))


def _whole_marker(text: str) -> str:
    """Return the part of a text that is a marker, with the whitespace around it."""
    run = re.search(rf"\s*(?:{MARKER.pattern})(?:\w*(?:{MARKER.pattern}))*\s*", text)
    if run:
        return run[0]
    found = re.search(r"\s*[^\w\s].*", text, re.DOTALL)
    if not found:
        return ""
    start = re.search(r"\n\w[\w ]*$", text[: found.start()] + "")
    at = start.start() if start else found.start()
    words = re.match(r"[\w ]*", text)
    if words and words.end() == found.start() and not start:
        at = 0 if text[:1].isupper() or text[:1].isspace() else found.start()
    # The last sentence before the closer ends with a mark of its own.
    return re.sub(r"^[.!?]+(?=[^\w\s.!?])", "", re.sub(r"\w+$", "", text[at:]))


def _seeded(texts: Sequence[str]) -> FoundWrapper | None:
    """Return the wrapper inside which outputs begin, if most of them have only its closer."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({match[0] for match in MARKER.finditer(text) if text.count(match[0]) == 1})
    for closer, count in counts.most_common(3):
        opener = opener_of(closer)
        if not opener or count < max(3, 0.3 * len(texts)) or any(opener in text for text in texts):
            continue
        ends = [text.partition(closer) for text in texts if closer in text]
        before = common_suffix([begin[-4:] for begin, _, _ in ends])
        after = common_prefix([end[:4] for _, _, end in ends if end])
        space_before = re.search(r"\s*$", before)
        space_after = re.match(r"\s*", after)
        return FoundWrapper(
            opener,
            f"{space_before[0] if space_before else ''}{closer}{space_after[0] if space_after else ''}",
            in_prompt=True,
        )
    return None


def opener_of(closer: str) -> str:
    """Return the marker that a closing marker closes, or an empty string if it is not a closing marker."""
    if closer.startswith(("</", "[/", "◁/")):
        return closer[0] + closer[2:]
    for end, start in (("END", "START"), ("end", "start"), ("End", "Start")):
        if end in closer:
            return closer.replace(end, start)
    return ""


def _by_role(
    found: Sequence[FoundWrapper], after: dict[FoundWrapper, list[str]], plain: Sequence[str]
) -> FoundWrappers:
    """Divide wrappers between reasoning and content."""
    reasoning: list[FoundWrapper] = []
    content: list[FoundWrapper] = []
    others: list[FoundWrapper] = []
    for wrapper in found:
        markers = wrapper.opener + wrapper.closer
        if _REASONING.search(markers):
            reasoning.append(wrapper)
        elif _CONTENT.search(markers):
            content.append(wrapper)
        else:
            others.append(wrapper)
    for wrapper in others:
        followed = any(rest.strip() for rest in after.get(wrapper, ()))
        if not reasoning and (followed or any(text.strip() for text in plain)):
            reasoning.append(wrapper)
        elif not content:
            content.append(wrapper)
    return FoundWrappers(tuple(reasoning), tuple(content))
