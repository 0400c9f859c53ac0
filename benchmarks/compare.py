"""Compare the last two runs in ``history.jsonl``, or the last with the one before it of a number.

    python benchmarks/compare.py [BACK]

Exit status 1 if something became slower by more than noise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from parsing.history import compared

FILE = Path(__file__).resolve().parent / "history.jsonl"


def main() -> int:
    """Print what moved."""
    back = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    runs = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    if len(runs) <= back:
        print(f"{len(runs)} run(s) so far: python benchmarks/parse.py --publish adds one")
        return 0
    lines = compared(runs[-1 - back], runs[-1])
    print("\n".join(lines))
    return int(any(line.lstrip().startswith("+") for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
