"""What may follow what: the literals that confirm, end or resume something, as searches.

Values are not escaped in tagged dialects, and calls break.  What a marker is
often depends on what stands behind it; all such sets of literals are put
together here, once for a dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...dialects._templates import is_marker
from ..scan.markers import MarkerSet, ValueMarkerSet

if TYPE_CHECKING:
    from .forms import CallForm, FrameForm, ParamForm, SectionForm


class Follow:
    """Searches for what may come next, by what came before."""

    __slots__ = (
        "_enders",
        "_in_value",
        "after_call",
        "after_name",
        "after_nested",
        "after_params",
        "after_value",
        "call_closers",
        "code_ends",
        "first_param",
        "heads",
        "openers",
        "resync",
        "tree_watch",
    )

    def __init__(
        self,
        forms: Sequence[CallForm],
        sections: Sequence[SectionForm],
        params: Sequence[ParamForm],
        frame: FrameForm | None,
        stops: tuple[str, ...],
    ) -> None:
        ends = (*frame.ends, *frame.openers) if frame is not None else ()
        heads = [param.head.trigger for param in params]
        nested = [*(param.closing.trigger for param in params), *heads]
        openers = [form.opener for form in forms if form.opener]
        openers += [section.opener for section in sections if section.opener]
        call_closers = [form.closers[0] for form in forms if form.closers]
        call_closers += [form.unended for form in forms if form.unended]
        # A lone bracket is a marker only inside its section.
        section_closers = [
            literal for section in sections for literal in section.closers if is_marker(literal)
        ]
        over = [*call_closers, *section_closers, *openers, *ends, *stops]

        self.heads: Final = MarkerSet(heads)
        """What may begin a parameter."""
        self.call_closers: Final = MarkerSet([*call_closers, *ends])
        self.first_param: Final = MarkerSet([*heads, *call_closers])
        """What may follow a name that parameters follow."""
        self.after_name: Final = MarkerSet([*openers, *stops])
        """What may follow a name that nothing follows."""
        self.after_params: Final = MarkerSet(over)
        """What may stand where another parameter could."""
        self.after_value: Final = MarkerSet([*heads, *over])
        """What must follow a closing tag for it to count."""
        self.after_nested: Final = MarkerSet([*nested, *over])
        """What must follow the closing tag of a nested parameter for it to count."""
        self.after_call: Final = MarkerSet([*section_closers, *openers, *ends])
        """What must follow a call's closer for it to end a value that was not closed."""
        self.tree_watch: Final = ValueMarkerSet([*nested, *call_closers])
        """What to look at inside a nested value."""
        self.code_ends: Final = ValueMarkerSet([*over, *("\n" + literal for literal in call_closers)])
        """What ends raw code; the line feed before a closer belongs to it."""
        # A code fence may stand in the arguments, so that it ends a call only where nothing else does,
        # and what is part of a parameter's tags never does.
        inner = {step.text for param in params for step in (*param.head.steps, *param.closing.steps)}
        closers = [
            literal
            for form in forms
            for literal in (list(filter(is_marker, form.closers)) or form.closers)
            if literal not in inner
        ]
        self._enders: Final = [*closers, *section_closers, *openers, *ends]
        self.resync: Final = MarkerSet(self._enders)
        """Where a malformed call ends, if it is in no section."""

        soft = [*heads, *call_closers]
        self.openers: Final = frozenset(
            form.opener for form in forms if form.opener and form.payload == "params"
        )
        """What may begin a call in a value that holds one."""
        self._in_value: Final = [*soft, *("\n" + literal for literal in soft), *stops, *sorted(self.openers)]
        for param in params:
            self.watch_value(param)

    def watch_value(self, param: ParamForm) -> None:
        """Tell a parameter what to look at inside its value."""
        seen = [*param.closers, *self._in_value]
        param.watch = ValueMarkerSet([*seen, param.forgotten] if param.forgotten else seen)

    def resync_in(self, section: SectionForm) -> MarkerSet:
        """Where a malformed call of this section ends."""
        return MarkerSet([*self._enders, *section.closers])
