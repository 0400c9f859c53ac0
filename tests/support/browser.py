"""Chromium for tests of pages, and checks that every page must pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paths import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1440, "height": 1000}


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a headless browser for the duration of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


class Tabs:
    """Browser tabs that fail the test if a page logs to its console or loads anything from another origin."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self._violations: list[str] = []

    def open(self, address: str, state: str = "", **options: Any) -> Any:
        """Open a page in a new session.

        :param address: base URL that ends with a slash; requests to other origins are violations.
        :param state: rest of the URL.
        """

        def watch(request: Any) -> None:
            if not request.url.startswith((address, "blob:", "data:")):
                self._violations.append(f"request to {request.url}")

        context = self._browser.new_context(**{"viewport": WIDE, **options})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.on("request", watch)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self._violations.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._violations.append(str(error)))
        page.goto(f"{address}{state}")
        return page

    def close(self) -> None:
        """Close all tabs and report violations."""
        for context in self._contexts:
            context.close()
        assert self._violations == []
