"""Entry point of a peer's program: ``python lab/peers/program.py NAME FACTS``, in its environment."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Run the program that the command-line arguments name."""
    # Python adds this folder to the path, where the module ``vllm.py`` would hide the package vllm.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    import_module(f"lab.peers.{sys.argv[1]}").main(Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
