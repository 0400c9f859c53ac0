"""Settings that all tests share: number of examples, timeouts, and selection for a quick run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from unspool.dialects import _registry as registry

if TYPE_CHECKING:
    from gateways import EngineProcess

SLOW_TIMEOUT = 3600
"""Timeout in seconds for slow tests; others have the ``timeout`` of pyproject.toml."""
KINDS = ("hermes", "mistral", "qwen3_coder", "minimax_m3", "gemma4", "pythonic", "deepseek_v3_2", "harmony")
"""One dialect of each kind: envelope, arguments, tags, nested tags, bare keys, Python, attributes, frames."""

# UNSPOOL_HYPOTHESIS names the profile to use.
settings.register_profile(
    "default",
    deadline=None,  # shared machines stall, and benchmarks measure speed
    max_examples=40,
    derandomize=bool(os.environ.get("CI")),  # a change must not fail by chance
    print_blob=True,
)
# Never derandomised: a long run is meant to see new examples each time.
settings.register_profile("slow", deadline=None, max_examples=1000, derandomize=False, print_blob=True)
settings.register_profile("quick", settings.get_profile("default"), max_examples=10)
settings.load_profile(os.environ.get("UNSPOOL_HYPOTHESIS") or "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, metavar="N", help="no more than N cases of each test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT))
    if most := config.getoption("--cases"):
        kept = set(_select_cases(items, most))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _select_cases(items: list[pytest.Item], most: int) -> Iterator[pytest.Item]:
    """Select all cases of small tests, and some of large tests, first those of one dialect per kind."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kinds = re.compile(rf"\[(?:.*-)?(?:{'|'.join(KINDS)})(?:-.*|: .*)?\]$")
    for cases in tests.values():
        if len(cases) > most:
            first = [case for case in cases if kinds.search(case.nodeid)]
            chosen = first if len(first) >= most else cases
            yield from chosen[:: -(-len(chosen) // most)]
        else:
            yield from cases


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    """Restore the registry after a test that registers dialects."""
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
    """Start an engine in a separate process for the gateway tests."""
    from gateways import EngineProcess

    process = EngineProcess("vllm")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a chat template file for the gateway tests."""
    from gateways import template_file

    return template_file(tmp_path_factory.mktemp("template"))
