"""A compiled dialect: everything about a dialect that a machine looks up.

Theory of operation
-------------------

A ``Dialect`` is written for people: templates with holes.  ``compile_dialect`` (``compile.py``)
turns it into tables, once for each dialect and set of options.  Each table is the result of one
pass; later passes use earlier tables, never the other way round:

====================  =================================  ==================================
table                 answers                            made from
====================  =================================  ==================================
``DialectForms``      how a template is taken apart      the templates
``FollowSets``        what may come next                 the forms
``ParameterTable``    what may stand between two values  the forms, the follow sets
``CallPrograms``      how a call may begin, in text and  the forms, the follow sets
                      inside a section
``TextStates``        what a literal means, by state of  the call programs, and wrappers,
                      the text                           headers and markers to drop
``PromptMarkers``     which markers of a prompt matter   the text states
====================  =================================  ==================================

No table changes after its pass.  The only things that grow later are caches: of names, headers,
first looks at a marker, and starts of outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..scan.markers import MarkerSet
from .text_states import StartState, TextState

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from .follow_sets import FollowSets
    from .function_names import NameForms
    from .match_programs import Program
    from .message_frames import FrameForm
    from .template_forms import CallForm, ParamForm, SectionForm, Wrapper


class CompileOptions:
    """Options of ``compile_dialect``."""

    __slots__ = ("calls_in_reasoning", "has_declared_tools", "reads_calls", "repair")

    def __init__(
        self, *, reads_calls: bool, has_declared_tools: bool, calls_in_reasoning: bool, repair: bool
    ) -> None:
        self.reads_calls: Final = reads_calls
        """True if calls are looked for at all."""
        self.has_declared_tools: Final = has_declared_tools
        """True if the request declares tools."""
        self.calls_in_reasoning: Final = calls_in_reasoning
        """True if a call inside reasoning is a call."""
        self.repair: Final = repair
        """True if broken notation is repaired where that is possible."""


class DialectForms:
    """Templates of a dialect, taken apart."""

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
        """Parameters as declared."""
        self.frame: Final = frame


class ParameterTable:
    """Programs for what may stand between two values of a call."""

    __slots__ = ("call_programs", "form_of", "forms", "head_programs", "nested_programs")

    def __init__(
        self,
        forms: list[ParamForm],
        head_programs: list[Program],
        nested_programs: list[Program],
        call_programs: list[Program],
    ) -> None:
        self.forms: Final = forms
        """Ways to write a parameter: as declared, and without the tag that opens the value."""
        self.head_programs: Final = head_programs
        """Programs of the heads of parameters, the most demanding first."""
        self.nested_programs: Final = nested_programs
        """Programs of what may stand in place of a nested parameter."""
        self.call_programs: Final = call_programs
        """Programs of calls inside a value; these are data."""
        self.form_of: Final = {form.head: form for form in forms}
        """The form of each program of a head."""


class CallPrograms:
    """Programs for the places where a call may begin."""

    __slots__ = ("in_text", "next_in_section", "resync")

    def __init__(
        self,
        in_text: list[Program],
        next_in_section: Mapping[SectionForm, list[Program]],
        resync: Mapping[SectionForm, MarkerSet],
    ) -> None:
        self.in_text: Final = in_text
        """Programs of calls and empty sections in running text."""
        self.next_in_section: Final = next_in_section
        """Programs of what may follow a call, by the section that is open."""
        self.resync: Final = resync
        """Literals at which a malformed call ends, by the section that is open."""


class TextStates:
    """States of running text."""

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
        """Content in front of all visible text."""
        self.content: Final = content
        """Content after the first visible text."""
        self.inside: Final = inside
        """The state inside each wrapper."""
        self.bodies: Final = bodies
        """The state inside the body of a message, by where its route leads."""
        self.call_openers: Final = call_openers
        """Literals that stand in front of a call's arguments, and nowhere else."""


class PromptMarkers:
    """Markers in a prompt that tell where the output begins; see ``start_state.py``."""

    __slots__ = (
        "_all_templates",
        "first_openers",
        "first_words",
        "framing",
        "markers",
        "reasoning_pairs",
        "saved_starts",
        "turn_borders",
        "usual_tail",
    )

    def __init__(
        self,
        *,
        markers: MarkerSet,
        first_words: frozenset[str],
        turn_borders: Sequence[str],
        reasoning_pairs: Sequence[tuple[str, str]],
        framing: Sequence[str],
        first_openers: Sequence[str],
        all_templates: str,
    ) -> None:
        self.markers: Final = markers
        """Every literal that means something in running text."""
        self.first_words: Final = first_words
        """Ordinary words that begin a call or reasoning only at the start of an answer."""
        self.turn_borders: Final = turn_borders
        """Literals between two turns of a prompt."""
        self.reasoning_pairs: Final = reasoning_pairs
        """Openers of reasoning with their closers."""
        self.framing: Final = framing
        """Literals that a template may put between the last message and the output, longest first."""
        self.first_openers: Final = first_openers
        """Ordinary words that open reasoning at the start of an answer."""
        self._all_templates: Final = all_templates
        # Caches.
        self.usual_tail: str | None = None
        """End of the prompt that the dialect assumes if no prompt is given; computed when it is needed."""
        self.saved_starts: Final[dict[str, StartState]] = {}
        """Saved start states, by the end of the prompt."""

    def knows(self, token: str) -> bool:
        """Return whether a control token is part of the dialect's own markup."""
        return token in self._all_templates


class CompiledDialect:
    """A dialect as the machine reads it."""

    __slots__ = (
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
    ) -> None:
        self.dialect: Final = dialect
        self.reads_calls: Final = reads_calls
        """True if calls are looked for at all."""
        self.forms: Final = forms
        self.frame: Final = forms.frame
        """The form of messages with headers; None if the dialect has none."""
        self.follow: Final = follow
        self.params: Final = params
        self.programs: Final = programs
        self.states: Final = states
        self.prompt: Final = prompt
        self.names: Final = names
        self._owners: Final = owners
        self.unescape: Final = dialect.values.unescape
        """True if attributes are escaped as in XML."""
        routes = dialect.frame.routes if dialect.frame is not None else ()
        self.has_reasoning: Final = bool(dialect.reasoning) or any(r.into == "reasoning" for r in routes)
        """True if an output may contain reasoning."""
        self.repetitions: Final = [template for template in dialect.drop if "{calls}" in template]
        """Templates of a section's calls repeated after it, which are dropped."""

    def owner_of(self, form: CallForm) -> CompiledDialect:
        """Return the dialect that a call is written in: this one, or one that it also accepts."""
        return self._owners.get(form, self)
