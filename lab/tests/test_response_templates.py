"""Exported response templates, read by the engines where they are installed."""

from __future__ import annotations

import re

import pytest

from lab import environments
from lab.docs_section import read_section
from lab.response_templates import ENGINES, SIZES, exported, read, refusal, rendered, written
from unspool import list_dialects


@pytest.mark.parametrize("engine", ENGINES)
def test_exported_template_is_read_by_engines(engine: str) -> None:
    if not environments.python(engine).exists():
        pytest.skip(f"no {engine}: python -m lab.environments {engine}")
    cases = [(output, size) for dialect in exported() for output in rendered(dialect) for size in SIZES]
    _, results = read(engine, [output.case(size) for output, size in cases])
    wrong = [
        (output.dialect.name, size, output.text, result, output.right)
        for (output, size), result in zip(cases, results, strict=True)
        if result != output.right
    ]
    assert not wrong, (len(wrong), len(cases), wrong[0])


def test_docs_have_a_row_for_each_dialect() -> None:
    table = read_section("docs/engines.md", "response-templates")
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", table, re.MULTILINE))
    assert list(rows) == [dialect.name for dialect in list_dialects()]
    for dialect in list_dialects():
        reason = refusal(dialect)
        assert rows[dialect.name] == (f"refused: {reason}" if reason else str(len(written(dialect))))
