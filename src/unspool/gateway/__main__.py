"""Entry point of ``python -m unspool.gateway``, which runs a short demonstration."""

import sys

from .first_run import main

if __name__ == "__main__":
    sys.exit(main())
