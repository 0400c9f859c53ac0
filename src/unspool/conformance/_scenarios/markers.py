"""Markers that are missing, that stand alone, that frame nothing, or that are only mentioned.

The rules, as docs/policies.md and docs/rulings.md have them:

- Reasoning that is never closed stays reasoning, up to a call, which ends it.
- A closing marker that is missing at the end, where nothing else of a call is, does
  no harm; nor does one before the next call.
- A call that the dialect also writes without its section is a call without it.
- A stray closer of reasoning vanishes; one of calls vanishes behind a call, or if it
  is a control token; elsewhere it is text.
- A section with nothing in it vanishes, and so does reasoning.
- A marker behind a quote or a backtick is only mentioned, and so is one that opens a
  call where no call follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...dialects._templates import split_marks
from .._cases import Stretch
from .capabilities import Able, call_markers, reasoning_markers, section_markers
from .message_parts import PARIS, PING, THOUGHT, Say, weather
from .rendering import Wording
from .scenario import Draft, Meant, Outcome, Scenario, Twist

TITLES: Final = {
    "missing": "Missing openers and closers",
    "orphans": "Orphan markers",
    "empty": "Empty sections",
    "quoted": "Quoted markers in prose",
}

_FURNITURE: Final = "it is furniture, which vanishes wherever it stands"
_WORDS: Final = "it counts only at the beginning, and is text elsewhere"
_CONTROL: Final = "a control token counts wherever it stands; only ids could tell that it is mentioned"

Pick = Callable[[Able], str]
_PICKS: Final[dict[str, Pick]] = {
    "the opener of reasoning": lambda able: reasoning_markers(able)[0],
    "the closer of reasoning": lambda able: reasoning_markers(able)[1],
    "the opener of the calls": lambda able: section_markers(able)[0],
    "the closer of the calls": lambda able: section_markers(able)[1],
    "the opener of a call": lambda able: call_markers(able)[0],
    "the closer of a call": lambda able: call_markers(able)[1],
}


def _without(pieces: list[Wording], role: str, part: int) -> list[Wording]:
    return [piece for piece in pieces if not (piece.role == role and piece.part == part)]


# -- missing


def _drop(role: str, part: int, *more: str) -> Twist:
    """Leave out a piece of a part, and what its further roles are."""

    def twist(draft: Draft) -> str | None:
        before = draft.text
        pieces = draft.pieces
        for one in (role, *more):
            pieces = _without(pieces, one, part)
        draft.pieces = pieces
        if "".join(draft.text.split()) == "".join(before.split()):
            return "it writes no such marker"
        return None

    return twist


def _drop_closers(draft: Draft) -> str | None:
    """The last call's closing marker, and that of its section."""
    return _drop("tail", len(draft.order) - 1, "section_close")(draft)


def _drop_section_open(part: int) -> Twist:
    def twist(draft: Draft) -> str | None:
        able = draft.able
        alone = any(split_marks(section)[1].strip() == "{calls}" for section in able.dialect.section[1:])
        if not alone or not able.marked:
            return "its calls count only in their section"
        return _drop("section_open", part)(draft)

    return twist


def _drop_inner_tail(draft: Draft) -> str | None:
    able = draft.able
    if not able.marked:
        return able.lacks.get("marker", "a call has no marker of its own")
    if able.framed:
        return _drop("tail", 0)(draft)
    if section_markers(able)[0]:
        return "the closer of a call tells where the next one of its section begins"
    return _drop("tail", 0)(draft)


def _unclosed_reasoning(draft: Draft) -> str | None:
    """Reasoning, and then at once what follows; text is taken for reasoning, too."""
    if draft.able.framed:
        return "the header of the next message ends reasoning"
    marked = draft.able.marked or section_markers(draft.able)[0]
    if any(isinstance(part, Meant) for part in draft.order) and not marked:
        return "calls have no marker that could end reasoning"
    closing = draft.find("close", 0)
    text = draft.pieces[closing].text
    white = text[len(text.rstrip()) :] or "\n"
    draft.pieces[closing] = Wording("close", white, 0)
    if not draft.able.wrapped:  # else the wrapper of the answer ends it
        draft.order = [
            Stretch("reasoning", part.text) if isinstance(part, Stretch) else part for part in draft.order
        ]
    return None


def _no_opener(draft: Draft) -> str | None:
    """Nothing opened the reasoning: it is text."""
    opening = draft.find("open", 0)
    if draft.able.framed or opening < 0:
        return "reasoning is a message with a header"
    if "late reasoning" in draft.able.lacks:
        return _WORDS
    del draft.pieces[opening]
    number = draft.find("close", 0)
    closer = draft.pieces[number].text.strip()
    draft.pieces[number] = Wording("close", f" {closer} ", 0)
    draft.order = [
        Stretch("content", part.text) if isinstance(part, Stretch) else part for part in draft.order
    ]
    return None


def _missing(name: str, parts: list[Say], twist: Twist, rule: str, needs: tuple[str, ...] = ()) -> Scenario:
    return Scenario("missing", name, parts, rule, needs, twist)


_KEPT: Final = "Nothing of the call is missing but its closing marker."
_ENDLESS: Final = "Reasoning that is never closed stays reasoning, up to a call or the wrapper of the answer."

MISSING: Final = (
    _missing("closer of reasoning", [THOUGHT], _unclosed_reasoning, _ENDLESS),
    _missing("closer of reasoning, then text", [THOUGHT, "Is it sunny?"], _unclosed_reasoning, _ENDLESS),
    _missing("closer of reasoning, then a call", [THOUGHT, PARIS], _unclosed_reasoning, _ENDLESS),
    _missing("closer of reasoning, then two calls", [THOUGHT, PARIS, PING], _unclosed_reasoning, _ENDLESS),
    _missing(
        "opener of reasoning",
        [THOUGHT, "It is sunny in Paris."],
        _no_opener,
        "What nothing opened is content; the stray closer vanishes.",
    ),
    _missing("closer of the calls", [PARIS], _drop("section_close", 0), _KEPT),
    _missing("closer of the calls, two calls", [PARIS, PING], _drop("section_close", 1), _KEPT),
    _missing("closer of the calls, after text", ["See:", PARIS], _drop("section_close", 1), _KEPT),
    _missing("closer of the call", [PARIS], _drop_closers, _KEPT),
    _missing("closer of the last call", [PARIS, weather("Rome")], _drop_closers, _KEPT),
    _missing("closer of a call without arguments", [PING], _drop_closers, _KEPT),
    _missing("closer of the first call", [PARIS, weather("Rome")], _drop_inner_tail, _KEPT),
    _missing(
        "opener of the calls",
        [PARIS],
        _drop_section_open(0),
        "Calls that the dialect also writes without their section are calls.",
    ),
    _missing(
        "opener of the calls, after text",
        ["See:", PARIS],
        _drop_section_open(1),
        "Calls that the dialect also writes without their section are calls.",
    ),
    _missing(
        "closer of the answer",
        ["It is sunny."],
        _drop("close", 0),
        "Text that is never closed stays text.",
        ("wrapper",),
    ),
    _missing(
        "opener of the answer",
        ["It is sunny."],
        _drop("open", 0),
        "Text is text; the stray closer vanishes.",
        ("wrapper",),
    ),
    _missing("closer of the answer, then a call", ["Sunny?", PARIS], _drop("close", 0), _KEPT, ("wrapper",)),
)


# -- orphans


def _closer_first(draft: Draft) -> str | None:
    """The closer of reasoning before all else."""
    marker = reasoning_markers(draft.able)[1]
    if not marker:
        return "it has no such marker"
    if "late reasoning" in draft.able.lacks:
        return _WORDS
    draft.pieces.insert(0, Wording("text", marker + "\n", -1))
    return None


def _in_text(pick: Pick, *, after_call: bool) -> Twist:
    """``One. <marker> Two.``, behind a call or not."""

    def twist(draft: Draft) -> str | None:
        able = draft.able
        marker = pick(able)
        if not marker:
            return "it has no such marker"
        number = next(i for i, piece in enumerate(draft.pieces) if "One. Two." in piece.text)
        piece = draft.pieces[number]
        draft.pieces[number] = Wording("text", piece.text.replace("One. ", f"One. {marker} "), piece.part)
        closes_reasoning = marker == reasoning_markers(able)[1]
        if closes_reasoning and "late reasoning" in able.lacks:
            return _WORDS
        vanishes = closes_reasoning or after_call or able.is_control(marker)
        text: list[Outcome] = (
            [Stretch("content", "One."), Stretch("content", "Two.")]
            if vanishes
            else [Stretch("content", _without_furniture(f"One. {marker} Two.", able))]
        )
        where = next(
            (i for i, part in enumerate(draft.order) if isinstance(part, Stretch) and "One" in part.text), -1
        )
        if where >= 0:
            draft.order[where : where + 1] = text
        return None

    return twist


def _without_furniture(text: str, able: Able) -> str:
    for furniture in able.dialect.drop:
        text = text.replace(furniture, "")
    return text


def _twice(pick: Pick) -> Twist:
    """The closer of reasoning or of a call, a second time."""

    def twist(draft: Draft) -> str | None:
        marker = pick(draft.able)
        if not marker:
            return "it has no such marker"
        if marker == reasoning_markers(draft.able)[1] and "late reasoning" in draft.able.lacks:
            return _WORDS
        number = max(i for i, piece in enumerate(draft.pieces) if marker in piece.text)
        piece = draft.pieces[number]
        draft.pieces[number] = Wording(piece.role, piece.text.replace(marker, marker * 2), piece.part)
        return None

    return twist


_ALONE: Final = "A stray closer vanishes if it is reasoning's or a control token; else it is text."
_SAID: Final = "One. Two."

ORPHANS: Final = (
    *(
        Scenario("orphans", f"{what} in text", [_SAID], _ALONE, (), _in_text(_PICKS[what], after_call=False))
        for what in ("the closer of reasoning", "the closer of a call", "the closer of the calls")
    ),
    *(
        Scenario(
            "orphans",
            f"{what} in text behind a call",
            [PARIS, _SAID],
            "Behind a call a stray closer vanishes.",
            (),
            _in_text(_PICKS[what], after_call=True),
        )
        for what in ("the closer of reasoning", "the closer of a call", "the closer of the calls")
    ),
    Scenario(
        "orphans",
        "the closer of reasoning, twice",
        [THOUGHT, "It is sunny."],
        "The second one vanishes.",
        (),
        _twice(_PICKS["the closer of reasoning"]),
    ),
    *(
        Scenario("orphans", f"{what}, twice", [PARIS], "The second one vanishes.", (), _twice(_PICKS[what]))
        for what in ("the closer of a call", "the closer of the calls")
    ),
    *(
        Scenario(
            "orphans",
            f"{what}, twice, then text",
            [PARIS, "Well."],
            "The second one vanishes.",
            (),
            _twice(_PICKS[what]),
        )
        for what in ("the closer of a call", "the closer of the calls")
    ),
    Scenario(
        "orphans",
        "the closer of reasoning before reasoning",
        [THOUGHT, "It is sunny."],
        _ALONE,
        (),
        _closer_first,
    ),
)

# -- empty


def _nothing(draft: Draft) -> str | None:
    echo = draft.able.dialect.prompt.echo
    draft.pieces, draft.order = [], [Stretch("content", echo)] if echo else []
    return None


def _empty_reasoning(inside: str) -> Twist:
    """Reasoning with nothing or with blanks in it."""

    def twist(draft: Draft) -> str | None:
        number = draft.find("text", 0)
        draft.pieces[number] = Wording("text", inside, 0)
        del draft.order[0]
        return None

    return twist


def _empty_section(draft: Draft) -> str | None:
    """The section of the first call, without it."""
    opening, closing = section_markers(draft.able)
    if not opening or not closing:
        return "calls have no section, or one that nothing ends"
    first = min(i for i, piece in enumerate(draft.pieces) if piece.role == "section_open")
    last = max(i for i, piece in enumerate(draft.pieces) if piece.role == "section_close")
    draft.pieces[first + 1 : last] = []
    draft.order = [part for part in draft.order if not isinstance(part, Meant)]
    if draft.able.dialect.after_calls == "drop":  # but there is no call that it stands behind
        behind = (piece.text for piece in draft.pieces[first:] if piece.role == "text")
        draft.order += [Stretch("content", text.strip()) for text in behind]
    return None


_GONE: Final = "What frames nothing vanishes."

EMPTY: Final = (
    Scenario("empty", "output", ["x"], "Nothing comes out of nothing.", (), _nothing),
    Scenario("empty", "reasoning", [THOUGHT, "It is sunny."], _GONE, (), _empty_reasoning("")),
    Scenario("empty", "reasoning, blanks", [THOUGHT, "It is sunny."], _GONE, (), _empty_reasoning("\n\n")),
    Scenario("empty", "reasoning before a call", [THOUGHT, PARIS], _GONE, (), _empty_reasoning("")),
    Scenario(
        "empty", "reasoning, blanks, before a call", [THOUGHT, PARIS], _GONE, (), _empty_reasoning("\n")
    ),
    Scenario("empty", "reasoning and nothing else", [THOUGHT], _GONE, (), _empty_reasoning("")),
    Scenario("empty", "section", [PARIS], _GONE, (), _empty_section),
    Scenario("empty", "section behind text", ["See:", PARIS], _GONE, (), _empty_section),
    Scenario("empty", "section before text", [PARIS, "Well."], _GONE, (), _empty_section),
    Scenario("empty", "section behind reasoning", [THOUGHT, PARIS], _GONE, (), _empty_section),
    Scenario("empty", "arguments", [PING], "A call without arguments has {}.", ()),
    Scenario("empty", "arguments, three times", [PING, PING, PING], "A call without arguments has {}.", ()),
    Scenario(
        "empty", "arguments, between texts", ["See:", PING, "Well."], "A call without arguments has {}."
    ),
)

# -- quoted


def _mention(pick: Pick, sentence: str) -> Twist:
    def twist(draft: Draft) -> str | None:
        able = draft.able
        marker = pick(able)
        if not marker:
            return "it has no such marker"
        opens_call = marker in (section_markers(able)[0], call_markers(able)[0])
        if any(furniture in marker for furniture in able.dialect.drop):
            return _FURNITURE
        if able.is_control(marker) and not opens_call:
            return _CONTROL
        text = sentence.format(marker)
        number = draft.find("text")
        piece = draft.pieces[number]
        draft.pieces[number] = Wording("text", text, piece.part)
        draft.order[0] = Stretch("content", text)
        return None

    return twist


_SENTENCES: Final = {
    "in backticks": "Put `{0}` there, and that is all.",
    "in quotes": 'Put "{0}" there, and that is all.',
    "in single quotes": "Put '{0}' there, and that is all.",
}
_MENTIONED: Final = "A marker behind a quote or a backtick is only mentioned."

QUOTED: Final = (
    *(
        Scenario("quoted", f"{what} {how}", ["x"], _MENTIONED, ("prose",), _mention(pick, sentence))
        for what, pick in _PICKS.items()
        for how, sentence in _SENTENCES.items()
    ),
    *(
        Scenario(
            "quoted",
            f"{what} in a sentence",
            ["x"],
            "What opens a call where no call follows is text.",
            ("prose",),
            _mention(_PICKS[what], "Here {0} is a tag in a sentence."),
        )
        for what in ("the opener of the calls", "the opener of a call")
    ),
)

SCENARIOS: Final = (*MISSING, *ORPHANS, *EMPTY, *QUOTED)
