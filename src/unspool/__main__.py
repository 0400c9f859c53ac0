"""Entry point of ``python -m unspool``, which runs the command ``unspool``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
