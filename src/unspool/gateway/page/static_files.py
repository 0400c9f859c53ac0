"""Static files of the web page: in memory, with their media types, ETags and security headers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from ..http.exchange import Exchange, Headers

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Policy that forbids content from other origins, inline scripts, and embedding the page in a frame."""
SECURITY_HEADERS: Final[Headers] = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""Headers of every response that a browser may show."""
INDEX: Final = "index.html"
_PACKAGES: Final = ("unspool.playground", "unspool.gateway.page")
"""Packages whose ``static`` folders together make up the page."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page."""

    data: bytes
    media_type: str
    etag: str

    async def send(self, exchange: Exchange, *headers: tuple[bytes, bytes]) -> None:
        """Respond with the file, or with 304 if the browser's copy is up to date."""
        headers = (
            *SECURITY_HEADERS,
            *headers,
            (b"etag", self.etag.encode()),
            (b"cache-control", b"no-cache"),
        )
        cached = [one.strip().removeprefix("W/") for one in exchange.header(b"if-none-match").split(",")]
        if self.etag in cached:
            await exchange.respond(304, b"", headers)
            return
        await exchange.respond(200, self.data, (*headers, (b"content-type", self.media_type.encode())))


def load_static_files() -> dict[str, StaticFile]:
    """Load the page's files; return a dictionary from paths to files."""
    loaded: dict[str, StaticFile] = {}
    for package in _PACKAGES:
        for path, entry in _walk(files(package) / "static"):
            suffix = f".{path.rpartition('.')[2]}"
            if suffix in _MEDIA_TYPES:
                data = entry.read_bytes()
                if path == INDEX:
                    data = data.replace(b"<html", b"<html data-served", 1)
                digest = hashlib.sha256(data).hexdigest()[:32]
                loaded[path] = StaticFile(data, _MEDIA_TYPES[suffix], f'"{digest}"')
    return loaded


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield all files in a folder and its subfolders, each with its path."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        else:
            yield path, entry
