"""Hypothesis profiles; ``UNSPOOL_HYPOTHESIS`` names the one to use."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile(
    "default",
    deadline=None,  # shared machines stall; how long parsing takes is the benchmark's business
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),  # a change is judged by what it changes, not by luck
    print_blob=True,
)
# Never derandomised: the point of the long run is to see new examples each time.
settings.register_profile("slow", deadline=None, max_examples=1000, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("UNSPOOL_HYPOTHESIS") or "default")
