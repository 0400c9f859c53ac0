"""Pages of the repository as pages of the site.

A page reads well in a plain view of the repository, and its links work there.  On
the site other places hold the same files, so links are followed here, in the
repository, and written anew; one that leads nowhere stops the build.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from .navigation import START, trees

ELSEWHERE: Final = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security-policy",
    "fuzz/README.md": "fuzzing",
}
"""Pages outside of ``docs``, and what they are called on the site."""
EXAMPLES: Final = "examples"
"""A folder of programs, which is one page on the site."""

_FENCE: Final = re.compile(r" *(?P<ticks>`{3,}|~{3,})")
_CODE: Final = re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)")
_LINK: Final = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_PICTURE: Final = re.compile(
    r"<picture>\s*<source[^>]*srcset=\"(?P<dark>[^\"]+)\">\s*"
    r"<img alt=\"(?P<alt>[^\"]*)\" src=\"(?P<light>[^\"]+)\">\s*</picture>"
)


class DeadLink(SystemExit):
    """A page points at something that is not there."""


@dataclass
class Staging:
    """Copies pages, and the files that they point at, to where Sphinx reads them."""

    repository: Path
    target: Path
    files: set[str] = field(default_factory=set)
    """What pages point at besides pages, by its place in the repository."""

    def run(self) -> None:
        """Stage everything."""
        for page in pages(self.repository):
            text = self.rewritten(page, (self.repository / page).read_text(encoding="utf-8"))
            place = self.target / f"{place_of(page)}.md"
            if place.stem == START:
                text += trees()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        (self.target / f"{EXAMPLES}.md").write_text(examples(self.repository / EXAMPLES), encoding="utf-8")
        for file in sorted(self.files):
            place = self.target / place_of(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.repository / file, place)

    def rewritten(self, page: str, text: str) -> str:
        """Return the text of a page with the links and pictures of the site."""
        lines = [line if code else self._linked(page, number, line) for number, line, code in _numbered(text)]
        return _PICTURE.sub(lambda found: self._pictures(page, found), "".join(lines))

    def _linked(self, page: str, number: int, line: str) -> str:
        """Return a line of prose with the links of the site."""

        def linked(found: re.Match[str]) -> str:
            target, anchor = found["target"], found["anchor"] or ""
            if not target or re.match(r"[a-z]+:", target):
                return found[0]
            return f"{found['before']}{self._resolved(page, target, number)}{anchor}{found['after']}"

        parts: list[str] = []
        last = 0
        for code in _CODE.finditer(line):  # nothing in it is a link, though it may be the text of one
            parts += [_LINK.sub(linked, line[last : code.start()]), code[0]]
            last = code.end()
        # The rest of a link whose text is code begins with the bracket after it.
        return "".join([*parts, _LINK.sub(linked, line[last:])])

    def _resolved(self, page: str, target: str, number: int) -> str:
        """Return the target of a link on the site, relative to the page that contains it."""
        file = os.path.normpath(PurePosixPath(page).parent / target)
        if file.split("/")[0] == EXAMPLES and (self.repository / file).is_dir():
            return os.path.relpath(f"{EXAMPLES}.md", PurePosixPath(place_of(page)).parent)
        if file.startswith("..") or not (self.repository / file).is_file():
            raise DeadLink(f"{page}:{number}: {target} is not there")
        place = place_of(file)
        if file in ELSEWHERE or file in pages(self.repository):
            place += ".md"
        else:
            self.files.add(file)
        return os.path.relpath(place, PurePosixPath(place_of(page)).parent)

    def _pictures(self, page: str, found: re.Match[str]) -> str:
        """Return a light and a dark picture: the site has a switch for the theme."""
        shown = {mode: self._resolved(page, found[mode], 0) for mode in ("light", "dark")}
        return "\n".join(
            f"```{{image}} {place}\n:class: only-{mode}\n:alt: {found['alt']}\n```\n"
            for mode, place in shown.items()
        )


def examples(folder: Path) -> str:
    """Return a page with the programs of a folder."""
    programs = [path for path in sorted(folder.rglob("*.py")) if path.read_text(encoding="utf-8").strip()]
    shown = [
        f"## {path.relative_to(folder).as_posix()}\n\n````python\n{path.read_text(encoding='utf-8')}````\n"
        for path in programs
    ]
    return "\n".join(["# Examples\n\nWhole programs. The tests run them.\n", *shown])


def pages(repository: Path) -> list[str]:
    """Return the files of the repository that are pages of the site."""
    found = [path.relative_to(repository).as_posix() for path in sorted((repository / "docs").rglob("*.md"))]
    return found + [page for page in ELSEWHERE if page != "README.md" and (repository / page).is_file()]


def place_of(file: str) -> str:
    """Where a file of the repository is on the site; a page without its suffix."""
    if file in ELSEWHERE:
        return ELSEWHERE[file]
    path = PurePosixPath(file)
    if path.parts[0] != "docs":
        return (PurePosixPath("files") / path).as_posix()
    return path.relative_to("docs").with_suffix("" if path.suffix == ".md" else path.suffix).as_posix()


def _numbered(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines with their numbers, and whether they are code."""
    ticks = ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        fence = _FENCE.match(line)
        if ticks:
            yield number, line, True
            if fence and fence["ticks"].startswith(ticks):
                ticks = ""
        else:
            ticks = fence["ticks"] if fence else ""
            yield number, line, bool(fence)
