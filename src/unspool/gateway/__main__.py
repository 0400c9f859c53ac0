"""``python -m unspool.gateway``: a first look."""

import sys

from .first_run import main

if __name__ == "__main__":
    sys.exit(main())
