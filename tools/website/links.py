"""What a site points at: pages and anchors that are there, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADED: Final = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "link": ("href",),
}
"""Elements that a browser loads by itself; all other ``href`` wait for a click."""
_STYLES: Final = re.compile(r"@import\s+(?:url\()?['\"]?([^'\")\s;]+)|url\(\s*['\"]?([^'\")]+)")


@dataclass
class Page(HTMLParser):
    """What one page points at, and what can be pointed at on it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        for name in LOADED.get(tag, ()):
            if name in given:
                parts = given[name].split(",") if name == "srcset" else [given[name]]
                self.loads += [part.split()[0] for part in parts if part.split()]
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        self.loads += _styled(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loads += _styled(data)


def _styled(text: str) -> list[str]:
    return [first or second for first, second in _STYLES.findall(text)]


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path, apart: tuple[str, ...] = ()) -> Iterator[str]:
    """Everything that is wrong with a site; folders that stand ``apart`` know what their addresses mean."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    ours = {
        path: page
        for path, page in pages.items()
        if not any(path.is_relative_to((site / folder).resolve()) for folder in apart)
    }
    for path, page in ours.items():
        name = path.relative_to(site.resolve())
        for link in dict.fromkeys(page.loads):
            if urlsplit(link).scheme not in ("", "data") or link.startswith("//"):
                yield f"{name} loads {link} from elsewhere"
            elif said := _dead(site, path, link, ours):
                yield f"{name}: {link} {said}"
        for link in dict.fromkeys(page.links):
            if not urlsplit(link).scheme and (said := _dead(site, path, link, ours)):
                yield f"{name}: {link} {said}"
    for path in sorted(site.rglob("*.css")):
        for link in _styled(path.read_text(encoding="utf-8")):
            if urlsplit(link).scheme not in ("", "data") or link.startswith("//"):
                yield f"{path.relative_to(site)} loads {link} from elsewhere"
    reached = _reached(site, pages)
    for path in sorted(ours.keys() - reached):
        yield f"{path.relative_to(site.resolve())} is reached from nowhere"


def _dead(site: Path, path: Path, link: str, pages: dict[Path, Page]) -> str:
    target = _target(path, link)
    if urlsplit(link).scheme:
        return ""
    if not target.is_file():
        return "leads nowhere"
    if not target.is_relative_to(site.resolve()):
        return "leads out of the site"
    anchor = unquote(urlsplit(link).fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "has no such anchor"
    return ""


def _target(path: Path, link: str) -> Path:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return target / "index.html" if target.is_dir() else target


def _reached(site: Path, pages: dict[Path, Page]) -> set[Path]:
    """Pages that clicks lead to from the start."""
    start = (site / "index.html").resolve()
    reached, waiting = {start}, [start]
    while waiting:
        path = waiting.pop()
        for link in pages[path].links if path in pages else ():
            target = _target(path, link)
            if not urlsplit(link).scheme and target in pages and target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached | {(site / name).resolve() for name in ("search.html", "404.html")}
