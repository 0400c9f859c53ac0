"""A release, built and tried: ``make dist``.

A source distribution, a pure wheel and a compiled wheel for each interpreter that
is here go into ``dist``.  Each is looked into, and then installed into an empty
environment and used there.  The table goes into ``docs/release.md``.
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
from dist_interpreters import Interpreter, absent, interpreters
from dist_trial import Installation

DIST: Final = ROOT / "dist"
PAGE: Final = ROOT / "docs" / "release.md"
BEGIN: Final = "<!-- dist: written by make dist -->"
END: Final = "<!-- /dist -->"
ELSEWHERE: Final = (("3.14", "win_amd64"), ("3.13", "macosx_14_0_arm64"), ("3.12", "manylinux_2_39_aarch64"))
"""Systems that are not here, which pip is asked about."""


@dataclass
class Release:
    """What was made, and what was seen of it."""

    found: list[Interpreter]
    sdist: Path = Path()
    pure: Path = Path()
    compiled: dict[str, Path] = field(default_factory=dict)
    """By version, as ``3.11``."""
    trials: list[Installation] = field(default_factory=list)
    choices: list[tuple[str, str]] = field(default_factory=list)
    """What pip took, or would take, where."""
    equal: list[str] = field(default_factory=list)
    """Files that a second build, in another folder, gave byte for byte."""


def say(text: str) -> None:
    """Tell whoever waits."""
    print(text, flush=True)


def build(release: Release, *, compiled: bool, twice: bool) -> None:
    """Make the files, and look into them."""
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
                raise DistError(f"{first.name}: a second build is another file; were files edited meanwhile?")
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
    """Refuse what is not in order."""
    tracked = dist_build.tracked()
    sources = [name.removeprefix("src/") for name in tracked if name.startswith("src/")]
    faults = {release.sdist: sdist_faults(release.sdist, tracked, paths)}
    faults[release.pure] = wheel_faults(release.pure, sources, (), paths)
    for wheel in release.compiled.values():
        faults[wheel] = wheel_faults(wheel, sources, dist_build.compiled_modules(), paths)
    wrong = [f"{path.name}: {fault}" for path, found in faults.items() for fault in found]
    if wrong:
        raise DistError("\n".join(wrong))


def attempt(release: Release) -> None:
    """Try every file in every interpreter that it is for."""
    for one in release.found:
        say(f"trying in {one.title}")
        release.trials.append(dist_trial.try_file(release.pure, one, compiled=False))
        if one.compiles and one.minor in release.compiled:
            release.trials.append(dist_trial.try_file(release.compiled[one.minor], one, compiled=True))
        release.choices.append((one.title, dist_trial.taken(one, DIST)))
    release.trials.append(dist_trial.try_file(release.sdist, release.found[0], compiled=False))
    python = dist_build.builder(release.found[0])
    for minor, system in ELSEWHERE:
        release.choices.append(
            (f"{minor}, {system}", dist_trial.taken_elsewhere(python, DIST, minor, system))
        )
    if (dist_trial.PYODIDE / "node_modules" / "pyodide").is_dir():
        say("trying in Pyodide")
        release.trials.append(dist_trial.try_pyodide(release.pure, python))


def sums(folder: Path) -> str:
    """The lines of SHA256SUMS, as ``sha256sum --check`` reads them."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def table(release: Release) -> Iterator[str]:
    """What was seen, as Markdown."""
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
    yield f"Byte for byte the same when built a second time, elsewhere: {_listed(release.equal)}."
    missing = absent(release.found)
    if not any("Pyodide" in one.interpreter for one in release.trials):
        missing.append("Pyodide")
    if missing:
        yield f"Not here, and not tried: {', '.join(missing)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def write(lines: Iterable[str], page: Path = PAGE) -> None:
    """Put the table into its place on the page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Build, look into, try, tell."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--pure", action="store_true", help="no compiled wheels, which take a minute each")
    options.add_argument("--twice", action="store_true", help="compile twice, and compare")
    options.add_argument("--write", action="store_true", help="put the table into docs/release.md")
    chosen = options.parse_args()
    release = Release(interpreters())
    if not release.found:
        sys.exit("no Python 3.11 or later on PATH: set UNSPOOL_PYTHONS to the interpreters, with : between")
    say("interpreters: " + ", ".join(one.title for one in release.found))
    if missing := absent(release.found):
        say(f"not here: Python {', '.join(missing)}; UNSPOOL_PYTHONS names them, with {os.pathsep} between")
    try:
        build(release, compiled=not chosen.pure, twice=chosen.twice)
        attempt(release)
    except DistError as error:
        sys.exit(str(error))
    (DIST / "SHA256SUMS").write_text(sums(DIST), encoding="ascii")
    lines = list(table(release))
    print("\n".join(lines))
    if chosen.write:
        write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
