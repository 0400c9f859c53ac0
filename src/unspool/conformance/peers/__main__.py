"""Entry point of a peer's program: ``python .../peers NAME FACTS``, in that peer's environment."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Start the program named by the arguments."""
    here = Path(__file__).resolve().parent
    # Python put this folder on the path, where ``vllm.py`` would hide the package vllm.
    sys.path[0] = str(here.parent)
    import_module(here.name)
    del sys.path[0]
    import_module(f"{here.name}.{sys.argv[1]}").main(Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
