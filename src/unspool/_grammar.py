"""Grammar: a dialect compiled for the machine.

Everything that depends only on the dialect, and on whether calls are wanted at
all, is worked out here once: which literals can occur in which state of the
text, which programs each of them triggers and in what order, what closes what.
The machine only looks things up.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from . import _trial as t
from ._template import (
    PAYLOADS,
    Attributes,
    Hole,
    LineFeed,
    Literal,
    Piece,
    Space,
    first_literal,
    literals,
    parse_template,
    reading_pieces,
    split_at,
    split_marks,
)
from ._trial import Program, Step
from ._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._dialect import Dialect, Frame, Route
    from ._events import Channel, Role
    from ._schema import Tools

FIRST_CHARACTERS: Final = {"json": "{", "python": "(", "loose": "(", "bare": "{("}
"""What arguments begin with, by notation."""

_CONTROL: Final = re.compile(r"[|｜\ud800-\udfff]|^\[/?[A-Z_]{3,}\]$")
_WORDS: Final = re.compile(r"[\w\s'.,:]+")


def is_control(literal: str) -> bool:
    """Whether a marker looks like a control token, which nobody writes in prose."""
    return _CONTROL.search(literal) is not None


class Wrapper:
    """Reasoning or content between markers."""

    __slots__ = ("anchored", "channel", "close_role", "closers", "open_role", "opening")

    def __init__(self, channel: Channel, opening: Sequence[Piece], closers: tuple[str, ...], anchored: bool) -> None:
        self.channel: Final[Channel] = channel
        self.opening: Final = opening
        self.closers: Final = closers
        self.anchored: Final = anchored
        self.open_role: Final[Role] = "reasoning_open" if channel == "reasoning" else "content_open"
        self.close_role: Final[Role] = "reasoning_close" if channel == "reasoning" else "content_close"


class ParamForm:
    """How one parameter is written."""

    __slots__ = ("closers", "head", "inline", "tail", "watch")

    def __init__(self, head: Sequence[Step], tail: Sequence[Piece], inline: bool) -> None:
        self.head: Final = Program(t.PARAM, head)
        """Up to the value."""
        closer = first_literal(tail)
        strip = bool(tail) and isinstance(tail[0], LineFeed)
        self.closers: Final[tuple[str, ...]] = ("\n" + closer, closer) if strip else (closer,)
        """What may end the value; a line feed of the template belongs to it."""
        self.inline: Final = inline
        """No line feed stands between markup and value."""
        self.tail: Final = tuple(tail)
        self.watch: Watch = Watch(self.closers)
        """What to look at inside the value."""


class CallForm:
    """How one call is written."""

    __slots__ = ("closers", "head", "notation", "payload", "rank", "template")

    def __init__(self, template: str, dialect: Dialect) -> None:
        head, payload, tail = split_at(reading_pieces(template), *PAYLOADS)
        self.template: Final = template
        self.payload: Final = payload.field if payload is not None else ""
        """``args``, ``envelope``, ``params``, ``code``, or nothing."""
        self.notation: Final = (payload.notation if payload is not None else "") or dialect.args
        self.closers: Final = literals(tail)
        self.head: Final = head
        # What demands a first character is tried before what always fits.
        self.rank: Final = 2 if self.payload == "params" else 0 if self.payload else 1


class SectionForm:
    """What surrounds calls."""

    __slots__ = ("anchored", "bare", "between", "closers", "declared", "opening")

    def __init__(self, template: str) -> None:
        marks, body = split_marks(template)
        opening, _, closing = split_at(reading_pieces(body), "calls")
        opening, closing = _apart(opening, closing)
        self.anchored: Final = "^" in marks
        self.declared: Final = "?" in marks
        self.opening: Final = opening
        self.closers: Final = literals(closing)
        self.bare: Final = not literals((*opening, *closing))
        """There is nothing but the calls."""
        self.between: tuple[Program, ...] = ()
        """What may follow a call, its separator included."""


def _apart(opening: tuple[Piece, ...], closing: tuple[Piece, ...]) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Brackets around the calls are literals of their own: they may be forgotten, or spaced out."""
    before = [piece for piece in opening if isinstance(piece, Literal)]
    after = [piece for piece in closing if isinstance(piece, Literal)]
    if not before or not after or before[-1].text[-1] != "[" or after[0].text[0] != "]":
        return opening, closing
    outer, inner = before[-1].text[:-1], after[0].text[1:]
    at = opening.index(before[-1])
    if outer:
        opening = (*opening[:at], Literal(outer), Space(""), Literal("["), *opening[at + 1 :])
    at = closing.index(after[0])
    if inner:
        closing = (*closing[:at], Literal("]"), Space(""), Literal(inner), *closing[at + 1 :])
    return opening, closing


class Entry:
    """What a literal may be in some state of the text."""

    __slots__ = ("closes", "control", "programs", "stray", "words")

    def __init__(self, literal: str, programs: tuple[Program, ...], closes: bool, stray: str) -> None:
        self.programs: Final = programs
        """What may begin here, in the order to try."""
        self.closes: Final = closes
        """It closes the wrapper or body that is open."""
        self.stray: Final = stray
        """What it closes without having been opened: ``reasoning``, ``call`` or nothing."""
        self.control: Final = is_control(literal)
        self.words: Final = _WORDS.fullmatch(literal) is not None


class TextState:
    """A state of the text: where text goes, and what is looked for in it."""

    __slots__ = ("body", "channel", "entries", "fresh", "watch", "wrapper")

    def __init__(
        self,
        channel: Channel | None,
        programs: Iterable[Program],
        *,
        closers: Iterable[str] = (),
        stray: dict[str, str] | None = None,
        wrapper: Wrapper | None = None,
        fresh: bool = False,
        body: bool = False,
    ) -> None:
        self.channel: Final[Channel | None] = channel
        """Where text goes; None: nowhere."""
        self.wrapper: Final = wrapper
        self.fresh: Final = fresh
        """No visible text has come yet, so anchored sections may begin."""
        self.body: Final = body
        """The body of a framed message."""
        stray = stray or {}
        ordered = sorted(programs, key=_order)
        closing = set(closers)
        found = {program.trigger for program in ordered} | closing | set(stray)
        self.entries: Final = {
            literal: Entry(
                literal,
                tuple(p for p in ordered if literal.startswith(p.trigger)),
                literal in closing,
                stray.get(literal, ""),
            )
            for literal in found
        }
        self.watch: Final = Watch(found)


def _order(program: Program) -> tuple[int, int, int]:
    """Longer triggers first; calls before wrappers before furniture; what demands more first."""
    kind = {t.CALL: 0, t.EMPTY_SECTION: 1, t.FRAME: 2, t.OPEN_WRAPPER: 3}.get(program.action, 4)
    return (-len(program.trigger), kind, program.call.rank if program.call is not None else 0)


class RouteForm:
    """A route, compiled."""

    __slots__ = ("conditions", "into", "template")

    def __init__(self, route: Route) -> None:
        self.into: Final = route.into
        self.template: Final = route
        self.conditions: Final = tuple(
            (key, re.compile(re.escape(value).replace(r"\{name\}", "(?P<name>.+)")))
            for key, _, value in (part.partition("=") for part in route.when.split())
        )

    def match(self, fields: dict[str, str]) -> str | None:
        """The function's name (or nothing) if the header's fields fit, else None."""
        name = ""
        for key, pattern in self.conditions:
            match = pattern.fullmatch(fields.get(key, ""))
            if match is None:
                return None
            if "name" in pattern.groupindex:
                name = match["name"]
        return name


class FrameForm:
    """A frame, compiled."""

    __slots__ = ("ends", "fields", "openers", "routes", "sep", "stops")

    def __init__(self, frame: Frame) -> None:
        self.sep: Final = frame.sep
        self.ends: Final = frame.ends
        self.openers: Final = tuple(opener.lstrip("^") for opener in frame.open)
        self.routes: Final = tuple(RouteForm(route) for route in frame.routes)
        self.fields: Final = tuple(_field_pattern(field) for field in frame.fields)
        starts = tuple(parse_template(field)[0].text for field in frame.fields)
        borders = tuple(opener for opener in self.openers if opener not in starts and opener.strip() not in starts)
        self.stops: Final = Watch((frame.sep, *frame.ends, *borders))
        """What ends a header; openers that are fields may occur in one."""


def _field_pattern(template: str) -> re.Pattern[str]:
    pattern = ""
    for piece in parse_template(template):
        pattern += rf"(?P<{piece.field}>[^\s<\ud800-\udfff]+)" if isinstance(piece, Hole) else re.escape(piece.text)
    return re.compile(pattern)


class Grammar:
    """A dialect as the machine reads it."""

    def __init__(self, dialect: Dialect, *, calls: bool, calls_in_reasoning: bool, repair: bool) -> None:
        self.dialect: Final = dialect
        self.calls: Final = calls
        templates = _with_fences(dialect.call) if repair else dialect.call
        sections = _with_fenced_arrays(dialect.section) if repair else dialect.section
        self.sections: Final = [SectionForm(section) for section in sections] if calls else []
        self.forms: Final = [CallForm(call, dialect) for call in templates] if calls else []
        self.params: Final = [self._param(param) for param in dialect.param]
        self.frame: Final = FrameForm(dialect.frame) if dialect.frame is not None else None
        self.frame_forms: Final = {hole: CallForm(hole, dialect) for hole in ("{args}", "{params}")}
        """The payload of a framed message as a call of its own."""
        self._name_forms: Final = [_name_pattern(form) for form in dialect.name_forms if form != "{name}"]
        self.stops: Final = Watch(dialect.stop)
        heads = [param.head.trigger for param in self.params]
        closers = [form.closers[0] for form in self.forms if form.closers]
        openers = [first_literal(form.head) for form in self.forms if first_literal(form.head)]
        openers += [first_literal(section.opening) for section in self.sections if first_literal(section.opening)]
        self.first_param: Final = Watch([*heads, *closers])
        """What may follow a name that parameters follow."""
        self.after_name: Final = Watch([*openers, *dialect.stop])
        """What may follow a name that nothing follows."""
        self._call_programs: Final = self._compile_calls()
        self.reasoning: Final = [_wrapper("reasoning", template) for template in dialect.reasoning]
        self.answers: Final = [_wrapper("content", template) for template in dialect.content]
        self._compile_watches()
        self._compile_states(calls_in_reasoning=calls_in_reasoning)

    @property
    def markers(self) -> frozenset[str]:
        """Every literal that means something in running text."""
        found = set(self.fresh.entries)
        if self.frame is not None:
            found.add(self.frame.sep)
        return frozenset(literal for literal in found if len(literal) > 1)

    def knows(self, token: str) -> bool:
        """Whether a control token is part of this dialect's own markup."""
        return any(token in literal for literal in self.markers)

    def refine(self, caught: str, tools: Tools) -> tuple[str, str]:
        """Name and native id in what a name hole caught."""
        for pattern in self._name_forms:
            match = pattern.fullmatch(caught)
            if match is None:
                continue
            if "(?P=name)" not in pattern.pattern:
                return match["name"], caught
            if tools.declares(match["name"]) and not tools.declares(caught):
                return match["name"], ""
        return caught, ""

    # -- programs

    def _param(self, template: str) -> ParamForm:
        head, _, tail = split_at(reading_pieces(template, exact="value"), "value")
        inline = not any(isinstance(piece, LineFeed) for piece in (*head, *tail))
        return ParamForm(self._steps(head), tail, inline)

    def _steps(self, pieces: Sequence[Piece]) -> list[Step]:
        steps: list[Step] = []
        seen: set[str] = set()
        for i, piece in enumerate(pieces):
            if isinstance(piece, Literal):
                steps.append(Step(t.LITERAL, piece.text))
            elif isinstance(piece, Space):
                if not steps or steps[-1].kind != t.SPACE:
                    steps.append(Step(t.SPACE))
            elif isinstance(piece, LineFeed):
                steps.append(Step(t.LINE_FEED))
            elif isinstance(piece, Attributes):
                steps.append(Step(t.ATTRIBUTES, fields=piece.fields))
                seen.update(piece.fields.values())
            elif isinstance(piece, Hole):
                if piece.field in seen:
                    steps.append(Step(t.REPEAT, piece.field))
                    continue
                seen.add(piece.field)
                following = first_literal(pieces[i + 1 :])
                probe = Step(t.CAPTURE, piece.field)
                inside = bool(following) and probe.pattern.fullmatch("x" + following[0]) is not None
                steps.append(Step(t.CAPTURE, piece.field, stop=following if inside else ""))
        return steps

    def _closing_steps(self, tail: Sequence[Piece]) -> list[Step]:
        """What closes a nested parameter; the name in it need not be right."""
        return [
            Step(t.LITERAL, piece.text) if isinstance(piece, Literal) else Step(t.CAPTURE, "key")
            for piece in tail
            if not isinstance(piece, Space | LineFeed)
        ]

    def _payload_steps(self, form: CallForm) -> list[Step]:
        if form.payload == "envelope":
            return [Step(t.ENVELOPE)]
        if form.payload == "args":
            return [Step(t.PEEK, FIRST_CHARACTERS[form.notation])]
        return []

    def _compile_calls(self) -> list[Program]:
        """Every way a call can begin in running text."""
        programs: list[Program] = []
        for section in self.sections:
            opening = self._steps(section.opening)
            for form in self.forms:
                head = self._steps(form.head)
                if opening and opening[-1].kind == t.SPACE and head and head[0].kind == t.SPACE:
                    head = head[1:]
                program = Program(
                    t.CALL,
                    [*opening, *head, *self._payload_steps(form), *self._confirmation(form)],
                    call=form,
                    section=section,
                    anchored=section.anchored,
                    declared=section.declared,
                )
                if program.trigger and (first_literal(section.opening) or section.anchored or first_literal(form.head)):
                    programs.append(program)
            if section.bare:
                programs += [self._empty_call(form, section) for form in self.forms if first_literal(form.head) and form.closers]
            elif first_literal(section.opening) and section.closers:
                closing = [s for literal in section.closers for s in (Step(t.SPACE), Step(t.LITERAL, literal))]
                programs.append(Program(t.EMPTY_SECTION, [*opening, *closing], section=section, anchored=section.anchored))
        return programs

    def _empty_call(self, form: CallForm, section: SectionForm) -> Program:
        """Markers of a call with nothing between them."""
        steps = [Step(t.LITERAL, first_literal(form.head))]
        for literal in form.closers:
            steps += [Step(t.SPACE), Step(t.LITERAL, literal)]
        return Program(t.EMPTY_SECTION, steps, section=section)

    def _confirmation(self, form: CallForm) -> list[Step]:
        """A name that nothing closes counts only before what may follow it, or at the end of the input."""
        if not form.payload:
            templates = [other.template for other in self.forms if other.template != form.template]
            if any(template.startswith(form.template) for template in templates):
                return [Step(t.FOLLOWED, watch=self.after_name)]
        elif form.payload == "params":
            head = [piece for piece in form.head if not isinstance(piece, Space)]
            if head and isinstance(head[-1], Hole):
                return [Step(t.FOLLOWED, watch=self.first_param)]
        return []

    def _compile_watches(self) -> None:
        call_closers = {form.closers[0] for form in self.forms if form.closers}
        all_closers = {literal for form in self.forms for literal in form.closers}
        section_closers = {literal for section in self.sections for literal in section.closers}
        triggers = {program.trigger for program in self._call_programs if not program.anchored}
        triggers |= {first_literal(form.head) for form in self.forms} - {""}
        heads = {param.head.trigger for param in self.params}
        ends: tuple[str, ...] = ()
        if self.frame is not None:
            ends = (*self.frame.ends, *self.frame.openers)
        self.heads: Final = Watch(heads)
        """What may begin a parameter."""
        self.call_closers: Final = Watch([*call_closers, *ends])
        self.after_value: Final = Watch([*heads, *call_closers, *section_closers, *triggers, *ends, *self.dialect.stop])
        """What must follow a closing tag for it to count."""
        self.after_call: Final = Watch([*section_closers, *triggers, *ends])
        """What must follow a call's closer for it to end a value that was not closed."""
        self.after_params: Final = Watch([*call_closers, *section_closers, *triggers, *ends, *self.dialect.stop])
        """What may stand where another parameter could."""
        self.resync: Final = Watch([*all_closers, *section_closers, *triggers, *ends])
        """Where a malformed call ends."""
        # What demands more is tried first: a parameter with CDATA before one without.
        self.param_programs: Final = tuple(
            sorted((param.head for param in self.params), key=lambda head: -sum(len(step.text) for step in head.steps if step.kind == t.LITERAL))
        )
        closing = [Program(t.CLOSE_PARAM, self._closing_steps(param.tail)) for param in self.params]
        self.tree_programs: Final = (*closing, *self.param_programs)
        """Nested parameters: what may stand where one could."""
        self.tree_watch: Final = Watch([p.trigger for p in self.tree_programs] + list(call_closers))
        self.param_of: Final = {param.head: param for param in self.params}
        soft = [*heads, *call_closers]
        for param in self.params:
            param.watch = Watch([*param.closers, *soft, *("\n" + literal for literal in soft), *self.dialect.stop])
        for section in self.sections:
            section.between = tuple(self._between(section))

    def _between(self, section: SectionForm) -> Iterable[Program]:
        separators = [sep.strip() for sep in self.dialect.sep if sep.strip()]
        for form in sorted(self.forms, key=lambda form: form.rank):
            head = [*self._steps(form.head), *self._payload_steps(form), *self._confirmation(form)]
            for sep in separators:
                yield Program(t.CALL, [Step(t.LITERAL, sep), Step(t.SPACE), *head], call=form, section=section)
            if first_literal(section.opening) or section.anchored or first_literal(form.head):
                yield Program(t.CALL, head, call=form, section=section)
        if section.closers:
            for sep in separators:
                closing = [s for literal in section.closers for s in (Step(t.SPACE), Step(t.LITERAL, literal))]
                yield Program(t.SECTION_CLOSE, [Step(t.LITERAL, sep), *closing], section=section)

    # -- states

    def _compile_states(self, *, calls_in_reasoning: bool) -> None:
        dialect = self.dialect
        openers = [
            Program(t.OPEN_WRAPPER, self._steps(wrapper.opening), wrapper=wrapper, anchored=wrapper.anchored)
            for wrapper in (*self.reasoning, *self.answers)
        ]
        furniture = [Program(t.DROP, self._steps(reading_pieces(template))) for template in dialect.drop]
        for stop in dialect.stop:
            text = stop.strip("\n")
            if is_control(text):
                furniture.append(Program(t.DROP, [Step(t.LITERAL, text)]))
            else:
                furniture.append(Program(t.STOP, [Step(t.LITERAL, text), Step(t.SPACE), Step(t.END)]))
        calls = self._call_programs
        unanchored = [program for program in calls if not program.anchored]
        stray: dict[str, str] = {}
        if self.calls:
            for literal in self._closing_literals():
                stray[literal] = "call"
        for wrapper in (*self.reasoning, *self.answers):
            for literal in wrapper.closers:
                stray[literal] = "reasoning"
        frames: list[Program] = []
        if self.frame is not None:
            frames = self._frame_programs(self.frame, dialect.frame)  # type: ignore[arg-type]
            for literal in self.frame.ends:
                stray[literal] = "reasoning"
        loose = [p for p in (*openers, *furniture, *frames) if not p.anchored]
        self.fresh: Final = TextState("content", [*calls, *openers, *furniture, *frames], stray=stray, fresh=True)
        """Content, nothing visible yet."""
        self.content: Final = TextState("content", [*unanchored, *loose], stray=stray)
        """Content."""
        self.inside: Final[dict[Wrapper, TextState]] = {}
        """The state inside each wrapper."""
        answer_openers = [p for p in openers if p.wrapper in self.answers]
        for wrapper in self.reasoning:
            own = [p for p in openers if p.wrapper in self.reasoning and not p.anchored]
            inner = [*own, *answer_openers, *furniture, *frames]
            if calls_in_reasoning:
                inner += [program for program in unanchored if not program.declared or first_literal(program.section.opening)]  # type: ignore[union-attr]
            self.inside[wrapper] = TextState("reasoning", inner, closers=wrapper.closers, wrapper=wrapper)
        for wrapper in self.answers:
            inner = [*unanchored, *(p for p in openers if p.wrapper is not wrapper), *furniture]
            others = {literal: role for literal, role in stray.items() if literal not in wrapper.closers}
            self.inside[wrapper] = TextState("content", inner, closers=wrapper.closers, stray=others, wrapper=wrapper)
        self.bodies: Final[dict[str, TextState]] = {}
        """The state inside the body of a framed message, by where its route leads."""
        if self.frame is not None:
            self._compile_bodies(self.frame, [p for p in frames if not p.anchored], unanchored)

    def _closing_literals(self) -> Iterable[str]:
        for form in self.forms:
            yield from form.closers
        for section in self.sections:
            # A lone bracket is not a marker.
            yield from (literal for literal in section.closers if len(literal) > 1)
        for param in self.params:
            yield param.closers[-1]

    def _frame_programs(self, form: FrameForm, frame: Frame) -> list[Program]:
        programs = []
        for opener in frame.open:
            text = opener.lstrip("^")
            steps = [Step(t.LITERAL, text)]
            if text != frame.sep:  # else the header is empty
                steps.append(Step(t.HEADER, "line" if frame.sep == "\n" else "", watch=form.stops))
            programs.append(Program(t.FRAME, steps, anchored=opener.startswith("^")))
        return programs

    def _compile_bodies(self, form: FrameForm, frames: list[Program], calls: list[Program]) -> None:
        stops = [Program(t.STOP, [Step(t.LITERAL, s), Step(t.SPACE), Step(t.END)]) for s in self.dialect.stop]
        for into, channel in (("reasoning", "reasoning"), ("content", "content"), ("drop", None)):
            self.bodies[into] = TextState(
                channel, [*frames, *stops], closers=form.ends, body=True  # type: ignore[arg-type]
            )
        self.bodies["{calls}"] = TextState("content", [*calls, *frames, *stops], closers=form.ends, body=True)


def _name_pattern(form: str) -> re.Pattern[str]:
    pattern = re.escape(form).replace(r"\{name\}", "(?P<name>.+)", 1).replace(r"\{name\}", "(?P=name)")
    return re.compile(pattern.replace(r"\{index\}", "(?P<index>[0-9]+)"))


def _wrapper(channel: Channel, template: str) -> Wrapper:
    marks, body = split_marks(template)
    exact = "text" if channel == "content" else ""
    before, _, after = split_at(reading_pieces(body, exact=exact), "text")
    if before and isinstance(before[-1], Space):
        before = before[:-1]  # the fold trims reasoning
    closer = first_literal(after)
    closers = ("\n" + closer, closer) if after and isinstance(after[0], LineFeed) else (closer,)
    return Wrapper(channel, before, closers, "^" in marks)


def _with_fences(calls: tuple[str, ...]) -> tuple[str, ...]:
    """Repair: a payload may stand in a code fence."""
    fenced: list[str] = []
    for call in calls:
        for payload in ("{envelope}", "{args}"):
            if payload in call and "```" not in call:
                fenced += [call.replace(payload, f"\n```{tag}\n{payload}\n```\n") for tag in ("json", "")]
    return (*calls, *fenced)


def _with_fenced_arrays(sections: tuple[str, ...]) -> tuple[str, ...]:
    """Repair: an array of calls may stand in a code fence."""
    fenced = [
        section.replace("[{calls}]", f"\n```{tag}\n[{{calls}}]\n```\n")
        for section in sections
        if "[{calls}]" in section and "```" not in section and "^" not in section
        for tag in ("json", "")
    ]
    return (*sections, *fenced)


@lru_cache(maxsize=512)
def compile_grammar(dialect: Dialect, calls: bool, calls_in_reasoning: bool, repair: bool) -> Grammar:
    """The grammar of a dialect; compiled once."""
    return Grammar(dialect, calls=calls, calls_in_reasoning=calls_in_reasoning, repair=repair)
