"""Base class of the codecs for flat and nested tagged parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compiler.argument_codec_base import Codec
from ..compiler.matcher import FAIL, MATCH, NEED_MORE, Matcher, follows
from ..scan.character_runs import BOUND, skip_whitespace
from ..schema.text_to_value import Slot
from .json_value import duplicate_keys

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..compiler.match_program_types import Program
    from ..scan.markers import MarkerSet
    from ..schema.tools import Tools, ValueType


_JSON_TYPES: Final = ("string", "number", "boolean", "null", "array", "object")


class Parameters(Codec):
    """Base class of codecs for the tagged parameters of one call, up to the call's closing marker."""

    __slots__ = (
        "_compiled",
        "_confirms",
        "_cut",
        "_function",
        "_held",
        "_matcher",
        "_programs",
        "_tools",
        "_untyped",
    )

    def __init__(
        self,
        compiled: CompiledDialect,
        tools: Tools,
        function: str,
        policies: Policies,
        programs: list[Program],
    ) -> None:
        """Create a codec.

        :param programs: compiled templates of everything that may appear between two values.
        """
        super().__init__()
        self._compiled: Final = compiled
        self._tools: Final = tools
        self._function: Final = function
        self._programs = programs
        self._confirms: Final = policies.close_in_value == "confirmed"
        self._untyped: Final = policies.schemaless_value == "string"
        self._matcher: Matcher | None = None  # An unfinished match that needs more input.
        self._held = False  # The step stopped at text whose meaning depends on input that has not arrived.
        self._cut = False  # The input or the turn ended before the call was complete.

    def _new_matcher(self) -> Matcher:
        return Matcher(self._programs, self._compiled.unescape)

    def _ends_in_tag(self, buf: str, pos: int) -> bool:
        """Return whether the input may end inside a tag that is not the closing marker of the call."""
        if self._compiled.follow.call_closers.pending(buf, pos):
            return False
        return self._new_matcher().run(buf, pos, False) == NEED_MORE

    def _confirmed_by(self, literal: str, markers: MarkerSet, buf: str, at: int, final: bool) -> int:
        """Check whether the marker ``literal`` at ``at`` really shows that the value has ended.

        The opening marker of a call or a section counts only if a call begins there.  While a required
        parameter is missing, the closing marker of a call in a section counts only if the next call or the
        end of the section follows.
        """
        compiled = self._compiled
        follow = compiled.follow
        if literal in markers.prefixes and not final and markers.pending(buf, at):
            return NEED_MORE  # it may be the beginning of a longer literal
        if literal in follow.heads.literals:
            return MATCH
        programs = compiled.programs.beginnings(literal)
        if programs:
            answer = Matcher(programs, compiled.unescape).run(buf, at, final)
            return answer if answer in (FAIL, NEED_MORE) else MATCH
        if follow.sections_close and literal in follow.call_closers.literals and self._lacks_required():
            return follows(follow.after_section_call, buf, at + len(literal), final)
        return MATCH

    def _lacks_required(self) -> bool:
        """Return whether a required parameter is missing."""
        raise NotImplementedError

    def _lacks(self, keys: AbstractSet[str]) -> bool:
        """Return whether ``keys`` lacks a required parameter of the function."""
        return not self._tools.required(self._function) <= keys

    def _wait_for_turn_end(self, buf: str, end: int, final: bool) -> None:
        """Treat a call as truncated if the turn ends at ``end`` and a required parameter is missing.

        If more text follows, the turn did not end there, and the call is malformed.
        """
        after = skip_whitespace(buf, end)
        if after < len(buf) or after - end > BOUND:
            self.error = "a required parameter"
        self._cut = final
        self._held = True

    def _slot_for(self, kind: ValueType, attributes: dict[str, str]) -> Slot:
        """Return the conversion for a value, which depends on its schema and the attributes of its tag."""
        return Slot(
            kind,
            self._declared_type(attributes),
            untyped_is_string=self._untyped and "string" not in attributes,
            python_values=self._compiled.dialect.values.python,
        )

    def _declared_type(self, attributes: dict[str, str]) -> str:
        """Return the type that the attributes of a tag declare.

        A word of the dialect's own becomes the JSON type that it stands for.
        """
        declared = declared_type(attributes)
        words = self._compiled.dialect.habits.type_words
        return _JSON_TYPES[words.index(declared)] if declared in words else declared

    def _value_of(self, slot: Slot, raw: str, at: int) -> str:
        """Convert the complete text of a value to JSON, and add diagnostics about problems with the value."""
        value, note = slot.value(raw)
        if note:
            self.diagnostics.append((note, raw.strip(" \t\r\n")[:80], at))
        if value[0] in "{[":
            self.diagnostics.extend(("duplicate_argument", key, at) for key in duplicate_keys(value))
        return value


def declared_type(attributes: dict[str, str]) -> str:
    """Return the type that an attribute of a tag declares, or an empty string."""
    return attributes.get("string", attributes.get("type", ""))
