"""Syntax: a dialect compiled for the machine.

Everything that depends only on the dialect and on a few policies (whether calls are
wanted at all, whether in reasoning, whether to repair them) is worked out here once:
the forms of its templates, what may follow what (``Follow``), which literals can
occur in which state of the text (``TextState``), which programs each of them
triggers and in what order.  The machine only looks things up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...dialects._control_tokens import is_control_token
from ...dialects._templates import (
    PAYLOADS,
    is_marker,
    literals,
    parse_template,
    reading_pieces,
    split_at,
    split_marks,
)
from ..scan.cache import has_room
from ..scan.markers import MarkerSet
from . import programs as t
from .follow_sets import Follow
from .forms import (
    CallForm,
    FrameForm,
    ParamForm,
    SectionForm,
    Wrapper,
    closing_steps,
    steps_of,
    value_opener,
)
from .programs import Embed, Program, Step
from .text_states import TextState

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Channel
    from ..schema.tools import Tools


class Start:
    """Where a machine stands that has read nothing but framing."""

    __slots__ = ("before", "closed", "pending", "state", "thought", "visible")

    def __init__(
        self, state: TextState, *, visible: bool, before: str, pending: str, closed: bool, thought: bool
    ) -> None:
        self.state: Final = state
        self.visible: Final = visible
        self.before: Final = before
        """The character of text before it, if there is one."""
        self.pending: Final = pending
        """Text that is not decided yet."""
        self.closed: Final = closed
        """Whether it ended with the end of reasoning."""
        self.thought: Final = thought
        """Whether reasoning is over."""


class CompiledDialect:
    """A dialect as the machine reads it."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        calls: bool,
        declared: bool,
        calls_in_reasoning: bool,
        repair: bool,
        embed: Embed,
        guests: Sequence[CompiledDialect] = (),
        guest: bool = False,
    ) -> None:
        """Compile it.

        :param declared: there are tools that the request declares.
        :param embed: makes the codec of an envelope.
        :param guests: the dialects whose calls are read as well.
        :param guest: it is one of these itself.
        """
        self.dialect: Final = dialect
        self.usual_tail: str | None = None
        """The tail of the prompt that the dialect begins after; found when it is first needed."""
        self.unescape: Final = dialect.values.unescape
        """Whether attributes are escaped as in XML."""
        self.calls: Final = calls
        """Whether calls are looked for at all."""
        templates = _with_fences(dialect.call) if repair else dialect.call
        sections = _with_fenced_arrays(dialect.section) if repair else dialect.section
        forms = [SectionForm(section) for section in sections] if calls else []
        self.sections: Final = [section for section in forms if declared or not section.declared]
        self.forms: Final = [CallForm(call, dialect, embed) for call in templates] if calls else []
        self._guest: Final = guest
        spelt = dialect.values.spelt_breaks
        params = [ParamForm(param, spelt=spelt) for param in dialect.param]
        self.frame: Final = FrameForm(dialect, dialect.frame) if dialect.frame is not None else None
        self._name_forms: Final = [_name_pattern(form) for form in dialect.names.forms if form != "{name}"]
        self._doubled: Final = any("(?P=name)" in pattern.pattern for pattern in self._name_forms)
        self._refined: Final[dict[str, tuple[str, str]]] = {}
        self.follow: Final = Follow(self.forms, self.sections, params, self.frame, dialect.stop)
        """What may follow what."""
        self.params: Final = [*params, *self._unopened(dialect.param)]
        self._guests: Final = {form: syntax for syntax in guests for form in syntax.forms}

        # A head that demands more is tried first: one with CDATA before one without.
        ordered = sorted(self.params, key=lambda param: -param.head.demands)
        self.param_programs: Final = [param.head for param in ordered]
        self.param_of: Final = {param.head: param for param in self.params}
        self.tree_programs: Final = [*(param.closing for param in self.params), *self.param_programs]
        """What may stand where a nested parameter could."""
        followed = [Step(t.FOLLOWED, watch=self.follow.first_param)]
        self.held_calls: Final = [
            Program(t.CALL, [*form.opening, *followed], call=form)
            for form in self.forms
            if form.opener in self.follow.openers
        ]
        """Calls that a value may hold, which are data."""
        for section in self.sections:
            usual = self.sections[0].opener
            if section.declared and is_marker(usual) and not is_marker(section.opener):
                section.lacks = usual
            section.between = list(self._between(section))
            section.resync = self.follow.resync_in(section)

        frames = self.frame.programs if self.frame is not None else []
        call_programs = list(self.calls_in_text())
        for syntax in guests:
            call_programs += [p for p in syntax.calls_in_text() if p.action == t.CALL]
        unanchored = [program for program in call_programs if not program.anchored]
        wrappers = [Wrapper("reasoning", template) for template in dialect.reasoning]
        wrappers += [Wrapper("content", template) for template in dialect.content]
        wrappers += [Wrapper(None, template) for template in dialect.drop if "{text}" in template]
        opening = {wrapper: wrapper.program for wrapper in wrappers}
        triggers = [program.trigger for program in opening.values()]
        before_args = _before_arguments(dialect).difference(triggers, dialect.stop)
        self.call_openers: Final = before_args
        """Markers that stand before a call's arguments, and nowhere else."""
        furniture = list(self._furniture())
        stray = self._stray_closers(opening)
        everything = [*call_programs, *opening.values(), *furniture, *frames]
        self.fresh: Final = TextState("content", everything, stray=stray, fresh=True)
        """Content, nothing visible yet."""
        self.content: Final = TextState("content", [p for p in everything if not p.anchored], stray=stray)
        """Content."""
        believed = [p for p in unanchored if not p.declared] if calls_in_reasoning else []
        ends = [section.opener for section in self.sections if section.ends_reasoning and calls_in_reasoning]
        self.inside: Final[dict[Wrapper, TextState]] = {}
        """The state inside each wrapper."""
        for wrapper in opening:
            strays: dict[str, str] = {}
            if wrapper.channel == "reasoning":
                others = [p for w, p in opening.items() if not p.anchored or w.channel == "content"]
                kept = [p for p in furniture if calls_in_reasoning or p.trigger not in before_args]
                inner = [*others, *kept, *frames, *believed]
            elif wrapper.channel == "content":
                others = [p for w, p in opening.items() if w is not wrapper]
                inner = [*unanchored, *others, *furniture]
                strays = stray
            else:  # nothing but its end counts
                inner = []
            self.inside[wrapper] = TextState(
                wrapper.channel,
                inner,
                closers=wrapper.closers,
                ends=ends if wrapper.channel == "reasoning" else (),
                stray=strays,
                wrapper=wrapper,
            )
        self.bodies: Final = self._body_states(unanchored)
        """The state inside the body of a framed message, by where its route leads."""

        routes = dialect.frame.routes if dialect.frame is not None else ()
        self.has_reasoning: Final = bool(dialect.reasoning) or any(r.into == "reasoning" for r in routes)
        """Whether an output may hold any."""
        self.repetitions: Final = [template for template in dialect.drop if "{calls}" in template]
        """How calls may be repeated behind them, to be dropped."""
        first = [literal for literal, entry in self.fresh.entries.items() if entry.anchored]
        self.first_words: Final = frozenset(first if self.frame is None else ())
        """What may begin a call or reasoning where an answer begins, and nowhere else."""
        closers = {closer for wrapper in self.inside for closer in wrapper.closers}
        stops = [stop for stop in dialect.stop if stop not in closers or not dialect.prompt.turn]
        self.borders: Final = (*stops, *dialect.prompt.turn)
        """What stands between two turns of a prompt."""
        self.reasoning_pairs: Final = [pair for pair in map(_around_text, dialect.reasoning) if all(pair)]
        """What opens reasoning, and what closes it."""
        self.markers: Final = MarkerSet(self._markers())
        """Every literal that means something in running text."""
        framing = set(_framing(dialect)).union(
            mark for mark in dialect.prompt.turn if mark in self.markers.literals
        )
        self.framing: Final = sorted(framing, key=len, reverse=True)
        """What a template may put between the last message and the output, longest first."""
        fields = dialect.frame.fields if dialect.frame is not None else ()
        self._markup: Final = "\n".join(
            [*self.markers.literals, *dialect.call, *dialect.section, *dialect.param, *fields]
            + [dialect.values.quote]
            + [template for foreign in dialect.also_accepts for template in (*foreign.call, *foreign.param)]
        )
        self.starts: Final[dict[str, Start]] = {}
        """What reading the tail of a prompt comes to, where it is short and depends on nothing else."""

    def of(self, form: CallForm) -> CompiledDialect:
        """The syntax that a call is written in: this one, or that of a dialect that it reads as well."""
        return self._guests.get(form, self)

    def knows(self, token: str) -> bool:
        """Whether a control token, which has no white space in it, is part of this dialect's own markup."""
        return token in self._markup

    def refine(self, caught: str, tools: Tools) -> tuple[str, str]:
        """Name and native id in what a name hole caught.

        Remembered unless it depends on the tools, too, which saves a twentieth of a short output.
        """
        if not self._name_forms:
            return caught, ""
        refined = self._refined.get(caught)
        if refined is None:
            refined = self._refine(caught, tools)
            if not self._doubled and has_room(len(self._refined), caught):
                self._refined[caught] = refined
        return refined

    def _refine(self, caught: str, tools: Tools) -> tuple[str, str]:
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
        if ":" in caught or "index" not in match.re.groupindex:
            return caught
        pattern = self.dialect.id_format.pattern
        return pattern.replace("{index}", match["index"]).replace("{name}", match["name"])

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

    def _unopened(self, templates: Iterable[str]) -> Iterator[ParamForm]:
        """Parameters without the tag that opens the value; another tag in its place means there is none."""
        for template in templates:
            if value_opener(template):
                form = ParamForm(template, spelt=False, unless=self.follow.after_value)
                self.follow.watch_value(form)
                yield form

    def calls_in_text(self) -> Iterator[Program]:
        """Every way a call, or an empty section, can begin in running text."""
        for section in self.sections:
            for form in self.forms:
                program = Program(
                    t.CALL,
                    [*section.steps, *form.head(section), *self._confirmation(form)],
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
            if section.opener and section.closers and not section.unmarked:
                steps = [*section.steps, *closing_steps(section.closers)]
                yield Program(t.EMPTY_SECTION, steps, section=section, anchored=section.anchored)

    def _between(self, section: SectionForm) -> Iterator[Program]:
        """What may follow a call in a section."""
        separators = [sep.strip() for sep in self.dialect.sep if sep.strip()]
        if section.bare and not separators:
            return  # what follows a call is running text
        declared = bool(section.lacks)
        for form in sorted(self.forms, key=lambda form: form.rank):
            head = [*form.head(section), *self._confirmation(form)]
            for sep in separators:
                steps = [Step(t.LITERAL, sep), Step(t.SPACE), *head]
                yield Program(t.CALL, steps, call=form, section=section, declared=declared)
            if section.admits(form):
                yield Program(t.CALL, head, call=form, section=section, declared=declared)
        if section.closers:
            for sep in separators:
                steps = [Step(t.LITERAL, sep), *closing_steps(section.closers)]
                yield Program(t.SECTION_CLOSE, steps, section=section)

    def _confirmation(self, form: CallForm) -> list[Step]:
        """A name that nothing closes counts only before what may follow it, or at the end of the input."""
        if form.payload == "params" and form.ends_in_name:
            # A name alone is too little to tell another family's call by.
            watch = self.follow.heads if self._guest else self.follow.first_param
            return [Step(t.FOLLOWED, watch=watch)]
        others = [other.template for other in self.forms if other.template != form.template]
        if not form.payload and any(other.startswith(form.template) for other in others):
            return [Step(t.FOLLOWED, watch=self.follow.after_name)]
        return []

    def _furniture(self) -> Iterator[Program]:
        own = frozenset[str]() if self.calls else self._markers_of_calls()
        for template in self.dialect.drop:
            if any(template in literal for literal in own):
                continue  # where calls are text, they are whole
            if "{text}" not in template and "{calls}" not in template:
                yield Program(t.DROP, steps_of(reading_pieces(template)))
        for stop in self.dialect.stop:
            if stop in own:
                continue
            # Ordinary text such as </s> is only a stop where nothing follows it.
            yield Program(t.DROP, [Step(t.LITERAL, stop)]) if is_control_token(stop) else _at_the_end(stop)

    def _markers_of_calls(self) -> frozenset[str]:
        """What only calls are made of; nothing where they end as other messages do, framed alike."""
        dialect = self.dialect
        calls = _literals(*dialect.call, *dialect.section, *dialect.param)
        others = _literals(*dialect.reasoning, *dialect.content)
        return frozenset() if any(call.endswith(tuple(others)) for call in dialect.call) else calls - others

    # -- states

    def _body_states(self, calls: list[Program]) -> dict[str, TextState]:
        """A body is opaque: only its end and the next header count in it, and calls where it holds them."""
        frame = self.frame
        if frame is None:
            return {}
        borders = [p for p in frame.programs if not p.anchored]
        borders += [_at_the_end(stop) for stop in self.dialect.stop]
        channels: dict[str, Channel | None] = {"reasoning": "reasoning", "content": "content", "drop": None}
        bodies = {
            into: TextState(channel, borders, closers=frame.ends, body=True)
            for into, channel in channels.items()
        }
        bodies["{calls}"] = TextState("content", [*calls, *borders], closers=frame.ends, body=True)
        return bodies

    def _markers(self) -> Iterator[str]:
        """What prompts are searched for."""
        framed = self.frame is not None
        # Words that count only where an answer begins may be anywhere in a prompt.
        found = {literal for literal, entry in self.fresh.entries.items() if framed or not entry.only_first}
        if self.frame is not None:
            found.add(self.frame.sep)
        # A lone bracket is not a marker, but a token's code point is.
        return (literal for literal in found if len(literal) > 1 or is_control_token(literal))

    def _stray_closers(self, wrappers: Iterable[Wrapper]) -> dict[str, str]:
        """Closers, and what they would close."""
        stray: dict[str, str] = {}
        for form in self.forms:
            stray.update(dict.fromkeys(filter(is_marker, (*form.closing, *form.closers)), "call"))
        for section in self.sections:
            stray.update(dict.fromkeys(filter(is_marker, section.closers), "call"))
        if self.calls:
            stray.update((param.closers[-1], "call") for param in self.params)
        for wrapper in wrappers:
            stray.update(
                dict.fromkeys(wrapper.closers, "reasoning" if wrapper.channel == "reasoning" else "text")
            )
        if self.frame is not None:
            stray.update(dict.fromkeys(self.frame.ends, "text"))
        return stray


def _around_text(template: str) -> tuple[str, str]:
    """Return what a wrapper has before and after its text, without white space around it."""
    before, _, after = split_marks(template)[1].partition("{text}")
    return before.strip(), after.strip()


def _framing(dialect: Dialect) -> Iterator[str]:
    """Yield the openers and closers of reasoning and content; not those that may be plain words anywhere."""
    for template in (*dialect.reasoning, *dialect.content):
        if "^" not in split_marks(template)[0]:
            for part in _around_text(template):
                yield from filter(None, map(str.strip, part.split("{_}")))


def _before_arguments(dialect: Dialect) -> frozenset[str]:
    """Every literal that stands before the arguments of a call."""
    found: set[str] = set()
    for template in (*dialect.section, *dialect.call):
        found.update(literals(split_at(parse_template(split_marks(template)[1]), *PAYLOADS, "calls")[0]))
    return frozenset(found)


def _literals(*templates: str) -> frozenset[str]:
    return frozenset(
        text for template in templates for text in literals(reading_pieces(split_marks(template)[1]))
    )


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
