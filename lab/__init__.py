"""Programs that need hours, gigabytes or other engines; ``lab/README.md`` lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""Folder of the checkout."""
