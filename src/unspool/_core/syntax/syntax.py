"""Syntax: a dialect compiled for the machine.

Everything that depends only on the dialect, and on whether calls are wanted at
all, is worked out here once: which literals can occur in which state of the
text, which programs each of them triggers and in what order, what may follow
what.  The machine only looks things up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ..search.watch import ValueWatch, Watch
from ..words.template import is_control, reading_pieces
from . import trial as t
from .forms import CallForm, FrameForm, ParamForm, SectionForm, Wrapper, closing_steps, steps_of
from .trial import ASCII, Program, Step, Trial

if TYPE_CHECKING:
    from ..schema.schema import Tools
    from ..values.events import Channel
    from ..words.dialect import Dialect

_WORDS: Final = re.compile(r"[\w\s'.,:]+")
_KINDS: Final = {t.CALL: 0, t.EMPTY_SECTION: 1, t.FRAME: 2, t.OPEN_WRAPPER: 3}


class Entry:
    """What a literal may be in some state of the text."""

    __slots__ = (
        "anchored",
        "closers",
        "closes",
        "control",
        "furnished",
        "literal",
        "plain",
        "programs",
        "stray",
        "trials",
        "words",
    )

    def __init__(self, literal: str, programs: list[Program], closes: bool, stray: str) -> None:
        self.literal: Final = literal
        self.programs: Final = programs
        """What may begin here, in the order to try."""
        self.closes: Final = closes
        """It closes the wrapper or body that is open."""
        self.stray: Final = stray
        """What it closes without having been opened: ``reasoning``, ``text``, ``call`` or nothing."""
        self.furnished: Final = bool(stray) and all(
            program.action == t.DROP and program.trigger != literal for program in programs
        )
        """It begins with furniture, if with anything, which goes with it."""
        self.anchored: Final = any(program.anchored for program in programs)
        """Some of the programs begin only where no visible text came before."""
        self.closers: Final = frozenset[str]().union(*(program.closers for program in programs))
        """What closes what the programs begin."""
        self.plain: Final = bool(programs) and not (
            self.anchored or closes or stray or literal in self.closers
        )
        """It is nothing where its programs do not begin, and closes nothing."""
        self.trials: Final[dict[str, Trial]] = {}
        """By the characters behind the literal: a trial of it with them, once there was one."""
        self.control: Final = is_control(literal)
        self.words: Final = _WORDS.fullmatch(literal) is not None


class Decision:
    """What becomes of a text in which a marker might have begun, and none has."""

    __slots__ = ("alarm", "flows", "holds", "marker")

    def __init__(self, flows: int, marker: str = "", alarm: Entry | None = None) -> None:
        self.flows: Final = flows
        """So much of it is text, and the rest is held; -1: all of it is text."""
        self.holds: Final = flows == 0
        """All of it is held."""
        self.marker: Final = marker
        """What is held begins with this marker, if it counts here."""
        self.alarm: Final = alarm
        """A marker in the text that was a false alarm, if it counts here."""


_HOLD: Final = Decision(0)


class TextState:
    """A state of the text: where text goes, and what is looked for in it."""

    __slots__ = ("body", "channel", "decisions", "entries", "fresh", "watch", "wrapper")

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
        ordered = sorted(programs, key=_order)
        closing = frozenset(closers)
        strays = {literal: what for literal, what in (stray or {}).items() if literal not in closing}
        found = {program.trigger for program in ordered}.union(closing, strays)
        self.entries: Final = {
            literal: Entry(
                literal,
                [program for program in ordered if literal.startswith(program.trigger)],
                literal in closing,
                strays.get(literal, ""),
            )
            for literal in found
        }
        lone = {literal: self._unless(literal) for literal in found if len(literal) == 1}
        self.watch: Final = Watch(found, {literal: others for literal, others in lone.items() if others})
        self.decisions: Final = dict.fromkeys(self.watch.prefixes, _HOLD)
        """What becomes of a text.  The machine adds short ones as it meets them."""

    def _unless(self, literal: str) -> str:
        """The ASCII characters behind a literal with which it means nothing at all."""
        entry = self.entries[literal]
        if entry.closes or entry.stray:
            return ""
        possible: set[str] = set()
        for program in entry.programs:
            # What closes it would be text, too, without it.
            if program.may_follow is None or not program.closers.isdisjoint(self.entries):
                return ""
            possible |= program.may_follow
        return "".join(character for character in ASCII if character not in possible)


def _order(program: Program) -> tuple[int, int, int, int]:
    """Longer triggers first; calls before wrappers before furniture; what demands more first."""
    return (
        -len(program.trigger),
        _KINDS.get(program.action, 4),
        program.call.rank if program.call is not None else 0,
        -program.demands,
    )


class Start:
    """Where a machine stands that has read nothing but framing."""

    __slots__ = ("closed", "held", "last", "state", "visible")

    def __init__(self, state: TextState, visible: bool, last: str, held: str, closed: bool) -> None:
        self.state: Final = state
        self.visible: Final = visible
        self.last: Final = last
        self.held: Final = held
        """Text that is not decided yet."""
        self.closed: Final = closed
        """Whether it ended with the end of reasoning."""


class Syntax:
    """A dialect as the machine reads it."""

    def __init__(self, dialect: Dialect, *, calls: bool, calls_in_reasoning: bool, repair: bool) -> None:
        self.dialect: Final = dialect
        self.calls: Final = calls
        """Whether calls are looked for at all."""
        templates = _with_fences(dialect.call) if repair else dialect.call
        sections = _with_fenced_arrays(dialect.section) if repair else dialect.section
        self.sections: Final = [SectionForm(section) for section in sections] if calls else []
        self.forms: Final = [CallForm(call, dialect) for call in templates] if calls else []
        self.params: Final = [ParamForm(param) for param in dialect.param]
        self.frame: Final = FrameForm(dialect, dialect.frame) if dialect.frame is not None else None
        self._name_forms: Final = [_name_pattern(form) for form in dialect.names.forms if form != "{name}"]

        # What may follow what.
        stops = dialect.stop
        ends = (*self.frame.ends, *self.frame.openers) if self.frame is not None else ()
        heads = [param.head.trigger for param in self.params]
        openers = [form.opener for form in self.forms if form.opener]
        openers += [section.opener for section in self.sections if section.opener]
        call_closers = [form.closers[0] for form in self.forms if form.closers]
        # A lone bracket is a marker only inside its section.
        section_closers = [
            literal for section in self.sections for literal in section.closers if len(literal) > 1
        ]
        self.heads: Final = Watch(heads)
        """What may begin a parameter."""
        self.call_closers: Final = Watch([*call_closers, *ends])
        self.first_param: Final = Watch([*heads, *call_closers])
        """What may follow a name that parameters follow."""
        self.after_name: Final = Watch([*openers, *stops])
        """What may follow a name that nothing follows."""
        self.after_params: Final = Watch([*call_closers, *section_closers, *openers, *ends, *stops])
        """What may stand where another parameter could."""
        self.after_value: Final = Watch([*heads, *call_closers, *section_closers, *openers, *ends, *stops])
        """What must follow a closing tag for it to count."""
        self.after_call: Final = Watch([*section_closers, *openers, *ends])
        """What must follow a call's closer for it to end a value that was not closed."""
        closers = [literal for form in self.forms for literal in form.closers]
        code_ends = [*call_closers, *section_closers, *openers, *ends, *stops]
        self.code_ends: Final = ValueWatch([*code_ends, *("\n" + literal for literal in call_closers)])
        """What ends raw code; the line feed before a closer belongs to it."""
        self.resync: Final = Watch([*closers, *section_closers, *openers, *ends])
        """Where a malformed call ends, if it is in no section."""

        # Parameters.  A head that demands more is tried first: one with CDATA before one without.
        ordered = sorted(self.params, key=lambda param: -param.head.demands)
        self.param_programs: Final = [param.head for param in ordered]
        self.param_of: Final = {param.head: param for param in self.params}
        self.tree_programs: Final = [*(param.closing for param in self.params), *self.param_programs]
        """What may stand where a nested parameter could."""
        nested = [program.trigger for program in self.tree_programs]
        self.tree_watch: Final = ValueWatch([*nested, *call_closers])
        self.after_nested: Final = Watch([*nested, *call_closers, *section_closers, *openers, *ends, *stops])
        """What must follow the closing tag of a nested parameter for it to count."""
        soft = [*heads, *call_closers]
        for param in self.params:
            param.watch = ValueWatch([*param.closers, *soft, *("\n" + literal for literal in soft), *stops])
        for section in self.sections:
            section.between = list(self._between(section))
            section.resync = Watch([*closers, *section_closers, *section.closers, *openers, *ends])

        # States of the text.
        self._call_programs: Final = list(self._calls_in_text())
        wrappers = [Wrapper("reasoning", template) for template in dialect.reasoning]
        answers = [Wrapper("content", template) for template in dialect.content]
        unanchored = [program for program in self._call_programs if not program.anchored]
        opening = {
            w: Program(t.OPEN_WRAPPER, w.steps, wrapper=w, anchored=w.anchored) for w in (*wrappers, *answers)
        }
        frames = self.frame.programs if self.frame is not None else []
        furniture = list(self._furniture())
        stray = self._stray_closers((*wrappers, *answers))
        everything = [*self._call_programs, *opening.values(), *furniture, *frames]
        self.fresh: Final = TextState("content", everything, stray=stray, fresh=True)
        """Content, nothing visible yet."""
        self.content: Final = TextState("content", [p for p in everything if not p.anchored], stray=stray)
        """Content."""
        self.inside: Final[dict[Wrapper, TextState]] = {}
        """The state inside each wrapper."""
        in_reasoning = [p for w, p in opening.items() if not p.anchored or w in answers] + furniture + frames
        if calls_in_reasoning:
            in_reasoning += [p for p in unanchored if not p.declared]
        for wrapper in wrappers:
            self.inside[wrapper] = TextState(
                "reasoning", in_reasoning, closers=wrapper.closers, wrapper=wrapper
            )
        for wrapper in answers:
            inner = [*unanchored, *(p for w, p in opening.items() if w is not wrapper), *furniture]
            self.inside[wrapper] = TextState(
                "content", inner, closers=wrapper.closers, stray=stray, wrapper=wrapper
            )
        self.bodies: Final[dict[str, TextState]] = {}
        """The state inside the body of a framed message, by where its route leads."""
        if self.frame is not None:
            # A body is opaque: only its end and the next header count in it.
            borders = [p for p in frames if not p.anchored] + [_at_the_end(stop) for stop in stops]
            channels: dict[str, Channel | None] = {
                "reasoning": "reasoning",
                "content": "content",
                "drop": None,
            }
            for into, channel in channels.items():
                self.bodies[into] = TextState(channel, borders, closers=self.frame.ends, body=True)
            self.bodies["{calls}"] = TextState(
                "content", [*unanchored, *borders], closers=self.frame.ends, body=True
            )

        # What prompts are searched for.
        found = set(self.fresh.entries)
        fields: tuple[str, ...] = ()
        if dialect.frame is not None and self.frame is not None:
            found.add(self.frame.sep)
            fields = dialect.frame.fields
        # A lone bracket is not a marker, but a token's code point is.
        self.markers: Final = Watch(each for each in found if len(each) > 1 or is_control(each))
        """Every literal that means something in running text."""
        templates = (*dialect.call, *dialect.section, *dialect.param, *fields)
        self._markup: Final = "\n".join([*self.markers.literals, *templates])
        self.starts: Final[dict[str, Start]] = {}
        """What reading the tail of a prompt comes to, where it is short and depends on nothing else."""

    def knows(self, token: str) -> bool:
        """Whether a control token, which has no white space in it, is part of this dialect's own markup."""
        return token in self._markup

    def refine(self, caught: str, tools: Tools) -> tuple[str, str]:
        """Name and native id in what a name hole caught."""
        for pattern in self._name_forms:
            match = pattern.fullmatch(caught)
            if match is None:
                continue
            if "(?P=name)" not in pattern.pattern:
                return match["name"], self._native_id(match, caught)
            # A doubled name is only believed if that makes it a declared one.
            if tools.declares(match["name"]) and not tools.declares(caught):
                return match["name"], ""
        return caught, ""

    def _native_id(self, match: re.Match[str], caught: str) -> str:
        """The id that a name came with, in the family's own spelling."""
        index = match.groupdict().get("index")
        if index is None or ":" in caught:
            return caught
        return self.dialect.id_format.pattern.replace("{index}", index).replace("{name}", match["name"])

    def could_become(self, partial: str, tools: Tools) -> bool:
        """Whether what is there of a name may still become that of a tool."""
        if tools.could_become(partial):
            return True
        for form in self.dialect.names.forms:
            before, _, behind = form.partition("{name}")
            if before and before.startswith(partial):
                return True
            if partial.startswith(before):
                rest = partial[len(before) :]
                if tools.could_become(rest) or (
                    behind and any(rest.startswith(name) for name in tools.names)
                ):
                    return True
        return False

    # -- programs

    def _calls_in_text(self) -> Iterator[Program]:
        """Every way a call, or an empty section, can begin in running text."""
        for section in self.sections:
            for form in self.forms:
                program = Program(
                    t.CALL,
                    [*section.steps, *form.head, *self._confirmation(form)],
                    call=form,
                    section=section,
                    anchored=section.anchored,
                    declared=section.declared,
                )
                if program.trigger and section.admits(form):
                    yield program
                if section.bare and form.opener and form.closers:
                    steps = [Step(t.LITERAL, form.opener), *closing_steps(form.closers)]
                    yield Program(t.EMPTY_SECTION, steps, section=section)
            if section.opener and section.closers and not section.declared:
                steps = [*section.steps, *closing_steps(section.closers)]
                yield Program(t.EMPTY_SECTION, steps, section=section, anchored=section.anchored)

    def _between(self, section: SectionForm) -> Iterator[Program]:
        """What may follow a call in a section."""
        separators = [sep.strip() for sep in self.dialect.sep if sep.strip()]
        if section.bare and not separators:
            return  # what follows a call is running text
        for form in sorted(self.forms, key=lambda form: form.rank):
            head = [*form.head, *self._confirmation(form)]
            for sep in separators:
                yield Program(
                    t.CALL, [Step(t.LITERAL, sep), Step(t.SPACE), *head], call=form, section=section
                )
            if section.admits(form):
                yield Program(t.CALL, head, call=form, section=section)
        if section.closers:
            for sep in separators:
                steps = [Step(t.LITERAL, sep), *closing_steps(section.closers)]
                yield Program(t.SECTION_CLOSE, steps, section=section)

    def _confirmation(self, form: CallForm) -> list[Step]:
        """A name that nothing closes counts only before what may follow it, or at the end of the input."""
        if form.payload == "params" and form.ends_in_name:
            return [Step(t.FOLLOWED, watch=self.first_param)]
        others = [other.template for other in self.forms if other.template != form.template]
        if not form.payload and any(other.startswith(form.template) for other in others):
            return [Step(t.FOLLOWED, watch=self.after_name)]
        return []

    def _furniture(self) -> Iterator[Program]:
        for template in self.dialect.drop:
            yield Program(t.DROP, steps_of(reading_pieces(template)))
        for stop in self.dialect.stop:
            # Ordinary text such as </s> is only a stop where nothing follows it.
            yield Program(t.DROP, [Step(t.LITERAL, stop)]) if is_control(stop) else _at_the_end(stop)

    def _stray_closers(self, wrappers: Iterable[Wrapper]) -> dict[str, str]:
        """Closers, and what they would close."""
        stray: dict[str, str] = {}
        for form in self.forms:
            stray.update(dict.fromkeys(form.closers, "call"))
        for section in self.sections:
            # A lone bracket is not a marker.
            stray.update((literal, "call") for literal in section.closers if len(literal) > 1)
        if self.calls:
            stray.update((param.closers[-1], "call") for param in self.params)
        for wrapper in wrappers:
            stray.update(
                dict.fromkeys(wrapper.closers, "reasoning" if wrapper.channel == "reasoning" else "text")
            )
        if self.frame is not None:
            stray.update(dict.fromkeys(self.frame.ends, "text"))
        return stray


def _at_the_end(stop: str) -> Program:
    return Program(t.STOP, [Step(t.LITERAL, stop), Step(t.SPACE), Step(t.END)])


def _name_pattern(form: str) -> re.Pattern[str]:
    pattern = re.escape(form).replace(r"\{name\}", "(?P<name>.+)", 1).replace(r"\{name\}", "(?P=name)")
    return re.compile(pattern.replace(r"\{index\}", "(?P<index>[0-9]+)"))


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


@lru_cache(maxsize=1024)
def compile_syntax(dialect: Dialect, *, calls: bool, calls_in_reasoning: bool, repair: bool) -> Syntax:
    """The syntax of a dialect; compiled once."""
    return Syntax(dialect, calls=calls, calls_in_reasoning=calls_in_reasoning, repair=repair)
