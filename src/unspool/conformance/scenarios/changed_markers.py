"""Scenarios with markers that a model or a proxy has changed.

- A call whose markers have changed is a call, if the request declares its function.
- Superfluous closing markers are neither arguments nor content.
- Text between two markers of a call is content.

Each scenario makes one change, in every dialect that has such markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ...testing import RenderedPiece
from ..case_format import TextSegment
from .sample_parts import PARIS, PING, ScenarioPart
from .scenario import Draft, DraftEdit, Scenario

TITLE: Final = "Changed markers"

_BARS: Final = "[|｜]"
_TEXT_KINDS: Final = ("open", "text", "close")
_HEADERS: Final = "the markers of headers also surround ordinary text"
_NO_BARS: Final = "its markers have no bars"
_STILL_A_CALL: Final = "A call with changed markers is a call, if its function is declared."
_SUPERFLUOUS: Final = "A superfluous closing marker is neither an argument nor content."


def _change_markers(change: Callable[[str], str], obstacle: str) -> DraftEdit:
    """Return an edit that applies ``change`` to all markers of calls."""

    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        if capabilities.framed:
            return _HEADERS
        changed = False
        for number, piece in enumerate(draft.pieces):
            # Arguments contain markers only between tags.
            if piece.kind in _TEXT_KINDS or (piece.kind == "payload" and not capabilities.tagged):
                continue
            text = change(piece.text)
            changed = changed or text != piece.text
            draft.pieces[number] = RenderedPiece(piece.kind, text, piece.part)
        return None if changed else obstacle

    return edit


def _double_bars(text: str) -> str:
    return re.sub(_BARS, r"\g<0>\g<0>", text)


def _to_ascii(text: str) -> str:
    return text.replace("｜", "|").replace("▁", "_")


def _put_blank_after_token(text: str) -> str:
    return re.sub(rf"(?<=\w)({_BARS}+)(?=\w)", r"\1 ", text)


def _put_blanks_around_bars(text: str) -> str:
    return re.sub(rf"{_BARS}+", r" \g<0> ", text)


def _remove_token(text: str) -> str:
    return re.sub(rf"(?<=<)(/?){_BARS}\w+{_BARS} ?(?=\w)", r"\1", text)


_CHANGES: Final[dict[str, tuple[Callable[[str], str], str]]] = {
    "doubled bars": (_double_bars, _NO_BARS),
    "doubled bars and a blank": (
        lambda text: _put_blank_after_token(_double_bars(text)),
        _NO_BARS,
    ),
    "bars in ASCII": (_to_ascii, "its markers are in ASCII"),
    "bars in ASCII and blanks": (lambda text: _put_blanks_around_bars(_to_ascii(text)), _NO_BARS),
    "a blank after the token in a tag": (_put_blank_after_token, "its tags have no token in them"),
    "blanks around the bars": (_put_blanks_around_bars, _NO_BARS),
    "no token in the tags": (_remove_token, "its tags have no token in them"),
}

_POSITIONS: Final[dict[str, tuple[list[ScenarioPart], list[str]]]] = {
    "a call": ([PARIS], []),
    "two calls": ([PARIS, PING], []),
    "after text": (["Let me see.", PARIS], []),
}


def _separate_arguments(draft: Draft) -> str | None:
    """Write a blank between the name and the arguments."""
    dialect = draft.capabilities.dialect
    if draft.capabilities.framed or "{name}{args}" not in "".join(dialect.call[:1]):
        return "something separates the name from the arguments"
    if dialect.args not in ("json", "bare"):
        return "a name, a blank and a parenthesis are prose"
    number = draft.find("payload")
    piece = draft.pieces[number]
    draft.pieces[number] = RenderedPiece("payload", f" {piece.text}", piece.part)
    return None


def _remove_word(draft: Draft) -> str | None:
    """Remove the word in front of the name."""
    number = draft.find("head")
    piece = draft.pieces[number]
    text = re.sub(r"(^|(?<=[>\]]))call:", "", piece.text)
    if draft.capabilities.framed or text == piece.text:
        return "no word precedes the name"
    draft.pieces[number] = RenderedPiece("head", text, piece.part)
    return None


def _double_closing_tag(draft: Draft) -> str | None:
    """Repeat the closing tag of the first argument."""
    capabilities = draft.capabilities
    if not capabilities.tagged:
        return "its arguments are not between tags"
    closer = capabilities.dialect.param[0].partition("{value}")[2].strip().replace("{key}", "city")
    number = draft.find("payload")
    piece = draft.pieces[number]
    text = piece.text.replace(closer, closer * 2, 1)
    if text == piece.text:
        return "no tag closes an argument"
    draft.pieces[number] = RenderedPiece("payload", text, piece.part)
    return None


def _close_the_neighbour(draft: Draft) -> str | None:
    """Write the closing tag of an argument after the name of a call without arguments."""
    capabilities = draft.capabilities
    if capabilities.framed or not capabilities.tagged:
        return "its arguments are not between tags"
    if not re.search(r"\{name\}\s*\{params\}", capabilities.dialect.call[0]):
        return "a marker ends the name"
    closer = capabilities.dialect.param[0].partition("{value}")[2].strip()
    number = draft.find("head")
    piece = draft.pieces[number]
    draft.pieces[number] = RenderedPiece("head", piece.text.rstrip() + closer, piece.part)
    return None


def _make_up_closing_tag(draft: Draft) -> str | None:
    """Write a closing tag of no dialect after the call."""
    if draft.capabilities.framed:
        return _HEADERS
    draft.pieces.append(RenderedPiece("section_close", "</function_invocation>", 0))
    return None


def _write_text_in_section(draft: Draft) -> str | None:
    """Write text between the opening markers of the section and of the call."""
    number = draft.find("section_open")
    head = draft.find("head")
    opener = draft.pieces[number].text.strip() if number >= 0 else ""
    if draft.capabilities.framed or len(opener) < 2 or opener.endswith("["):
        return "no marker opens the section, or it opens an array"
    if head < 0 or draft.pieces[head].text[:1] not in "<]":
        return "a call has no marker of its own"
    draft.pieces.insert(number + 1, RenderedPiece("text", "One moment.", 0))
    draft.order.insert(0, TextSegment("content", "One moment."))
    return None


def _nest_envelope(draft: Draft) -> str | None:
    """Put the object of the call into a member ``function``."""
    capabilities = draft.capabilities
    if not capabilities.enveloped or capabilities.notation != "json":
        return "a call is not a single JSON object"
    if capabilities.dialect.envelope.keyed:
        return "the key of the object is the name"
    number = draft.find("payload")
    piece = draft.pieces[number]
    text = f'{{"type": "function", "function": {piece.text}}}'
    draft.pieces[number] = RenderedPiece("payload", text, piece.part)
    return None


SCENARIOS: Final = (
    *(
        Scenario("changed", f"{where}: {what}", parts, _STILL_A_CALL, needs, _change_markers(*change))
        for what, change in _CHANGES.items()
        for where, (parts, needs) in _POSITIONS.items()
    ),
    Scenario(
        "changed", "a blank between name and arguments", [PARIS], _STILL_A_CALL, (), _separate_arguments
    ),
    Scenario("changed", "no word in front of the name", [PARIS], _STILL_A_CALL, (), _remove_word),
    Scenario("changed", "a doubled closing tag", [PARIS], _SUPERFLUOUS, (), _double_closing_tag),
    Scenario("changed", "a closing tag after the name", [PING], _SUPERFLUOUS, (), _close_the_neighbour),
    Scenario("changed", "a made-up closing tag", [PARIS], _SUPERFLUOUS, (), _make_up_closing_tag),
    Scenario(
        "changed",
        "text in a section",
        [PARIS],
        "Text between two markers is content.",
        (),
        _write_text_in_section,
    ),
    Scenario("changed", "a nested function object", [PARIS], _STILL_A_CALL, (), _nest_envelope),
)
