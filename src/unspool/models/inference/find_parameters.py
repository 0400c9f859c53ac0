"""Search for calls whose arguments have markers of their own, such as ``<arg name="city">Oslo</arg>``.

1. The text between the name of a tool and the first key shows where parameters begin (``lead``).
2. The text between two keys begins with what stands between key and value (``middle``), and ends with what
   closes a parameter (``closer``) and opens the next (``opener``).
3. With these four texts, the calls are read again from start to end.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...dialects import Habits, Values
from .common_text import MARKER, MOST, common_prefix, common_suffix, is_boundary
from .found_calls import FoundCall, Hole, Reading, find_hole, placeholder_of
from .outputs import Output
from .placeholder_characters import KEY, NAME, PARAMS, STRING, TYPE, VALUE

_MAX_LEAD: Final = 200
_JSON_TYPES: Final = ("string", "number", "boolean", "null", "array", "object")
_AFTER_TYPE: Final = rf"[\"']?\s*(?:{MARKER.pattern})+\s?|[^\w\s{{\[]+\s?"
"""Pattern for the text between the type of a value and the value."""
_PYTHON_WORDS: Final = re.compile(r"True|False|None")


class _Parameter(NamedTuple):
    """Markers of a parameter."""

    opener: str
    middle: str
    """Text between key and value, with a placeholder character where the type of the value stands."""
    closer: str
    """Text after the value, with ``KEY`` where the key is repeated."""
    type_words: tuple[str, ...] = ()

    @property
    def nested(self) -> bool:
        return KEY in self.closer

    def template(self) -> str:
        return f"{self.opener}{KEY}{self.middle}{VALUE}{self.closer}"


class _Region(NamedTuple):
    """Text from the name of a tool to the next name of a tool."""

    output: int
    start: int
    end: int
    name: str


class _Keyed(NamedTuple):
    """The text after a key, up to the next key or the end of the region."""

    key: str
    type: str
    text: str


def tagged_parameters(outputs: Sequence[Output]) -> Iterator[Reading]:
    """Yield readings of calls with tagged parameters, the likeliest first."""
    regions = list(_regions(outputs))
    firsts = [_first_key(outputs, region) for region in regions]
    hole = _lead_of([lead for lead in firsts if lead is not None])
    if hole is None:
        return
    lead = hole.after or hole.before
    between, last = _texts_after_keys(outputs, regions, lead)
    if len(between) < 2 or not last:
        return
    suffix = common_suffix([each.text for each in between])
    for middle, type_words in _middles([*between, *last]):
        for parameter in _parameters(lead, suffix, last, middle, type_words):
            reading = _read(outputs, regions, hole, lead, parameter)
            if reading is not None and reading.count:
                yield reading


def _regions(outputs: Sequence[Output]) -> Iterator[_Region]:
    for number, output in enumerate(outputs):
        names = list(output.names())
        ends = [match.start() for match in names[1:]] + [len(output.text)]
        for match, end in zip(names, ends, strict=False):
            yield _Region(number, match.end(), end, match[0])


def _first_key(outputs: Sequence[Output], region: _Region) -> str | None:
    """Return the text between a name and the first key after it."""
    output = outputs[region.output]
    match = _key_pattern(output.types[region.name]).search(
        output.text, region.start, min(region.end, region.start + _MAX_LEAD)
    )
    return output.text[region.start : match.start()] if match else None


def _key_pattern(types: Mapping[str, str], before: str = "") -> re.Pattern[str]:
    """Return a pattern that matches the keys of a tool as whole words; it matches nothing without keys."""
    words = "|".join(map(re.escape, sorted(types, key=len, reverse=True))) or r"(?!)"
    return re.compile(rf"(?<={re.escape(before)})(?<![\w-])(?:{words})(?![\w-])")


def _lead_of(leads: Sequence[str]) -> Hole | None:
    """Return the text between name and first key that most calls have; it may contain an id or a number."""
    # A sentence may contain the name of a tool and one of its keys, so leads with words do not count.
    likely = [lead for lead in leads if not re.search(r"[a-z]+ [a-z]+ ", lead)]
    hole = find_hole(likely)
    if hole is None and likely:
        usual = Counter(likely).most_common(1)[0][0]
        hole = Hole(usual, "", ())
    if hole is None or not re.search(r"[^\w\s]", hole.after or hole.before):
        return None
    return hole


def _texts_after_keys(
    outputs: Sequence[Output], regions: Sequence[_Region], lead: str
) -> tuple[list[_Keyed], list[_Keyed]]:
    """Return the texts after keys that another key follows, and those after last keys."""
    between: list[_Keyed] = []
    last: list[_Keyed] = []
    before = lead[-3:]
    for region in regions:
        types = outputs[region.output].types[region.name]
        text = outputs[region.output].text
        keys = list(_key_pattern(types, before).finditer(text, region.start, region.end))
        own = list({match[0]: match for match in reversed(keys)}.values())[::-1]
        for match, following in zip(own, [*own[1:], None], strict=False):
            end = region.end if following is None else following.start()
            after = text[match.end() : end]
            repeated = re.sub(rf"(?<=[</]){re.escape(match[0])}(?![\w-])", KEY, after)
            (last if following is None else between).append(_Keyed(match[0], types[match[0]], repeated))
    return between, last


def _middles(keyed: Sequence[_Keyed]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield possible texts between key and value, with the words for types if there are some."""
    middle = common_prefix([each.text for each in keyed])
    stem = re.sub(r"\w*$", "", middle)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    rests: list[str] = []
    for each in keyed:
        match = re.match(r"\w+", each.text[len(stem) :])
        if match and each.text.startswith(stem):
            words[each.type][match[0]] += 1
            rests.append(each.text[len(stem) + match.end() :])
    typed = _word_of_each_type(words)
    end = re.match(_AFTER_TYPE, common_prefix(rests)) if len(rests) >= MOST * len(keyed) else None
    if typed and end and stem:
        # The closing quotation mark may be all that is common if no values follow.
        if set(typed.values()) <= {"true", "false"}:
            yield f"{stem}{STRING}{end[0]}", ()
        else:
            typed.setdefault("number", typed.get("integer", "number"))
            # The word for a type without values is unknown; that of another type would be ambiguous.
            usual = [typed.get(kind, kind) for kind in _JSON_TYPES]
            yield f"{stem}{TYPE}{end[0]}", tuple(usual)
    # A letter with which all values begin is not part of the text.
    yield re.sub(r"[\w\"'{\[-]+$", "", middle) if re.search(r"[\w]$", middle) else middle, ()


def _word_of_each_type(words: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return the word that most values of each JSON type have, or nothing if the words are not types."""
    found: dict[str, str] = {}
    for kind, counts in words.items():
        if not kind:
            continue
        word, count = counts.most_common(1)[0]
        if count < MOST * counts.total():
            return {}
        found[kind] = word
    return found if len(set(found.values())) > 1 and len(set(found.values())) <= len(_JSON_TYPES) else {}


def _parameters(
    lead: str, suffix: str, last: Sequence[_Keyed], middle: str, type_words: tuple[str, ...]
) -> Iterator[_Parameter]:
    """Yield the ways to divide the text between two parameters, the longest closer first."""
    texts = [each.text for each in last]
    for at in range(len(suffix), 0, -1):
        closer, opener = suffix[:at], suffix[at:]
        if not re.search(r"[^\w\s]", closer) or not re.search(r"[^\w\s]", opener):
            continue
        indented = opener[:1] == " " and closer.endswith("\n")
        if (
            not lead.endswith(opener)
            or not is_boundary(suffix, at)
            or (opener[:1].isspace() and not indented)
        ):
            continue
        if sum(closer in text for text in texts) < MOST * len(texts):
            continue
        yield _Parameter(opener, middle, closer, type_words)


# -- reading with known markers


def _read(
    outputs: Sequence[Output], regions: Sequence[_Region], hole: Hole, lead: str, parameter: _Parameter
) -> Reading | None:
    head = lead[: len(lead) - len(parameter.opener)]
    if hole.after:  # an id or a number comes before ``lead``
        pattern = re.compile(re.escape(hole.before) + r"([\w.:-]*\w)" + re.escape(head))
    else:
        pattern = re.compile(re.escape(head))
    calls: list[list[FoundCall]] = [[] for _ in outputs]
    words: list[list[str]] = [[] for _ in outputs]
    python = nested = False
    items: Counter[str] = Counter()
    for region in regions:
        output, own = outputs[region.output], calls[region.output]
        match = pattern.match(output.text, region.start)
        start = region.start - len(region.name)
        if match is None or (own and start < own[-1].end):
            continue
        end, values = _parameters_at(output.text, match.end(), parameter)
        types = output.types[region.name]
        if any(key not in types for key, _ in values[:1]):
            continue
        for key, value in values:
            kind = types.get(key, "")
            python = python or (kind != "string" and _PYTHON_WORDS.search(value) is not None)
            if value.startswith(parameter.opener):
                nested = True
                inner = re.match(r"\w+", value[len(parameter.opener) :])
                if inner and kind == "array":
                    items[inner[0]] += 1
        own.append(FoundCall(region.name, start, end, len(values)))
        words[region.output] += match.groups()
    placeholder, first = placeholder_of(words) if hole.after else ("", 0)
    between = f"{hole.before}{placeholder}{head}" if hole.after else head
    core = f"{NAME}{between}{PARAMS}"
    return Reading(
        "the name, and each key and value between markers",
        tuple(map(tuple, calls)),
        core,
        values=Values(python=python),
        habits=Habits(
            nested=parameter.nested or nested,
            list_key=items.most_common(1)[0][0] if items else "",
            type_words=parameter.type_words or _JSON_TYPES,
        ),
        param=parameter.template(),
        first_index=first,
    )


def _parameters_at(text: str, at: int, parameter: _Parameter) -> tuple[int, list[tuple[str, str]]]:
    """Return the end of the parameters that begin at an offset, and their keys and values."""
    middle = re.escape(parameter.middle)
    for character in (STRING, TYPE):
        middle = middle.replace(re.escape(character), r"\w+")
    opening = re.compile(rf"{re.escape(parameter.opener)}([\w.$-]+?){middle}")
    found: list[tuple[str, str]] = []
    while match := opening.match(text, at):
        end = _end_of_value(text, match.end(), match[1], parameter)
        if end < 0:
            break
        found.append((match[1], text[match.end() : end]))
        at = end + len(parameter.closer.replace(KEY, match[1]))
    return at, found


def _end_of_value(text: str, at: int, key: str, parameter: _Parameter) -> int:
    """Return the offset of the closer of a value; parameters inside the value have closers of their own."""
    closer = parameter.closer.replace(KEY, key)
    depth = int(text.startswith(parameter.opener, at)) and not parameter.nested
    end = text.find(closer, at)
    if not depth:
        return end
    while end >= 0:
        inner = text.count(parameter.opener, at, end)
        closed = text.count(closer.strip(), at, end)
        if inner == closed:
            return end
        end = text.find(closer, end + 1)
    return end
