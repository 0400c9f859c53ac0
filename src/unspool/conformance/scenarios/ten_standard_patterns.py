"""Ten standard scenarios that every tool call parser should handle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ...dialects.parse_templates import Placeholder, parse_template
from ...testing import RenderedPiece
from ..case_format import Unfinished
from .sample_parts import (
    PARIS,
    PING,
    REASONING,
    STANDARD_TOOLS,
    Call,
    ScenarioPart,
    values,
    weather,
    write,
)
from .scenario import Draft, DraftEdit, ExpectedCall, Scenario

PATTERNS: Final = (
    "no call",
    "one call",
    "parallel calls",
    "all data types",
    "no arguments",
    "text and whitespace around calls",
    "escapes and special characters",
    "malformed",
    "streaming",
    "splits",
)
TITLE: Final = "The ten standard patterns"
OWN_END: Final = "\0"
"""Placeholder for the dialect's marker that ends a call."""

SIZES: Final = (1, 2, 3, 5, 8, 13, 40)
"""Chunk lengths in the scenario ``streaming``."""
NESTED: Final = {"k": "v", "deep": {"x": [1]}}
PUNCTUATION: Final = "Two things:\n\n- f(x) = [1, 2] and {y}, if 1 < 2 & 3 > 2\n- 50 % off\n\nBye."
CODE: Final = 'def f(a: str) -> str:\n\treturn "C:\\\\" + a  # it\'s "quoted"\n\n\nprint(f("\\n"))\n'
UNICODE: Final = "Zürich, Привет, 東京, مرحبا, नमस्ते, e\u0301, 👩\u200d👩\u200d👧, 🏴\u200d☠\ufe0f, ｜▁"
MARKUP: Final = (
    '<div class="x">1 &lt; 2 &amp; 3</div> <!-- c --> {"a": [1, {"b": "]}"}]} ${x} %s {0} `code` # *'
)
LONG: Final = "Reykjavik"
"""Argument value that scenarios break or truncate; each output contains it only once."""

COMPLETE: Final = "The parser returns everything that the model wrote."


def standard_tools(draft: Draft) -> None:
    """Declare only the standard tools in the request."""
    draft.tools = STANDARD_TOOLS


def _append_end_of_turn(draft: Draft) -> str | None:
    standard_tools(draft)
    draft.pieces.append(RenderedPiece("text", draft.capabilities.dialect.stop[0], -1))
    return None


def _insert_own_end(draft: Draft) -> None:
    standard_tools(draft)
    end_marker = draft.capabilities.end_marker
    draft.order = [
        ExpectedCall(_with_end(part.call, end_marker), part.id) if isinstance(part, ExpectedCall) else part
        for part in draft.order
    ]
    # The placeholder is escaped in JSON and unchanged in other notations.
    spellings = (json.dumps(OWN_END)[1:-1], OWN_END)
    for number, piece in enumerate(draft.pieces):
        text = piece.text
        for spelling in spellings:
            text = text.replace(spelling, end_marker)
        draft.pieces[number] = RenderedPiece(piece.kind, text, piece.part)


def _with_end(call: Call, end_marker: str) -> Call:
    arguments = {
        k: v.replace(OWN_END, end_marker) if isinstance(v, str) else v for k, v in call.arguments.items()
    }
    return Call(call.name, arguments)


def _cut_inside(draft: Draft, word: str, kept: int) -> str:
    """Truncate the output inside the last ``word``; return the remaining text of the last call."""
    text = draft.text
    cut = text.rindex(word) + kept
    last = max(i for i, piece in enumerate(draft.pieces) if piece.kind in ("tail", "payload"))
    number = draft.pieces[last].part
    before = sum(len(piece.text) for piece in draft.pieces if piece.part < number)
    draft.pieces = [RenderedPiece("text", text[:cut], 0)]
    draft.finish_reason = draft.finish = "length"
    return text[before:cut]


def _cut_in_value(draft: Draft) -> None:
    standard_tools(draft)
    last = draft.order.pop()
    assert isinstance(last, ExpectedCall)  # noqa: S101 - the patterns end with a call
    call = last.call
    arguments = call.json[: call.json.rindex(LONG) + 4]
    draft.order.append(Unfinished("truncated", _cut_inside(draft, LONG, 4), call.name, arguments))


def _cut_in_name(draft: Draft) -> None:
    standard_tools(draft)
    last = draft.order.pop()
    assert isinstance(last, ExpectedCall)  # noqa: S101 - the patterns end with a call
    call = last.call
    draft.order.append(Unfinished("fragment", _cut_inside(draft, call.name, 5)))


def break_value(draft: Draft) -> None:
    """Break a call: write the word ``oops`` instead of a JSON string, or before a parameter tag."""
    standard_tools(draft)
    at, call = next(
        (i, part.call)
        for i, part in enumerate(draft.order)
        if isinstance(part, ExpectedCall) and LONG in part.call.json
    )
    number = next(i for i, piece in enumerate(draft.pieces) if LONG in piece.text)
    piece = draft.pieces[number]
    if draft.capabilities.tagged:
        opening = parse_template(draft.capabilities.dialect.param[0])[0]
        assert not isinstance(opening, Placeholder)  # noqa: S101 - a parameter begins with a literal
        cut = piece.text.rindex(opening.text.strip(), 0, piece.text.index(LONG))
        text = f"{piece.text[:cut]}oops{piece.text[cut:]}"
    else:
        text = piece.text.replace(f'"{LONG}"', "oops")
    draft.pieces[number] = RenderedPiece(piece.kind, text, piece.part)
    draft.order[at] = Unfinished("malformed", draft.call_text(piece.part), call.name, call.json)


def _scenario(
    pattern: int,
    title: str,
    parts: Sequence[ScenarioPart],
    edit: DraftEdit | None = None,
    *,
    needs: Sequence[str] = (),
    rule: str = COMPLETE,
) -> Scenario:
    name = f"{pattern} {PATTERNS[pattern - 1]}: {title}"
    return Scenario("standard", name, parts, rule, needs, edit or standard_tools)


SCENARIOS: Final = (
    _scenario(1, "plain text", ["The sky over Paris is clear."]),
    _scenario(1, "text with punctuation and blank lines", [PUNCTUATION]),
    _scenario(1, "reasoning, then text", [REASONING, "It is sunny in Paris."]),
    _scenario(1, "reasoning only", [REASONING]),
    _scenario(2, "alone", [PARIS]),
    _scenario(2, "after reasoning", [REASONING, PARIS]),
    _scenario(3, "two functions", [PARIS, write("a.txt", "Hello")]),
    _scenario(3, "one function, three times", [weather("Paris"), weather("Rome"), weather("Paris")]),
    _scenario(3, "after reasoning", [REASONING, PARIS, PING]),
    _scenario(
        4,
        "every type",
        [values(s="42", i=42, f=3.5, b=True, n=None, a=[1, 2], o=NESTED, ea=[], eo={}, u="é")],
    ),
    _scenario(
        4,
        "every type, other values",
        [values(s="", i=-(2**53) - 1, f=-0.25, b=False, n="no", a=[-1, 0, 10**20], o={"k": "", "deep": {}})],
    ),
    _scenario(
        4, "strings that look like something else", [values(s="null", u="true"), values(s="5", u="[1]")]
    ),
    _scenario(5, "alone", [PING]),
    _scenario(5, "between other calls", [PARIS, PING, weather("Rome")]),
    _scenario(6, "text before", ["Let me check.", PARIS]),
    _scenario(6, "text after", [PARIS, "I will report back."]),
    _scenario(6, "text before and after", ["Let me check.", PARIS, "I will report back."]),
    _scenario(6, "text between calls", ["First Paris.", weather("Paris"), "Then Rome.", weather("Rome")]),
    _scenario(6, "reasoning and text before", [REASONING, "Let me check.", PARIS, PING]),
    _scenario(6, "lines and indentation before", ["Two steps:\n\n  1. ask\n  2. wait", PARIS]),
    _scenario(6, "whitespace in values", [write("  a b ", " \tx  y\n"), write("c", "\n\nz ")]),
    _scenario(6, "the end of the turn", [PARIS], _append_end_of_turn, needs=["stop"]),
    _scenario(
        6, "the end of the turn after text", ["It is sunny in Paris."], _append_end_of_turn, needs=["stop"]
    ),
    _scenario(7, "quotes, backslashes, newlines", [write("C:\\temp\\new", CODE)], needs=["escapes"]),
    _scenario(7, "Unicode", [write("a", UNICODE)]),
    _scenario(7, "markup and JSON in a string", [write("a.html", MARKUP)], needs=["escapes"]),
    _scenario(
        7,
        "the call's own end marker in a string",
        [write("a", f"a {OWN_END} b"), PING],
        _insert_own_end,
        needs=["end"],
    ),
    _scenario(
        8,
        "cut inside the arguments",
        [weather(LONG)],
        _cut_in_value,
        rule="A truncated call is not a complete call.",
    ),
    _scenario(
        8,
        "cut inside the arguments of the last call",
        [PARIS, PING, weather(LONG)],
        _cut_in_value,
        rule="The calls before the truncated one are valid.",
    ),
    _scenario(
        8,
        "cut inside the name of the last call",
        [PING, PARIS],
        _cut_in_name,
        rule="The call before it is valid; a truncated name does not start a call.",
    ),
    _scenario(
        8,
        "reasoning and text, then truncated",
        [REASONING, "Let me check.", weather(LONG)],
        _cut_in_value,
        rule="Reasoning and text are kept; a truncated call is not a complete call.",
    ),
    _scenario(
        8,
        "a broken call between valid calls",
        [PARIS, weather(LONG), PING],
        break_value,
        needs=["marker"],
        rule="The calls around it are valid; the broken one is not a call.",
    ),
    _scenario(
        9,
        "everything",
        [REASONING, "Let me check:", PARIS, PING, write("a.txt", CODE)],
        needs=["escapes"],
    ),
    _scenario(9, "one call", [write("a b.txt", UNICODE)]),
    _scenario(9, "two calls", [PARIS, values(s="42", i=42, b=True, a=[1, 2], u="é🙂")]),
    _scenario(10, "inside name, key and value", [weather(LONG, unit="celsius")]),
    _scenario(10, "inside the names and between the calls", [values(s="first"), weather(LONG)]),
)
