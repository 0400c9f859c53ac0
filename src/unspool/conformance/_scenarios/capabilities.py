"""What a dialect can express, by rule, out of its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..._core.scan.control_tokens import is_control_token
from ...dialects._declaration import Dialect
from ...dialects._registry import facts_of
from ...dialects._templates import PAYLOADS, Hole, literals, parse_template, split_at, split_marks
from .message_parts import Call, Say, Thought

ONE_CALL: Final = {"gigachat3": "a turn has one call"}


class Able:
    """What a dialect can express, and why not where it cannot."""

    def __init__(self, dialect: Dialect) -> None:
        frame = dialect.frame
        routes = [route for route in frame.routes if route.header] if frame is not None else []
        into = {route.into: route.header for route in routes}
        calls = [header for hole, header in into.items() if hole.startswith("{")]
        self.dialect: Final = dialect
        self.framed: Final = frame is not None
        template = next(
            (hole for hole in into if hole in ("{args}", "{params}")), dialect.call[0] if dialect.call else ""
        )
        _, payload, _ = split_at(parse_template(template), *PAYLOADS)
        field = payload.field if payload is not None else ""
        notation = (payload.notation if payload is not None else "") or dialect.args
        self.calls: Final = bool(field)
        self.tagged: Final = field == "params"
        self.notation: Final = "tagged" if self.tagged else notation
        """How arguments are written: ``json``, ``python``, ``loose``, ``bare`` or ``tagged``."""
        self.verbatim: Final = self.notation == "json"
        """Arguments are JSON, and stay as they are."""
        self.enveloped: Final = field == "envelope"
        """The name is in the same object as the arguments."""
        self.sorts: Final = dialect.args == "bare"
        """The templates of this notation sort keys, and so do the models."""
        self.carries_ids: Final = self.calls and (
            "{id}" in "".join([template, *calls])
            or dialect.names.forms[0] == dialect.id_format.pattern
            or (self.enveloped and "id" in dialect.envelope.order)
        )
        self.wrapped: Final = bool(dialect.content)
        """Content has a wrapper of its own."""
        self.anchored: Final = self.calls and dialect.section[0].startswith("^")
        """Calls count only at the beginning."""
        self.marked: Final = self.framed or (self.calls and not isinstance(parse_template(template)[0], Hole))
        """A call has an opening marker of its own."""
        self.end: Final = self._end(template)
        """What ends a call, or the calls."""
        self.thinks: Final = ("reasoning" in into) if self.framed else bool(dialect.reasoning)
        self.lacks: Final = self._lacks(template)
        """What it cannot express, and why."""

    def _lacks(self, template: str) -> dict[str, str]:  # noqa: C901 - one question after the other
        dialect = self.dialect
        found: dict[str, str] = {}
        if not self.calls:
            found["calls"] = "it has no calls"
        if dialect.names.fixed:
            found["name"] = "every call is one of the same function"
        if not self.thinks:
            found["reasoning"] = "it has no reasoning"
        elif not self.framed and split_marks(dialect.reasoning[0])[0]:
            found["late reasoning"] = "reasoning counts only at the beginning"
        if dialect.name in ONE_CALL:
            found["parallel"] = ONE_CALL[dialect.name]
        if self.anchored:
            found["before"] = "calls count only where no text came before"
        if dialect.args == "loose":
            found["escapes"] = "strings are written without escapes"
        if not self.end:
            found["end"] = "no marker ends a call"
        elif self.framed and self.tagged:
            found["end"] = "a control token ends the message, wherever it stands"
        if self.calls and not self.marked:
            found["marker"] = (
                "a call has no marker of its own, so that nothing tells where the next one begins"
            )
        elif self.calls and not self.tagged and not self.verbatim:
            found["marker"] = "what is broken in this notation is a matter of taste"
        elif self.tagged and not self.framed and _name_is_open(template):
            found["marker"] = "the name ends where the parameters begin"
        if not self.wrapped or self.framed:
            found["wrapper"] = "content has no wrapper"
        if not dialect.stop:
            found["stop"] = "nothing ends a turn"
        if self.framed:
            found["prose"] = "text stands in messages with a header"
        facts = facts_of(dialect)
        if "json" not in facts.forced:
            for choice in ("required", "named"):
                found[choice] = f"a forced call ({choice}) is written in its own markup"
        thinking = facts.thinking
        if (thinking.default == "off" or thinking.json_off) and thinking.when_off != "read":
            found["forced reasoning"] = "it does not reason before forced calls unless told to"
        elif thinking.named_off and thinking.when_off != "read":
            found["named reasoning"] = "it does not reason where the function is named"
        return found

    def _end(self, template: str) -> str:
        frame = self.dialect.frame
        if frame is not None:
            return frame.call_end or (frame.ends[0] if frame.ends else "")
        for whole in (template, self.dialect.section[0].lstrip("^?")):
            before, _, after = split_at(parse_template(whole), "calls", *PAYLOADS)
            array = bool(before) and before[-1].text.endswith("[")
            text = "".join(piece.text for piece in after).strip()
            if text := text.removeprefix("]").strip() if array else text:
                return text.split("\n")[-1]
        return ""

    def needs(self, parts: Sequence[Say]) -> set[str]:
        """What it takes to say this."""
        found: set[str] = set()
        calls = [i for i, part in enumerate(parts) if isinstance(part, Call)]
        texts = [i for i, part in enumerate(parts) if isinstance(part, str)]
        thoughts = [i for i, part in enumerate(parts) if isinstance(part, Thought)]
        if calls:
            found |= {"calls", "name"}
        if len(calls) > 1:
            found.add("parallel")
        if calls and texts and texts[0] < calls[-1]:
            found.add("before")
        if thoughts:
            found.add("reasoning")
        if thoughts and thoughts[-1] > 0:
            found.add("late reasoning")
        return found

    def why_not(self, needs: set[str]) -> str:
        """Why a scenario that takes all this is left out; empty if it is not."""
        return "; ".join(self.lacks[need] for need in sorted(needs & self.lacks.keys()))

    def opener(self, wrappers: Sequence[str]) -> str:
        """What opens a wrapper, with the white space that the template writes behind it."""
        before, _, _ = split_at(parse_template(split_marks(wrappers[0])[1]), "text")
        return "".join(piece.text for piece in before if not isinstance(piece, Hole))

    def closer(self, wrappers: Sequence[str]) -> str:
        """What closes it, without white space around."""
        _, _, after = split_at(parse_template(split_marks(wrappers[0])[1]), "text")
        return "".join(piece.text for piece in after).strip()

    @staticmethod
    def is_control(marker: str) -> bool:
        """Whether nobody writes this marker in prose."""
        return is_control_token(marker)


def _name_is_open(template: str) -> bool:
    for piece, following in pairwise(parse_template(template)):
        if isinstance(piece, Hole) and piece.field == "name":
            return isinstance(following, Hole) or not following.text.strip()
    return False


# -- the markers of a dialect


def _wrapper(wrappers: tuple[str, ...]) -> tuple[str, str]:
    """What opens and closes text, without the white space around."""
    if not wrappers:
        return "", ""
    before, _, after = split_at(parse_template(split_marks(wrappers[0])[1]), "text")
    opening, closing = literals(before), literals(after)
    return opening[0].strip() if opening else "", closing[-1].strip() if closing else ""


def reasoning_markers(able: Able) -> tuple[str, str]:
    """What opens and closes reasoning; empty in messages with headers."""
    return ("", "") if able.framed else _wrapper(able.dialect.reasoning)


def section_markers(able: Able) -> tuple[str, str]:
    """What opens and closes the calls; empty if they need no section."""
    if able.framed or not able.calls:
        return "", ""
    before, _, after = split_at(parse_template(split_marks(able.dialect.section[0])[1]), "calls")
    opening = literals(before)[0].strip() if literals(before) else ""
    closing = literals(after)[-1].strip() if literals(after) else ""
    if "".join(literals(before)).endswith("["):  # the brackets of an array are no markers
        return opening.removesuffix("["), closing.removeprefix("]")
    return opening, closing


def call_markers(able: Able) -> tuple[str, str]:
    """What opens and closes one call."""
    if able.framed or not able.calls:
        return "", ""
    pieces = parse_template(able.dialect.call[0])
    before, _, after = split_at(pieces, *PAYLOADS)
    opening, closing = literals(before), literals(after)
    first = opening[0].strip() if opening and able.marked else ""
    return first, closing[-1].strip() if closing else ""
