"""Pages in Chromium: how it is started, and what no page of ours may do."""

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
    """The browser, without a screen."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


class Tabs:
    """Pages that are open; at the end nothing was said in their consoles, and nobody else was asked."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self._wrong: list[str] = []

    def open(self, address: str, state: str = "", **options: Any) -> Any:
        """A page at an address that ends with a slash, for a new visitor."""

        def watch(request: Any) -> None:
            if not request.url.startswith((address, "blob:", "data:")):
                self._wrong.append(f"asked {request.url}")

        context = self._browser.new_context(**{"viewport": WIDE, **options})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.on("request", watch)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self._wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._wrong.append(str(error)))
        page.goto(f"{address}{state}")
        return page

    def close(self) -> None:
        """Close all of them, and look."""
        for context in self._contexts:
            context.close()
        assert self._wrong == []
