"""Releases of the engines with which the plug-ins are tested, by their Python files.

``python -m lab.engines.releases`` fetches the packages of all releases and unpacks their Python files.  The
files of a release are put before the installed package on ``PYTHONPATH``, in the engine's environment.  So
the parsers and servers of a release can be tested without its kernels.

A new release is one more entry in ``RELEASES``.

Needs: the package index, ``python -m lab.environments vllm sglang``.
Takes: minutes, and 1.5 GB of downloads for vLLM.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from lab import ROOT, environments

RELEASES: Final = {
    "vllm": ("0.33.0", "0.32.0", "0.31.0", "0.30.0"),
    "sglang": ("0.5.23", "0.5.22", "0.5.21", "0.5.20"),
}
"""The releases of each engine, newest first."""

_FOLDER: Final = ROOT / ".peers" / "files"


def folder(engine: str, version: str) -> Path:
    """Return the folder with the Python files of a release, which may not exist."""
    return _FOLDER / f"{engine}-{version}"


def fetch(engine: str, version: str) -> Path:
    """Fetch the package of a release unless its files exist, and return the folder with its files."""
    home = folder(engine, version)
    if home.is_dir():
        return home
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "-d", downloads, f"{engine}=={version}"], check=True)  # noqa: S603 - pinned
        (wheel,) = Path(downloads).iterdir()
        part = home.with_suffix(".part")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".py") or ".dist-info/" in name:
                    archive.extract(name, part)
        part.rename(home)
    return home


def environment(engine: str, version: str) -> dict[str, str]:
    """Return environment variables with which an engine's interpreter imports the files of a release."""
    path = os.pathsep.join(map(str, (folder(engine, version), ROOT / "src", ROOT)))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


def missing(engine: str, version: str) -> bool:
    """Return whether the files of a release, or the engine's environment, are missing."""
    return not (folder(engine, version).is_dir() and environments.python(engine).exists())


def main() -> int:
    """Fetch the releases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", choices=[[], *RELEASES], metavar="ENGINE")
    for engine in parser.parse_args().engines or RELEASES:
        for version in RELEASES[engine]:
            print(fetch(engine, version))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
