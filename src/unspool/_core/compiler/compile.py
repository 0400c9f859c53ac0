"""Compiler that turns a dialect's templates into the tables of ``compiled_dialect.py``.

``compile_dialect`` runs the passes in order.  Each pass creates one table from the earlier tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from ...dialects import _placed_templates as declared
from ...dialects._control_token_pattern import is_control_token
from ...dialects.list_templates_and_markers import turn_markers, with_spaced_templates
from ...dialects.parse_templates import (
    PAYLOADS,
    is_marker,
    literals,
    only_at_start,
    parse_template,
    reading_pieces,
    split_at,
    surround,
    template_text,
    text_around,
    with_text,
)
from ..scan.markers import MarkerSet
from .compiled_dialect import (
    CallPrograms,
    CompiledDialect,
    CompileOptions,
    DialectForms,
    ParameterTable,
    PromptMarkers,
    TextStates,
)
from .drift import LOST_ROLE, NEIGHBOURS_CLOSER, TEXT_BEFORE_CALL, DriftedTemplates, drifted_templates
from .follow_sets import FollowSets
from .match_program_types import (
    CALL,
    CAPTURE,
    DROP,
    EMPTY_SECTION,
    END,
    FOLLOWED,
    LITERAL,
    SECTION_CLOSE,
    SPACE,
    STOP,
    UNLESS,
    EnvelopeFactory,
    Program,
    Step,
)
from .message_headers import FrameForm
from .split_name_and_id import NameForms
from .split_templates import CallForm, ParamForm, SectionForm, Wrapper, closing_steps, steps_of, value_opener
from .states_outside_calls import TextState

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Channel

_BODY_CHANNELS: Final[dict[str, Channel | None]] = {
    "reasoning": "reasoning",
    "content": "content",
    "drop": None,
}


_MORE_OF_A_SENTENCE: Final = MarkerSet((*ascii_lowercase, *",.;:!?'-"))


def compile_dialect(
    dialect: Dialect,
    options: CompileOptions,
    make_envelope: EnvelopeFactory,
    accepted: Sequence[CompiledDialect] = (),
    *,
    for_other: bool = False,
    bare: str = "",
) -> CompiledDialect:
    """Compile a dialect and return its tables.

    :param make_envelope: a function that creates the codec for an object that contains the call's name.
    :param accepted: the compiled forms of the dialects in ``dialect.also_accepts``.
    :param for_other: true if another dialect accepts the calls of this one.
    :param bare: value of the policy ``bare_calls``, if this is the dialect in ``bare_calls.py``.
    """
    dialect = with_spaced_templates(dialect)
    forms = _split_templates(dialect, options, make_envelope)
    # Only the name of a declared tool confirms a call whose markers have changed.
    reads_drift = options.reads_calls and options.has_declared_tools and not for_other
    drifted = [
        DriftedDialect(dialect, options, make_envelope, templates)
        for templates in (drifted_templates(dialect) if reads_drift else ())
    ]
    return _compile_forms(dialect, options, forms, accepted, drifted, for_other=for_other, bare=bare)


def _compile_forms(
    dialect: Dialect,
    options: CompileOptions,
    forms: DialectForms,
    accepted: Sequence[CompiledDialect],
    drifted: Sequence[DriftedDialect],
    *,
    for_other: bool,
    bare: str = "",
) -> CompiledDialect:
    """Run all passes after the first one."""
    follow = FollowSets(forms.calls, forms.sections, forms.params, forms.frame, dialect.stop)
    params = _compile_parameters(dialect, forms, follow)
    programs = _compile_calls(
        dialect, options, forms, follow, accepted, drifted, for_other=for_other, bare=bare
    )
    states = _compile_text_states(dialect, options, forms, params, programs)
    return CompiledDialect(
        dialect,
        reads_calls=options.reads_calls,
        forms=forms,
        follow=follow,
        params=params,
        programs=programs,
        states=states,
        prompt=_compile_prompt_markers(dialect, forms.frame, states),
        names=NameForms(dialect),
        owners={form: other for other in accepted for form in other.forms.calls},
        drifted=drifted,
    )


class DriftedDialect:
    """Dialect whose markers have changed (see ``drift.py``).

    Few outputs have such markers.  Therefore, only the beginnings of calls are compiled in advance.  The rest
    is compiled when the first such call begins.
    """

    __slots__ = ("_compiled", "_dialect", "_options", "forms", "in_text")

    def __init__(
        self,
        dialect: Dialect,
        options: CompileOptions,
        make_envelope: EnvelopeFactory,
        templates: DriftedTemplates,
    ) -> None:
        sections = [SectionForm(template) for template in templates.sections]
        calls = [CallForm(template, dialect, make_envelope) for template in templates.calls]
        params = [
            ParamForm(template, escaped_newlines=dialect.values.escaped_newlines)
            for template in templates.params
        ]
        self.forms: Final = DialectForms(calls, sections, params, None)
        self._dialect: Final = dialect
        self._options: Final = options
        self._compiled: CompiledDialect | None = None
        changed = {
            form
            for form, template in zip(
                (*sections, *calls), (*templates.sections, *templates.calls), strict=True
            )
            if template not in dialect.section and template not in dialect.call
        }
        heads = FollowSets.heads_of(calls, params)
        self.in_text: Final = list(_drifted_calls(self.forms, changed, heads, templates.note))
        """Programs for calls that begin in ordinary text."""

    @property
    def compiled(self) -> CompiledDialect:
        """Tables for everything after the beginning of a call."""
        if self._compiled is None:
            self._compiled = _compile_forms(self._dialect, self._options, self.forms, (), (), for_other=False)
        return self._compiled


# -- pass 1: forms


def _split_templates(
    dialect: Dialect, options: CompileOptions, make_envelope: EnvelopeFactory
) -> DialectForms:
    """Split every template at its main placeholder, such as ``{args}`` or ``{calls}``.

    If ``options.reads_calls`` is false, the result contains no forms of calls or sections.
    """
    calls: list[CallForm] = []
    sections: list[SectionForm] = []
    if options.reads_calls:
        repair = options.repair
        call_templates = _with_code_fences(dialect.call) if repair else dialect.call
        section_templates = _with_fenced_arrays(dialect.section) if repair else dialect.section
        calls = [CallForm(template, dialect, make_envelope) for template in call_templates]
        for template in section_templates:
            section = SectionForm(template, sections[0].opener if sections else "")
            if options.has_declared_tools or not section.declared:
                sections.append(section)
    escaped_newlines = dialect.values.escaped_newlines
    params = [ParamForm(template, escaped_newlines=escaped_newlines) for template in dialect.param]
    frame = FrameForm(dialect, dialect.frame) if dialect.frame is not None else None
    return DialectForms(calls, sections, params, frame)


def _with_code_fences(calls: tuple[str, ...]) -> tuple[str, ...]:
    """Return the templates, and variants in which the arguments are in a Markdown code fence."""
    fenced: list[str] = []
    for call in calls:
        for payload in ("{envelope}", "{args}"):
            if payload in call and "```" not in call:
                fenced += [surround(call, payload, f"\n```{tag}\n", "\n```\n") for tag in ("json", "")]
    return (*calls, *fenced)


def _with_fenced_arrays(sections: tuple[str | declared.Section, ...]) -> tuple[str | declared.Section, ...]:
    """Return the templates, and variants in which the array of calls is in a Markdown code fence."""
    fenced: list[str | declared.Section] = []
    for section in sections:
        text = template_text(section)
        if "[{calls}]" in text and "```" not in text and not only_at_start(section):
            for tag in ("json", ""):
                other = text.replace("[{calls}]", f"\n```{tag}\n[{{calls}}]\n```\n")
                fenced.append(with_text(section, other))
    return (*sections, *fenced)


# -- pass 2 is `FollowSets`


# -- pass 3: parameters


def _compile_parameters(dialect: Dialect, forms: DialectForms, follow: FollowSets) -> ParameterTable:
    """Create the programs for the markup between two parameter values.

    This requires the follow sets.  Models may leave out the tag that opens a value.  A parameter without this
    tag is accepted only if its value does not begin with a literal of ``after_value``.
    """
    params = list(forms.params)
    for template in dialect.param:
        if value_opener(template):
            form = ParamForm(template, escaped_newlines=False, never_followed_by=follow.after_value)
            follow.set_value_markers(form)
            params.append(form)
    # Try opening tags with longer literals first, for example a tag followed by CDATA before the tag alone.
    head_programs = [form.head for form in sorted(params, key=lambda form: -form.head.demands)]
    followed = [Step(FOLLOWED, markers=follow.first_param)]
    return ParameterTable(
        params,
        head_programs,
        [*(form.closing for form in params), *head_programs],
        [
            Program(CALL, [*form.opening, *followed], call=form)
            for form in forms.calls
            if form.opener in follow.openers
        ],
    )


# -- pass 4: call programs


def _compile_calls(
    dialect: Dialect,
    options: CompileOptions,
    forms: DialectForms,
    follow: FollowSets,
    accepted: Sequence[CompiledDialect],
    drifted: Sequence[DriftedDialect],
    *,
    for_other: bool,
    bare: str,
) -> CallPrograms:
    """Create the programs for calls that begin in ordinary text, and for further calls of a section.

    This requires the follow sets, because some names are confirmed only by the text after them.  The programs
    of accepted dialects are tried last.  The sections of these dialects keep their own entries in the tables.
    """
    confirmations = {
        form: _confirmation(form, forms.calls, follow, for_other=for_other) for form in forms.calls
    }
    in_text = [*_calls_in_text(forms, confirmations, bare), *_calls_with_wrong_closer(forms, follow)]
    if options.has_declared_tools and not bare:
        in_text += _calls_after_text(dialect, forms, follow)
    next_in_section = {
        section: list(_next_in_section(dialect, section, confirmations, bare)) for section in forms.sections
    }
    resync = dict(follow.section_resync)
    for other in accepted:
        in_text += [program for program in other.programs.in_text if program.action == CALL]
        next_in_section.update(other.programs.next_in_section)
        resync.update(other.programs.resync)
    declared = [*in_text]
    for each in drifted:
        in_text += each.in_text
    return CallPrograms(in_text, next_in_section, resync, declared)


def _confirmation(
    form: CallForm, calls: Sequence[CallForm], follow: FollowSets, *, for_other: bool
) -> list[Step]:
    """Return steps that check the text after a name, if no delimiter ends the name.

    Such a name is accepted only before certain literals or at the end of the input.  For all other names, the
    result is empty.
    """
    if form.payload == "params" and form.ends_in_name:
        # A name alone is not enough to recognise a call of another model family; a parameter must follow.
        return [Step(FOLLOWED, markers=follow.heads if for_other else follow.first_param)]
    others = [other.template for other in calls if other.template != form.template]
    if not form.payload and any(other.startswith(form.template) for other in others):
        return [Step(FOLLOWED, markers=follow.after_name)]
    return []


def _calls_in_text(
    forms: DialectForms, confirmations: Mapping[CallForm, Sequence[Step]], bare: str
) -> Iterator[Program]:
    """Yield a program for each way in which a call or an empty section can begin in ordinary text."""
    for section in forms.sections:
        for form, confirmation in confirmations.items():
            program = Program(
                CALL,
                [*section.steps, *form.head(section), *confirmation],
                call=form,
                section=section,
                anchored=section.anchored,
                declared=section.declared,
                bare=bare,
            )
            if program.trigger and section.admits(form):
                yield program
            if section.bare and form.opener and form.closers:
                steps = [Step(LITERAL, form.opener), *closing_steps(form.closers)]
                yield Program(EMPTY_SECTION, steps, section=section)
        if section.opener and section.closers and not section.unmarked:
            steps = [*section.steps, *closing_steps(section.closers)]
            yield Program(EMPTY_SECTION, steps, section=section, anchored=section.anchored)


def _drifted_calls(
    forms: DialectForms, changed: set[object], heads: MarkerSet, note: str
) -> Iterator[Program]:
    """Yield a program for each way in which a call with changed markers can begin in ordinary text.

    :param changed: the forms whose templates have changed.
    :param heads: the literals that may follow the name of a call with parameters.
    """
    for section in forms.sections:
        for form in forms.calls:
            if not form.payload and form.ends_in_name:
                continue  # only the markers after the name could confirm the call
            confirmation = [Step(FOLLOWED, markers=heads)] if form.payload == "params" else []
            program = Program(
                CALL,
                [*section.steps, *form.head(section), *confirmation],
                call=form,
                section=section,
                anchored=section.anchored,
                declared=True,
                slip=note,
            )
            if program.trigger and section.admits(form) and not changed.isdisjoint((section, form)):
                yield program


def _calls_with_wrong_closer(forms: DialectForms, follow: FollowSets) -> Iterator[Program]:
    """Yield programs for calls without arguments in which the closing tag of a value follows the name."""
    closers = dict.fromkeys(param.closers[-1] for param in forms.params)
    for section in forms.sections:
        for form in forms.calls:
            if form.payload == "params" and form.ends_in_name and form.opener:
                for closer in closers:
                    yield Program(
                        CALL,
                        [
                            *section.steps,
                            *form.opening,
                            Step(LITERAL, closer),
                            Step(FOLLOWED, markers=follow.after_params),
                        ],
                        call=form,
                        section=section,
                        anchored=section.anchored,
                        declared=True,
                        slip=NEIGHBOURS_CLOSER.format(closer),
                    )


def _calls_after_text(dialect: Dialect, forms: DialectForms, follow: FollowSets) -> Iterator[Program]:
    """Yield programs for calls with a line of text between the opening marker of the section and the call."""
    for section in forms.sections:
        if section.opener in dialect.drop:
            continue  # the opening marker is removed wherever it occurs
        for form in forms.calls:
            confirmation = [Step(FOLLOWED, markers=follow.first_param)] if form.payload == "params" else []
            marked = is_marker(section.opener) and form.opener[:1] in ("<", "[", "]")
            alone = [step.text for step in section.steps if step.kind != SPACE] == [section.opener]
            if marked and alone and form.opener != section.opener:
                yield Program(
                    CALL,
                    [
                        *section.steps,
                        Step(CAPTURE, "_", stop=form.opener),
                        Step(SPACE),
                        *form.head(section),
                        *confirmation,
                    ],
                    call=form,
                    section=section,
                    anchored=section.anchored,
                    declared=True,
                    slip=TEXT_BEFORE_CALL.format(section.opener),
                    has_text=True,
                )


def _next_in_section(
    dialect: Dialect, section: SectionForm, confirmations: Mapping[CallForm, Sequence[Step]], bare: str
) -> Iterator[Program]:
    """Yield programs for the text after a call in a section: a separator, a call or the section's end."""
    separators = [*filter(None, map(str.strip, (dialect.writing.between_calls, *dialect.separators)))]
    if section.bare and not separators:
        return  # only ordinary text can follow
    declared = bool(section.missing_opener or bare)
    for form in sorted(confirmations, key=lambda form: form.rank):
        head = [*form.head(section), *confirmations[form]]
        for sep in separators:
            steps = [Step(LITERAL, sep), Step(SPACE), *head]
            yield Program(CALL, steps, call=form, section=section, declared=declared, bare=bare)
        if section.admits(form):
            yield Program(CALL, head, call=form, section=section, declared=declared, bare=bare)
    if section.closers:
        for sep in separators:
            steps = [Step(LITERAL, sep), *closing_steps(section.closers)]
            yield Program(SECTION_CLOSE, steps, section=section)


# -- pass 5: text states


def _compile_text_states(
    dialect: Dialect,
    options: CompileOptions,
    forms: DialectForms,
    params: ParameterTable,
    programs: CallPrograms,
) -> TextStates:
    """Create the states for text outside calls.  Each state contains the meanings of its literals.

    This requires the call programs.  This pass adds wrappers, markers to drop and headers of messages.
    """
    frames = forms.frame.programs if forms.frame is not None else []
    unanchored = [program for program in programs.in_text if not program.anchored]
    wrappers = [Wrapper("reasoning", template) for template in dialect.reasoning]
    wrappers += [Wrapper("content", template) for template in dialect.content]
    wrappers += [Wrapper(None, template) for template in dialect.habits.drop_text]
    wrapper_triggers = [wrapper.program.trigger for wrapper in wrappers]
    call_openers = _before_arguments(dialect).difference(wrapper_triggers, dialect.stop)
    dropped = list(_dropped_markers(dialect, reads_calls=options.reads_calls))
    stray = _stray_closers(forms, wrappers, params.forms if options.reads_calls else ())
    in_content = [*programs.in_text, *(wrapper.program for wrapper in wrappers), *dropped, *frames]
    content = TextState("content", [p for p in in_content if not p.anchored], stray=stray)
    # In a dialect with headers, another message may begin after the first visible text.
    later = content if forms.frame is None else None
    fresh = TextState("content", in_content, stray=stray, fresh=True, later=later)

    in_reasoning: list[Program] = []
    reasoning_ends: list[str] = []
    if options.calls_in_reasoning:
        in_reasoning = [program for program in unanchored if not program.declared]
        reasoning_ends = [section.opener for section in forms.sections if section.ends_reasoning]
    bare = [program for program in programs.in_text if program.bare]
    inside: dict[Wrapper, TextState] = {}
    for wrapper in wrappers:
        ends: Sequence[str] = ()
        strays: dict[str, str] = {}
        inner: list[Program] = []  # inside text to drop, only the closing marker of this text has a meaning
        if wrapper.channel == "reasoning":
            others = [w.program for w in wrappers if not w.program.anchored or w.channel == "content"]
            # If calls in reasoning are text, their markers are text as well and must not be dropped.
            kept = [p for p in dropped if options.calls_in_reasoning or p.trigger not in call_openers]
            inner = [*others, *kept, *frames, *in_reasoning]
            ends = reasoning_ends
        elif wrapper.channel == "content":
            inner = [*unanchored, *(w.program for w in wrappers if w is not wrapper), *dropped]
            strays = stray
        state = TextState(
            wrapper.channel,
            inner,
            closers=wrapper.closers,
            reasoning_ends=ends,
            stray=strays,
            wrapper=wrapper,
        )
        at_start = [program for program in bare if program.anchored and wrapper.channel == "content"]
        if at_start:
            state = TextState(
                wrapper.channel,
                [*inner, *at_start],
                closers=wrapper.closers,
                stray=strays,
                wrapper=wrapper,
                fresh=True,
                later=state,
            )
        inside[wrapper] = state
    bodies = _body_states(dialect, forms.frame, unanchored, bare)
    return TextStates(fresh, content, inside, bodies, call_openers)


def _before_arguments(dialect: Dialect) -> frozenset[str]:
    """Return all literals that precede the arguments of a call."""
    found: set[str] = set()
    for template in (*dialect.section, *dialect.call):
        found.update(literals(split_at(parse_template(template), *PAYLOADS, "calls")[0]))
    return frozenset(found)


def _dropped_markers(dialect: Dialect, *, reads_calls: bool) -> Iterator[Program]:
    """Yield programs for markers that are always dropped, and for markers that end a turn."""
    # If calls are text, their markers are text as well.
    of_calls = frozenset[str]() if reads_calls else _call_markers(dialect)
    for template in dialect.drop:
        if any(template in literal for literal in of_calls):
            continue
        yield Program(DROP, steps_of(reading_pieces(template)))
        word = LOST_ROLE.change(template)
        if word != template:  # a word is a marker only if it is not part of a sentence
            steps = [Step(LITERAL, word), Step(UNLESS, markers=_MORE_OF_A_SENTENCE)]
            yield Program(DROP, steps, anchored=True)
    for stop in dialect.stop:
        if stop in of_calls:
            continue
        # Control tokens end a turn anywhere.  Any other literal, such as </s>, ends a turn only at the end of
        # the input.
        yield Program(DROP, [Step(LITERAL, stop)]) if is_control_token(stop) else _stop_at_end(stop)


def _call_markers(dialect: Dialect) -> frozenset[str]:
    """Return the literals that occur only in calls, and not in wrappers around reasoning or content.

    If a call ends with a literal of such a wrapper, the result is empty: calls then have the same markers as
    other messages.
    """
    of_calls = _literals_in(*dialect.call, *dialect.section, *dialect.param)
    others = _literals_in(*dialect.reasoning, *dialect.content)
    if any(call.endswith(tuple(others)) for call in dialect.call):
        return frozenset()
    return of_calls - others


def _literals_in(*templates: str | declared.Section | declared.Wrapper) -> frozenset[str]:
    return frozenset(text for template in templates for text in literals(reading_pieces(template)))


def _stop_at_end(stop: str) -> Program:
    """Return a program for a literal that has a meaning only at the end of the input."""
    return Program(STOP, [Step(LITERAL, stop), Step(SPACE), Step(END)])


def _stray_closers(
    forms: DialectForms, wrappers: Iterable[Wrapper], params: Iterable[ParamForm]
) -> dict[str, str]:
    """Return a map from each closing literal to the element that it closes: call, reasoning or text."""
    stray: dict[str, str] = {}
    for form in forms.calls:
        stray.update(dict.fromkeys(filter(is_marker, (*form.closing, *form.closers)), "call"))
    for section in forms.sections:
        stray.update(dict.fromkeys(filter(is_marker, section.closers), "call"))
    stray.update((param.closers[-1], "call") for param in params)
    for wrapper in wrappers:
        kind = "reasoning" if wrapper.channel == "reasoning" else "text"
        stray.update(dict.fromkeys(wrapper.closers, kind))
    if forms.frame is not None:
        stray.update(dict.fromkeys(forms.frame.ends, "text"))
    return stray


def _body_states(
    dialect: Dialect, frame: FrameForm | None, calls: list[Program], bare: list[Program]
) -> dict[str, TextState]:
    """Return a map from the target of a message header, such as ``content``, to the state inside its body.

    In a body, the parser recognises the next header, and markers that end the body.  The parser recognises
    calls only if the target is ``{calls}``, and bare calls also in content.  All other markup is text.
    """
    if frame is None:
        return {}
    boundaries = [program for program in frame.programs if not program.anchored]
    boundaries += [_stop_at_end(stop) for stop in dialect.stop]
    bodies = {
        into: TextState(channel, boundaries, closers=frame.ends, body=True)
        for into, channel in _BODY_CHANNELS.items()
    }
    bodies["{calls}"] = TextState("content", [*calls, *boundaries], closers=frame.ends, body=True)
    if bare:
        in_line = [program for program in bare if not program.anchored]
        for into, others in (("content", [*boundaries, *in_line]), ("{calls}", [*calls, *boundaries])):
            later = TextState("content", others, closers=frame.ends, body=True)
            bodies[into] = TextState(
                "content", [*bare, *others], closers=frame.ends, body=True, fresh=True, later=later
            )
    return bodies


# -- pass 6: prompt markers


def _compile_prompt_markers(dialect: Dialect, frame: FrameForm | None, states: TextStates) -> PromptMarkers:
    """Collect the markers at the end of a prompt that show where the output begins.

    This requires the text states, because a prompt is searched for the same markers as an output.
    """
    entries = states.fresh.entries
    # Words that are markers only at the start of an answer may be ordinary text elsewhere in a prompt.
    entries = {literal: entry for literal, entry in entries.items() if not entry.only_bare}
    found = {literal for literal, entry in entries.items() if frame is not None or not entry.only_at_start}
    if frame is not None:
        found.add(frame.sep)
    # A literal of one character, such as a bracket, is not a marker, unless it represents a special token.
    markers = MarkerSet(literal for literal in found if len(literal) > 1 or is_control_token(literal))
    first_words = {literal for literal, entry in entries.items() if entry.anchored and frame is None}
    closers = {closer for wrapper in states.inside for closer in wrapper.closers}
    stops = [stop for stop in dialect.stop if stop not in closers or not turn_markers(dialect)]
    format_markers = {
        *_format_markers(dialect),
        *(mark for mark in turn_markers(dialect) if mark in markers.literals),
    }
    templates = [*markers.literals, *dialect.call, *map(template_text, dialect.section), *dialect.param]
    templates += dialect.frame.fields if dialect.frame is not None else ()
    templates.append(dialect.values.quote)
    for other in dialect.also_accepts:
        templates += [*other.call, *other.param]
    return PromptMarkers(
        markers=markers,
        first_words=frozenset(first_words),
        turn_boundaries=(*stops, *turn_markers(dialect)),
        reasoning_pairs=[pair for pair in map(_around_text, dialect.reasoning) if all(pair)],
        format_markers=sorted(format_markers, key=len, reverse=True),
        first_openers=[_around_text(each)[0] for each in dialect.reasoning if only_at_start(each)],
        all_templates="\n".join(templates),
    )


def _around_text(template: str | declared.Wrapper) -> tuple[str, str]:
    """Return the opening and the closing marker of a wrapper, without whitespace around them."""
    before, after = text_around(template, "text")
    return before.strip(), after.strip()


def _format_markers(dialect: Dialect) -> Iterator[str]:
    """Yield the opening and closing markers of reasoning and content, except ordinary words."""
    for template in (*dialect.reasoning, *dialect.content):
        if not only_at_start(template):
            for part in _around_text(template):
                yield from filter(None, map(str.strip, part.split("{_}")))
