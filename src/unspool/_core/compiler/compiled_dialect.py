"""Compiled dialect: all tables that a machine needs to read a dialect.

Theory of operation
-------------------

A ``Dialect`` consists of templates, which are easy for people to write and read. ``compile_dialect`` (in
``compile.py``) turns these templates into tables, once for each dialect and set of options.  Each pass of the
compiler creates one table, from earlier tables only:

====================  =================================  ==================================
table                 contains                           made from
====================  =================================  ==================================
``DialectForms``      the parts of each template         the templates
``FollowSets``        the literals that may come next    the forms
``ParameterTable``    the markup between two values      the forms, the follow sets
``CallPrograms``      ways in which a call may begin     the forms, the follow sets
``TextStates``        the meaning of each literal in     the call programs, and wrappers,
                      each state outside calls           headers and markers to drop
``PromptMarkers``     the markers to find in a prompt    the text states
====================  =================================  ==================================

No table changes after its pass, except for these caches: names, headers, results of
``Entry.quick_match``, start states, ``CallPrograms.beginnings``, and the tables of ``DriftedDialect``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..scan.markers import MarkerSet
from .match_program_types import CALL, ENVELOPE, PEEK, Program, Step
from .states_outside_calls import StartState, TextState

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from .compile import DriftedDialect
    from .follow_sets import FollowSets
    from .message_headers import FrameForm
    from .split_name_and_id import NameForms
    from .split_templates import CallForm, ParamForm, SectionForm, Wrapper


class CompileOptions:
    """Options of ``compile_dialect`` that do not come from the dialect."""

    __slots__ = ("calls_in_reasoning", "has_declared_tools", "reads_calls", "repair")

    def __init__(
        self, *, reads_calls: bool, has_declared_tools: bool, calls_in_reasoning: bool, repair: bool
    ) -> None:
        self.reads_calls: Final = reads_calls
        """True if calls are recognised; otherwise they are text."""
        self.has_declared_tools: Final = has_declared_tools
        """True if the request declares tools."""
        self.calls_in_reasoning: Final = calls_in_reasoning
        """True if calls inside reasoning are recognised; otherwise they are text."""
        self.repair: Final = repair
        """True if invalid syntax is repaired where possible."""


class DialectForms:
    """Parts of all templates of a dialect."""

    __slots__ = ("calls", "frame", "params", "sections")

    def __init__(
        self,
        calls: list[CallForm],
        sections: list[SectionForm],
        params: list[ParamForm],
        frame: FrameForm | None,
    ) -> None:
        self.calls: Final = calls
        self.sections: Final = sections
        self.params: Final = params
        """Ways to write a parameter, as declared in the dialect."""
        self.frame: Final = frame


class ParameterTable:
    """Programs for the markup between two values of a call."""

    __slots__ = (
        "call_programs",
        "compact_programs",
        "form_of",
        "forms",
        "head_programs",
        "nested_programs",
    )

    def __init__(
        self,
        forms: list[ParamForm],
        head_programs: list[Program],
        nested_programs: list[Program],
        call_programs: list[Program],
    ) -> None:
        self.forms: Final = forms
        """Forms of a parameter: as the dialect declares them, and without the tag that opens the value."""
        self.head_programs: Final = head_programs
        """Programs for the text before a parameter's value; this text includes the key.

        Programs with longer literals come first.
        """
        inline = [form.head for form in forms if form.inline]
        self.compact_programs: Final = inline if len(inline) < len(forms) else []
        """Programs of ``head_programs`` for parameters without newlines next to the value.

        Only these programs apply to a call without a newline after its head.  The list is empty
        if all parameters of the dialect are with newlines, or if all are without newlines."""
        self.nested_programs: Final = nested_programs
        """Programs for the start and the end of nested parameters."""
        self.call_programs: Final = call_programs
        """Programs for calls that a value quotes.  Such a call is part of the value, and is not executed."""
        self.form_of: Final = {form.head: form for form in forms}
        """Map from each program in ``head_programs`` to the parameter form that it was made from."""


class CallPrograms:
    """Programs that match the beginning of a call."""

    __slots__ = ("_beginnings", "_declared", "in_text", "next_in_section", "resync")

    def __init__(
        self,
        in_text: list[Program],
        next_in_section: Mapping[SectionForm, list[Program]],
        resync: Mapping[SectionForm, MarkerSet],
        declared: list[Program],
    ) -> None:
        """Create the table.

        :param declared: the programs of ``in_text``, except those for drifted markers (see ``drift.py``).
        """
        self.in_text: Final = in_text
        """Programs for calls and empty sections that begin in ordinary text."""
        self.next_in_section: Final = next_in_section
        """Map from the open section to the programs for the text after one of its calls."""
        self.resync: Final = resync
        """Map from the open section to the literals at which a malformed call in this section ends."""
        self._declared: Final = declared
        self._beginnings: Final[dict[str, list[Program]]] = {}

    def beginnings(self, literal: str) -> list[Program]:
        """Return programs that check whether a call really begins at this literal.

        The programs end before the object of an envelope, which may be long.
        """
        found = self._beginnings.get(literal)
        if found is None:
            found = self._beginnings[literal] = []
            for programs in (self._declared, *self.next_in_section.values()):
                for program in programs:
                    if program.action == CALL and program.trigger == literal:
                        steps = [Step(PEEK, "{") if step.kind == ENVELOPE else step for step in program.steps]
                        found.append(Program(CALL, steps, call=program.call))
        return found


class TextStates:
    """States of the parser outside calls, each with the markers that it looks for."""

    __slots__ = ("bodies", "call_openers", "content", "fresh", "inside")

    def __init__(
        self,
        fresh: TextState,
        content: TextState,
        inside: Mapping[Wrapper, TextState],
        bodies: Mapping[str, TextState],
        call_openers: frozenset[str],
    ) -> None:
        self.fresh: Final = fresh
        """State of content before the first visible text."""
        self.content: Final = content
        """State of content after the first visible text."""
        self.inside: Final = inside
        """Map from each wrapper around reasoning, content or dropped text to the state inside it."""
        self.bodies: Final = bodies
        """Map from the target of a header, such as ``content``, to the state inside the message's body."""
        self.call_openers: Final = call_openers
        """Literals that occur only before a call's arguments."""


class PromptMarkers:
    """Markers in a prompt that show where the output begins; see ``read_prompt_end.py``."""

    __slots__ = (
        "_all_templates",
        "first_openers",
        "first_words",
        "format_markers",
        "markers",
        "reasoning_pairs",
        "saved_starts",
        "turn_boundaries",
        "usual_tail",
    )

    def __init__(
        self,
        *,
        markers: MarkerSet,
        first_words: frozenset[str],
        turn_boundaries: Sequence[str],
        reasoning_pairs: Sequence[tuple[str, str]],
        format_markers: Sequence[str],
        first_openers: Sequence[str],
        all_templates: str,
    ) -> None:
        self.markers: Final = markers
        """All literals that have a meaning in text outside calls."""
        self.first_words: Final = first_words
        """Ordinary words that begin a call or reasoning if they are at the start of an answer."""
        self.turn_boundaries: Final = turn_boundaries
        """Literals between two turns of a prompt."""
        self.reasoning_pairs: Final = reasoning_pairs
        """Pairs of an opening and a closing reasoning marker."""
        self.format_markers: Final = format_markers
        """Literals that a chat template may write between the last message and the output, longest first."""
        self.first_openers: Final = first_openers
        """Ordinary words that open reasoning at the start of an answer."""
        self._all_templates: Final = all_templates
        # Caches.
        self.usual_tail: str | None = None
        """Relevant tail (see ``read_prompt_end.py``) of the default prompt; None until it is needed."""
        self.saved_starts: Final[dict[str, StartState]] = {}
        """Saved start states, keyed by the relevant tail of the prompt."""

    def knows(self, token: str) -> bool:
        """Return whether a control token occurs in the dialect's markup."""
        return token in self._all_templates


class CompiledDialect:
    """Tables from which the machine reads a dialect."""

    __slots__ = (
        "_drifted",
        "_owners",
        "dialect",
        "follow",
        "forms",
        "frame",
        "has_reasoning",
        "names",
        "params",
        "programs",
        "prompt",
        "reads_calls",
        "repetitions",
        "states",
        "unescape",
    )

    def __init__(
        self,
        dialect: Dialect,
        *,
        reads_calls: bool,
        forms: DialectForms,
        follow: FollowSets,
        params: ParameterTable,
        programs: CallPrograms,
        states: TextStates,
        prompt: PromptMarkers,
        names: NameForms,
        owners: Mapping[CallForm, CompiledDialect],
        drifted: Sequence[DriftedDialect],
    ) -> None:
        self.dialect: Final = dialect
        self.reads_calls: Final = reads_calls
        """True if calls are recognised; otherwise they are text."""
        self.forms: Final = forms
        self.frame: Final = forms.frame
        """Form of messages with headers; None if messages in this dialect have no headers."""
        self.follow: Final = follow
        self.params: Final = params
        self.programs: Final = programs
        self.states: Final = states
        self.prompt: Final = prompt
        self.names: Final = names
        self._owners: Final = owners
        self._drifted: Final[dict[object, DriftedDialect]] = {
            form: each for each in drifted for form in (*each.forms.calls, *each.forms.sections)
        }
        self.unescape: Final = dialect.habits.unescape
        """True if attributes are escaped as in XML."""
        routes = dialect.frame.routes if dialect.frame is not None else ()
        self.has_reasoning: Final = bool(dialect.reasoning) or any(r.into == "reasoning" for r in routes)
        """True if an output may contain reasoning."""
        self.repetitions: Final = dialect.habits.repeated_calls
        """Templates for a second copy of a section's calls.  Some models write this copy directly after the
        section; it is dropped."""

    def owner_of(self, form: CallForm) -> CompiledDialect:
        """Return the dialect that declares a form of calls: this dialect, or one that it accepts."""
        drifted = self._drifted.get(form) if self._drifted else None
        return self._owners.get(form, self) if drifted is None else drifted.compiled

    def programs_of(self, section: SectionForm) -> CallPrograms:
        """Return the table that contains the programs for the text inside a section."""
        drifted = self._drifted.get(section) if self._drifted else None
        return self.programs if drifted is None else drifted.compiled.programs
