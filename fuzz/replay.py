"""Replay of stored inputs, to examine a finding: ``python -m fuzz.replay TARGET FILE...``."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.targets import target

if __name__ == "__main__":
    run = target(sys.argv[1])
    for name in sys.argv[2:]:
        run(Path(name).read_bytes())
