"""The tests that the page of attacks names exist."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_attack_has_a_test() -> None:
    rows = re.findall(r"^\| *(?:A\d+)? *\|.*", _section("What broke"), re.MULTILINE)[1:]
    assert {f"A{number}" for number in range(1, 21)} <= {row.split("|")[1].strip() for row in rows}
    _assert_tests(rows)


def test_every_page_restriction_has_a_test() -> None:
    rows = re.findall(r"^\|.*", _section("The page"), re.MULTILINE)[2:]
    assert len(rows) > 5
    _assert_tests(rows)


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _assert_tests(rows: list[str]) -> None:
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row.split("|")[-2])
        assert named, row
        for file, name in named:
            assert re.search(
                rf"^(?:async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
            ), f"{file} has no {name}"
