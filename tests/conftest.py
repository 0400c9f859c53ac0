"""Hypothesis profiles; ``UNSPOOL_HYPOTHESIS`` names the one to use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from unspool.dialects import _registry as registry

if TYPE_CHECKING:
    from serving import EngineProcess

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


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    """A dialect that a test registers is gone after it."""
    registry.list_dialects()
    names: list[dict[str, Any]] = [
        registry._dialects,
        registry._aliases,
        registry._reasoning,
        registry._checkpoints,
    ]
    before = [dict(space) for space in names]
    yield
    for space, old in zip(names, before, strict=True):
        if space != old:
            space.clear()
            space.update(old)
            registry._found.cache_clear()
            registry._role_markers.cache_clear()


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    """An engine in a process of its own, for the tests of the gateway."""
    from serving import EngineProcess

    process = EngineProcess("vllm")
    yield process
    process.stop()
