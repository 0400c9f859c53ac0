"""The files of the page: in memory, each with its type, its tag, and what a browser may do with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from ..http.exchange import Exchange, Headers

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere, nothing written into the page, in nobody else's frame."""
SAFE: Final[Headers] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""For whatever a browser may be shown."""
INDEX: Final = "index.html"
_PACKAGES: Final = ("unspool.playground", "unspool.gateway.page")
"""Whose folders ``page`` make up the page."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    data: bytes
    type: str
    tag: str
    """Another one when the file is."""

    async def send(self, exchange: Exchange, *more: tuple[bytes, bytes]) -> None:
        """Answer with it, or say that the browser has it already."""
        headers = (*SAFE, *more, (b"etag", self.tag.encode()), (b"cache-control", b"no-cache"))
        known = [one.strip().removeprefix("W/") for one in exchange.header(b"if-none-match").split(",")]
        if self.tag in known:
            await exchange.respond(304, b"", headers)
            return
        await exchange.respond(200, self.data, (*headers, (b"content-type", self.type.encode())))


def page_files() -> dict[str, File]:
    """The files of the page by their paths below it."""
    found: dict[str, File] = {}
    for package in _PACKAGES:
        for path, entry in _below(files(package) / "static"):
            suffix = f".{path.rpartition('.')[2]}"
            if suffix in _TYPES:
                data = entry.read_bytes()
                if path == INDEX:
                    data = data.replace(b"<html", b"<html data-served", 1)
                tag = hashlib.sha256(data).hexdigest()[:32]
                found[path] = File(data, _TYPES[suffix], f'"{tag}"')
    return found


def _below(folder: Traversable, place: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = f"{place}{entry.name}"
        if entry.is_dir():
            yield from _below(entry, f"{path}/")
        else:
            yield path, entry
