"""Where things lie that tests read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
TEMPLATES = ROOT.parent / "shared" / "templates"
"""Real chat templates.  They are not ours, so they lie beside the repository."""
