"""Entry point of ``python -m unspool``, which does the same as the command ``unspool``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
