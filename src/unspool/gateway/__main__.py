"""``python -m unspool.gateway``: a first look."""

import sys

from .tour import main

if __name__ == "__main__":
    sys.exit(main())
