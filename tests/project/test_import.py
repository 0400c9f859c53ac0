"""``import unspool`` costs what it says: the standard library and nothing else."""

from __future__ import annotations

import subprocess
import sys

# Start-up hooks of the environment may load modules of their own, so only what comes on top counts.
PROBE = """
import sys
before = set(sys.modules)
import {module}
assert {module}.__file__, "a directory without __init__.py imports nothing at all"
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(new - sys.stdlib_module_names))
"""


def foreign(module: str) -> list[str]:
    """Top-level packages outside the standard library that importing ``module`` brings in."""
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", PROBE.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_needs_only_the_standard_library() -> None:
    assert foreign("unspool") == ["unspool"]


def test_the_probe_sees_third_parties() -> None:
    assert {"pytest", "pluggy"} <= set(foreign("pytest"))
