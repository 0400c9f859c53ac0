"""Parameters in markup: what flat and nested ones have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compiler.codec import Codec
from ..compiler.matcher import NEED_MORE, Matcher
from ..scan.runs import BOUND, skip_whitespace
from ..schema.typed_values import Slot
from .json_value import duplicate_keys

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..compiler.programs import Program
    from ..schema.tools import Tools, ValueType


class Parameters(Codec):
    """The parameters of one call, up to its closer."""

    __slots__ = (
        "_confirms",
        "_cut",
        "_function",
        "_held",
        "_programs",
        "_syntax",
        "_tools",
        "_trial",
        "_untyped",
    )

    def __init__(
        self,
        syntax: CompiledDialect,
        tools: Tools,
        function: str,
        policies: Policies,
        programs: list[Program],
    ) -> None:
        """``programs``: what may stand between values."""
        super().__init__()
        self._syntax: Final = syntax
        self._tools: Final = tools
        self._function: Final = function
        self._programs: Final = programs
        self._confirms: Final = policies.close_in_value == "confirmed"
        self._untyped: Final = policies.schemaless_value == "string"
        self._trial: Matcher | None = None  # the one that waits for more
        self._held = False  # the step has come to what may still become something else
        self._cut = False  # the input or the turn ended where something was to follow

    def _new_trial(self) -> Matcher:
        return Matcher(self._programs, self._syntax.unescape)

    def _ends_in_tag(self, buf: str, pos: int) -> bool:
        """Whether the input ended inside a tag that is not the call's closer."""
        if self._syntax.follow.call_closers.pending(buf, pos):
            return False
        return self._new_trial().run(buf, pos, False) == NEED_MORE

    def _lacks(self, given: AbstractSet[str]) -> bool:
        """Whether these are not all the parameters that the function must have."""
        return not self._tools.required(self._function) <= given

    def _wait_for_turn_end(self, buf: str, end: int, final: bool) -> None:
        """The turn seems to end at ``end``, in a call that lacks what it must have: so it was cut.

        If anything follows, it did not end, and the call is malformed.
        """
        after = skip_whitespace(buf, end)
        if after < len(buf) or after - end > BOUND:
            self.error = "a required parameter"
        self._cut = final
        self._held = True

    def _slot_for(self, kind: ValueType, attributes: dict[str, str]) -> Slot:
        """Where a value goes that has these attributes."""
        return Slot(
            kind,
            declared_type(attributes),
            untyped_is_string=self._untyped and "string" not in attributes,
            python_values=self._syntax.dialect.values.python,
        )

    def _value_of(self, slot: Slot, raw: str, at: int) -> str:
        """JSON for a value that did not stream."""
        value, note = slot.value(raw)
        if note:
            self.notes.append((note, raw.strip(" \t\r\n")[:80], at))
        if value[0] in "{[":
            self.notes.extend(("duplicate_argument", key, at) for key in duplicate_keys(value))
        return value


def declared_type(attributes: dict[str, str]) -> str:
    """What an attribute says that a value is."""
    return attributes.get("string", attributes.get("type", ""))
