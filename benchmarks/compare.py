"""Compare the last two runs in ``history.jsonl``, or the last one with the BACK-th before it.

    python benchmarks/compare.py [BACK]

The exit status is 1 if something became slower by more than the noise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from parsing.history import changes

FILE = Path(__file__).resolve().parent / "history.jsonl"


def main() -> int:
    """Print the differences."""
    back = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    runs = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    if len(runs) <= back:
        print(f"{len(runs)} run(s) so far; python benchmarks/parse.py --publish adds one")
        return 0
    lines = changes(runs[-1 - back], runs[-1])
    print("\n".join(lines))
    return int(any(line.lstrip().startswith("+") for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
