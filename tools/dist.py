"""Build and test of a release: ``make dist``.

A source distribution, a pure wheel and a compiled wheel for each available interpreter go into
``dist``. The tool inspects each of them, installs it into an empty environment and uses it
there. The table goes into ``docs/release.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import dist_build
import dist_trial
from dist_build import ROOT
from dist_contents import DistError, sdist_faults, wheel_faults
from dist_interpreters import Interpreter, interpreters, missing_versions
from dist_trial import Installation

DIST: Final = ROOT / "dist"
PAGE: Final = ROOT / "docs" / "release.md"
BEGIN: Final = "<!-- dist: written by make dist -->"
END: Final = "<!-- /dist -->"
ELSEWHERE: Final = (("3.14", "win_amd64"), ("3.13", "macosx_14_0_arm64"), ("3.12", "manylinux_2_39_aarch64"))
"""Other systems, for which pip is asked to choose a file."""


@dataclass
class Release:
    """Files of a release, and the results of their checks."""

    found: list[Interpreter]
    sdist: Path = Path()
    pure: Path = Path()
    compiled: dict[str, Path] = field(default_factory=dict)
    """Compiled wheels by Python version, such as ``3.11``."""
    trials: list[Installation] = field(default_factory=list)
    choices: list[tuple[str, str]] = field(default_factory=list)
    """File that pip chooses, by system."""
    equal: list[str] = field(default_factory=list)
    """Files that a second build in another folder reproduced byte for byte."""


def say(text: str) -> None:
    """Print a progress message."""
    print(text, flush=True)


def build(release: Release, *, compiled: bool, twice: bool) -> None:
    """Build the files and inspect them."""
    DIST.mkdir(exist_ok=True)
    for pattern in ("*.whl", "*.tar.gz"):
        for old in DIST.glob(pattern):
            old.unlink()
    python = dist_build.builder(release.found[0])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        release.sdist = _kept(dist_build.build_sdist(python, work / "sdist"))
        release.pure = _kept(dist_build.build_wheel(python, release.sdist, work / "pure", compiled=False))
        again = [(release.sdist, dist_build.build_sdist(python, work / "again"))]
        again.append(
            (release.pure, dist_build.build_wheel(python, again[0][1], work / "other", compiled=False))
        )
        for first, second in again:
            if first.read_bytes() != second.read_bytes():
                raise DistError(
                    f"{first.name}: a second build gives another file; were files edited meanwhile?"
                )
        for one in release.found if compiled else ():
            if one.compiles and one.minor not in release.compiled:
                say(f"compiling for {one.title}")
                made = dist_build.build_wheel(
                    dist_build.builder(one), release.sdist, work / one.minor, compiled=True
                )
                release.compiled[one.minor] = _kept(made)
        inspect(release, [str(ROOT), str(work), str(Path.home())])
        for one in release.found if twice else ():
            if one.minor in release.compiled and one.compiles:
                builder = dist_build.builder(one)
                made = dist_build.build_wheel(
                    builder, release.sdist, work / f"{one.minor} again", compiled=True
                )
                again.append((release.compiled[one.minor], made))
        release.equal = [first.name for first, second in again if first.read_bytes() == second.read_bytes()]


def _kept(made: Path) -> Path:
    say(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB")
    return Path(shutil.copy(made, DIST))


def inspect(release: Release, paths: list[str]) -> None:
    """Raise ``DistError`` if a file has faults."""
    tracked = dist_build.tracked()
    sources = [name.removeprefix("src/") for name in tracked if name.startswith("src/")]
    faults = {release.sdist: sdist_faults(release.sdist, tracked, paths)}
    faults[release.pure] = wheel_faults(release.pure, sources, (), paths)
    for wheel in release.compiled.values():
        faults[wheel] = wheel_faults(wheel, sources, dist_build.compiled_modules(), paths)
    wrong = [f"{path.name}: {fault}" for path, found in faults.items() for fault in found]
    if wrong:
        raise DistError("\n".join(wrong))


def test_files(release: Release) -> None:
    """Test every file with every interpreter that supports it."""
    for one in release.found:
        say(f"testing in {one.title}")
        release.trials.append(dist_trial.try_file(release.pure, one, compiled=False))
        if one.compiles and one.minor in release.compiled:
            release.trials.append(dist_trial.try_file(release.compiled[one.minor], one, compiled=True))
        release.choices.append((one.title, dist_trial.chosen_file(one, DIST)))
    release.trials.append(dist_trial.try_file(release.sdist, release.found[0], compiled=False))
    python = dist_build.builder(release.found[0])
    for minor, system in ELSEWHERE:
        release.choices.append(
            (f"{minor}, {system}", dist_trial.chosen_file_for(python, DIST, minor, system))
        )
    if (dist_trial.PYODIDE / "node_modules" / "pyodide").is_dir():
        say("testing in Pyodide")
        release.trials.append(dist_trial.try_pyodide(release.pure, python))


def checksums(folder: Path) -> str:
    """Return the lines of SHA256SUMS for ``sha256sum --check``."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def table(release: Release) -> Iterator[str]:
    """Yield the lines of the result table in Markdown."""
    system = f"{platform.system()} {platform.machine()}, glibc {platform.libc_ver()[1]}"
    yield f"`make dist`, {system}:"
    yield ""
    yield "| file | in | `unspool --version` | suite | tests | seconds |"
    yield "|---|---|---|---|---|---:|"
    for one in release.trials:
        cells = (
            f"`{one.file}`",
            one.interpreter,
            f"`{one.version}`",
            one.suite,
            one.tests,
            f"{one.seconds:.0f}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "| `pip install --find-links dist unspool` on | takes |"
    yield "|---|---|"
    yield from (f"| {place} | `{what}` |" for place, what in release.choices)
    yield ""
    yield f"Reproduced byte for byte by a second build elsewhere: {_listed(release.equal)}."
    missing = missing_versions(release.found)
    if not any("Pyodide" in one.interpreter for one in release.trials):
        missing.append("Pyodide")
    if missing:
        yield f"Not available, and not tested: {', '.join(missing)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def write(lines: Iterable[str], page: Path = PAGE) -> None:
    """Insert the table into the page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Build, inspect, test and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pure", action="store_true", help="skip compiled wheels, which take a minute each")
    parser.add_argument("--twice", action="store_true", help="compile twice and compare the files")
    parser.add_argument("--write", action="store_true", help="write the table into docs/release.md")
    options = parser.parse_args()
    release = Release(interpreters())
    if not release.found:
        sys.exit("no Python 3.11 or later on PATH; set UNSPOOL_PYTHONS to interpreters separated by :")
    say("interpreters: " + ", ".join(one.title for one in release.found))
    if missing := missing_versions(release.found):
        say(f"missing: Python {', '.join(missing)}; set UNSPOOL_PYTHONS to paths separated by {os.pathsep}")
    try:
        build(release, compiled=not options.pure, twice=options.twice)
        test_files(release)
    except DistError as error:
        sys.exit(str(error))
    (DIST / "SHA256SUMS").write_text(checksums(DIST), encoding="ascii")
    lines = list(table(release))
    print("\n".join(lines))
    if options.write:
        write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
