"""Scenarios with calls that are malformed, duplicated or undeclared.

- A malformed call is not returned as a call; its raw text is content. If a stream has already sent the start
  of the call, however, the client keeps that start. A malformed call does not cause the finish reason
  ``tool_calls``, and does not affect other calls.
- Duplicate calls are not removed.
- A call to a tool that the request did not declare is returned, so that the application can tell the model
  about the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ...dialects.parse_templates import template_text
from ...testing import RenderedPiece
from ..case_format import TextSegment, Unfinished
from .dialect_capabilities import reasoning_markers
from .sample_parts import PARIS, PING, REASONING, Call, ScenarioPart, weather
from .scenario import Draft, DraftEdit, ExpectedCall, Scenario
from .ten_standard_patterns import LONG, break_value

TITLES: Final = {
    "malformed": "Malformed calls",
    "duplicates": "Duplicate calls",
    "unknown": "Unknown tools",
}

# -- group ``malformed``

_BROKEN: Final = weather(LONG)
_NOT_A_CALL: Final = "A broken call is not a call; the text and calls around it are valid."


def _change_payload(change: Callable[[str], str], obstacle: str = "") -> DraftEdit:
    """Return an edit that applies ``change`` to the arguments of the call that contains ``LONG``."""

    def edit(draft: Draft) -> str | None:
        if not draft.capabilities.verbatim:
            return "its notation is not JSON"
        at, call = next(
            (i, part.call)
            for i, part in enumerate(draft.order)
            if isinstance(part, ExpectedCall) and LONG in part.call.json
        )
        number = next(i for i, piece in enumerate(draft.pieces) if LONG in piece.text)
        piece = draft.pieces[number]
        changed = change(piece.text)
        if changed == piece.text:
            return obstacle or "the change does not apply to its notation"
        draft.pieces[number] = RenderedPiece(piece.kind, changed, piece.part)
        draft.order[at] = Unfinished("malformed", draft.call_text(piece.part), call.name, call.json)
        return None

    return edit


def _replace_payload_with_prose(draft: Draft) -> str | None:
    """Replace the arguments of the call with ordinary text."""
    number = draft.find("payload", 0)
    if number < 0 or not draft.capabilities.enveloped:
        return "the name precedes the arguments, so a call has already begun"
    if draft.capabilities.notation != "json":
        return "its notation is not JSON"
    draft.pieces[number] = RenderedPiece("payload", "there is no JSON here", 0)
    draft.order = [Unfinished("malformed", draft.text)]
    return None


_ARGUMENTS: Final = re.compile(rf'\{{[^{{}}]*"{LONG}"[^{{}}]*\}}')
_CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "single quotes": lambda text: text.replace('"city"', "'city'"),
    "a trailing comma": lambda text: text.replace(f'"{LONG}"', f'"{LONG}",'),
    "a missing colon": lambda text: text.replace('"city":', '"city"'),
    "a missing quote": lambda text: text.replace('"city":', 'city":'),
    "Python's None": lambda text: text.replace(f'"{LONG}"', "None"),
    "NaN": lambda text: text.replace(f'"{LONG}"', "NaN"),
    "a comment": lambda text: text.replace(f'"{LONG}"', f'"{LONG}" // here'),
    "arguments in a list": lambda text: _ARGUMENTS.sub(f'["{LONG}"]', text),
    "arguments as a string": lambda text: _ARGUMENTS.sub(f'"{LONG}"', text),
    "a bracket of the wrong kind": lambda text: text.replace(f'"{LONG}"}}', f'"{LONG}"]'),
}

_POSITIONS: Final[tuple[tuple[str, list[ScenarioPart], list[str]], ...]] = (
    ("alone", [_BROKEN], ["marker"]),
    ("first", [_BROKEN, PING], ["marker"]),
    ("last", [PARIS, _BROKEN], ["marker"]),
    ("after text", ["See:", _BROKEN], ["marker"]),
    ("after reasoning", [REASONING, _BROKEN], ["marker"]),
    ("before text", [_BROKEN, "Well."], ["marker", "end"]),
)

MALFORMED: Final = (
    *(
        Scenario("malformed", f"{where}: {what}", parts, _NOT_A_CALL, ["marker"], _change_payload(change))
        for what, change in _CHANGES.items()
        for where, parts in (("alone", [_BROKEN]), ("between valid calls", [PARIS, _BROKEN, PING]))
    ),
    *(
        Scenario("malformed", f"{where}: an unexpected word", parts, _NOT_A_CALL, needs, break_value)
        for where, parts, needs in _POSITIONS
    ),
    Scenario(
        "malformed", "alone: no JSON at all", [PARIS], _NOT_A_CALL, ["marker"], _replace_payload_with_prose
    ),
)

# -- group ``duplicates``

_DUPLICATES_RULE: Final = "Duplicate calls are intended."

_DUPLICATE_PARTS: Final[dict[str, list[ScenarioPart]]] = {
    "twice": [PARIS, PARIS],
    "three times": [PARIS, PARIS, PARIS],
    "twice without arguments": [PING, PING],
    "twice with another call between": [PARIS, PING, PARIS],
    "twice with text between": [PARIS, "Again.", PARIS],
    "twice after reasoning": [REASONING, PARIS, PARIS],
    "text twice": ["Well, well.\n\nWell, well.", PARIS],
}

DUPLICATES: Final = tuple(
    Scenario("duplicates", name, parts, _DUPLICATES_RULE) for name, parts in _DUPLICATE_PARTS.items()
)

# -- group ``unknown``

_ROCKET: Final = Call("launch_rocket", {"when": "now", "where": "Kourou"})
_PASSED_ON: Final = "A call to an undeclared tool is passed on."
_MARKUP_IS_TEXT: Final = "If no tool may be called, call markup is text."


def _declare_only(*names: str) -> DraftEdit:
    """Return an edit that declares only these tools in the request."""

    def edit(draft: Draft) -> str | None:
        draft.tools = tuple(tool for tool in draft.tools if tool["function"]["name"] in names)
        return None

    return edit


def _forbid_calls(draft: Draft) -> str | None:
    """Forbid calls with ``tool_choice: none``, so that the markup of calls becomes text."""
    if draft.capabilities.framed:
        return "the header marks a message as a call, even if tool_choice is none"
    draft.tool_choice = "none"
    texts = [part for part in draft.order if isinstance(part, TextSegment)]
    first = min(i for i, piece in enumerate(draft.pieces) if piece.kind not in ("open", "text", "close"))
    markup = _markup_as_text("".join(piece.text for piece in draft.pieces[first:]), draft)
    text_before = "".join(piece.text for piece in draft.pieces[:first])
    if not texts:
        draft.order = [TextSegment("content", markup)]
    elif texts[-1].channel == "content" and text_before[-1:].strip() and markup[:1].strip():
        draft.order = [*texts[:-1], TextSegment("content", texts[-1].text + markup)]
    else:
        draft.order = [*texts, TextSegment("content", markup.strip())]
    return None


def _markup_as_text(markup: str, draft: Draft) -> str:
    """Return the markup of a call as text, without markers that the parser always removes."""
    dialect = draft.capabilities.dialect
    closers = [
        reasoning_markers(draft.capabilities)[1],
        *(draft.capabilities.closer([wrapper]) for wrapper in dialect.content),
    ]
    # Markers that occur only in calls stay in the text, unless calls are messages with headers.
    ends = tuple(filter(None, closers))
    call_templates = ""
    if not any(call.endswith(ends) for call in dialect.call):
        call_templates = "\n".join((*dialect.call, *map(template_text, dialect.section)))
    removed = [literal for literal in (*dialect.drop, *dialect.stop) if literal not in call_templates]
    for marker in (*removed, *ends):
        markup = markup.replace(marker, "")
    return markup


def _unknown_scenario(
    name: str, parts: list[ScenarioPart], edit: DraftEdit, rule: str = _PASSED_ON
) -> Scenario:
    return Scenario("unknown", name, parts, rule, (), edit)


UNKNOWN: Final = (
    _unknown_scenario("an undeclared tool", [_ROCKET], _declare_only("ping")),
    _unknown_scenario("after text", ["See:", _ROCKET], _declare_only("ping")),
    _unknown_scenario("after reasoning", [REASONING, _ROCKET], _declare_only("ping")),
    _unknown_scenario("after a declared tool", [PING, _ROCKET], _declare_only("ping")),
    _unknown_scenario("before a declared tool", [_ROCKET, PING], _declare_only("ping")),
    _unknown_scenario(
        "a name that starts with a declared name", [Call("ping_all", {})], _declare_only("ping")
    ),
    _unknown_scenario(
        "a name that is a prefix of a declared name", [Call("get", {})], _declare_only("get_weather")
    ),
    _unknown_scenario("an undeclared argument", [Call("ping", {"loud": "yes"})], _declare_only("ping")),
    _unknown_scenario("tool_choice none: a call", [PARIS], _forbid_calls, _MARKUP_IS_TEXT),
    _unknown_scenario("tool_choice none: a call after text", ["See:", PARIS], _forbid_calls, _MARKUP_IS_TEXT),
    _unknown_scenario(
        "tool_choice none: a call after reasoning", [REASONING, PARIS], _forbid_calls, _MARKUP_IS_TEXT
    ),
    _unknown_scenario("tool_choice none: two calls", [PARIS, PING], _forbid_calls, _MARKUP_IS_TEXT),
)

SCENARIOS: Final = (*MALFORMED, *DUPLICATES, *UNKNOWN)
