"""Writing what is meant in the words of a dialect, in labelled pieces.

``sketch`` writes the very text of ``unspool.render``, which knows how; here it
only says which part of the text is what, so that scenarios can take a marker
away, put one in, or cut the text at a place that means something.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ..._core.render.message import _FrameWriter, _Writer
from ...dialects._declaration import Dialect
from ...dialects._templates import Hole
from ...message import Part as RenderPart
from ...message import TextPart, ToolCall

Role: TypeAlias = Literal[
    "open",  # the marker before text or reasoning
    "text",  # what is for people
    "close",  # the marker behind it
    "section_open",
    "head",  # of a call, up to its arguments
    "payload",
    "tail",  # of a call, behind its arguments
    "separator",
    "section_close",
]

# Lone surrogates: no text of a scenario has any, and no writer touches them.
_CALL: Final = "\udc00"
_CALL_END: Final = "\udc01"
_PAYLOAD: Final = "\udc02"
_PAYLOAD_END: Final = "\udc03"
_SPLIT: Final = re.compile(f"([{_CALL}{_CALL_END}{_PAYLOAD}{_PAYLOAD_END}])")


@dataclass(frozen=True, slots=True)
class Wording:
    """Some text of an output."""

    role: Role
    text: str
    part: int
    """Which part of the meaning it belongs to; a section belongs to its first call."""


class _Labels(_Writer):
    """Puts invisible labels around calls and their payloads."""

    def call(self, call: ToolCall) -> str:
        return f"{_CALL}{super().call(call)}{_CALL_END}"

    def payload(self, hole: Hole, call: ToolCall) -> str:
        return f"{_PAYLOAD}{super().payload(hole, call)}{_PAYLOAD_END}"


class _FrameLabels(_Labels, _FrameWriter):
    """The same for messages with headers: the header is the head of a call."""

    def framed_call(self, call: ToolCall) -> None:
        at = len(self.out)
        super().framed_call(call)
        written = "".join(self.out[at:]).replace(_CALL, "").replace(_CALL_END, "")
        self.out[at:] = [_CALL, written, _CALL_END]


def sketch(dialect: Dialect, parts: Sequence[RenderPart]) -> list[Wording]:
    """The text of ``render`` for these parts, in pieces."""
    frame = dialect.frame
    writer = _FrameLabels(dialect, frame) if frame is not None else _Labels(dialect)
    pieces: list[Wording] = []
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
    # What the prompt holds already.
    start = dialect.prompt.start if frame is not None else dialect.prompt.echo
    if start and pieces and pieces[0].text.startswith(start):
        first = pieces[0]
        pieces[0] = Wording(first.role, first.text.removeprefix(start), first.part)
    return [piece for piece in pieces if piece.text]


def _text_pieces(written: Sequence[str], part: TextPart, at: int) -> list[Wording]:
    if len(written) == 1:
        return [Wording("text", written[0], at)]
    middle = next(i for i in range(len(written) - 2, -1, -1) if written[i] == part.text)
    return [
        Wording("open", "".join(written[:middle]), at),
        Wording("text", part.text, at),
        Wording("close", "".join(written[middle + 1 :]), at),
    ]


def _call_pieces(written: Sequence[str], at: int) -> list[Wording]:
    pieces: list[Wording] = []
    role: Role = "section_open"
    for text in _SPLIT.split("".join(written)):
        if text == _CALL:
            if pieces and pieces[-1].role == "section_close":
                pieces[-1] = Wording("separator", pieces[-1].text, at)
            role = "head"
        elif text == _PAYLOAD:
            role = "payload"
        elif text == _PAYLOAD_END:
            role = "tail"
        elif text == _CALL_END:
            role = "section_close"
            at += 1
        elif text:
            pieces.append(Wording(role, text, max(at - (role == "section_close"), 0)))
    return pieces
