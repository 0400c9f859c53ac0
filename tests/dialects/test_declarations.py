"""Declarations: data only, documented per field, and as the documentation says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from paths import ROOT
from unspool import Dialect, parse, render
from unspool.dialects import (
    Envelope,
    Family,
    Frame,
    Habits,
    IdFormat,
    Names,
    Opener,
    Prompt,
    RequestFacts,
    Route,
    Section,
    Thinking,
    ThinkingHabits,
    Values,
    Wrapper,
    Writing,
)
from unspool.testing import check_dialect

PAGE = (ROOT / "docs" / "dialect-fields.md").read_text(encoding="utf-8")
WORDS = (
    *(Dialect, Envelope, Family, Frame, Habits, IdFormat, Names, Opener, Prompt, RequestFacts, Route),
    *(Section, Thinking, ThinkingHabits, Values, Wrapper, Writing),
)
FAMILIES = sorted((ROOT / "src" / "unspool" / "dialects" / "families").glob("*.py"))


@pytest.mark.parametrize(
    ("word", "field"),
    [(word.__name__, field.name) for word in WORDS for field in fields(word)],
)
def test_docs_explain_every_field(word: str, field: str) -> None:
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert re.search(rf"`{field}(=[^`]*)?`", prose), (
        f"docs/dialect-fields.md does not document {word}.{field}"
    )
    assert word in PAGE


def test_dialect_has_few_fields() -> None:
    assert len(fields(Dialect)) <= 22


@pytest.mark.parametrize("module", FAMILIES, ids=lambda path: path.stem)
def test_families_contain_only_data(module: Path) -> None:
    code = re.findall(r"^\s*(?:if|for|while|def|class|return)\b.*", module.read_text("utf-8"), re.MULTILINE)
    assert len(code) <= 6, "\n".join(code)


# -- examples of unusual formats in the documentation

ODD: dict[str, dict[str, Any]] = {
    "blanks before a parameter": {
        "call": ("@@call {name}({index})\n{params}@@end",),
        "param": ("  - {key} := {value} ;\n",),
        "habits": Habits(first_index=1),
    },
    "lines as they are": {"call": ("@@call {name}({index})\n{code}\n@@end",)},
    "code for one function": {"call": ("<script>{code}</script>",), "names": Names(fixed="run")},
    "code and nothing else": {"call": ("<script>{code}</script>",)},
}


@pytest.mark.parametrize("kind", ODD)
def test_unusual_dialects_obey_the_laws(kind: str) -> None:
    dialect = Dialect(
        "odd",
        writing=Writing(before_calls="\n", between_calls="\n"),
        reasoning=("(({text}))\n",),
        **ODD[kind],
    )
    check_dialect(
        dialect, ["((Hm.))\nOk.\n@@call f(1)\n  - x := 1 ;\n@@end\n<script>x</script>"], examples=20
    )


def test_whitespace_before_a_parameter_is_ignored() -> None:
    dialect = Dialect("odd", **ODD["blanks before a parameter"])
    written = "@@call f(1)\n  - x := 1 ;\n  - y := 2 ;\n@@end"
    for text in (written, written.replace("\n  ", "\n"), written.replace("\n  ", "\n\n    ")):
        assert parse(text, dialect).tool_calls[0].arguments == '{"x": "1", "y": "2"}'
    assert render(parse(written, dialect), dialect) == written


def test_role_words_end_the_preceding_text() -> None:
    prompt = "### User:\nThink between (( and )).\n### Assistant:\n"
    forgetful = Dialect("odd", reasoning=("(({text}))",))
    head = prompt.replace(" and ))", "")
    assert parse("Hi.", forgetful, prompt=head).content == "Hi."
    assert parse("Hi.", forgetful, prompt=head, continues=True).reasoning == "Hi."
    with_roles = Dialect("odd", reasoning=("(({text}))",), prompt=Prompt(turn=("### Assistant:",)))
    assert parse("Hi.", with_roles, prompt=head, continues=True).content == "Hi."
