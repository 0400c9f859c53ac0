"""Audit of the pinned packages: known vulnerabilities, and licences of a gateway's packages: ``make audit``.

The exit code is 1 if there is a problem, and 2 if the vulnerability service is unreachable.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

LOCKS: Final = ("run", "test", "docs", "uv")
FREE: Final = frozenset(
    (
        "apache",
        "apache software license",
        "apache-2.0",
        "bsd license",
        "bsd-2-clause",
        "bsd-3-clause",
        "isc",
        "mit",
        "mit license",
        "mit-0",
        "mozilla public license 2.0 (mpl 2.0)",
        "mpl-2.0",
        "psf-2.0",
        "python software foundation license",
    )
)
"""Licences that require redistributors only to include their texts (MPL: for unchanged files)."""


def free(licence: str) -> bool:
    """Return whether a licence permits everything that unspool's permits.

    >>> free("Apache-2.0 AND MIT"), free("GPL-3.0 OR MIT"), free("GPL-3.0 AND MIT"), free("UNKNOWN")
    (True, True, False, False)
    """
    # The first line of a complete licence text names the licence.
    line = licence.strip().partition("\n")[0].lower()
    for word in (" and ", ";"):
        head, both, tail = line.partition(word)
        if both:
            return free(head) and free(tail)
    return any(choice.strip(" ()") in FREE or choice.strip() in FREE for choice in line.split(" or "))


def vulnerable(report: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the vulnerabilities in pip-audit's report, and the packages that were not checked."""
    found: list[str] = []
    skipped: list[str] = []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            skipped.append(package["name"])
        for one in package.get("vulns", ()):
            fixed = ", ".join(one["fix_versions"]) or "no version yet"
            found.append(f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}")
    return found, skipped


def pinned(lock: str) -> set[str]:
    """Return the packages of a lock file."""
    return set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 - our own command


def main() -> int:
    """Run the audit and print the result."""
    tools, gateway = sys.argv[1:]
    locks = [Path("requirements", f"{name}.txt") for name in LOCKS]
    asked = [f"{tools}/pip-audit", "-f", "json", "--progress-spinner", "off", "--disable-pip", "--no-deps"]
    report = _output([*asked, *(word for lock in locks for word in ("-r", str(lock)))])
    found, skipped = vulnerable(json.loads(report)) if report else ([], ["all"])
    licences = json.loads(
        _output([f"{tools}/pip-licenses", "--python", gateway, "--from=mixed", "-f", "json"])
    )
    unfree = [f"{one['Name']}: {one['License']}" for one in licences if not free(one["License"])]

    names = set().union(*(pinned(lock.read_text(encoding="utf-8")) for lock in locks))
    print(f"{len(names)} packages are pinned, {len(skipped)} of them could not be checked")
    print(f"{len(found)} known vulnerabilities", *found, sep="\n  ")
    print(
        f"{len(licences)} packages are part of a gateway, {len(unfree)} of them without a permissive licence",
        *unfree,
        sep="\n  ",
    )
    return 1 if found or unfree else 2 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
