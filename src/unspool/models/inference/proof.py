"""Proof that a dialect explains an output: parsed, rendered back and equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..._core.render.message import render_checked
from ...dialects import CONTROL_TOKEN, Dialect, dialect_texts
from ...dialects.parse_templates import literals, parse_template
from ...errors import UnspoolError
from ...message import Message
from ...parser import parse
from .outputs import Output


@dataclass(frozen=True, slots=True)
class OutputProof:
    """How well a dialect explains one output."""

    line: int
    """Number of the output, from 1."""
    message: Message
    """Message that the dialect's parser returns for the output."""
    problem: str = ""
    """Why the output is not explained; empty if it is."""
    rendered: Literal["equal", "spelling", "different", ""] = ""
    """Comparison of the output with the text that ``render`` writes for the message.

    ``equal``; different only in ``spelling``, that is whitespace and quotation marks; ``different``, but with
    the same message; or empty if it cannot be rendered.
    """

    @property
    def parsed(self) -> bool:
        """True if the output was parsed without a problem."""
        return not self.problem

    @property
    def explained(self) -> bool:
        """True if the output was parsed without a problem and rendering its message restores it."""
        return not self.problem and self.rendered in ("equal", "spelling")

    def __str__(self) -> str:
        if self.problem:
            return f"not explained: {self.problem}"
        return _VERDICTS[self.rendered]

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as JSON values."""
        return {
            "line": self.line,
            "explained": self.explained,
            "problem": self.problem,
            "rendered": self.rendered,
            "message": self.message.to_dict(),
        }


_VERDICTS = {
    "equal": "parsed, rendered back, equal",
    "spelling": "parsed, rendered back, equal except for whitespace and quotation marks",
    "different": "parsed, rendered back with the same message but another text",
    "": "parsed, cannot be rendered back",
}


def prove(dialect: Dialect, output: Output, line: int, names: Sequence[str]) -> OutputProof:
    """Return how well a dialect explains an output.

    :param names: the names of the calls that were found in the output.
    """
    text = output.text
    message = parse(text, dialect, tools=output.tools, prompt=output.prompt)
    problem = _problem(message, dialect, names)
    if problem:
        return OutputProof(line, message, problem)
    try:
        written, wrong = render_checked(dialect, message, prove=True, tools=output.tools)
    except UnspoolError as error:
        return OutputProof(line, message, rendered="", problem=f"cannot be rendered: {error}")
    if wrong:
        return OutputProof(line, message, f"rendered and parsed again, {wrong}")
    return OutputProof(line, message, rendered=_compared(text, written, dialect))


def _problem(message: Message, dialect: Dialect, names: Sequence[str]) -> str:
    for diagnostic in message.diagnostics:
        return f"{diagnostic.kind}: {diagnostic.detail}"
    found = [call.name for call in message.tool_calls]
    if found != list(names):
        return f"calls of {', '.join(found) or 'nothing'} instead of {', '.join(names) or 'nothing'}"
    visible = f"{message.reasoning or ''}\n{message.content or ''}"
    marker = next((each for each in markers(dialect) if each in visible), "")
    token = CONTROL_TOKEN.search(visible)
    if token and not marker:
        marker = token[0]
    return f"the marker {marker!r} is read as text" if marker else ""


def markers(dialect: Dialect) -> list[str]:
    """Return the literal texts of a dialect that prose does not contain by chance."""
    found = {
        text.strip() for template in dialect_texts(dialect) for text in literals(parse_template(template))
    }
    return sorted(text for text in found if len(text) > 2 and re.search(r"[^\w\s,.;:!?'\"()]", text))


def _compared(text: str, written: str, dialect: Dialect) -> Literal["equal", "spelling", "different"]:
    for end in sorted(dialect.stop, key=len, reverse=True):
        text = text.rstrip().removesuffix(end) if text.rstrip().endswith(end) else text
    seed = dialect.prompt.start
    if seed and not text.lstrip().startswith(seed.strip()):
        written = written.removeprefix(seed)
    if text == written:
        return "equal"
    return "spelling" if _without_spelling(text) == _without_spelling(written) else "different"


def _without_spelling(text: str) -> str:
    """Return a text without whitespace, quotation marks and backslashes."""
    return re.sub(r"[\s\"'\\]|\\n", "", text)
