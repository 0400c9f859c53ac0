"""Scenarios with missing, stray or quoted markers, and with empty sections or empty reasoning.

The rules (see also docs/policies.md and docs/rulings.md):

- Reasoning without a closer continues until the next call.
- A complete call without its closer is valid if it is followed by the next call or by the end of the output.
- Calls without the markers of a section are accepted if the dialect declares this form.
- A stray reasoning closer is removed.
- A stray call closer is removed if it follows a call or is a control token; otherwise it is text.
- Empty sections and empty reasoning are removed.
- A marker is treated as text in two cases: it follows a quote or a backtick, or it opens a call but no call
  follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...dialects.parse_templates import template_text
from ...testing import RenderedPiece
from ..case_format import TextSegment
from .dialect_capabilities import Capabilities, call_markers, reasoning_markers, section_markers
from .sample_parts import PARIS, PING, REASONING, ScenarioPart, weather
from .scenario import Draft, DraftEdit, ExpectedCall, ExpectedPart, Scenario

TITLES: Final = {
    "missing": "Missing openers and closers",
    "orphans": "Orphan markers",
    "empty": "Empty sections",
    "quoted": "Quoted markers in prose",
}

_REMOVED_EVERYWHERE: Final = "the parser removes this token at every position"
_ONLY_AT_BEGINNING: Final = "it is a marker only at the beginning of the output, and text elsewhere"
_COUNTS_EVERYWHERE: Final = (
    "a control token counts at every position; only token ids could show that it is mentioned"
)

MarkerGetter = Callable[[Capabilities], str]
_MARKERS: Final[dict[str, MarkerGetter]] = {
    "the opener of reasoning": lambda capabilities: reasoning_markers(capabilities)[0],
    "the closer of reasoning": lambda capabilities: reasoning_markers(capabilities)[1],
    "the opener of the calls": lambda capabilities: section_markers(capabilities)[0],
    "the closer of the calls": lambda capabilities: section_markers(capabilities)[1],
    "the opener of a call": lambda capabilities: call_markers(capabilities)[0],
    "the closer of a call": lambda capabilities: call_markers(capabilities)[1],
}


def _remove_pieces(pieces: list[RenderedPiece], kind: str, part: int) -> list[RenderedPiece]:
    return [piece for piece in pieces if not (piece.kind == kind and piece.part == part)]


# -- group ``missing``


def _remove_marker(kind: str, part: int, *other_kinds: str) -> DraftEdit:
    """Return an edit that removes the markers of a ``PieceKind`` (such as ``close``) from one part."""

    def edit(draft: Draft) -> str | None:
        text_before = draft.text
        pieces = draft.pieces
        for piece_kind in (kind, *other_kinds):
            pieces = _remove_pieces(pieces, piece_kind, part)
        draft.pieces = pieces
        if "".join(draft.text.split()) == "".join(text_before.split()):
            return "the dialect writes no such marker"
        return None

    return edit


def _remove_last_closers(draft: Draft) -> str | None:
    """Remove the closers of the last call and the section."""
    return _remove_marker("tail", len(draft.order) - 1, "section_close")(draft)


def _remove_section_opener(part: int) -> DraftEdit:
    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        alone = any(
            template_text(section).strip() == "{calls}" for section in capabilities.dialect.section[1:]
        )
        if not alone or not capabilities.marked:
            return "calls count only inside their section"
        return _remove_marker("section_open", part)(draft)

    return edit


def _remove_inner_closer(draft: Draft) -> str | None:
    capabilities = draft.capabilities
    if not capabilities.marked:
        return capabilities.missing.get("marker", "a call has no marker of its own")
    if capabilities.framed:
        return _remove_marker("tail", 0)(draft)
    if section_markers(capabilities)[0]:
        return "the closer of a call separates it from the next one in its section"
    return _remove_marker("tail", 0)(draft)


def _remove_reasoning_closer(draft: Draft) -> str | None:
    """Remove the reasoning closer, and expect that the following text becomes part of the reasoning."""
    if draft.capabilities.framed:
        return "the header of the next message ends reasoning"
    marked = draft.capabilities.marked or section_markers(draft.capabilities)[0]
    if any(isinstance(part, ExpectedCall) for part in draft.order) and not marked:
        return "calls have no marker that could end reasoning"
    closing = draft.find("close", 0)
    text = draft.pieces[closing].text
    whitespace = text[len(text.rstrip()) :] or "\n"
    draft.pieces[closing] = RenderedPiece("close", whitespace, 0)
    # If the dialect has markers around content, the opening marker of the answer ends the reasoning.
    if not draft.capabilities.wrapped:
        draft.order = [
            TextSegment("reasoning", part.text) if isinstance(part, TextSegment) else part
            for part in draft.order
        ]
    return None


def _remove_reasoning_opener(draft: Draft) -> str | None:
    """Remove the reasoning opener, and expect that the text before the closer is content."""
    opening = draft.find("open", 0)
    if draft.capabilities.framed or opening < 0:
        return "reasoning is a message with a header"
    if "late reasoning" in draft.capabilities.missing:
        return _ONLY_AT_BEGINNING
    del draft.pieces[opening]
    number = draft.find("close", 0)
    closer = draft.pieces[number].text.strip()
    draft.pieces[number] = RenderedPiece("close", f" {closer} ", 0)
    draft.order = [
        TextSegment("content", part.text) if isinstance(part, TextSegment) else part for part in draft.order
    ]
    return None


def _missing_scenario(
    name: str, parts: list[ScenarioPart], edit: DraftEdit, rule: str, requirements: tuple[str, ...] = ()
) -> Scenario:
    return Scenario("missing", name, parts, rule, requirements, edit)


_ONLY_CLOSER_MISSING: Final = "The call is complete except for its closing marker."
_REASONING_CONTINUES: Final = (
    "Reasoning without a closer stays reasoning up to a call or the wrapper of the answer."
)

MISSING: Final = (
    _missing_scenario("closer of reasoning", [REASONING], _remove_reasoning_closer, _REASONING_CONTINUES),
    _missing_scenario(
        "closer of reasoning, then text",
        [REASONING, "Is it sunny?"],
        _remove_reasoning_closer,
        _REASONING_CONTINUES,
    ),
    _missing_scenario(
        "closer of reasoning, then a call", [REASONING, PARIS], _remove_reasoning_closer, _REASONING_CONTINUES
    ),
    _missing_scenario(
        "closer of reasoning, then two calls",
        [REASONING, PARIS, PING],
        _remove_reasoning_closer,
        _REASONING_CONTINUES,
    ),
    _missing_scenario(
        "opener of reasoning",
        [REASONING, "It is sunny in Paris."],
        _remove_reasoning_opener,
        "Text without an opener is content; the stray closer is removed.",
    ),
    _missing_scenario(
        "closer of the calls", [PARIS], _remove_marker("section_close", 0), _ONLY_CLOSER_MISSING
    ),
    _missing_scenario(
        "closer of the calls, two calls",
        [PARIS, PING],
        _remove_marker("section_close", 1),
        _ONLY_CLOSER_MISSING,
    ),
    _missing_scenario(
        "closer of the calls, after text",
        ["See:", PARIS],
        _remove_marker("section_close", 1),
        _ONLY_CLOSER_MISSING,
    ),
    _missing_scenario("closer of the call", [PARIS], _remove_last_closers, _ONLY_CLOSER_MISSING),
    _missing_scenario(
        "closer of the last call", [PARIS, weather("Rome")], _remove_last_closers, _ONLY_CLOSER_MISSING
    ),
    _missing_scenario(
        "closer of a call without arguments", [PING], _remove_last_closers, _ONLY_CLOSER_MISSING
    ),
    _missing_scenario(
        "closer of the first call", [PARIS, weather("Rome")], _remove_inner_closer, _ONLY_CLOSER_MISSING
    ),
    _missing_scenario(
        "opener of the calls",
        [PARIS],
        _remove_section_opener(0),
        "Calls without their section are calls if the dialect also writes them that way.",
    ),
    _missing_scenario(
        "opener of the calls, after text",
        ["See:", PARIS],
        _remove_section_opener(1),
        "Calls without their section are calls if the dialect also writes them that way.",
    ),
    _missing_scenario(
        "closer of the answer",
        ["It is sunny."],
        _remove_marker("close", 0),
        "Text without a closer stays text.",
        ("wrapper",),
    ),
    _missing_scenario(
        "opener of the answer",
        ["It is sunny."],
        _remove_marker("open", 0),
        "Text stays text; the stray closer is removed.",
        ("wrapper",),
    ),
    _missing_scenario(
        "closer of the answer, then a call",
        ["Sunny?", PARIS],
        _remove_marker("close", 0),
        _ONLY_CLOSER_MISSING,
        ("wrapper",),
    ),
)


# -- group ``orphans``


def _insert_closer_first(draft: Draft) -> str | None:
    """Insert a reasoning closer before the output."""
    marker = reasoning_markers(draft.capabilities)[1]
    if not marker:
        return "the dialect has no such marker"
    if "late reasoning" in draft.capabilities.missing:
        return _ONLY_AT_BEGINNING
    draft.pieces.insert(0, RenderedPiece("text", marker + "\n", -1))
    return None


def _insert_in_text(get_marker: MarkerGetter, *, after_call: bool) -> DraftEdit:
    """Return an edit that inserts a marker between two sentences, as in ``One. <marker> Two``."""

    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        marker = get_marker(capabilities)
        if not marker:
            return "the dialect has no such marker"
        number = next(i for i, piece in enumerate(draft.pieces) if "One. Two." in piece.text)
        piece = draft.pieces[number]
        draft.pieces[number] = RenderedPiece(
            "text", piece.text.replace("One. ", f"One. {marker} "), piece.part
        )
        closes_reasoning = marker == reasoning_markers(capabilities)[1]
        if closes_reasoning and "late reasoning" in capabilities.missing:
            return _ONLY_AT_BEGINNING
        removed = closes_reasoning or after_call or capabilities.is_control(marker)
        text: list[ExpectedPart] = (
            [TextSegment("content", "One."), TextSegment("content", "Two.")]
            if removed
            else [TextSegment("content", _remove_dropped_tokens(f"One. {marker} Two.", capabilities))]
        )
        where = next(
            (i for i, part in enumerate(draft.order) if isinstance(part, TextSegment) and "One" in part.text),
            -1,
        )
        if where >= 0:
            draft.order[where : where + 1] = text
        return None

    return edit


def _remove_dropped_tokens(text: str, capabilities: Capabilities) -> str:
    for token in capabilities.dialect.drop:
        text = text.replace(token, "")
    return text


def _repeat_closer(get_marker: MarkerGetter) -> DraftEdit:
    """Return an edit that repeats a reasoning closer or a call closer."""

    def edit(draft: Draft) -> str | None:
        marker = get_marker(draft.capabilities)
        if not marker:
            return "the dialect has no such marker"
        if (
            marker == reasoning_markers(draft.capabilities)[1]
            and "late reasoning" in draft.capabilities.missing
        ):
            return _ONLY_AT_BEGINNING
        number = max(i for i, piece in enumerate(draft.pieces) if marker in piece.text)
        piece = draft.pieces[number]
        draft.pieces[number] = RenderedPiece(piece.kind, piece.text.replace(marker, marker * 2), piece.part)
        return None

    return edit


_STRAY_CLOSER: Final = (
    "A stray closer is removed if it belongs to reasoning or is a control token; otherwise it is text."
)
_TEXT: Final = "One. Two."

ORPHANS: Final = (
    *(
        Scenario(
            "orphans",
            f"{what} in text",
            [_TEXT],
            _STRAY_CLOSER,
            (),
            _insert_in_text(_MARKERS[what], after_call=False),
        )
        for what in ("the closer of reasoning", "the closer of a call", "the closer of the calls")
    ),
    *(
        Scenario(
            "orphans",
            f"{what} in text after a call",
            [PARIS, _TEXT],
            "A stray closer after a call is removed.",
            (),
            _insert_in_text(_MARKERS[what], after_call=True),
        )
        for what in ("the closer of reasoning", "the closer of a call", "the closer of the calls")
    ),
    Scenario(
        "orphans",
        "the closer of reasoning, twice",
        [REASONING, "It is sunny."],
        "The second one is removed.",
        (),
        _repeat_closer(_MARKERS["the closer of reasoning"]),
    ),
    *(
        Scenario(
            "orphans",
            f"{what}, twice",
            [PARIS],
            "The second one is removed.",
            (),
            _repeat_closer(_MARKERS[what]),
        )
        for what in ("the closer of a call", "the closer of the calls")
    ),
    *(
        Scenario(
            "orphans",
            f"{what}, twice, then text",
            [PARIS, "Well."],
            "The second one is removed.",
            (),
            _repeat_closer(_MARKERS[what]),
        )
        for what in ("the closer of a call", "the closer of the calls")
    ),
    Scenario(
        "orphans",
        "the closer of reasoning before reasoning",
        [REASONING, "It is sunny."],
        _STRAY_CLOSER,
        (),
        _insert_closer_first,
    ),
)

# -- group ``empty``


def _remove_everything(draft: Draft) -> str | None:
    echo = draft.capabilities.dialect.habits.echo
    draft.pieces, draft.order = [], [TextSegment("content", echo)] if echo else []
    return None


def _replace_reasoning(inside: str) -> DraftEdit:
    """Return an edit that replaces the reasoning with an empty string or whitespace."""

    def edit(draft: Draft) -> str | None:
        number = draft.find("text", 0)
        draft.pieces[number] = RenderedPiece("text", inside, 0)
        del draft.order[0]
        return None

    return edit


def _empty_first_section(draft: Draft) -> str | None:
    """Remove all calls from the section, so that the section is empty."""
    opening, closing = section_markers(draft.capabilities)
    if not opening or not closing:
        return "calls have no section, or a section without a closer"
    first = min(i for i, piece in enumerate(draft.pieces) if piece.kind == "section_open")
    last = max(i for i, piece in enumerate(draft.pieces) if piece.kind == "section_close")
    draft.pieces[first + 1 : last] = []
    draft.order = [part for part in draft.order if not isinstance(part, ExpectedCall)]
    return None


_EMPTY_REMOVED: Final = "Markers with nothing between them are removed."

EMPTY: Final = (
    Scenario("empty", "output", ["x"], "An empty output gives an empty message.", (), _remove_everything),
    Scenario("empty", "reasoning", [REASONING, "It is sunny."], _EMPTY_REMOVED, (), _replace_reasoning("")),
    Scenario(
        "empty",
        "reasoning, whitespace",
        [REASONING, "It is sunny."],
        _EMPTY_REMOVED,
        (),
        _replace_reasoning("\n\n"),
    ),
    Scenario(
        "empty", "reasoning before a call", [REASONING, PARIS], _EMPTY_REMOVED, (), _replace_reasoning("")
    ),
    Scenario(
        "empty",
        "reasoning, whitespace, before a call",
        [REASONING, PARIS],
        _EMPTY_REMOVED,
        (),
        _replace_reasoning("\n"),
    ),
    Scenario("empty", "reasoning and nothing else", [REASONING], _EMPTY_REMOVED, (), _replace_reasoning("")),
    Scenario("empty", "section", [PARIS], _EMPTY_REMOVED, (), _empty_first_section),
    Scenario("empty", "section after text", ["See:", PARIS], _EMPTY_REMOVED, (), _empty_first_section),
    Scenario("empty", "section before text", [PARIS, "Well."], _EMPTY_REMOVED, (), _empty_first_section),
    Scenario(
        "empty", "section after reasoning", [REASONING, PARIS], _EMPTY_REMOVED, (), _empty_first_section
    ),
    Scenario("empty", "arguments", [PING], "A call without arguments has {}.", ()),
    Scenario("empty", "arguments, three times", [PING, PING, PING], "A call without arguments has {}.", ()),
    Scenario(
        "empty", "arguments, between texts", ["See:", PING, "Well."], "A call without arguments has {}."
    ),
)

# -- group ``quoted``


def _mention_marker(get_marker: MarkerGetter, sentence: str) -> DraftEdit:
    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        marker = get_marker(capabilities)
        if not marker:
            return "the dialect has no such marker"
        opens_call = marker in (section_markers(capabilities)[0], call_markers(capabilities)[0])
        if any(token in marker for token in capabilities.dialect.drop):
            return _REMOVED_EVERYWHERE
        if capabilities.is_control(marker) and not opens_call:
            return _COUNTS_EVERYWHERE
        text = sentence.format(marker)
        number = draft.find("text")
        piece = draft.pieces[number]
        draft.pieces[number] = RenderedPiece("text", text, piece.part)
        draft.order[0] = TextSegment("content", text)
        return None

    return edit


_SENTENCES: Final = {
    "in backticks": "Put `{0}` there, and that is all.",
    "in quotes": 'Put "{0}" there, and that is all.',
    "in single quotes": "Put '{0}' there, and that is all.",
}
_ONLY_MENTIONED: Final = "A marker after a quote or a backtick is only mentioned."

QUOTED: Final = (
    *(
        Scenario(
            "quoted",
            f"{what} {how}",
            ["x"],
            _ONLY_MENTIONED,
            ("prose",),
            _mention_marker(get_marker, sentence),
        )
        for what, get_marker in _MARKERS.items()
        for how, sentence in _SENTENCES.items()
    ),
    *(
        Scenario(
            "quoted",
            f"{what} in a sentence",
            ["x"],
            "A marker that opens a call is text if no call follows.",
            ("prose",),
            _mention_marker(_MARKERS[what], "Here {0} is a tag in a sentence."),
        )
        for what in ("the opener of the calls", "the opener of a call")
    ),
)

SCENARIOS: Final = (*MISSING, *ORPHANS, *EMPTY, *QUOTED)
