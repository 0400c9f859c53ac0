"""``import unspool`` loads only the standard library and what parsing needs."""

from __future__ import annotations

import subprocess
import sys

# Start-up hooks of the environment may load modules, so count only additional ones.
PROBE = """
import sys
before = set(sys.modules)
{code}
print(*sorted(set(sys.modules) - before))
"""


def loaded_modules(code: str) -> set[str]:
    """Return the modules that running ``code`` loads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE.format(code=code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def third_party_modules(modules: set[str]) -> set[str]:
    """Return top-level packages outside the standard library."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def own_modules(modules: set[str]) -> set[str]:
    """Return our own modules, without the package itself."""
    return {name.removeprefix("unspool.") for name in modules if name.startswith("unspool.")}


def test_import_needs_only_the_standard_library() -> None:
    modules = loaded_modules("import unspool; assert unspool.__file__")
    assert {name for name in third_party_modules(modules) if "mypyc" not in name} == {"unspool"}


def test_probe_detects_third_parties() -> None:
    assert {"pytest", "pluggy"} <= third_party_modules(loaded_modules("import pytest"))


PARSING = {
    "_core",
    "_lazy_names",
    "_dataclass_repr",
    "_version",
    "dialects",
    "errors",
    "events",
    "message",
    "parser",
    "policies",
    "streaming",
}
"""The packages and modules that parsing an output loads."""
NOT_FOR_PARSING = {"_core.explain_dialect", "_core.render.message"}
"""Modules of these packages that parsing does not load."""


def test_import_loads_no_dialect() -> None:
    modules = own_modules(loaded_modules("import unspool"))
    assert {name.partition(".")[0] for name in modules} == PARSING
    assert not modules & NOT_FOR_PARSING
    assert not {name for name in modules if name.startswith("dialects.families")}


def test_parsing_loads_only_what_it_needs() -> None:
    modules = loaded_modules("import unspool; unspool.parse('Hi.', 'hermes')")
    assert {name.partition(".")[0] for name in own_modules(modules)} == PARSING
    assert not own_modules(modules) & NOT_FOR_PARSING
    assert "importlib.metadata" not in modules, "entry points must be loaded only for unknown names"


def test_lazy_names_are_loaded_on_demand() -> None:
    later = {
        "unspool.plan": "planning._build_plan",
        "unspool.detect": "models.detection.detect_dialect",
        "unspool.render": "_core.render.message",
        "unspool.dialects.explain": "_core.explain_dialect",
        "unspool.dialects.dialect_from_json": "dialects._dialect_json",
        "unspool.models.Detection": "models.detection.result",
        "unspool.models.from_response_template": "models.convert.from_response_template",
        "unspool.models.to_response_template": "models.convert.to_response_template",
    }
    for name, module in later.items():
        assert module not in own_modules(loaded_modules("import unspool"))
        assert module in own_modules(
            loaded_modules(f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}")
        ), name
