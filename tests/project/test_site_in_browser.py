"""The site in Chromium: ``make browser`` builds it first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from browser import CHROMIUM, SCREENSHOTS, Tabs, chromium
from paths import ROOT

SITE = ROOT / "build" / "site"
PAGES = sorted(
    page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if "playground" not in page.parts
)
PICTURED = ("index.html", "architecture.html", "dialect-list.html", "speed.html", "api/unspool.html")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium"),
    pytest.mark.skipif(not PAGES, reason="not built: make site"),
]


class Files(SimpleHTTPRequestHandler):
    """A plain file server."""

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def tabs() -> Iterator[Tabs]:
    """Tabs that fail the test on console messages and on requests to other origins."""
    with chromium() as browser:
        opened = Tabs(browser)
        yield opened
        opened.close()


@pytest.mark.parametrize(("look", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_every_page_fits_its_screen_and_is_complete(look: str, width: int, tabs: Tabs, address: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page = tabs.open(address, viewport={"width": width, "height": 900}, color_scheme=look)
    for name in PAGES:
        page.goto(f"{address}{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        missing = "[...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
        assert page.evaluate(missing) == []
        if name in PICTURED:
            page.screenshot(path=SCREENSHOTS / f"site-{name.replace('/', '-')}-{look}-{width}.png")


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("tool calls leak", "leaks.html"),
        ("in front of Ollama", "recipes.html"),
        ("Kimi K2", "dialect-list.html"),
        ("ChatStream", "api/unspool.wire.html"),
    ],
)
def test_search_finds_the_page(words: str, target: str, tabs: Tabs, address: str) -> None:
    page = tabs.open(address, "index.html")
    box = page.get_by_role("textbox", name="Search").first
    box.fill(words)
    box.press("Enter")
    page.wait_for_selector(f"ul.search li a[href*='{target}']")


def test_playground_can_be_opened(tabs: Tabs, address: str) -> None:
    page = tabs.open(address, "playground.html")
    page.get_by_role("link", name="Open the playground").click()
    page.wait_for_selector("#message .part")
