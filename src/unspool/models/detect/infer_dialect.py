r"""Inference: a dialect from what a model's chat template writes.

The template is rendered twice with one thing changed (the name, a key, a
value, the number of calls, the content), and what changes with it is a hole;
the rest are literals.  Then the holes are given names, the literals are shared
out between section, call, parameter and separator, and the dialect that comes
of it must read back everything the template writes.  What does not is thrown
away: an inferred dialect is right about the renderings, or there is none.

Four shapes are known: an object with name and arguments (alone, in tags, in an
array), a name and its arguments between markers, a Python call, and parameters
in tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..._core.render.example import calls_of, json_value
from ...dialects._declaration import Dialect, Envelope, Names, Notation, Values
from ...errors import SpecError
from ...message import Message, ToolCall
from ...parser import parse
from .probe_messages import TOOLS, Write, Writing

Shape: TypeAlias = Literal["envelope", "args", "python", "params"]
_Role: TypeAlias = Literal["name", "args", "id"]


class Inferred(NamedTuple):
    """A dialect that was inferred."""

    dialect: Dialect
    evidence: tuple[str, ...]
    """How, a sentence each."""
    confidence: float
    """From 0 to 1."""


# -- what is rendered

_RED: Final = {"redkey": "Redvalue"}
_BLUE: Final = {"bluekey": "Bluevalue"}
_TYPED: Final[Mapping[str, object]] = {
    "redkey": "Redvalue",
    "numkey": 70707,
    "flagkey": True,
    "nullkey": None,
    "listkey": [70708],
    "mapkey": {"inner": 70709},
}
_HARD: Final = {"redkey": 'a "quoted" <b>word</b>,\n    and\\more: {é} ] } ', "bluekey": ""}
_SAID: Final = "Saidbefore."
_THOUGHT: Final = "Thoughtofit."


def _call(number: int, arguments: Mapping[str, object]) -> ToolCall:
    name = ("unspool_alpha", "unspool_omega")[number]
    return ToolCall(f"zq{number}zq{number}zq{number}", name, json.dumps(arguments, ensure_ascii=False))


_FIRST: Final = _call(0, _RED)
_SECOND: Final = _call(1, _BLUE)

# -- holes: code points that no template writes

_NAME, _ID, _ENVELOPE, _ARGS, _KEY, _VALUE, _PARAMS, _INDEX = map(chr, range(0xF0000, 0xF0008))
_HOLES: Final = {
    _NAME: "{name}",
    _ID: "{id}",
    _ENVELOPE: "{envelope}",
    _ARGS: "{args}",
    _KEY: "{key}",
    _VALUE: "{value}",
    _PARAMS: "{params}",
    _INDEX: "{index}",
}
_MARKER: Final = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
"""What looks like a token of its own."""
_CONFIDENT: Final = 0.7
"""Renderings are not all that a model writes."""
_ANY_HOLE: Final = re.compile(f"[{_NAME}-{_INDEX}]")


def _template(text: str) -> str:
    """Text with holes as a template."""
    return _ANY_HOLE.sub(lambda hole: _HOLES[hole[0]], text)


def infer(write: Write, *, many: bool = True, name: str = "inferred") -> Inferred | None:
    """The dialect of whatever writes like that; None if it cannot be told.

    :param many: several calls in one turn are written.
    :param name: what to call the dialect.
    """
    for shape in ("envelope", "args", "python", "params"):
        found = _Inference(write, shape, many=many, name=name).result()
        if found is not None:
            return found
    return None


class _Unlike(Exception):
    """The renderings do not have this shape."""


class _Layout(NamedTuple):
    """The literals around calls."""

    opening: str
    head: str
    """From where a call begins to its first hole."""
    core: str
    """From the first hole to the last."""
    tail: str
    separator: str
    closing: str


class _Inference:
    """The attempt to explain the renderings by one shape."""

    def __init__(self, write: Write, shape: Shape, *, many: bool, name: str) -> None:
        self.write = write
        self.shape = shape
        self.many = many
        self.name = name
        self.args: Notation = "json"
        self.envelope = Envelope()
        self.values = Values()
        self.names = Names()
        self.param: tuple[str, str, str] | None = None
        """Before the key, between key and value, behind the value."""
        self.beside = True
        """Content may stand in one turn with calls."""
        self.evidence: list[str] = []

    def result(self) -> Inferred | None:
        try:
            return self.attempt()
        except (_Unlike, SpecError):
            return None

    def attempt(self) -> Inferred | None:
        if self.shape == "params":
            self.learn_params()
        first = self.dig(self.turn(_FIRST), _FIRST)
        if first != self.dig(self.turn(_SECOND), _SECOND):
            raise _Unlike  # something else changes with the call
        self.evidence.append(
            f"Turns that differ in name and arguments only are alike but for {_SHAPES[self.shape]}."
        )
        lead, end = self.around_content()
        layout = self.layout_of_many(lead, end) if self.many else self.layout_of_one(first, lead, end)
        best: Inferred | None = None
        for dialect in self.dialects(layout, lead, end):
            found = self.verified(dialect)
            if found is not None and (best is None or found.confidence > best.confidence):
                best = found
            if best is not None and best.confidence == _CONFIDENT:
                break
        return best

    def turn(self, *calls: ToolCall) -> str:
        """A turn with nothing but these calls."""
        text = self.write(Message(tool_calls=calls)).turn
        if any(call.name not in text for call in calls):
            raise _Unlike
        return text

    def dig(self, text: str, call: ToolCall) -> str:
        """Put holes in place of what belongs to a call."""
        arguments = json.loads(call.arguments)
        if self.shape == "envelope":
            start, end, self.envelope = _find_envelope(text, call, arguments)
            return text[:start] + _ENVELOPE + text[end:].replace(call.name, _NAME).replace(call.id, _ID)
        if self.shape == "args":
            start, end = _find_object(text, arguments)
            text = text[:start] + _ARGS + text[end:]
        elif self.shape == "python":
            key, value = next(iter(arguments.items()))
            pattern = rf"(?<={re.escape(call.name)})\(\s*{key}\s*=\s*(['\"]){value}\1\s*\)"
            text, count = re.subn(pattern, _ARGS, text)
            if count != 1:
                raise _Unlike
            self.args = "python"
        else:
            for key, value in arguments.items():
                text = text.replace(key, _KEY).replace(str(value), _VALUE)
            text = self.fold_params(text)
        if call.name not in text:
            raise _Unlike
        return text.replace(call.name, _NAME).replace(call.id, _ID)

    # -- parameters

    def learn_params(self) -> None:
        """How one parameter is written, from turns with one and with two of them."""
        one = self.dig(self.turn(_FIRST), _FIRST)
        pair = _call(0, _RED | _BLUE)
        two = self.dig(self.turn(pair), pair)
        parts = two.split(_KEY)
        if one.count(_VALUE) != 1 or two.count(_VALUE) != 2 or len(parts) not in (3, 5):
            raise _Unlike
        nested = len(parts) == 5  # the key is repeated behind the value
        before = parts[0]
        between, _, gap = two.partition(_KEY)[2].partition(_VALUE)
        gap = gap.rpartition(_KEY)[0] if not nested else gap[: gap.index(_KEY, gap.index(_KEY) + 1)]
        again, _, behind = two.rpartition(_VALUE)
        if not again.endswith(_KEY + between):
            raise _Unlike
        opener = _opener(gap, before, behind)
        closer = gap[: len(gap) - len(opener)]
        between = self.typed(between, opener)
        self.param = (opener, between, closer)
        if nested:
            self.values = replace(self.values, nested=True)
        self.evidence.append("A second parameter repeats the markers of the first.")

    def typed(self, between: str, opener: str) -> str:
        """What stands between key and value, with holes for what depends on the value's type."""
        text = self.write(Message(tool_calls=(_call(0, _TYPED),))).turn
        others: list[str] = []
        for key, value in list(_TYPED.items())[1:]:
            _, found, behind = text.partition(f"{opener}{key}")
            type_word, found, _ = behind.partition(json.dumps(value))
            others.append(type_word if found else "")
        known = [between, *filter(None, others)]
        if len(set(known)) == 1:
            return between
        left = _common_prefix(*known)
        left = left[: max(left.rfind(mark) for mark in '"> =') + 1]
        right = _common_suffix(*(word[len(left) :] for word in known))
        right = right[_first_of(right, '"<> ') :]
        named = [word[len(left) : len(word) - len(right)] for word in (between, *others)]
        if named[0] == "true" and set(named[1:]) <= {"false", ""}:
            return f"{left}{{string}}{right}"
        if not all(named):
            raise _Unlike
        self.values = replace(self.values, type_words=tuple(named))
        return f"{left}{{type}}{right}"

    def fold_params(self, text: str) -> str:
        """Replace each run of parameters by one hole."""
        if self.param is None:
            return text
        opener, between, closer = self.param
        middle = re.escape(between).replace(r"\{string\}", "true").replace(r"\{type\}", r"[^<>\"]*")
        one = f"{re.escape(opener)}{_KEY}{middle}{_VALUE}{re.escape(closer)}"
        text, count = re.subn(f"(?:{one})+", _PARAMS, text)
        if not count:
            raise _Unlike
        return text

    # -- the literals

    def around_content(self) -> tuple[str, str]:
        """What a turn begins with before anything is said, and what ends it."""
        text = self.write(Message(content=_SAID)).turn
        before, found, behind = text.partition(_SAID)
        return (before, behind) if found else ("", "")

    def layout_of_one(self, text: str, lead: str, end: str) -> _Layout:
        """Everything around the only call belongs to it."""
        first, last = _ends_of_holes(text)
        head = text[:first].removeprefix(lead).lstrip()
        return _Layout("", head, text[first:last], _without_end(text[last:], end), "", "")

    def layout_of_many(self, lead: str, end: str) -> _Layout:
        """Share the literals out: what both calls have is theirs, the rest is the section's."""
        text = self.turn(_FIRST, _SECOND)
        first = self.dig(text, _FIRST)
        middle = _border_of_calls(first, _SECOND)
        second = self.dig(first[middle:], _SECOND)
        text = first[:middle] + second
        start, stop = _ends_of_holes(first[:middle])
        again, last = _ends_of_holes(second)
        core, other = text[start:stop], second[again:last]
        core, number = _unified(core, other)
        self.names = Names(first_index=number)
        before = text[:start].removeprefix(lead)
        gap = text[stop : middle + again]
        behind = _without_end(second[last:], end)
        tail = _shared_tail(gap, behind)
        head = _shared_head(gap[len(tail) :], before)
        separator = gap[len(tail) : len(gap) - len(head)]
        self.evidence.append("A second call shows what separates calls, and what surrounds them all.")
        return _Layout(before[: len(before) - len(head)], head, core, tail, separator, behind[len(tail) :])

    # -- dialects

    def dialects(self, layout: _Layout, lead: str, end: str) -> Iterator[Dialect]:
        """What the literals may mean, the likeliest first."""
        stop = self.stops(end)
        opening, closing = layout.opening.lstrip(" "), layout.closing
        markers = _MARKER.findall(closing)
        if len(markers) > len(_MARKER.findall(opening)):
            # More is closed than was opened: the rest ends the turn.
            closing, _, last = closing.rpartition(markers[-1])
            stop = tuple(dict.fromkeys((markers[-1] + last.strip(), *stop)))
        glue = self.glue(layout)
        if opening.startswith(glue):
            glue = ""
        bare = not (layout.head + opening).strip(" \n[({")
        section = f"{glue}{opening}{{calls}}{closing}"
        sections = [f"^{section}" if bare else section]
        if bare and opening.strip():  # brackets in prose are no calls, unless they name a tool
            sections.append(f"?{section}")
        before, between, behind = self.param or ("", "", "")
        base = Dialect(
            name=self.name,
            section=tuple(sections),
            call=(_template(layout.head + layout.core + layout.tail),),
            sep=(layout.separator,),
            param=(_template(f"{before}{_KEY}{between}{_VALUE}{behind}"),) if self.param else (),
            reasoning=(),
            stop=stop,
            args=self.args,
            envelope=self.envelope,
            values=self.values,
            names=self.names,
        )
        for reasoning in self.reasoning(layout, lead):
            for furniture in self.furniture(lead, end, stop):
                dialect = replace(base, reasoning=reasoning, **furniture)
                yield dialect
                if self.param:
                    yield replace(dialect, values=replace(dialect.values, python=True))

    def furniture(self, lead: str, end: str, stop: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """What the literals around content may be, if it is not reasoning."""
        openers, closers = _MARKER.findall(lead), _MARKER.findall(end)
        yield {}
        if openers and closers:
            rest = tuple(each for each in stop if each != closers[0])
            yield {"content": (f"{openers[-1]}{{text}}{closers[0]}",), "stop": rest}
        if openers:
            yield {"drop": (lead.strip(),)}

    def stops(self, end: str) -> tuple[str, ...]:
        """The marker that ends a turn."""
        text = (end + self.write(Message(content=_SAID)).rest).strip()
        found = _MARKER.match(text)
        return (found[0],) if found else ()

    def glue(self, layout: _Layout) -> str:
        """White space between content and calls."""
        text = self.write(Message(content=_SAID, tool_calls=(_FIRST,))).turn
        opening = _ANY_HOLE.split((layout.opening + layout.head).strip())[0]
        before, found, behind = text.partition(_SAID)
        glue = behind.partition(opening)[0] if opening and opening in behind else ""
        # Anything else: content comes in a turn of its own.
        self.beside = bool(found) and not glue.strip() and _FIRST.name not in before
        return glue.strip(" ") if self.beside else ""

    def reasoning(self, layout: _Layout, lead: str) -> Iterator[tuple[str, ...]]:
        """How reasoning is written, if it is."""
        said = _SAID if self.beside else None
        writing = self.write(Message(reasoning=_THOUGHT, content=said, tool_calls=(_FIRST,)))
        before, found, behind = writing.turn.partition(_THOUGHT)
        opening = (layout.opening + layout.head).strip()
        marker = _SAID if _SAID in behind else _ANY_HOLE.split(opening)[0]
        if found and marker and marker in behind:
            closer = behind[: behind.index(marker)]
            if closer.removesuffix(lead).strip():  # not where nothing but the closer leads
                closer = closer.removesuffix(lead)
            opener = before.rpartition(_SAID)[2]
            if not opener.strip():
                seed = re.search(rf"(?:{_MARKER.pattern})\s*$", writing.prompt)
                opener = seed[0] if seed else ""
            if opener.strip() and closer.strip():
                midway = _SAID in before and "\n" not in opener
                yield (f"{'!' if midway else ''}{opener}{{text}}{closer}",)
                return
        pair = re.match(r"(<(\w[^<>\s]*)>\n?)\s*(\n?</\2>\s*)", lead)
        if pair is not None:
            yield (f"{pair[1]}{{text}}{pair[3]}",)
        yield ()

    # -- the proof

    def verified(self, dialect: Dialect) -> Inferred | None:
        """The dialect, if it reads back what is written."""
        calls = [(_FIRST,), (_SECOND,), *([(_FIRST, _SECOND)] if self.many else [])]
        messages = [Message(tool_calls=each) for each in calls]
        messages.append(Message(content=_SAID))
        if not all(self.reads(dialect, message) for message in messages):
            return None
        mixed = [
            Message(reasoning=_THOUGHT, content=_SAID),
            Message(reasoning=_THOUGHT, tool_calls=(_FIRST,)),
        ]
        if self.beside:
            mixed.append(Message(content=_SAID, tool_calls=(_FIRST,)))
        for message in mixed:
            writing = self.write(message)
            kept = replace(
                message,
                content=message.content if (message.content or "\0") in writing.turn else None,
                reasoning=message.reasoning if (message.reasoning or "\0") in writing.turn else None,
            )
            if not self.reads(dialect, kept, writing):
                return None
        failed = [
            kind for kind, call in _DEMANDING.items() if not self.reads(dialect, Message(tool_calls=(call,)))
        ]
        evidence = list(self.evidence)
        if dialect.reasoning:
            evidence.append("Reasoning stands between markers of its own.")
        evidence.append("What was inferred reads back all of these turns.")
        if failed:
            evidence.append(f"It does not read back {' or '.join(failed)}.")
        return Inferred(dialect, tuple(evidence), _CONFIDENT - 0.1 * len(failed))

    def reads(self, dialect: Dialect, message: Message, writing: Writing | None = None) -> bool:
        writing = writing or self.write(message)
        if any(call.name not in writing.turn for call in message.tool_calls):
            return True  # refused: nothing to be read
        read = parse(writing.turn, dialect, tools=TOOLS, prompt=writing.prompt)
        return (
            calls_of(read) == calls_of(message)
            and (read.content or "").strip() == (message.content or "")
            and (read.reasoning or "").strip() == (message.reasoning or "")
        )


_SHAPES: Final[Mapping[Shape, str]] = {
    "envelope": "one JSON object that holds both",
    "args": "the name and one JSON object",
    "python": "a call in Python's notation",
    "params": "the name, and key and value between markers",
}
_DEMANDING: Final[Mapping[str, ToolCall]] = {
    "a call without arguments": _call(0, {}),
    "values of every type": _call(0, _TYPED),
    "values with quotes, markup and line breaks": _call(1, _HARD),
}


# -- JSON in a turn


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Every JSON object in a text, the outer ones first."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield match.start(), end, value


def _find_object(text: str, wanted: object) -> tuple[int, int]:
    for start, end, value in _objects(text):
        if value == wanted:
            return start, end
    raise _Unlike


def _find_envelope(text: str, call: ToolCall, arguments: object) -> tuple[int, int, Envelope]:
    """The object that holds name and arguments of a call, and what its keys are."""
    for start, end, value in _objects(text):
        if value == {call.name: arguments}:
            return start, end, Envelope(keyed=True)
        inner = value.get("function")
        for holder in (value, inner if isinstance(inner, dict) else {}):
            roles: dict[_Role, str] = {}
            for key, member in holder.items():
                if member == call.name:
                    roles["name"] = key
                elif arguments in (member, json_value(member) if isinstance(member, str) else None):
                    roles["args"] = key
                elif member == call.id or key in ("id", "tool_call_id"):
                    roles["id"] = key
            if "name" in roles and "args" in roles:
                return start, end, _envelope(roles)
    raise _Unlike


def _envelope(roles: Mapping[_Role, str]) -> Envelope:
    """The envelope with these keys first."""
    usual = Envelope()

    def keys(role: _Role, others: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((roles.get(role, others[0]), *others)))

    return Envelope(
        name_keys=keys("name", usual.name_keys),
        args_keys=keys("args", usual.args_keys),
        id_keys=keys("id", usual.id_keys),
        order=tuple(roles),
    )


# -- literals


def _ends_of_holes(text: str) -> tuple[int, int]:
    """Where the first hole begins and the last one ends."""
    found = [match.start() for match in _ANY_HOLE.finditer(text)]
    if not found:
        raise _Unlike
    return found[0], found[-1] + 1


def _border_of_calls(text: str, second: ToolCall) -> int:
    """A place behind the first call and before the second, which is not dug out yet."""
    last = max((match.end() for match in _ANY_HOLE.finditer(text)), default=0)
    if not last or text.find(second.name) < last:
        raise _Unlike
    return last


def _unified(core: str, other: str) -> tuple[str, int]:
    """The same for both calls; a number that counts them is a hole.  And the first such number."""
    if core == other:
        return core, 0
    one, two = (re.split(r"(\d+)", text) for text in (core, other))
    if len(one) != len(two) or one[::2] != two[::2]:
        raise _Unlike
    counts = {(int(a), int(b)) for a, b in zip(one[1::2], two[1::2], strict=True) if a != b}
    if len(counts) != 1:
        raise _Unlike
    first, second = counts.pop()
    if second != first + 1 or first not in (0, 1):
        raise _Unlike
    parts = enumerate(zip(one, two, strict=True))
    return "".join(_INDEX if i % 2 and a != b else a for i, (a, b) in parts), first


def _without_end(text: str, end: str) -> str:
    """The text without the end of the turn."""
    shared = _common_suffix(text, end)
    while shared and shared[0] not in "<[ \n":
        shared = shared[1:]
    return text[: len(text) - len(shared)]


def _shared_tail(gap: str, behind: str) -> str:
    """What ends a call: the gap begins with it, and so does what follows the last call."""
    tail = _common_prefix(gap, behind)
    while tail and not (_is_border(gap, len(tail)) and _is_border(behind, len(tail))):
        tail = tail[:-1]
    return tail if tail.strip() else ""


def _shared_head(gap: str, before: str) -> str:
    """What begins a call: the gap ends with it, and so does what precedes the first call."""
    head = _common_suffix(gap, before)
    while head and not (
        _is_border(gap, len(gap) - len(head)) and _is_border(before, len(before) - len(head))
    ):
        head = head[1:]
    return head.lstrip()


def _opener(gap: str, before: str, behind: str) -> str:
    """What begins a parameter: the rest of the gap ends the one before."""
    for length in range(len(gap) + 1):
        opener = gap[length:]
        if before.endswith(opener) and behind.startswith(gap[:length]) and opener[:1] in ("<", "[", "{", "|"):
            return opener
    raise _Unlike


def _is_border(text: str, at: int) -> bool:
    """Whether a marker may end, or begin, here."""
    if at in (0, len(text)):
        return True
    return text[at - 1] in '>]})`"' or text[at - 1].isspace() or text[at] in "<[{(`" or text[at].isspace()


def _common_prefix(*texts: str) -> str:
    shortest, longest = min(texts), max(texts)
    for i, character in enumerate(shortest):
        if i >= len(longest) or longest[i] != character:
            return shortest[:i]
    return shortest


def _common_suffix(*texts: str) -> str:
    return _common_prefix(*(text[::-1] for text in texts))[::-1]


def _first_of(text: str, characters: str) -> int:
    """Where the first of these characters stands; the end if none does."""
    return next((i for i, character in enumerate(text) if character in characters), len(text))
