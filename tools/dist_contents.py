"""What is in a file of a release: all that belongs there, and nothing else."""

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
"""Names that have no place in a wheel."""


class DistError(Exception):
    """A file is not what it should be."""


def read(path: Path) -> dict[str, bytes]:
    """The files in a wheel or a source distribution."""
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
    """What is wrong with a wheel.

    :param sources: the files of the package, as ``unspool/py.typed``.
    :param compiled: the modules of which it must hold machine code; none in a pure wheel.
    :param paths: folders of the machine that built it, which it must not name.
    """
    files = read(path)
    name, version, _, tags = parse_wheel_filename(path.name)
    info = f"{name}-{version}.dist-info"
    wanted = {*sources, f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD", f"{info}/entry_points.txt"}
    wanted |= {f"{info}/licenses/LICENSE", "unspool/py.typed"}
    machine = {each for each in files if each.endswith((".so", ".pyd"))}
    faults = [f"{each} is missing" for each in sorted(wanted - files.keys())]
    faults += [f"{each} does not belong there" for each in sorted(files.keys() - wanted - machine)]
    faults += [f"{each} does not belong there" for each in sorted(machine) if not compiled]
    built = {each.partition(".")[0] for each in machine}
    faults += [f"{each} is not compiled" for each in sorted(set(compiled) - built)]
    faults += [f"{each} is a leftover" for each in sorted(files) if LEFTOVERS.search(each)]
    if any(tag.platform == "any" for tag in tags) is bool(compiled):
        faults.append("its tags are those of the other kind of wheel")
    faults += _record_faults(files, f"{info}/RECORD")
    faults += _path_faults(files, paths)
    return faults + metadata_faults(files.get(f"{info}/METADATA", b""), str(version))


def sdist_faults(path: Path, tracked: Collection[str], paths: Collection[str]) -> list[str]:
    """What is wrong with a source distribution; ``tracked`` are the files that the repository has."""
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
        yield f"{name} is in one of the wheel and its RECORD"
    for name, digest in listed.items():
        if name != record and name in files:
            found = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            if digest != f"sha256={found}":
                yield f"{name} is not what RECORD says"


def _path_faults(files: Mapping[str, bytes], paths: Collection[str]) -> Iterator[str]:
    for name, content in files.items():
        for path in paths:
            if path.encode() in content:
                yield f"{name} names {path}"


def metadata_faults(written: bytes, version: str) -> list[str]:
    """What an index would refuse: by the rules of ``packaging``, which PyPI uses."""
    try:
        found = Metadata.from_email(written, validate=True)
    except ExceptionGroup as group:
        return [f"metadata: {error}" for error in group.exceptions]
    faults = []
    if (found.name, str(found.version)) != ("unspool", version):
        faults.append(f"metadata: it says that it is {found.name} {found.version}")
    if found.description_content_type != "text/markdown" or not found.description:
        faults.append("metadata: no description that an index shows")
    if found.license_expression is None:
        faults.append("metadata: no licence")
    return faults
