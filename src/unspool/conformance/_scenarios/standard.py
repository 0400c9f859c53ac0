"""The ten standard patterns: what every parser of tool calls is expected to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ...dialects._templates import Hole, parse_template
from .._cases import Unfinished
from .message_parts import (
    PARIS,
    PING,
    STANDARD_TOOLS,
    THOUGHT,
    Call,
    Say,
    values,
    weather,
    write,
)
from .rendering import Wording
from .scenario import Draft, Meant, Scenario, Twist

PATTERNS: Final = (
    "no call",
    "one call",
    "parallel calls",
    "all types of data",
    "no arguments",
    "text and white space around calls",
    "escapes and special characters",
    "malformed",
    "streaming",
    "splits",
)
TITLE: Final = "The ten standard patterns"
OWN_END: Final = "\0"
"""Stands for the marker that ends a call of the dialect."""

SIZES: Final = (1, 2, 3, 5, 8, 13, 40)
"""Lengths of chunks for the pattern ``streaming``."""
NESTED: Final = {"k": "v", "deep": {"x": [1]}}
SIGNS: Final = "Two things:\n\n- f(x) = [1, 2] and {y}, if 1 < 2 & 3 > 2\n- 50 % off\n\nBye."
CODE: Final = 'def f(a: str) -> str:\n\treturn "C:\\\\" + a  # it\'s "quoted"\n\n\nprint(f("\\n"))\n'
UNICODE: Final = "Zürich, Привет, 東京, مرحبا, नमस्ते, e\u0301, 👩\u200d👩\u200d👧, 🏴\u200d☠\ufe0f, ｜▁"
MARKUP: Final = (
    '<div class="x">1 &lt; 2 &amp; 3</div> <!-- c --> {"a": [1, {"b": "]}"}]} ${x} %s {0} `code` # *'
)
LONG: Final = "Reykjavik"
"""The value that patterns break or cut: it occurs once."""

MEANT: Final = "Everything comes out as it was meant."


def standard_tools(draft: Draft) -> None:
    """The request offers the tools of the standard patterns and no others."""
    draft.tools = STANDARD_TOOLS


def _ends_turn(draft: Draft) -> str | None:
    standard_tools(draft)
    draft.pieces.append(Wording("text", draft.able.dialect.stop[0], -1))
    return None


def _own_end(draft: Draft) -> None:
    standard_tools(draft)
    end = draft.able.end
    draft.order = [
        Meant(_with_end(part.call, end), part.id) if isinstance(part, Meant) else part for part in draft.order
    ]
    # JSON writes the placeholder as an escape, other notations as it is.
    spellings = (json.dumps(OWN_END)[1:-1], OWN_END)
    for number, piece in enumerate(draft.pieces):
        text = piece.text
        for spelling in spellings:
            text = text.replace(spelling, end)
        draft.pieces[number] = Wording(piece.role, text, piece.part)


def _with_end(call: Call, end: str) -> Call:
    arguments = {k: v.replace(OWN_END, end) if isinstance(v, str) else v for k, v in call.arguments.items()}
    return Call(call.name, arguments)


def _cut(draft: Draft, word: str, kept: int) -> str:
    """Cut the text inside the last ``word``; returns what is left of the last call."""
    text = draft.text
    cut = text.rindex(word) + kept
    last = max(i for i, piece in enumerate(draft.pieces) if piece.role in ("tail", "payload"))
    number = draft.pieces[last].part
    before = sum(len(piece.text) for piece in draft.pieces if piece.part < number)
    draft.pieces = [Wording("text", text[:cut], 0)]
    draft.finish_reason = draft.finish = "length"
    return text[before:cut]


def _cut_in_value(draft: Draft) -> None:
    standard_tools(draft)
    last = draft.order.pop()
    assert isinstance(last, Meant)  # noqa: S101 - so the patterns are written
    call = last.call
    arguments = call.json[: call.json.rindex(LONG) + 4]
    draft.order.append(Unfinished("truncated", _cut(draft, LONG, 4), call.name, arguments))


def _cut_in_name(draft: Draft) -> None:
    standard_tools(draft)
    last = draft.order.pop()
    assert isinstance(last, Meant)  # noqa: S101 - so the patterns are written
    call = last.call
    draft.order.append(Unfinished("fragment", _cut(draft, call.name, 5)))


def break_value(draft: Draft) -> None:
    """A word where none belongs: for a value of JSON, or before the parameters."""
    standard_tools(draft)
    at, call = next(
        (i, part.call)
        for i, part in enumerate(draft.order)
        if isinstance(part, Meant) and LONG in part.call.json
    )
    number = next(i for i, piece in enumerate(draft.pieces) if LONG in piece.text)
    piece = draft.pieces[number]
    if draft.able.tagged:
        opening = parse_template(draft.able.dialect.param[0])[0]
        assert not isinstance(opening, Hole)  # noqa: S101 - a parameter begins with a literal
        cut = piece.text.rindex(opening.text.strip(), 0, piece.text.index(LONG))
        text = f"{piece.text[:cut]}oops{piece.text[cut:]}"
    else:
        text = piece.text.replace(f'"{LONG}"', "oops")
    draft.pieces[number] = Wording(piece.role, text, piece.part)
    draft.order[at] = Unfinished("malformed", draft.around(piece.part), call.name, call.json)


def _scenario(
    pattern: int, title: str, parts: Sequence[Say], twist: Twist | None = None, *, needs: Sequence[str] = (),
    rule: str = MEANT,
) -> Scenario:  # fmt: skip
    name = f"{pattern} {PATTERNS[pattern - 1]}: {title}"
    return Scenario("standard", name, parts, rule, needs, twist or standard_tools)


SCENARIOS: Final = (
    _scenario(1, "plain text", ["The sky over Paris is clear."]),
    _scenario(1, "text with signs and blank lines", [SIGNS]),
    _scenario(1, "reasoning, then text", [THOUGHT, "It is sunny in Paris."]),
    _scenario(1, "reasoning only", [THOUGHT]),
    _scenario(2, "alone", [PARIS]),
    _scenario(2, "after reasoning", [THOUGHT, PARIS]),
    _scenario(3, "two functions", [PARIS, write("a.txt", "Hello")]),
    _scenario(3, "one function, three times", [weather("Paris"), weather("Rome"), weather("Paris")]),
    _scenario(3, "after reasoning", [THOUGHT, PARIS, PING]),
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
    _scenario(5, "between others", [PARIS, PING, weather("Rome")]),
    _scenario(6, "text before", ["Let me check.", PARIS]),
    _scenario(6, "text after", [PARIS, "I will report back."]),
    _scenario(6, "text before and after", ["Let me check.", PARIS, "I will report back."]),
    _scenario(6, "text between calls", ["First Paris.", weather("Paris"), "Then Rome.", weather("Rome")]),
    _scenario(6, "reasoning and text before", [THOUGHT, "Let me check.", PARIS, PING]),
    _scenario(6, "lines and indentation before", ["Two steps:\n\n  1. ask\n  2. wait", PARIS]),
    _scenario(6, "white space in values", [write("  a b ", " \tx  y\n"), write("c", "\n\nz ")]),
    _scenario(6, "the end of the turn", [PARIS], _ends_turn, needs=["stop"]),
    _scenario(6, "the end of the turn after text", ["It is sunny in Paris."], _ends_turn, needs=["stop"]),
    _scenario(7, "quotes, backslashes, line breaks", [write("C:\\temp\\new", CODE)], needs=["escapes"]),
    _scenario(7, "Unicode", [write("a", UNICODE)]),
    _scenario(7, "markup and JSON in a string", [write("a.html", MARKUP)], needs=["escapes"]),
    _scenario(
        7,
        "the call's own end marker in a string",
        [write("a", f"a {OWN_END} b"), PING],
        _own_end,
        needs=["end"],
    ),
    _scenario(8, "cut inside the arguments", [weather(LONG)], _cut_in_value, rule="Half a call is none."),
    _scenario(
        8,
        "cut inside the arguments of the last call",
        [PARIS, PING, weather(LONG)],
        _cut_in_value,
        rule="The calls before it are good, the last one is none.",
    ),
    _scenario(
        8,
        "cut inside the name of the last call",
        [PING, PARIS],
        _cut_in_name,
        rule="The call before it is good; half a name is none.",
    ),
    _scenario(
        8,
        "reasoning and text, then cut",
        [THOUGHT, "Let me check.", weather(LONG)],
        _cut_in_value,
        rule="Reasoning and text are there, half a call is none.",
    ),
    _scenario(
        8,
        "a broken call between good ones",
        [PARIS, weather(LONG), PING],
        break_value,
        needs=["marker"],
        rule="The calls around it are good; the broken one is no call.",
    ),
    _scenario(
        9,
        "everything",
        [THOUGHT, "Let me check:", PARIS, PING, write("a.txt", CODE)],
        needs=["escapes"],
    ),
    _scenario(9, "one call", [write("a b.txt", UNICODE)]),
    _scenario(9, "two calls", [PARIS, values(s="42", i=42, b=True, a=[1, 2], u="é🙂")]),
    _scenario(10, "inside name, key and value", [weather(LONG, unit="celsius")]),
    _scenario(10, "inside the names, and between the calls", [values(s="first"), weather(LONG)]),
)
