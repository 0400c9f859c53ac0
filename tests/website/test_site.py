"""The site in a browser: ``make site``, then ``make browser``.

The questions were written down before the pages: those of somebody who has just heard of unspool. Each has
its answer within two clicks from the start page, or by one search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

import pytest

from browser import CHROMIUM, SCREENSHOTS, chromium
from paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SITE = ROOT / "build" / "site"


@dataclass(frozen=True)
class Question:
    """A question, and where its answer is."""

    text: str
    clicks: tuple[str, ...]
    """Links to follow from the start page, by their text."""
    searched: str
    """Words to search for instead."""
    page: str
    """The page where either leads."""
    answer: str
    """Text that the page must contain."""


QUESTIONS = (
    Question(
        "Which dialect does my model speak?",
        ("Which dialect does my model speak?",),
        "which dialect",
        "doctor.html",
        "unspool detect path/to/model",
    ),
    Question(
        "Why does my call come back as text?",
        ("My tool calls leak into the chat",),
        "tool calls leak",
        "leaks.html",
        "By default its text goes back to the content",
    ),
    Question(
        "How do I put it in front of Ollama?",
        ("Put it in front of Ollama, llama.cpp, vLLM",),
        "in front of Ollama",
        "recipes.html",
        "unspool serve http://127.0.0.1:11434#qwen3:8b",
    ),
    Question(
        "What was each token of a rollout?",
        ("What was each token of a rollout?",),
        "rollout mask",
        "rollouts.html",
        "A mask is bytes of 0 and 1",
    ),
    Question(
        "What may I rely on?",
        ("What may I rely on?",),
        "promised",
        "promises.html",
        "Chunks do not matter.",
    ),
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: make site")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed: apt install chromium")
    with chromium() as launched:
        yield launched


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Open a page that fails the test on external requests or console messages."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    opened.on(
        "request", lambda request: None if request.url.startswith(address) else wrong.append(request.url)
    )
    opened.on("response", lambda got: wrong.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    opened.on("console", lambda line: wrong.append(line.text) if line.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto(address)
    yield opened
    opened.close()
    assert wrong == []


def _reads(page: Page, question: Question) -> None:
    page.wait_for_url(f"**/{question.page}*")
    article = page.locator("article")
    assert question.answer in " ".join(article.inner_text().split())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_answer_is_two_clicks_away(question: Question, page: Page) -> None:
    assert len(question.clicks) <= 2
    for text in question.clicks:
        page.locator("article").get_by_role("link", name=text, exact=True).click()
    _reads(page, question)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_answer_is_found_by_search(question: Question, page: Page) -> None:
    box = page.get_by_role("textbox", name="Search").first
    box.fill(question.searched)
    box.press("Enter")
    page.wait_for_function("document.querySelectorAll('ul.search li').length > 0")
    page.wait_for_function("!document.querySelector('#search-progress')?.textContent.includes('.')")
    first = page.locator("ul.search li a").evaluate_all("links => links.slice(0, 3).map(link => link.href)")
    (place,) = [number for number, link in enumerate(first) if question.page in link][:1]
    page.locator("ul.search li a").nth(place).click()
    _reads(page, question)


@pytest.mark.parametrize("model", ["Kimi K2", "Qwen3", "gpt-oss"])
def test_model_is_found_by_its_name(model: str, page: Page) -> None:
    box = page.get_by_role("textbox", name="Search").first
    box.fill(model)
    box.press("Enter")
    page.wait_for_selector("ul.search li a[href*='dialect/']")


def test_navigation_leads_to_dialects_names_and_playground(page: Page, address: str) -> None:
    side = page.locator("aside.sidebar-drawer")
    side.get_by_role("link", name="Every dialect").click()
    page.locator("article").get_by_role("link", name="kimi_k2", exact=True).click()
    picture = page.locator("article img")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    side.get_by_role("link", name="API reference").click()
    page.locator("article").get_by_role("link", name="unspool.wire").click()
    assert page.locator("dt#unspool\\.wire\\.ChatStream").is_visible()
    assert side.get_by_role("link", name="Open the playground").evaluate("link => link.href") == (
        f"{address}playground/index.html"
    )


SHOWN = (
    "index",
    "leaks",
    "dialect/hermes",
    "dialect/harmony",
    "api/unspool",
    "truth-table",
    "speed",
    "architecture",
)


@pytest.mark.parametrize(("look", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_every_kind_of_page_fits_its_screen(
    look: Literal["light", "dark"], width: int, browser: Browser, address: str
) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=look)
    opened = context.new_page()
    for name in SHOWN:
        opened.goto(f"{address}{name}.html")
        opened.wait_for_load_state("networkidle")
        opened.screenshot(path=SCREENSHOTS / f"site-{name.replace('/', '-')}-{look}-{width}.png")
        assert opened.evaluate("document.documentElement.scrollWidth") <= width, name
    context.close()
