r"""Inference of a dialect from the renderings of a chat template.

How it works:

1. The template renders two turns that differ in one thing: the name, a key, a value, the number of calls or
   the content.  Text that changes becomes a placeholder; the rest of the text is literal.
2. The literals are divided among the section, the call, the parameters and the separator.
3. The resulting dialect must parse every rendering back to the original message.  Otherwise the dialect is
   discarded.

Calls may have one of four shapes (``Shape``):

* ``envelope``: a JSON object with the name and the arguments; it may be in tags or in an array;
* ``args``: a name and a JSON object with the arguments, between markers;
* ``python``: a call in Python's notation;
* ``params``: a name, and each parameter in its own tags.

In rendered text, a placeholder is a private-use code point (``_NAME``, ``_ARGS``, ...).  Such code points
never occur in the text of a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..._core.render.example_output import calls_of, json_value
from ...dialects import Dialect, Envelope, Habits, Notation, Section, Values, Wrapper, Writing
from ...dialects.parse_templates import escaped
from ...errors import SpecError
from ...message import Message, ToolCall
from ...parser import parse
from .probe_tools import TOOLS, RenderedTurn, RenderTurn

Shape: TypeAlias = Literal["envelope", "args", "python", "params"]
_Role: TypeAlias = Literal["name", "args", "id"]


class Inferred(NamedTuple):
    """An inferred dialect, and the evidence for it."""

    dialect: Dialect
    evidence: tuple[str, ...]
    """Sentences that explain how the dialect was inferred."""
    confidence: float
    """Confidence that the dialect is right, from 0 to 1."""


# -- messages to render

_ONE_ARGUMENT: Final = {"redkey": "Redvalue"}
_OTHER_ARGUMENT: Final = {"bluekey": "Bluevalue"}
_TYPED: Final[Mapping[str, object]] = {
    "redkey": "Redvalue",
    "numkey": 70707,
    "flagkey": True,
    "nullkey": None,
    "listkey": [70708],
    "mapkey": {"inner": 70709},
}
_HARD: Final = {"redkey": 'a "quoted" <b>word</b>,\n    and\\more: {é} ] } ', "bluekey": ""}
_CONTENT: Final = "Saidbefore."
_REASONING: Final = "Thoughtofit."


def _call(number: int, arguments: Mapping[str, object]) -> ToolCall:
    name = ("unspool_alpha", "unspool_omega")[number]
    return ToolCall(f"zq{number}zq{number}zq{number}", name, json.dumps(arguments, ensure_ascii=False))


_FIRST: Final = _call(0, _ONE_ARGUMENT)
_SECOND: Final = _call(1, _OTHER_ARGUMENT)

# -- placeholders

_NAME, _ID, _ENVELOPE, _ARGS, _KEY, _VALUE, _PARAMS, _INDEX, _TYPE, _STRING = map(
    chr, range(0xF0000, 0xF000A)
)
_PLACEHOLDERS: Final = {
    _NAME: "{name}",
    _ID: "{id}",
    _ENVELOPE: "{envelope}",
    _ARGS: "{args}",
    _KEY: "{key}",
    _VALUE: "{value}",
    _PARAMS: "{params}",
    _INDEX: "{index}",
    _TYPE: "{type}",
    _STRING: "{string}",
}
_MARKER: Final = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
"""Pattern for text that looks like a marker: ``<...>`` or ``[...]``."""
_MAX_CONFIDENCE: Final = 0.7
"""Confidence in a dialect that parses all renderings; below 1, as a model may write other forms, too."""
_ANY_PLACEHOLDER: Final = re.compile(f"[{_NAME}-{_STRING}]")


def _template(text: str) -> str:
    """Convert text with placeholders to a template for a dialect."""
    return escaped(text, _PLACEHOLDERS)


def infer_dialect(
    render_turn: RenderTurn, *, parallel: bool = True, name: str = "inferred"
) -> Inferred | None:
    """Infer the dialect of a chat template; return None if that is not possible.

    :param render_turn: a function that renders a message with the chat template.
    :param parallel: whether the template can render several calls in one turn.
    :param name: the name for the dialect.
    """
    for shape in ("envelope", "args", "python", "params"):
        inferred = _Inference(render_turn, shape, parallel=parallel, name=name).result()
        if inferred is not None:
            return inferred
    return None


class _WrongShape(Exception):
    """Internal error: the rendered calls do not have the shape that ``_Inference`` assumes."""


class _Layout(NamedTuple):
    """The text of a turn with calls, divided into parts, in order."""

    opening: str
    """Text before the first call."""
    head: str
    """Text of a call before the first placeholder."""
    core: str
    """Text of a call from the first placeholder to the last, including the placeholders."""
    tail: str
    """Text of a call after the last placeholder."""
    separator: str
    """Text between two calls."""
    closing: str
    """Text after the last call."""


class _Inference:
    """Attempt to infer a dialect under the assumption that calls have one particular shape."""

    def __init__(self, render_turn: RenderTurn, shape: Shape, *, parallel: bool, name: str) -> None:
        self.render_turn = render_turn
        self.shape = shape
        self.parallel = parallel
        self.name = name
        self.args: Notation = "json"
        self.envelope = Envelope()
        self.values = Values()
        self.habits = Habits()
        self.param: tuple[str, str, str] | None = None
        """Three texts of a parameter: before its key, between key and value, and after its value."""
        self.content_with_calls = True
        """True if a turn with calls can also have content."""
        self.evidence: list[str] = []

    def result(self) -> Inferred | None:
        try:
            return self.infer()
        except (_WrongShape, SpecError):
            return None

    def infer(self) -> Inferred | None:
        if self.shape == "params":
            self.learn_params()
        first = self.with_placeholders(self.turn(_FIRST), _FIRST)
        if first != self.with_placeholders(self.turn(_SECOND), _SECOND):
            raise _WrongShape  # text outside the placeholders differs between the calls
        self.evidence.append(
            f"Turns with different names and arguments differ only in {_SHAPES[self.shape]}."
        )
        lead, end = self.text_around_content()
        layout = (
            self.layout_of_two_calls(lead, end)
            if self.parallel
            else self.layout_of_one_call(first, lead, end)
        )
        best: Inferred | None = None
        for dialect in self.dialects(layout, lead, end):
            verified = self.verify(dialect)
            if verified is not None and (best is None or verified.confidence > best.confidence):
                best = verified
            if best is not None and best.confidence == _MAX_CONFIDENCE:
                break
        return best

    def turn(self, *calls: ToolCall) -> str:
        """Render a turn that contains only these calls."""
        text = self.render_turn(Message(tool_calls=calls)).turn
        if any(call.name not in text for call in calls):
            raise _WrongShape
        return text

    def with_placeholders(self, text: str, call: ToolCall) -> str:
        """Replace the name, the arguments and the id of a call with placeholders."""
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
                raise _WrongShape
            self.args = "python"
        else:
            for key, value in arguments.items():
                text = text.replace(key, _KEY).replace(str(value), _VALUE)
            text = self.fold_params(text)
        if call.name not in text:
            raise _WrongShape
        return text.replace(call.name, _NAME).replace(call.id, _ID)

    # -- parameters

    def learn_params(self) -> None:
        """Learn the format of a parameter from two turns: one with one parameter, and one with two."""
        one = self.with_placeholders(self.turn(_FIRST), _FIRST)
        pair = _call(0, _ONE_ARGUMENT | _OTHER_ARGUMENT)
        two = self.with_placeholders(self.turn(pair), pair)
        parts = two.split(_KEY)
        if one.count(_VALUE) != 1 or two.count(_VALUE) != 2 or len(parts) not in (3, 5):
            raise _WrongShape
        nested = len(parts) == 5  # the key appears again after the value, as in a closing tag
        before = parts[0]
        between, _, gap = two.partition(_KEY)[2].partition(_VALUE)
        gap = gap.rpartition(_KEY)[0] if not nested else gap[: gap.index(_KEY, gap.index(_KEY) + 1)]
        again, _, after = two.rpartition(_VALUE)
        if not again.endswith(_KEY + between):
            raise _WrongShape
        opener = _opener(gap, before, after)
        closer = gap[: len(gap) - len(opener)]
        between = self.with_type_placeholder(between, opener)
        self.param = (opener, between, closer)
        if nested:
            self.habits = replace(self.habits, nested=True)
        self.evidence.append("A second parameter repeats the markers of the first.")

    def with_type_placeholder(self, between: str, opener: str) -> str:
        """Return the text between a key and its value, with a placeholder for the type of the value."""
        text = self.render_turn(Message(tool_calls=(_call(0, _TYPED),))).turn
        others: list[str] = []
        for key, value in list(_TYPED.items())[1:]:
            _, _, after = text.partition(f"{opener}{key}")
            text_before_value, found, _ = after.partition(json.dumps(value))
            others.append(text_before_value if found else "")
        variants = [between, *filter(None, others)]
        if len(set(variants)) == 1:
            return between
        left = _common_prefix(*variants)
        left = left[: max(left.rfind(mark) for mark in '"> =') + 1]
        right = _common_suffix(*(variant[len(left) :] for variant in variants))
        right = right[_first_of(right, '"<> ') :]
        type_words = [word[len(left) : len(word) - len(right)] for word in (between, *others)]
        if type_words[0] == "true" and set(type_words[1:]) <= {"false", ""}:
            return f"{left}{_STRING}{right}"
        if not all(type_words):
            raise _WrongShape
        self.habits = replace(self.habits, type_words=tuple(type_words))
        return f"{left}{_TYPE}{right}"

    def fold_params(self, text: str) -> str:
        """Replace each sequence of parameters with one placeholder."""
        if self.param is None:
            return text
        opener, between, closer = self.param
        middle = re.escape(between).replace(_STRING, "true").replace(_TYPE, r"[^<>\"]*")
        one = f"{re.escape(opener)}{_KEY}{middle}{_VALUE}{re.escape(closer)}"
        text, count = re.subn(f"(?:{one})+", _PARAMS, text)
        if not count:
            raise _WrongShape
        return text

    # -- literals

    def text_around_content(self) -> tuple[str, str]:
        """Return the text of a turn before and after its content."""
        text = self.render_turn(Message(content=_CONTENT)).turn
        before, found, after = text.partition(_CONTENT)
        return (before, after) if found else ("", "")

    def layout_of_one_call(self, text: str, lead: str, end: str) -> _Layout:
        """Return the layout of a turn with one call; all markup is considered part of the call."""
        first, last = _ends_of_placeholders(text)
        head = text[:first].removeprefix(lead).lstrip()
        return _Layout("", head, text[first:last], _without_end(text[last:], end), "", "")

    def layout_of_two_calls(self, lead: str, end: str) -> _Layout:
        """Return the layout of a turn with two calls.

        Text that is repeated around both calls is part of a call.  The rest is part of the section or the
        separator.
        """
        text = self.turn(_FIRST, _SECOND)
        first = self.with_placeholders(text, _FIRST)
        middle = _end_of_first_call(first, _SECOND)
        second = self.with_placeholders(first[middle:], _SECOND)
        text = first[:middle] + second
        start, stop = _ends_of_placeholders(first[:middle])
        again, last = _ends_of_placeholders(second)
        core, other = text[start:stop], second[again:last]
        core, first_index = _with_index_placeholder(core, other)
        self.habits = replace(self.habits, first_index=first_index)
        before = text[:start].removeprefix(lead)
        gap = text[stop : middle + again]
        after = _without_end(second[last:], end)
        tail = _shared_tail(gap, after)
        head = _shared_head(gap[len(tail) :], before)
        separator = gap[len(tail) : len(gap) - len(head)]
        self.evidence.append("A second call shows the separator of calls, and the text around all calls.")
        return _Layout(before[: len(before) - len(head)], head, core, tail, separator, after[len(tail) :])

    # -- dialects

    def dialects(self, layout: _Layout, lead: str, end: str) -> Iterator[Dialect]:
        """Yield the dialects that are possible with this layout, the likeliest first."""
        stop = self.stop_markers(end)
        opening, closing = layout.opening.lstrip(" "), layout.closing
        markers = _MARKER.findall(closing)
        if len(markers) > len(_MARKER.findall(opening)):
            # There are more closing markers than opening markers, so the last closing marker ends the turn.
            closing, _, last = closing.rpartition(markers[-1])
            stop = tuple(dict.fromkeys((markers[-1] + last.strip(), *stop)))
        glue = self.whitespace_before_calls(layout)
        if opening.startswith(glue):
            glue = ""
        bare = not (layout.head + opening).strip(" \n[({")
        before_calls = glue + opening[: len(opening) - len(opening.lstrip("\n"))]
        section = f"{_template(opening.lstrip(chr(10)))}{{calls}}{_template(closing)}"
        sections: list[str | Section] = [Section(section, only_at_start=True) if bare else section]
        # If only brackets surround calls, ordinary brackets in content look like calls, too.  With
        # ``declared_only``, the parser treats bracketed text as calls only if the text names a tool.
        if bare and opening.strip():
            sections.append(Section(section, declared_only=True))
        before, between, after = self.param or ("", "", "")
        base = Dialect(
            name=self.name,
            section=tuple(sections),
            call=(_template(layout.head + layout.core + layout.tail),),
            writing=Writing(before_calls=before_calls, between_calls=layout.separator),
            param=(_template(f"{before}{_KEY}{between}{_VALUE}{after}"),) if self.param else (),
            reasoning=(),
            stop=stop,
            args=self.args,
            envelope=self.envelope,
            values=self.values,
            habits=self.habits,
        )
        for reasoning in self.reasoning(layout, lead):
            for fields in self.content_fields(lead, end, stop):
                dialect = replace(base, reasoning=reasoning, **fields)
                yield dialect
                if self.param:
                    yield replace(dialect, values=replace(dialect.values, python=True))

    def content_fields(self, lead: str, end: str, stop: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield possible dialect fields for the text before and after content, the likeliest first."""
        openers, closers = _MARKER.findall(lead), _MARKER.findall(end)
        yield {}
        if openers and closers:
            rest = tuple(each for each in stop if each != closers[0])
            yield {"content": (f"{escaped(openers[-1])}{{text}}{escaped(closers[0])}",), "stop": rest}
        if openers:
            yield {"drop": (lead.strip(),)}

    def stop_markers(self, end: str) -> tuple[str, ...]:
        """Return the marker that ends a turn, in a tuple; the tuple is empty if there is no such marker."""
        text = (end + self.render_turn(Message(content=_CONTENT)).rest).strip()
        marker = _MARKER.match(text)
        return (marker[0],) if marker else ()

    def whitespace_before_calls(self, layout: _Layout) -> str:
        """Return the whitespace between content and calls in one turn, and set ``content_with_calls``."""
        text = self.render_turn(Message(content=_CONTENT, tool_calls=(_FIRST,))).turn
        opening = _ANY_PLACEHOLDER.split((layout.opening + layout.head).strip())[0]
        before, found, after = text.partition(_CONTENT)
        glue = after.partition(opening)[0] if opening and opening in after else ""
        # If more than whitespace separates content and calls, the template puts content in a separate turn.
        self.content_with_calls = bool(found) and not glue.strip() and _FIRST.name not in before
        return glue.strip(" ") if self.content_with_calls else ""

    def reasoning(self, layout: _Layout, lead: str) -> Iterator[tuple[str | Wrapper, ...]]:
        """Yield possible values for the dialect's ``reasoning`` field; the last one is an empty tuple."""
        content = _CONTENT if self.content_with_calls else None
        rendered = self.render_turn(Message(reasoning=_REASONING, content=content, tool_calls=(_FIRST,)))
        before, found, after = rendered.turn.partition(_REASONING)
        opening = (layout.opening + layout.head).strip()
        marker = _CONTENT if _CONTENT in after else _ANY_PLACEHOLDER.split(opening)[0]
        if found and marker and marker in after:
            closer = after[: after.index(marker)]
            if closer.removesuffix(lead).strip():  # keep a closer that is equal to `lead`
                closer = closer.removesuffix(lead)
            opener = before.rpartition(_CONTENT)[2]
            if not opener.strip():
                seed = re.search(rf"(?:{_MARKER.pattern})\s*$", rendered.prompt)
                opener = seed[0] if seed else ""
            if opener.strip() and closer.strip():
                wrapper = f"{escaped(opener)}{{text}}{escaped(closer)}"
                midway = _CONTENT in before and "\n" not in opener
                yield (Wrapper(wrapper, mid_line=True) if midway else wrapper,)
                return
        pair = re.match(r"(<(\w[^<>\s]*)>\n?)\s*(\n?</\2>\s*)", lead)
        if pair is not None:
            yield (f"{escaped(pair[1])}{{text}}{escaped(pair[3])}",)
        yield ()

    # -- verification

    def verify(self, dialect: Dialect) -> Inferred | None:
        """Return the dialect with its evidence if it parses all renderings correctly; otherwise None."""
        calls = [(_FIRST,), (_SECOND,), *([(_FIRST, _SECOND)] if self.parallel else [])]
        messages = [Message(tool_calls=each) for each in calls]
        messages.append(Message(content=_CONTENT))
        if not all(self.reads_back(dialect, message) for message in messages):
            return None
        mixed = [
            Message(reasoning=_REASONING, content=_CONTENT),
            Message(reasoning=_REASONING, tool_calls=(_FIRST,)),
        ]
        if self.content_with_calls:
            mixed.append(Message(content=_CONTENT, tool_calls=(_FIRST,)))
        for message in mixed:
            rendered = self.render_turn(message)
            kept = replace(  # some templates leave out content or reasoning
                message,
                content=message.content if (message.content or "\0") in rendered.turn else None,
                reasoning=message.reasoning if (message.reasoning or "\0") in rendered.turn else None,
            )
            if not self.reads_back(dialect, kept, rendered):
                return None
        failed = [
            kind
            for kind, call in _HARD_CASES.items()
            if not self.reads_back(dialect, Message(tool_calls=(call,)))
        ]
        evidence = list(self.evidence)
        if dialect.reasoning:
            evidence.append("Reasoning has its own markers.")
        evidence.append("The inferred dialect reads back all of these turns.")
        if failed:
            evidence.append(f"It does not read back {' or '.join(failed)}.")
        return Inferred(dialect, tuple(evidence), _MAX_CONFIDENCE - 0.1 * len(failed))

    def reads_back(self, dialect: Dialect, message: Message, rendered: RenderedTurn | None = None) -> bool:
        """Return whether a dialect recovers a message from its rendering."""
        rendered = rendered or self.render_turn(message)
        if any(call.name not in rendered.turn for call in message.tool_calls):
            return True  # the template cannot render this message, so nothing can be compared
        parsed = parse(rendered.turn, dialect, tools=TOOLS, prompt=rendered.prompt)
        return (
            calls_of(parsed) == calls_of(message)
            and (parsed.content or "").strip() == (message.content or "")
            and (parsed.reasoning or "").strip() == (message.reasoning or "")
        )


_SHAPES: Final[Mapping[Shape, str]] = {
    "envelope": "one JSON object with name and arguments",
    "args": "the name and one JSON object",
    "python": "a call in Python's notation",
    "params": "the name, and each key and value between markers",
}
_HARD_CASES: Final[Mapping[str, ToolCall]] = {
    "a call without arguments": _call(0, {}),
    "values of every type": _call(0, _TYPED),
    "values with quotes, markup and newlines": _call(1, _HARD),
}


# -- JSON in a turn


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield start, end and value of every JSON object in text; outer objects come before inner ones."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield match.start(), end, value


def _find_object(text: str, expected: object) -> tuple[int, int]:
    """Return the start and the end of the JSON object that has this value."""
    for start, end, value in _objects(text):
        if value == expected:
            return start, end
    raise _WrongShape


def _find_envelope(text: str, call: ToolCall, arguments: object) -> tuple[int, int, Envelope]:
    """Find the JSON object with a call's name and arguments; return its span and its envelope."""
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
    raise _WrongShape


def _envelope(roles: Mapping[_Role, str]) -> Envelope:
    """Return an envelope that prefers the keys in ``roles``, and also accepts the default keys."""
    default = Envelope()

    def keys(role: _Role, others: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((roles.get(role, others[0]), *others)))

    return Envelope(
        name_keys=keys("name", default.name_keys),
        args_keys=keys("args", default.args_keys),
        id_keys=keys("id", default.id_keys),
        order=tuple(roles),
    )


# -- literals


def _ends_of_placeholders(text: str) -> tuple[int, int]:
    """Return the start of the first placeholder and the end of the last placeholder."""
    placeholders = [match.start() for match in _ANY_PLACEHOLDER.finditer(text)]
    if not placeholders:
        raise _WrongShape
    return placeholders[0], placeholders[-1] + 1


def _end_of_first_call(text: str, second: ToolCall) -> int:
    """Return the end of the last placeholder in a turn with two calls.

    Only the first call has placeholders.
    """
    last = max((match.end() for match in _ANY_PLACEHOLDER.finditer(text)), default=0)
    if not last or text.find(second.name) < last:
        raise _WrongShape
    return last


def _with_index_placeholder(core: str, other: str) -> tuple[str, int]:
    """Replace the number of a call with a placeholder if the call has a number.

    Return the first call's core (see ``_Layout``) with the placeholder, and the first call's number.

    :param core: the core of the first call.
    :param other: the core of the second call.
    """
    if core == other:
        return core, 0
    one, two = (re.split(r"(\d+)", text) for text in (core, other))
    if len(one) != len(two) or one[::2] != two[::2]:
        raise _WrongShape
    counts = {(int(a), int(b)) for a, b in zip(one[1::2], two[1::2], strict=True) if a != b}
    if len(counts) != 1:
        raise _WrongShape
    first, second = counts.pop()
    if second != first + 1 or first not in (0, 1):
        raise _WrongShape
    parts = enumerate(zip(one, two, strict=True))
    return "".join(_INDEX if i % 2 and a != b else a for i, (a, b) in parts), first


def _without_end(text: str, end: str) -> str:
    """Remove the end-of-turn text from the end of a text."""
    shared = _common_suffix(text, end)
    while shared and shared[0] not in "<[ \n":
        shared = shared[1:]
    return text[: len(text) - len(shared)]


def _shared_tail(gap: str, after: str) -> str:
    """Return the closing text of a call: the text that follows both the first and the second call."""
    tail = _common_prefix(gap, after)
    while tail and not (_is_boundary(gap, len(tail)) and _is_boundary(after, len(tail))):
        tail = tail[:-1]
    return tail if tail.strip() else ""


def _shared_head(gap: str, before: str) -> str:
    """Return the opening text of a call: the text that precedes both the first and the second call."""
    head = _common_suffix(gap, before)
    while head and not (
        _is_boundary(gap, len(gap) - len(head)) and _is_boundary(before, len(before) - len(head))
    ):
        head = head[1:]
    return head.lstrip()


def _opener(gap: str, before: str, after: str) -> str:
    """Return the opener of a parameter, given the text between two parameters.

    :param gap: the closer of the first parameter, followed by the opener of the second.
    """
    for length in range(len(gap) + 1):
        opener = gap[length:]
        if before.endswith(opener) and after.startswith(gap[:length]) and opener[:1] in ("<", "[", "{", "|"):
            return opener
    raise _WrongShape


def _is_boundary(text: str, at: int) -> bool:
    """Return whether a marker may start or end at an offset."""
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
    """Return the offset of the first of these characters, or the length of the text."""
    return next((i for i, character in enumerate(text) if character in characters), len(text))
