"""The page of attacks names tests that are there."""

from __future__ import annotations

import re

from places import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_attack_has_a_test() -> None:
    table = PAGE.partition("## What broke")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| *(?:A\d+)? *\|.*", table, re.MULTILINE)[1:]
    assert {f"A{number}" for number in range(1, 14)} <= {row.split("|")[1].strip() for row in rows}
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row.split("|")[-2])
        assert named, row
        for file, name in named:
            assert re.search(
                rf"^(?:async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
            ), f"{file} has no {name}"
