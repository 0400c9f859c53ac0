"""Every program states its needs, and answers ``--help`` without installing anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab import ROOT
from lab.__main__ import programs, table
from lab.docs_section import read_section


def test_readme_lists_every_program() -> None:
    assert read_section("lab/README.md", "programs") == table(), "run python -m lab --write"


@pytest.mark.parametrize("module", [module for module, _ in programs()])
def test_help_states_needs_and_duration(module: str) -> None:
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "\nNeeds: " in done.stdout
    assert "\nTakes: " in done.stdout
