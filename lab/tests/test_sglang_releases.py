"""The plug-in on the Python files of several SGLang releases: ``python -m lab.engines.releases sglang``."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab import ROOT, environments
from lab.engines import releases


@pytest.fixture(scope="module", params=releases.RELEASES["sglang"])
def inside(request: pytest.FixtureRequest) -> Any:
    """Return what the program ``in_sglang_releases`` prints inside a release."""
    release = request.param
    if releases.missing("sglang", release):
        pytest.skip(f"no files of SGLang {release}: python -m lab.engines.releases sglang")
    run = subprocess.run(
        [str(environments.python("sglang")), "-m", "lab.tests.in_sglang_releases"],
        env=releases.environment("sglang", release),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["version"] == release
    return report


def test_registries_list_one_name_and_resolve_dialects(inside: Any) -> None:
    assert inside["listed"] == [["unspool"], ["unspool"]]


def test_pairs_of_parsers_read_reasoning_and_calls(inside: Any) -> None:
    for pair, answers in inside["answers"].items():
        for reasoning, content, calls in answers:
            assert (reasoning, calls) == ("Hm.", [["f", '{"a": 1}']])
            if pair.startswith("unspool"):
                assert content == "Yes.\n"


def test_calls_of_undeclared_tools_are_dropped(inside: Any) -> None:
    assert inside["undeclared"] == ["Hm.", "Yes.\n", []]
