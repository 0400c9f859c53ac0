"""Follow sets: the literals that may come next at each position in a call.

Values between tags are not escaped, and models leave calls unfinished.  The meaning of a marker therefore
often depends on the text after it.  For example, ``</parameter>`` closes a value only if another parameter,
the end of the call or another literal of ``after_value`` follows.  Like the FOLLOW sets of a
grammar, these sets are computed in advance, from all templates of a dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...dialects.parse_templates import is_marker
from ..scan.markers import MarkerSet, ValueMarkerSet

if TYPE_CHECKING:
    from .message_headers import FrameForm
    from .split_templates import CallForm, ParamForm, SectionForm


class FollowSets:
    """Sets of literals to search for, one set for each position in a call."""

    __slots__ = (
        "_in_value",
        "after_call",
        "after_name",
        "after_nested",
        "after_params",
        "after_section_call",
        "after_value",
        "call_closers",
        "code_ends",
        "first_param",
        "heads",
        "more_closers",
        "nested_value_markers",
        "openers",
        "resync",
        "section_change",
        "section_openers",
        "section_resync",
        "sections_close",
    )

    def __init__(
        self,
        calls: Sequence[CallForm],
        sections: Sequence[SectionForm],
        params: Sequence[ParamForm],
        frame: FrameForm | None,
        stops: tuple[str, ...],
    ) -> None:
        """Compute the sets, and set the ``value_markers`` of each parameter."""
        message_ends = (*frame.ends, *frame.openers) if frame is not None else ()
        heads = [param.head.trigger for param in params]
        nested = [*(param.closing.trigger for param in params), *heads]
        openers = [form.opener for form in calls if form.opener]
        openers += [section.opener for section in sections if section.opener]
        call_closers = [form.closers[0] for form in calls if form.closers]
        call_closers += [form.unended for form in calls if form.unended]
        # A closing literal that consists of a single bracket is a marker only inside its section.
        section_closers = [
            literal for section in sections for literal in section.closers if is_marker(literal)
        ]
        section_openers = [section.opener for section in sections if is_marker(section.opener)]
        after_params = [*call_closers, *section_closers, *openers, *message_ends, *stops]

        self.heads: Final = MarkerSet(heads)
        """Literals with which a parameter may start."""
        self.call_closers: Final = MarkerSet([*call_closers, *message_ends])
        """Literals that close a call."""
        self.first_param: Final = MarkerSet([*heads, *call_closers])
        """Literals that may follow the name of a call with parameters."""
        self.after_name: Final = MarkerSet([*openers, *stops])
        """Literals that may follow the name in a call without arguments."""
        self.after_params: Final = MarkerSet(after_params)
        """Literals that may follow the last parameter of a call."""
        self.after_value: Final = MarkerSet([*heads, *after_params])
        """Literals that may follow the closing tag of a value; if other text follows, the tag is data."""
        self.after_nested: Final = MarkerSet([*nested, *after_params])
        """Literals that may follow the closing tag of a nested parameter."""
        more_closers = [closer for form in calls for closer in form.closers[1:]]
        self.after_section_call: Final = MarkerSet(
            [*more_closers, *section_closers, *openers, *message_ends, *stops]
        )
        """Literals that may follow the first closing literal of a call in a section."""
        self.sections_close: Final = bool(section_closers)
        """True if sections of calls have closing markers."""
        self.after_call: Final = MarkerSet([*section_closers, *openers, *message_ends])
        """Literals that may follow a complete call.  In a value without a closing tag, a call's closing
        marker ends the value only if one of these literals follows the marker."""
        self.nested_value_markers: Final = ValueMarkerSet([*nested, *call_closers])
        """Literals to search for inside a nested value."""
        self.code_ends: Final = ValueMarkerSet([*after_params, *("\n" + closer for closer in call_closers)])
        """Literals that end raw code.  A newline before a closing marker is part of the marker."""
        # The literals at which a malformed call ends.  A closing literal that ordinary text may contain, such
        # as a code fence, may also occur in arguments.  It is used only if the call has no other closing
        # literal.  A literal that is part of a parameter's tags never ends a call.
        of_params = {step.text for param in params for step in (*param.head.steps, *param.closing.steps)}
        closers = [
            literal
            for form in calls
            for literal in (list(filter(is_marker, form.closers)) or form.closers)
            if literal not in of_params
        ]
        resync = [*closers, *section_closers, *openers, *message_ends]
        self.resync: Final = MarkerSet(resync)
        """Literals at which a malformed call ends, if it is not in a section."""
        self.section_resync: Final = {section: MarkerSet([*resync, *section.closers]) for section in sections}
        """Map from a section to the literals at which a malformed call in this section ends."""

        # A newline before markup is part of the markup.  Values are therefore searched for each literal with
        # and without a newline.
        inside = [*heads, *call_closers]
        self.openers: Final = frozenset(
            form.opener for form in calls if form.opener and form.payload == "params"
        )
        """Literals that may start a quoted call inside a value.  Such a call is data."""
        self.section_openers: Final = frozenset(section_openers) - self.openers
        """Literals that start a section of calls.  A value with such a literal quotes a whole section."""
        self.more_closers: Final = MarkerSet(more_closers)
        """Literals that may follow the first closing literal of a call."""
        steps = [MarkerSet(step) for step in (section_closers, self.section_openers, self.openers)]
        self.section_change: Final = (
            (MarkerSet(call_closers), self.more_closers, *steps)
            if call_closers and frame is None and all(step.literals for step in steps)
            else ()
        )
        """Sets of literals between the last value of a section and the first call of the next section, in
        order.  A literal of the second set is optional."""
        self._in_value: Final = [
            *inside,
            *("\n" + literal for literal in inside),
            *stops,
            *sorted(self.openers),
            *sorted(self.section_openers),
        ]
        for param in params:
            self.set_value_markers(param)

    @staticmethod
    def heads_of(calls: Sequence[CallForm], params: Sequence[ParamForm]) -> MarkerSet:
        """Return only the set ``first_param``, without computing all sets."""
        heads = [param.head.trigger for param in params]
        return MarkerSet([*heads, *(form.closers[0] for form in calls if form.closers)])

    def set_value_markers(self, param: ParamForm) -> None:
        """Set ``value_markers`` of a parameter, the literals to search for inside its value."""
        literals = [*param.closers, *self._in_value]
        param.value_markers = ValueMarkerSet([*literals, param.forgotten] if param.forgotten else literals)
