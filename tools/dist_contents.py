"""Check of the contents of release files."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata
from packaging.utils import parse_sdist_filename, parse_wheel_filename

LEFTOVERS: Final = re.compile(
    r"(^|/)(tests?|__pycache__|\.git|\.venv|\.peers|build|dist|\.DS_Store)(/|$)|(\.pyc|\.orig|\.rej|\.c|\.o|\.gcda|~)$"
)
"""Pattern of names that do not belong in a wheel."""


class DistError(Exception):
    """A release file is not as it should be."""


def read(path: Path) -> dict[str, bytes]:
    """Return the files in a wheel or a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        found = {}
        for member in members:
            content = archive.extractfile(member)
            if content is None:
                raise DistError(f"{path.name}: {member.name} is neither a file nor a folder")
            found[member.name.partition("/")[2]] = content.read()
        return found


def wheel_faults(
    path: Path, sources: Collection[str], compiled: Collection[str], paths: Collection[str]
) -> list[str]:
    """Return the faults of a wheel.

    :param sources: the files of the package, such as ``unspool/py.typed``.
    :param compiled: the modules that must be machine code; empty for a pure wheel.
    :param paths: folders of the build machine, which the wheel must not mention.
    """
    files = read(path)
    name, version, _, tags = parse_wheel_filename(path.name)
    info = f"{name}-{version}.dist-info"
    wanted = {*sources, f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD", f"{info}/entry_points.txt"}
    wanted |= {f"{info}/licenses/LICENSE", "unspool/py.typed"}
    machine = {each for each in files if each.endswith((".so", ".pyd"))}
    faults = [f"{each} is missing" for each in sorted(wanted - files.keys())]
    faults += [f"{each} must not be in the wheel" for each in sorted(files.keys() - wanted - machine)]
    faults += [f"{each} must not be in the wheel" for each in sorted(machine) if not compiled]
    built = {each.partition(".")[0] for each in machine}
    faults += [f"{each} is not compiled" for each in sorted(set(compiled) - built)]
    faults += [f"{each} is a leftover" for each in sorted(files) if LEFTOVERS.search(each)]
    if any(tag.platform == "any" for tag in tags) is bool(compiled):
        faults.append("its tags are those of the other build")
    faults += _record_faults(files, f"{info}/RECORD")
    faults += _path_faults(files, paths)
    return faults + metadata_faults(files.get(f"{info}/METADATA", b""), str(version))


def sdist_faults(path: Path, tracked: Collection[str], paths: Collection[str]) -> list[str]:
    """Return the faults of a source distribution; ``tracked`` are the files of the repository."""
    files = read(path)
    _, version = parse_sdist_filename(path.name)
    needed = {"PKG-INFO", "LICENSE", "README.md", "pyproject.toml", "hatch_build.py", "hatch_training.py"}
    needed |= {each for each in tracked if each.startswith("src/")}
    faults = [f"{each} is missing" for each in sorted(needed - files.keys())]
    faults += [f"{each} is not in the repository" for each in sorted(files.keys() - {*tracked, "PKG-INFO"})]
    faults += _path_faults(files, paths)
    return faults + metadata_faults(files.get("PKG-INFO", b""), str(version))


def _record_faults(files: Mapping[str, bytes], record: str) -> Iterator[str]:
    listed = {name: digest for name, digest, _ in csv.reader(io.StringIO(files.get(record, b"").decode()))}
    for name in sorted(listed.keys() ^ files.keys()):
        yield f"{name} is missing in the wheel or in its RECORD"
    for name, digest in listed.items():
        if name != record and name in files:
            found = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            if digest != f"sha256={found}":
                yield f"{name} does not match RECORD"


def _path_faults(files: Mapping[str, bytes], paths: Collection[str]) -> Iterator[str]:
    for name, content in files.items():
        for path in paths:
            if path.encode() in content:
                yield f"{name} mentions {path}"


def metadata_faults(written: bytes, version: str) -> list[str]:
    """Return the reasons for which an index would reject the metadata, by the rules of ``packaging``."""
    try:
        found = Metadata.from_email(written, validate=True)
    except ExceptionGroup as group:
        return [f"metadata: {error}" for error in group.exceptions]
    faults = []
    if (found.name, str(found.version)) != ("unspool", version):
        faults.append(f"metadata: the name and version are {found.name} {found.version}")
    if found.description_content_type != "text/markdown" or not found.description:
        faults.append("metadata: no description that an index shows")
    if found.license_expression is None:
        faults.append("metadata: no licence")
    return faults
