"""Calls that are broken, that come twice, or that no tool was declared for.

- A broken call is no call: its raw text is content, or, where it was announced
  already, it stays as far as it got.  The finish reason is never ``tool_calls``
  because of it, and calls around it are good.
- A call that comes twice was meant twice.
- A call of a tool that the request did not declare is handed on, so that the caller
  can tell the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .._cases import Stretch, Unfinished
from .capabilities import reasoning_markers
from .message_parts import PARIS, PING, THOUGHT, Call, Say, weather
from .rendering import Wording
from .scenario import Draft, Meant, Scenario, Twist
from .standard import LONG, break_value

TITLES: Final = {
    "malformed": "Malformed calls",
    "duplicates": "Duplicate calls",
    "unknown": "Unknown tools",
}

# -- malformed

_BROKEN: Final = weather(LONG)
_NO_CALL: Final = "A broken call is no call; what is around it is good."


def _spoil(change: Callable[[str], str], why: str = "") -> Twist:
    """Change the payload of the call that has the long value."""

    def twist(draft: Draft) -> str | None:
        if not draft.able.verbatim:
            return "its notation is not JSON"
        at, call = next(
            (i, part.call)
            for i, part in enumerate(draft.order)
            if isinstance(part, Meant) and LONG in part.call.json
        )
        number = next(i for i, piece in enumerate(draft.pieces) if LONG in piece.text)
        piece = draft.pieces[number]
        spoilt = change(piece.text)
        if spoilt == piece.text:
            return why or "it writes nothing of the kind"
        draft.pieces[number] = Wording(piece.role, spoilt, piece.part)
        draft.order[at] = Unfinished("malformed", draft.around(piece.part), call.name, call.json)
        return None

    return twist


def _junk(draft: Draft) -> str | None:
    """Words where the call should be."""
    number = draft.find("payload", 0)
    if number < 0 or not draft.able.enveloped:
        return "the name stands before the arguments, so that there is a call"
    if draft.able.notation != "json":
        return "its notation is not JSON"
    draft.pieces[number] = Wording("payload", "there is no JSON here", 0)
    draft.order = [Unfinished("malformed", draft.text)]
    return None


_ARGUMENTS: Final = re.compile(rf'\{{[^{{}}]*"{LONG}"[^{{}}]*\}}')
_SPOILT: Final[dict[str, Callable[[str], str]]] = {
    "single quotes": lambda text: text.replace('"city"', "'city'"),
    "a trailing comma": lambda text: text.replace(f'"{LONG}"', f'"{LONG}",'),
    "a missing colon": lambda text: text.replace('"city":', '"city"'),
    "a missing quote": lambda text: text.replace('"city":', 'city":'),
    "Python's None": lambda text: text.replace(f'"{LONG}"', "None"),
    "NaN": lambda text: text.replace(f'"{LONG}"', "NaN"),
    "a comment": lambda text: text.replace(f'"{LONG}"', f'"{LONG}" // here'),
    "arguments in a list": lambda text: _ARGUMENTS.sub(f'["{LONG}"]', text),
    "arguments that are a text": lambda text: _ARGUMENTS.sub(f'"{LONG}"', text),
    "a bracket of the wrong kind": lambda text: text.replace(f'"{LONG}"}}', f'"{LONG}"]'),
}

_WHERE: Final[tuple[tuple[str, list[Say], list[str]], ...]] = (
    ("alone", [_BROKEN], ["marker"]),
    ("first", [_BROKEN, PING], ["marker"]),
    ("last", [PARIS, _BROKEN], ["marker"]),
    ("behind text", ["See:", _BROKEN], ["marker"]),
    ("behind reasoning", [THOUGHT, _BROKEN], ["marker"]),
    ("before text", [_BROKEN, "Well."], ["marker", "end"]),
)

MALFORMED: Final = (
    *(
        Scenario("malformed", f"{where}: {what}", parts, _NO_CALL, ["marker"], _spoil(change))
        for what, change in _SPOILT.items()
        for where, parts in (("alone", [_BROKEN]), ("between good ones", [PARIS, _BROKEN, PING]))
    ),
    *(
        Scenario("malformed", f"{where}: a word where none belongs", parts, _NO_CALL, needs, break_value)
        for where, parts, needs in _WHERE
    ),
    Scenario("malformed", "alone: no JSON at all", [PARIS], _NO_CALL, ["marker"], _junk),
)

# -- duplicates

_TWICE: Final = "A call that comes twice was meant twice."

_REPEATED: Final[dict[str, list[Say]]] = {
    "twice": [PARIS, PARIS],
    "three times": [PARIS, PARIS, PARIS],
    "twice without arguments": [PING, PING],
    "twice with another between": [PARIS, PING, PARIS],
    "twice with text between": [PARIS, "Again.", PARIS],
    "twice after reasoning": [THOUGHT, PARIS, PARIS],
    "text twice": ["Well, well.\n\nWell, well.", PARIS],
}

DUPLICATES: Final = tuple(Scenario("duplicates", name, parts, _TWICE) for name, parts in _REPEATED.items())

# -- unknown

_ROCKET: Final = Call("launch_rocket", {"when": "now", "where": "Kourou"})
_FORWARDED: Final = "A call of an undeclared tool is handed on."
_VERBATIM: Final = "If no tools were offered, markup of calls is text."


def _offer(*names: str) -> Twist:
    """The request declares only these tools."""

    def twist(draft: Draft) -> str | None:
        draft.tools = tuple(tool for tool in draft.tools if tool["function"]["name"] in names)
        return None

    return twist


def _offer_none(draft: Draft) -> str | None:
    """Calls are not welcome: tool_choice is none."""
    if draft.able.framed:
        return "a header says that a message is a call, whatever the request offered"
    draft.tool_choice = "none"
    texts = [part for part in draft.order if isinstance(part, Stretch)]
    first = min(i for i, piece in enumerate(draft.pieces) if piece.role not in ("open", "text", "close"))
    markup = _text_of("".join(piece.text for piece in draft.pieces[first:]), draft)
    said = "".join(piece.text for piece in draft.pieces[:first])
    if not texts:
        draft.order = [Stretch("content", markup)]
    elif texts[-1].channel == "content" and said[-1:].strip() and markup[:1].strip():
        draft.order = [*texts[:-1], Stretch("content", texts[-1].text + markup)]
    else:
        draft.order = [*texts, Stretch("content", markup.strip())]
    return None


def _text_of(markup: str, draft: Draft) -> str:
    """Markup of calls as text: only what vanishes everywhere is not in it."""
    dialect = draft.able.dialect
    closers = [
        reasoning_markers(draft.able)[1],
        *(draft.able.closer([wrapper]) for wrapper in dialect.content),
    ]
    # Markers that only calls have are whole with them, unless calls are messages like any other.
    ends = tuple(filter(None, closers))
    own = (
        "" if any(call.endswith(ends) for call in dialect.call) else "\n".join(dialect.call + dialect.section)
    )
    furniture = [literal for literal in (*dialect.drop, *dialect.stop) if literal not in own]
    for vanishing in (*furniture, *ends):
        markup = markup.replace(vanishing, "")
    return markup


def _unknown(name: str, parts: list[Say], twist: Twist, rule: str = _FORWARDED) -> Scenario:
    return Scenario("unknown", name, parts, rule, (), twist)


UNKNOWN: Final = (
    _unknown("a tool that nobody declared", [_ROCKET], _offer("ping")),
    _unknown("after text", ["See:", _ROCKET], _offer("ping")),
    _unknown("after reasoning", [THOUGHT, _ROCKET], _offer("ping")),
    _unknown("beside a declared one", [PING, _ROCKET], _offer("ping")),
    _unknown("before a declared one", [_ROCKET, PING], _offer("ping")),
    _unknown("a name that begins like a declared one", [Call("ping_all", {})], _offer("ping")),
    _unknown("a name that is the beginning of a declared one", [Call("get", {})], _offer("get_weather")),
    _unknown("an undeclared argument", [Call("ping", {"loud": "yes"})], _offer("ping")),
    _unknown("no tools at all: a call", [PARIS], _offer_none, _VERBATIM),
    _unknown("no tools at all: a call behind text", ["See:", PARIS], _offer_none, _VERBATIM),
    _unknown("no tools at all: a call behind reasoning", [THOUGHT, PARIS], _offer_none, _VERBATIM),
    _unknown("no tools at all: two calls", [PARIS, PING], _offer_none, _VERBATIM),
)

SCENARIOS: Final = (*MALFORMED, *DUPLICATES, *UNKNOWN)
