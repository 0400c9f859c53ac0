"""Inputs again, one by one: ``python -m fuzz.replay TARGET FILE...``, to see what a finding is."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.targets import target

if __name__ == "__main__":
    run = target(sys.argv[1])
    for name in sys.argv[2:]:
        run(Path(name).read_bytes())
