"""The ten standard patterns, for every dialect that has calls.

A scenario says once what a model means; ``render`` says it in the words of each dialect.  What must come out
is what was meant: it is never asked of the parser.  ``python tests/standard.py`` writes the result to
``corpus/<dialect>/standard.md``, where it is read like the rest of the corpus; ``test_standard.py`` checks
that the files are up to date, and cuts the texts of the last two patterns as they say.

A scenario that a dialect cannot express is left out, and the page says why: ``Able.lacks``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise, takewhile
from pathlib import Path
from typing import Any, Final

from unspool import Dialect, Message, Part, TextPart, ToolCall, list_dialects, render
from unspool._template import PAYLOADS, Hole, parse_template, split_at
from vectors import CORPUS, fragile

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

# -- what a model means


@dataclass(frozen=True)
class Call:
    """A call; ``arguments`` is a value."""

    name: str
    arguments: dict[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Thought:
    """Reasoning."""

    text: str


@dataclass(frozen=True)
class Scenario:
    """One thing to say: strings are content."""

    pattern: int  # from 1
    title: str
    parts: Sequence[str | Thought | Call]
    needs: Sequence[str] = ()  # beside what the parts need
    end: str = ""  # which way it ends: stop, value, name
    broken: str = ""  # what the string of this value is replaced by: such a call is malformed
    cuts: Sequence[tuple[str, str]] = ()  # where to cut: a word of the text and its first half
    sizes: Sequence[int] = ()  # or the length of all chunks


def weather(city: str, **more: str) -> Call:
    return Call("get_weather", {"city": city, **more})


def write(path: str, content: str) -> Call:
    return Call("write_file", {"path": path, "content": content})


def values(**arguments: Any) -> Call:
    return Call("set_all", arguments)


PING = Call("ping", {})
PARIS = weather("Paris", unit="celsius")
THOUGHT = Thought("The user wants to know about the weather.\nI should ask the tool.")
BETWEEN = ("", "")
"""The place behind the first call."""
OWN_END = "\0"
"""Stands for the marker that ends a call of the dialect."""

SIZES = (1, 2, 3, 5, 8, 13, 40)
NESTED = {"k": "v", "deep": {"x": [1]}}
SIGNS = "Two things:\n\n- f(x) = [1, 2] and {y}, if 1 < 2 & 3 > 2\n- 50 % off\n\nBye."
CODE = 'def f(a: str) -> str:\n\treturn "C:\\\\" + a  # it\'s "quoted"\n\n\nprint(f("\\n"))\n'
UNICODE = "Zürich, Привет, 東京, مرحبا, नमस्ते, e\u0301, 👩\u200d👩\u200d👧, 🏴\u200d☠\ufe0f, ｜▁"
MARKUP = '<div class="x">1 &lt; 2 &amp; 3</div> <!-- c --> {"a": [1, {"b": "]}"}]} ${x} %s {0} `code` # *'

SCENARIOS: Final = (
    Scenario(1, "plain text", ["The sky over Paris is clear."]),
    Scenario(1, "text with signs and blank lines", [SIGNS]),
    Scenario(1, "reasoning, then text", [THOUGHT, "It is sunny in Paris."]),
    Scenario(1, "reasoning only", [THOUGHT]),
    Scenario(2, "alone", [PARIS]),
    Scenario(2, "after reasoning", [THOUGHT, PARIS]),
    Scenario(3, "two functions", [PARIS, write("a.txt", "Hello")]),
    Scenario(3, "one function, three times", [weather("Paris"), weather("Rome"), weather("Paris")]),
    Scenario(3, "after reasoning", [THOUGHT, PARIS, PING]),
    Scenario(
        4,
        "every type",
        [values(s="42", i=42, f=3.5, b=True, n=None, a=[1, 2], o=NESTED, ea=[], eo={}, u="é")],
    ),
    Scenario(
        4,
        "every type, other values",
        [values(s="", i=-(2**53) - 1, f=-0.25, b=False, n="no", a=[-1, 0, 10**20], o={"k": "", "deep": {}})],
    ),
    Scenario(
        4, "strings that look like something else", [values(s="null", u="true"), values(s="5", u="[1]")]
    ),
    Scenario(5, "alone", [PING]),
    Scenario(5, "between others", [PARIS, PING, weather("Rome")]),
    Scenario(6, "text before", ["Let me check.", PARIS]),
    Scenario(6, "text after", [PARIS, "I will report back."]),
    Scenario(6, "text before and after", ["Let me check.", PARIS, "I will report back."]),
    Scenario(6, "text between calls", ["First Paris.", weather("Paris"), "Then Rome.", weather("Rome")]),
    Scenario(6, "reasoning and text before", [THOUGHT, "Let me check.", PARIS, PING]),
    Scenario(6, "lines and indentation before", ["Two steps:\n\n  1. ask\n  2. wait", PARIS]),
    Scenario(6, "white space in values", [write("  a b ", " \tx  y\n"), write("c", "\n\nz ")]),
    Scenario(6, "the end of the turn", [PARIS], end="stop"),
    Scenario(6, "the end of the turn after text", ["It is sunny in Paris."], end="stop"),
    Scenario(7, "quotes, backslashes, line breaks", [write("C:\\temp\\new", CODE)], needs=["escapes"]),
    Scenario(7, "Unicode", [write("a", UNICODE)]),
    Scenario(7, "markup and JSON in a string", [write("a.html", MARKUP)], needs=["escapes"]),
    Scenario(7, "the call's own end marker in a string", [write("a", f"a {OWN_END} b"), PING], needs=["end"]),
    Scenario(8, "cut inside the arguments", [weather("Reykjavik")], end="value"),
    Scenario(
        8, "cut inside the arguments of the last call", [PARIS, PING, weather("Reykjavik")], end="value"
    ),
    Scenario(8, "cut inside the name of the last call", [PING, PARIS], end="name"),
    Scenario(
        8, "reasoning and text, then cut", [THOUGHT, "Let me check.", weather("Reykjavik")], end="value"
    ),
    Scenario(
        8,
        "a broken call between good ones",
        [PARIS, weather("Reykjavik"), PING],
        broken="Reykjavik",
        needs=["marker"],
    ),
    Scenario(
        9,
        "everything",
        [THOUGHT, "Let me check:", PARIS, PING, write("a.txt", CODE)],
        needs=["escapes"],
        sizes=SIZES,
    ),
    Scenario(9, "one call", [write("a b.txt", UNICODE)], sizes=SIZES),
    Scenario(9, "two calls", [PARIS, values(s="42", i=42, b=True, a=[1, 2], u="é🙂")], sizes=SIZES),
    Scenario(
        10,
        "inside name, key and value",
        [weather("Reykjavik", unit="celsius")],
        cuts=(
            ("get_weather", "get_wea"),
            ("city", "ci"),
            ("Reykjavik", "Reyk"),
            ("unit", "uni"),
            ("celsius", "c"),
        ),
    ),
    Scenario(
        10,
        "inside the names, and between the calls",
        [values(s="first"), weather("Reykjavik")],
        cuts=(
            ("set_all", "set"),
            ("first", "first"),
            BETWEEN,
            ("get_weather", ""),
            ("get_weather", "g"),
            ("Reykjavik", "R"),
        ),
    ),
)

# -- what a dialect can express


class Able:
    """What a dialect can express, by rule."""

    def __init__(self, dialect: Dialect) -> None:
        frame = dialect.frame
        routes = [route for route in frame.routes if route.header] if frame is not None else []
        into = {route.into: route.header for route in routes}
        calls = [header for hole, header in into.items() if hole.startswith("{")]
        self.dialect: Final = dialect
        self.framed: Final = frame is not None
        template = next(
            (hole for hole in into if hole in ("{args}", "{params}")), dialect.call[0] if dialect.call else ""
        )
        _, payload, _ = split_at(parse_template(template), *PAYLOADS)
        assert payload is not None
        self.tagged: Final = payload.field == "params"
        self.verbatim: Final = not self.tagged and (payload.notation or dialect.args) == "json"
        """Arguments are JSON, and stay as they are."""
        self.sorts: Final = dialect.args == "bare"
        """The templates of this notation sort keys, and so do the models."""
        self.carries_ids: Final = (
            "{id}" in "".join([template, *calls])
            or dialect.name_forms[0] == dialect.id_format.pattern
            or (payload.field == "envelope" and "id" in dialect.envelope)
        )
        self.end: Final = self._end(template)
        """What ends a call, or the calls."""

        self.lacks: Final[dict[str, str]] = {}
        """What it cannot express, and why."""
        if dialect.fixed_name:
            self.lacks["name"] = "every call is one of the same function"
        if not (("reasoning" in into) if self.framed else dialect.reasoning):
            self.lacks["reasoning"] = "it has no reasoning"
        if dialect.name in ONE_CALL:
            self.lacks["parallel"] = ONE_CALL[dialect.name]
        if dialect.section[0].startswith("^"):
            self.lacks["before"] = "calls count only where no text came before"
        if dialect.args == "loose":
            self.lacks["escapes"] = "strings are written without escapes"
        if not self.end:
            self.lacks["end"] = "no marker ends a call"
        elif self.framed and self.tagged:
            self.lacks["end"] = "a control token ends the message, wherever it stands"
        if not self.framed and isinstance(parse_template(template)[0], Hole):
            self.lacks["marker"] = (
                "a call has no marker of its own, so that nothing tells where the next one begins"
            )
        elif not self.tagged and not self.verbatim:
            self.lacks["marker"] = "what is broken in this notation is a matter of taste"
        elif self.tagged and not self.framed and _name_is_open(template):
            self.lacks["marker"] = "the name ends where the parameters begin"

    def _end(self, template: str) -> str:
        frame = self.dialect.frame
        if frame is not None:
            return frame.call_end or (frame.ends[0] if frame.ends else "")
        for whole in (template, self.dialect.section[0].lstrip("^?")):
            before, _, after = split_at(parse_template(whole), "calls", *PAYLOADS)
            array = bool(before) and before[-1].text.endswith("[")
            text = "".join(piece.text for piece in after).strip()
            if text := text.removeprefix("]").strip() if array else text:
                return text.split("\n")[-1]
        return ""

    def needs(self, scenario: Scenario) -> set[str]:
        """What the scenario takes."""
        found = set(scenario.needs)
        calls = [i for i, part in enumerate(scenario.parts) if isinstance(part, Call)]
        texts = [i for i, part in enumerate(scenario.parts) if isinstance(part, str)]
        if calls:
            found.add("name")
        if len(calls) > 1:
            found.add("parallel")
        if calls and texts and texts[0] < calls[-1]:
            found.add("before")
        if any(isinstance(part, Thought) for part in scenario.parts):
            found.add("reasoning")
        return found

    def why_not(self, scenario: Scenario) -> str:
        """Why the scenario is left out; empty if it is not."""
        if scenario.end == "stop" and not self.dialect.stop:
            return "nothing ends a turn"
        return "; ".join(self.lacks[need] for need in sorted(self.needs(scenario) & self.lacks.keys()))


ONE_CALL: Final = {"gigachat3": "a turn has one call"}


def _name_is_open(template: str) -> bool:
    for piece, following in pairwise(parse_template(template)):
        if isinstance(piece, Hole) and piece.field == "name":
            return isinstance(following, Hole) or not following.text.strip()
    return False


def callers() -> list[Dialect]:
    """Every dialect that has calls."""
    return [
        dialect
        for dialect in list_dialects()
        if dialect.call
        or (dialect.frame and any(route.into.startswith("{") for route in dialect.frame.routes))
    ]


# -- a scenario in a dialect


@dataclass(frozen=True)
class Case:
    """A scenario in the words of a dialect."""

    scenario: Scenario
    raw: str
    reasoning: str | None
    content: str | None
    calls: Sequence[Call]  # the complete ones
    cut: tuple[str, str] | None  # the name, and what was written of the arguments
    ids: Sequence[str]
    splits: Sequence[int]  # offsets in the text
    header: Sequence[str]

    @property
    def title(self) -> str:
        scenario = self.scenario
        return f"{scenario.pattern} {PATTERNS[scenario.pattern - 1]}: {scenario.title}"


def cases(dialect: Dialect) -> Iterator[Case]:
    """Every scenario that the dialect can express."""
    able = Able(dialect)
    for scenario in SCENARIOS:
        if not able.why_not(scenario):
            yield _case(scenario, able)


def _case(scenario: Scenario, able: Able) -> Case:
    dialect = able.dialect
    parts = [_with_end(part, able.end) for part in scenario.parts]
    meant = [part for part in parts if isinstance(part, Call)]
    ids = [_id(dialect, call.name, number) for number, call in enumerate(meant)] if able.carries_ids else []
    raw = render(dialect, Message(parts=tuple(_rendered(parts, able))))
    header = ["tools: xml"]
    cut = None
    if scenario.end == "stop":
        raw += dialect.stop[0]
    elif scenario.end:
        last = meant.pop()
        header.append("finish: length")
        if scenario.end == "name":
            raw = raw[: raw.rindex(last.name) + 5]
        else:
            city = str(last.arguments["city"])
            raw = raw[: raw.rindex(city) + 4]
            cut = last.name, last.json[: last.json.rindex(city) + 4]
    if scenario.broken:
        raw = _broken(raw, scenario.broken, able)
        header.append("policies: malformed_call=drop")
        good = [scenario.broken not in call.arguments.values() for call in meant]
        meant, ids = list(compress(meant, good)), list(compress(ids, good))
    texts = [
        part for i, part in enumerate(parts) if isinstance(part, str) and not _dropped(parts, i, dialect)
    ]
    thoughts = [part.text for part in parts if isinstance(part, Thought)]
    return Case(
        scenario,
        raw,
        "\n".join(thoughts) or None,
        "\n".join(texts) or None,
        meant,
        cut,
        ids,
        [
            _end_of_first(raw, parts, able) if place == BETWEEN else _place(raw, *place)
            for place in scenario.cuts
        ],
        header,
    )


def _with_end(part: str | Thought | Call, end: str) -> str | Thought | Call:
    if not isinstance(part, Call):
        return part
    arguments = {k: v.replace(OWN_END, end) if isinstance(v, str) else v for k, v in part.arguments.items()}
    return Call(part.name, arguments)


def _rendered(parts: Sequence[str | Thought | Call], able: Able) -> Iterator[Part]:
    """The parts as ``render`` takes them; text after a call begins a line."""
    number = 0
    said = False
    for part in parts:
        if isinstance(part, Call):
            yield ToolCall(_id(able.dialect, part.name, number), part.name, part.json)
            number += 1
        elif isinstance(part, Thought):
            yield TextPart("reasoning", part.text)
        else:
            line = number and not able.framed and (said or not able.dialect.content)
            yield TextPart("content", f"\n{part}" if line else part)
            said = True


def _dropped(parts: Sequence[str | Thought | Call], at: int, dialect: Dialect) -> bool:
    return dialect.after_calls == "drop" and any(isinstance(part, Call) for part in parts[:at])


def _id(dialect: Dialect, name: str, number: int) -> str:
    """An id in the dialect's format, the same every time."""
    random = "abcdefghijklmnopqrstuvwxyz"[number:][: dialect.id_format.length]
    pattern = dialect.id_format.pattern.replace("{index}", str(number + dialect.first_index))
    return pattern.replace("{random}", random).replace("{name}", name)


def _broken(raw: str, value: str, able: Able) -> str:
    """The text with a word where none belongs: for a value of JSON, or before the parameters."""
    if not able.tagged:
        return raw.replace(f'"{value}"', "oops")
    opening = parse_template(able.dialect.param[0])[0]
    assert not isinstance(opening, Hole)
    at = raw.rindex(opening.text.strip(), 0, raw.index(value))
    return f"{raw[:at]}oops{raw[at:]}"


def _place(raw: str, word: str, half: str) -> int:
    """Behind the first half of the word; a function's name may also stand in a header before the call."""
    start = raw.rindex(word) if word in {"get_weather", "set_all"} else raw.index(word)
    return start + len(half)


def _end_of_first(raw: str, parts: Sequence[str | Thought | Call], able: Able) -> int:
    """Behind the first call: at its end marker, or as far as the text is that of this call alone."""
    alone = render(able.dialect, Message(parts=tuple(_rendered(parts[:1], able))))
    different = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(raw, alone, strict=False)))
    end = raw.find(able.end, raw.index("first"))
    return min(different, end + len(able.end)) if able.end and end >= 0 else different


# -- the files


def path(dialect: Dialect) -> Path:
    return CORPUS / dialect.name.replace(":", "_") / "standard.md"


def page(dialect: Dialect) -> str:
    """The file of a dialect."""
    able = Able(dialect)
    lines = [
        f"# {dialect.name}: the standard patterns",
        "",
        "Written by `tests/standard.py`; change that instead.",
        "",
    ]
    left_out = {f"{s.pattern} {s.title}": why for s in SCENARIOS if (why := able.why_not(s))}
    if left_out:
        lines += ["Left out:", "", *(f"- {title}: {why}" for title, why in left_out.items()), ""]
    for case in cases(dialect):
        lines += [f"## {case.title}", "", *_remarks(case)]
        lines += [f"dialect: {dialect.name}"] if ":" in dialect.name else []
        lines += [*case.header, "", *_raw(case.raw), *_expected(case, able), ""]
    return "\n".join(lines).rstrip() + "\n"


def _remarks(case: Case) -> list[str]:
    if case.scenario.sizes:
        return [f"> In chunks of {', '.join(map(str, case.scenario.sizes))} characters.", ""]
    if case.splits:
        places = sorted(case.splits)
        return [
            f"> Cut at {', '.join(map(str, places))}: {', '.join(_around(case.raw, at) for at in places)}.",
            "",
        ]
    return []


def _around(raw: str, at: int) -> str:
    return f"`{raw[max(0, at - 5) : at]}|{raw[at : at + 5]}`".replace("\n", "⏎")


def _raw(raw: str) -> list[str]:
    if fragile(raw):
        return [
            "```json-string",
            *(json.dumps(line, ensure_ascii=_hidden(line)) for line in raw.splitlines(keepends=True)),
            "```",
        ]
    fence = "```"
    while fence in raw:
        fence += "`"
    return [f"{fence}raw", *raw.split("\n"), fence]


def _hidden(line: str) -> bool:
    """Whether the line has characters that an editor may not show."""
    return fragile(line.strip()) is not None


def _expected(case: Case, able: Able) -> list[str]:
    lines = [f"content: {json.dumps(case.content, ensure_ascii=False)}"]
    lines.append(f"reasoning: {json.dumps(case.reasoning, ensure_ascii=False)}")
    for number, call in enumerate(case.calls):
        arguments = _sorted(call.arguments) if able.sorts else call.arguments
        text = json.dumps(arguments, ensure_ascii=_hidden(call.json))
        lines.append(f"{'call-text' if able.verbatim and text == call.json else 'call'}: {call.name} {text}")
        if case.ids:
            lines.append(f"id: {case.ids[number]}")
    if case.cut is not None:
        lines.append(f"cut: {' '.join(case.cut)}")
    return ["```expected", *lines, "```"]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Write the files."""
    for dialect in callers():
        file = path(dialect)
        file.parent.mkdir(exist_ok=True)
        file.write_text(page(dialect), "utf-8")


if __name__ == "__main__":
    main()
