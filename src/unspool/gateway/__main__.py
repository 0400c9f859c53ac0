"""Entry point of ``python -m unspool.gateway``, which runs a short demonstration."""

import sys

from .quickstart_demo import main

if __name__ == "__main__":
    sys.exit(main())
