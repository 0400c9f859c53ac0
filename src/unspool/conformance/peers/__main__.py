"""Entry point of the peers' programs: run ``python .../peers NAME FACTS`` in the peer's environment."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Run the program that the command-line arguments name."""
    here = Path(__file__).resolve().parent
    # Python adds this folder to the path, where the module ``vllm.py`` would hide the package vllm.
    sys.path[0] = str(here.parent)
    import_module(here.name)
    del sys.path[0]
    import_module(f"{here.name}.{sys.argv[1]}").main(Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
