"""The ten standard patterns of the conformance suite, as files of the corpus.

``unspool.conformance`` says what they mean, how each dialect writes it and what must come out.
``python tests/support/standard.py`` writes the result to ``corpus/<dialect>/standard.md``, where it is read
like the rest of the corpus; ``test_standard.py`` checks that the files are up to date, and cuts the texts of
the last two patterns as they say.

A scenario that a dialect cannot express is left out, and the page says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from unspool import Dialect, Message, list_dialects, render
from unspool.conformance.model import TestCase, Unfinished
from unspool.conformance.scenarios.abilities import Able
from unspool.conformance.scenarios.scenario import Scenario, rendered
from unspool.conformance.scenarios.standard import PATTERNS, SCENARIOS, SIZES
from vectors import CORPUS, fragile

BETWEEN = ("", "")
"""The place behind the first call."""
CUTS: Final = {
    "inside name, key and value": (
        ("get_weather", "get_wea"),
        ("city", "ci"),
        ("Reykjavik", "Reyk"),
        ("unit", "uni"),
        ("celsius", "c"),
    ),
    "inside the names, and between the calls": (
        ("set_all", "set"),
        ("first", "first"),
        BETWEEN,
        ("get_weather", ""),
        ("get_weather", "g"),
        ("Reykjavik", "R"),
    ),
}
"""Where pattern 10 cuts: a word of the text and its first half."""


def pattern(scenario: Scenario) -> int:
    """The number of the pattern that a scenario belongs to."""
    return int(scenario.name.split(" ")[0])


def title(scenario: Scenario) -> str:
    """The title of a scenario, without that of its pattern."""
    return scenario.name.partition(": ")[2]


def callers() -> list[Dialect]:
    """Every dialect that has calls."""
    return [dialect for dialect in list_dialects() if Able(dialect).calls]


# -- a scenario in a dialect


@dataclass(frozen=True)
class Case:
    """A scenario in the words of a dialect."""

    scenario: Scenario
    test: TestCase
    splits: Sequence[int]  # offsets in the text

    @property
    def raw(self) -> str:
        return self.test.model_output

    @property
    def title(self) -> str:
        return self.scenario.name

    @property
    def pattern(self) -> int:
        return pattern(self.scenario)

    @property
    def sizes(self) -> Sequence[int]:
        """The length of all chunks."""
        return SIZES if PATTERNS[self.pattern - 1] == "streaming" else ()

    @property
    def unfinished(self) -> Unfinished | None:
        """The call that is cut or broken."""
        found = [part for part in self.test.expected_order if isinstance(part, Unfinished)]
        return found[0] if found else None

    @property
    def header(self) -> list[str]:
        lines = ["tools: xml"]
        if self.test.finish_reason == "length":
            lines.append("finish: length")
        if self.unfinished is not None and self.unfinished.kind == "malformed":
            lines.append("policies: malformed_call=drop")
        return lines


def cases(dialect: Dialect) -> Iterator[Case]:
    """Every scenario that the dialect can express."""
    able = Able(dialect)
    for scenario in SCENARIOS:
        case = scenario.case(able)
        if isinstance(case, TestCase):
            yield Case(scenario, case, [_place(case, scenario, able, cut) for cut in _cuts(scenario)])


def _cuts(scenario: Scenario) -> Sequence[tuple[str, str]]:
    return CUTS.get(title(scenario), ())


def _place(case: TestCase, scenario: Scenario, able: Able, cut: tuple[str, str]) -> int:
    """Behind the first half of the word; a function's name may also stand in a header before the call."""
    raw = case.model_output
    if cut == BETWEEN:
        return _end_of_first(raw, scenario, able)
    word, half = cut
    start = raw.rindex(word) if word in {"get_weather", "set_all"} else raw.index(word)
    return start + len(half)


def _end_of_first(raw: str, scenario: Scenario, able: Able) -> int:
    """Behind the first call: at its end marker, or as far as the text is that of this call alone."""
    alone = render(able.dialect, Message(parts=tuple(rendered(scenario.parts[:1], able))), check=False)
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
        "Written by `tests/support/standard.py`; change that instead.",
        "",
    ]
    left_out = [(scenario, why) for scenario in SCENARIOS if isinstance(why := scenario.case(able), str)]
    if left_out:
        lines += ["Left out:", "", *(f"- {pattern(s)} {title(s)}: {why}" for s, why in left_out), ""]
    for case in cases(dialect):
        lines += [f"## {case.title}", "", *_remarks(case)]
        lines += [f"dialect: {dialect.name}"] if ":" in dialect.name else []
        lines += [*case.header, "", *_raw(case.raw), *_expected(case), ""]
    return "\n".join(lines).rstrip() + "\n"


def _remarks(case: Case) -> list[str]:
    if case.sizes:
        return [f"> In chunks of {', '.join(map(str, case.sizes))} characters.", ""]
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


def _expected(case: Case) -> list[str]:
    test = case.test
    lines = [f"content: {json.dumps(test.expected_content, ensure_ascii=False)}"]
    lines.append(f"reasoning: {json.dumps(test.expected_reasoning, ensure_ascii=False)}")
    for call in test.expected_tool_calls:
        arguments = call.function.arguments
        text = json.dumps(json.loads(arguments), ensure_ascii=_hidden(arguments))
        kind = "call-text" if call.verbatim and text == arguments else "call"
        lines.append(f"{kind}: {call.function.name} {text}")
        if call.id is not None:
            lines.append(f"id: {call.id}")
    unfinished = case.unfinished
    if unfinished is not None and unfinished.kind == "truncated":
        lines.append(f"cut: {unfinished.name} {unfinished.arguments}")
    return ["```expected", *lines, "```"]


def main() -> None:
    """Write the files."""
    for dialect in callers():
        file = path(dialect)
        file.parent.mkdir(exist_ok=True)
        file.write_text(page(dialect), "utf-8")


if __name__ == "__main__":
    main()
