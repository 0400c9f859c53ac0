"""Rendering of message parts in a dialect, as labelled pieces of text.

The joined pieces of ``render_pieces`` are the text that ``render`` returns. The labels allow
the scenarios of the conformance suite to remove or insert a marker, or to cut the output
at a meaningful position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .._core.render.message import _FrameWriter, _Writer
from ..dialects import Dialect
from ..dialects.parse_templates import Placeholder
from ..message import Part as RenderPart
from ..message import TextPart, ToolCall

PieceKind: TypeAlias = Literal[
    "open",
    "text",
    "close",
    "section_open",
    "head",
    "payload",
    "tail",
    "separator",
    "section_close",
]
"""Kind of a piece.

``text`` is content or reasoning, between the markers ``open`` and ``close``.  ``payload`` is the arguments of
a call; ``head`` and ``tail`` are the parts of the call before and after the arguments.
"""

# Labels are unpaired surrogates, because scenarios contain no surrogates, and writers do not change them.
_CALL: Final = "\udc00"
_CALL_END: Final = "\udc01"
_PAYLOAD: Final = "\udc02"
_PAYLOAD_END: Final = "\udc03"
_SPLIT: Final = re.compile(f"([{_CALL}{_CALL_END}{_PAYLOAD}{_PAYLOAD_END}])")


@dataclass(frozen=True, slots=True)
class RenderedPiece:
    """Piece of a rendered output."""

    kind: PieceKind
    text: str
    part: int
    """Index of the message part to which the piece belongs; a section marker belongs to the nearest call."""


class _LabellingWriter(_Writer):
    """Writer that puts labels around calls and their payloads."""

    def call(self, call: ToolCall) -> str:
        return f"{_CALL}{super().call(call)}{_CALL_END}"

    def payload(self, placeholder: Placeholder, call: ToolCall) -> str:
        return f"{_PAYLOAD}{super().payload(placeholder, call)}{_PAYLOAD_END}"


class _LabellingFrameWriter(_LabellingWriter, _FrameWriter):
    """Labelling writer for dialects that write a call as a message with a header."""

    def framed_call(self, call: ToolCall) -> None:
        at = len(self.out)
        super().framed_call(call)
        written = "".join(self.out[at:]).replace(_CALL, "").replace(_CALL_END, "")
        self.out[at:] = [_CALL, written, _CALL_END]


def render_pieces(dialect: Dialect, parts: Sequence[RenderPart]) -> list[RenderedPiece]:
    """Return the rendering of these message parts as a list of labelled pieces."""
    frame = dialect.frame
    writer = _LabellingFrameWriter(dialect, frame) if frame is not None else _LabellingWriter(dialect)
    pieces: list[RenderedPiece] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        run = at + 1
        if isinstance(part, ToolCall):
            while run < len(parts) and isinstance(parts[run], ToolCall):
                run += 1
        written = len(writer.out)
        for group in [parts[at:run]] if frame is None else [[one] for one in parts[at:run]]:
            writer.write(group)
        new = writer.out[written:]
        pieces += _text_pieces(new, part, at) if isinstance(part, TextPart) else _call_pieces(new, at)
        at = run
    # Remove the text that the prompt already contains, because it is not part of the output.
    start = dialect.prompt.start if frame is not None else dialect.habits.echo
    if start and pieces and pieces[0].text.startswith(start):
        first = pieces[0]
        pieces[0] = RenderedPiece(first.kind, first.text.removeprefix(start), first.part)
    return [piece for piece in pieces if piece.text]


def _text_pieces(texts: Sequence[str], part: TextPart, at: int) -> list[RenderedPiece]:
    if len(texts) == 1:
        return [RenderedPiece("text", texts[0], at)]
    middle = next(i for i in range(len(texts) - 2, -1, -1) if texts[i] == part.text)
    return [
        RenderedPiece("open", "".join(texts[:middle]), at),
        RenderedPiece("text", part.text, at),
        RenderedPiece("close", "".join(texts[middle + 1 :]), at),
    ]


def _call_pieces(texts: Sequence[str], at: int) -> list[RenderedPiece]:
    pieces: list[RenderedPiece] = []
    kind: PieceKind = "section_open"
    for text in _SPLIT.split("".join(texts)):
        if text == _CALL:
            if pieces and pieces[-1].kind == "section_close":
                pieces[-1] = RenderedPiece("separator", pieces[-1].text, at)
            kind = "head"
        elif text == _PAYLOAD:
            kind = "payload"
        elif text == _PAYLOAD_END:
            kind = "tail"
        elif text == _CALL_END:
            kind = "section_close"
            at += 1
        elif text:
            pieces.append(RenderedPiece(kind, text, max(at - (kind == "section_close"), 0)))
    return pieces
