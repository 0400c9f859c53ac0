"""Capabilities of a dialect, which determine the scenarios that the dialect can express."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ...dialects import Dialect, Wrapper, facts_of, is_control_token
from ...dialects.parse_templates import (
    PAYLOADS,
    Placeholder,
    literals,
    only_at_start,
    parse_template,
    split_at,
)
from .sample_parts import Call, Reasoning, ScenarioPart

ONE_CALL: Final = {"gigachat3": "a turn has one call"}
"""Dialects whose turns have at most one call; the values are the reasons that reports show."""


class Capabilities:
    """Capabilities of a dialect, derived from its declaration, with a reason for each missing capability."""

    def __init__(self, dialect: Dialect) -> None:
        frame = dialect.frame
        routes = [route for route in frame.routes if route.header] if frame is not None else []
        into = {route.into: route.header for route in routes}
        call_headers = [header for placeholder, header in into.items() if placeholder.startswith("{")]
        self.dialect: Final = dialect
        self.framed: Final = frame is not None
        template = next(
            (placeholder for placeholder in into if placeholder in ("{args}", "{params}")),
            dialect.call[0] if dialect.call else "",
        )
        _, payload, _ = split_at(parse_template(template), *PAYLOADS)
        field = payload.field if payload is not None else ""
        notation = (payload.notation if payload is not None else "") or dialect.args
        self.has_calls: Final = bool(field)
        self.tagged: Final = field == "params"
        self.notation: Final = "tagged" if self.tagged else notation
        """Notation of the arguments: ``json``, ``python``, ``loose``, ``bare`` or ``tagged``."""
        self.verbatim: Final = self.notation == "json"
        """True if arguments are JSON, which the parser returns unchanged."""
        self.enveloped: Final = field == "envelope"
        """True if a call is a single JSON object that contains the name and the arguments."""
        self.sorts_keys: Final = dialect.args == "bare"
        """True if chat templates with this notation sort keys; models trained with such templates do the
        same."""
        self.carries_ids: Final = self.has_calls and (
            "{id}" in "".join([template, *call_headers])
            or dialect.names.forms[0] == dialect.id_format.pattern
            or (self.enveloped and "id" in dialect.envelope.order)
        )
        self.wrapped: Final = bool(dialect.content)
        """True if the dialect has markers around content."""
        self.anchored: Final = self.has_calls and only_at_start(dialect.section[0])
        """True if calls are recognized only at the beginning of the output."""
        self.marked: Final = self.framed or (
            self.has_calls and not isinstance(parse_template(template)[0], Placeholder)
        )
        """True if each call has its own opening marker."""
        self.end_marker: Final = self._find_end_marker(template)
        """Marker that ends a call or the section of calls; empty if there is none."""
        self.has_reasoning: Final = ("reasoning" in into) if self.framed else bool(dialect.reasoning)
        self.missing: Final = self._find_missing(template)
        """Names of the capabilities that the dialect lacks, each with the reason."""

    def _find_missing(self, template: str) -> dict[str, str]:  # noqa: C901 - independent checks in a row
        dialect = self.dialect
        found: dict[str, str] = {}
        if not self.has_calls:
            found["calls"] = "the dialect has no calls"
        if dialect.names.fixed:
            found["name"] = "every call has the same function name"
        if not self.has_reasoning:
            found["reasoning"] = "the dialect has no reasoning"
        elif not self.framed and only_at_start(dialect.reasoning[0]):
            found["late reasoning"] = "reasoning counts only at the beginning of the output"
        if dialect.name in ONE_CALL:
            found["parallel"] = ONE_CALL[dialect.name]
        if self.anchored:
            found["before"] = "calls count only if no text precedes them"
        if dialect.args == "loose":
            found["escapes"] = "strings are written without escapes"
        if not self.end_marker:
            found["end"] = "no marker ends a call"
        elif self.framed and self.tagged:
            found["end"] = "a control token ends the message at any position"
        if self.has_calls and not self.marked:
            found["marker"] = "a call has no marker of its own, so the start of the next one is unknown"
        elif self.has_calls and not self.tagged and not self.verbatim:
            found["marker"] = "the notation does not define which calls are malformed"
        elif self.tagged and not self.framed and _has_open_name(template):
            found["marker"] = "only the parameters mark the end of the name"
        if not self.wrapped or self.framed:
            found["wrapper"] = "content has no wrapper"
        if not dialect.stop:
            found["stop"] = "no marker ends a turn"
        if self.framed:
            found["prose"] = "text is in messages with a header"
        facts = facts_of(dialect)
        if "json" not in facts.forced:
            for choice in ("required", "named"):
                found[choice] = f"a forced call ({choice}) is written in its own markup"
        thinking = facts.thinking
        if (thinking.default == "off" or thinking.habits.json_off) and thinking.when_off != "read":
            found["forced reasoning"] = "the model does not reason before forced calls by default"
        elif thinking.habits.named_off and thinking.when_off != "read":
            found["named reasoning"] = "the model does not reason if the request names the function"
        return found

    def _find_end_marker(self, template: str) -> str:
        frame = self.dialect.frame
        if frame is not None:
            return self.dialect.habits.call_end or (frame.ends[0] if frame.ends else "")
        for candidate in (template, self.dialect.section[0]):
            before, _, after = split_at(parse_template(candidate), "calls", *PAYLOADS)
            array = bool(before) and before[-1].text.endswith("[")
            text = "".join(piece.text for piece in after).strip()
            if text := text.removeprefix("]").strip() if array else text:
                return text.split("\n")[-1]
        return ""

    def requirements(self, parts: Sequence[ScenarioPart]) -> set[str]:
        """Return the names of the capabilities that these parts require."""
        found: set[str] = set()
        calls = [i for i, part in enumerate(parts) if isinstance(part, Call)]
        texts = [i for i, part in enumerate(parts) if isinstance(part, str)]
        thoughts = [i for i, part in enumerate(parts) if isinstance(part, Reasoning)]
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

    def explain_missing(self, requirements: set[str]) -> str:
        """Return the reason why a scenario with these requirements is inapplicable, or an empty string."""
        return "; ".join(
            self.missing[requirement] for requirement in sorted(requirements & self.missing.keys())
        )

    def opener(self, wrappers: Sequence[str | Wrapper]) -> str:
        """Return the opening marker of a wrapper, including whitespace that the template writes after it."""
        before, _, _ = split_at(parse_template(wrappers[0]), "text")
        return "".join(piece.text for piece in before if not isinstance(piece, Placeholder))

    def closer(self, wrappers: Sequence[str | Wrapper]) -> str:
        """Return the closing marker of a wrapper without surrounding whitespace."""
        _, _, after = split_at(parse_template(wrappers[0]), "text")
        return "".join(piece.text for piece in after).strip()

    @staticmethod
    def is_control(marker: str) -> bool:
        """Return whether a marker is a control token, which does not occur in ordinary text."""
        return is_control_token(marker)


def _has_open_name(template: str) -> bool:
    for piece, following in pairwise(parse_template(template)):
        if isinstance(piece, Placeholder) and piece.field == "name":
            return isinstance(following, Placeholder) or not following.text.strip()
    return False


# -- markers of a dialect


def _wrapper(wrappers: Sequence[str | Wrapper]) -> tuple[str, str]:
    """Return the opening and the closing marker of a wrapper, without surrounding whitespace."""
    if not wrappers:
        return "", ""
    before, _, after = split_at(parse_template(wrappers[0]), "text")
    opening, closing = literals(before), literals(after)
    return opening[0].strip() if opening else "", closing[-1].strip() if closing else ""


def reasoning_markers(capabilities: Capabilities) -> tuple[str, str]:
    """Return the markers that open and close reasoning; empty strings if headers replace them."""
    return ("", "") if capabilities.framed else _wrapper(capabilities.dialect.reasoning)


def section_markers(capabilities: Capabilities) -> tuple[str, str]:
    """Return the markers that open and close the section of calls; empty strings if there is no section."""
    if capabilities.framed or not capabilities.has_calls:
        return "", ""
    before, _, after = split_at(parse_template(capabilities.dialect.section[0]), "calls")
    opening = literals(before)[0].strip() if literals(before) else ""
    closing = literals(after)[-1].strip() if literals(after) else ""
    if "".join(literals(before)).endswith("["):  # the brackets of an array are not markers
        return opening.removesuffix("["), closing.removeprefix("]")
    return opening, closing


def call_markers(capabilities: Capabilities) -> tuple[str, str]:
    """Return the markers that open and close a single call."""
    if capabilities.framed or not capabilities.has_calls:
        return "", ""
    pieces = parse_template(capabilities.dialect.call[0])
    before, _, after = split_at(pieces, *PAYLOADS)
    opening, closing = literals(before), literals(after)
    first = opening[0].strip() if opening and capabilities.marked else ""
    return first, closing[-1].strip() if closing else ""
