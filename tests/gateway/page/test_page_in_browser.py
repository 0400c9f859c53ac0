"""The gateway's page in Chromium: a chat with a tool, both streams, the request log, the key.

``make browser`` runs these; screenshots are in ``build/screenshots``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from browser import CHROMIUM, SCREENSHOTS, Tabs, chromium
from gateways import EngineProcess, GatewayThread, call_text, post, serving

sync_api = pytest.importorskip("playwright.sync_api")

THOUGHT = "<think>\nThe user asks for Paris.\n</think>\n\nOne moment.\n"
CALL = THOUGHT + call_text("get_weather", '{"city": "Paris"}')
ANSWER = "It is 21 degrees and clear."
PHONE = {"width": 390, "height": 844}

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium")]


def split_text(text: str) -> list[str]:
    """Split a text into chunks of token length."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template, last_requests=10) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as chromium_:
        yield chromium_


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Open a gateway's page; afterwards assert an empty console and no external requests."""
    tabs = Tabs(browser)

    def open_page(gateway: GatewayThread, state: str = "", **options: Any) -> Any:
        return tabs.open(f"{gateway.url}/", state, **options)

    yield open_page
    tabs.close()


def expect(page: Any, selector: str) -> Any:
    return sync_api.expect(page.locator(selector))


def picture(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SCREENSHOTS / f"gateway-{name}.png"), full_page=True)


def tab(page: Any, title: str) -> None:
    page.get_by_role("tab", name=title, exact=True).click()


def talk(page: Any, engine: EngineProcess) -> None:
    """Hold a short conversation: a question, a call, its result, the answer."""
    engine.script(*split_text(CALL))
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_label("Result of get_weather").wait_for()
    engine.script(*split_text(ANSWER))
    page.get_by_role("button", name="Send the result").click()
    expect(page, ".served-turns .served-model >> nth=1").to_contain_text(ANSWER)


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
def test_tool_is_called_and_answered(
    gateway: GatewayThread, engine: EngineProcess, opened: Opened, api: str
) -> None:
    page = opened(gateway)
    page.get_by_label("API", exact=True).select_option(api)
    engine.script(*split_text(CALL), delay=0.01)  # send each piece on its own
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page, ".served-call").to_contain_text('get_weather {"city": "Paris"}')
    expect(page, ".served-reasoning").to_contain_text("The user asks for Paris.")
    wrote = page.locator(".served-wrote code").all_text_contents()
    assert "".join(wrote).replace("⏎", "") == CALL
    got = page.locator(".served-got").all_text_contents()
    assert "" in got  # nothing was shown while the marker was held back
    expect(page, ".served-model p >> nth=1").to_have_text("One moment.")
    picture(page, f"call-{api}")
    engine.script(*split_text(ANSWER))
    page.get_by_label("Result of get_weather").fill('{"temperature": 21}')
    page.get_by_role("button", name="Send the result").click()
    expect(page, ".served-turns .served-model >> nth=1").to_contain_text(ANSWER)
    prompt = engine.last()["prompt"]
    assert '{"temperature": 21}' in prompt
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}' in prompt


def test_plan_is_shown(gateway: GatewayThread, engine: EngineProcess, opened: Opened) -> None:
    page = opened(gateway)
    talk(page, engine)
    page.get_by_text("Plan and upstream request").click()
    expect(page, ".served-why").to_contain_text("skip_special_tokens")
    expect(page, ".served-detail").to_contain_text("<|im_start|>assistant")
    picture(page, "chat")


def test_user_can_define_tools_and_settings(
    gateway: GatewayThread, engine: EngineProcess, opened: Opened
) -> None:
    page = opened(gateway)
    tools = page.locator(".served-code")
    tools.fill("[{")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page, ".served-setup .served-problem").to_contain_text("The tools are not valid")
    tools.fill('[{"type": "function", "function": {"name": "now"}}]')
    page.get_by_label("Tool choice").select_option("required")
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Max tokens").fill("77")
    page.get_by_text("System prompt").click()
    page.get_by_label("Text", exact=True).fill("Be brief.")
    engine.script(*split_text(call_text("now", "{}")))
    page.get_by_role("textbox", name="Message").fill("What time is it?")
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page, ".served-call").to_contain_text("now {}")
    request = engine.last()
    assert (request["temperature"], request["max_tokens"]) == (0.5, 77)
    assert "Be brief." in request["prompt"]
    assert "structured_outputs" in request
    page.get_by_role("button", name="New chat").click()
    expect(page, ".served-turns li").to_have_count(0)


def test_response_can_be_stopped_and_an_error_retried(
    gateway: GatewayThread, engine: EngineProcess, opened: Opened
) -> None:
    page = opened(gateway)
    engine.script("Word ", forever="word ", delay=0.01)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page, ".served-model p >> nth=1").to_contain_text("word word")
    page.get_by_role("button", name="Stop").click()
    expect(page, ".served-turns .served-problem").to_contain_text("stopped")
    engine.script(ANSWER)
    page.get_by_role("button", name="Try again").click()
    expect(page, ".served-turns .served-model >> nth=1").to_contain_text(ANSWER)


def test_malformed_call_is_marked(gateway: GatewayThread, engine: EngineProcess, opened: Opened) -> None:
    engine.script("Well. ", call_text("get_weather", "{'city': 'Oslo'}"))
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [], "stream": True}
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    post(f"{gateway.url}/v1/chat/completions", {**body, "tools": tools, "stream": False})
    page = opened(gateway)
    tab(page, "Latest requests")
    page.locator(".served-request").first.click()
    expect(page, ".served-diagnostics").to_contain_text("malformed_call")
    picture(page, "requests")
    page.get_by_role("button", name="Open in the playground").click()
    expect(page, "#diagnostics").to_contain_text("malformed")
    expect(page, "#dialect").to_have_value("hermes")
    assert "Oslo" in page.locator("#raw").input_value()
    sync_api.expect(page).to_have_url(re.compile("#.{10}"))
    picture(page, "playground")
    again = opened(gateway, page.evaluate("location.hash"))
    expect(again, "#diagnostics").to_contain_text("malformed")
    tab(page, "Latest requests")
    page.get_by_role("button", name="Delete all").click()
    expect(page, ".served-request").to_have_count(0)


def test_model_report_is_shown(gateway: GatewayThread, opened: Opened) -> None:
    page = opened(gateway)
    tab(page, "Model")
    expect(page, ".served-lead").to_contain_text("writes tool calls as hermes")
    expect(page, ".served-findings >> nth=0").to_contain_text("tokenizer")
    page.get_by_text("Plans for typical requests").click()
    picture(page, "model")


def test_key_is_asked_for_and_kept_in_the_tab(engine: EngineProcess, template: str, opened: Opened) -> None:
    with serving(upstream="completions", url=engine.url, template=template, api_keys=("the-key",)) as locked:
        page = opened(locked)
        page.get_by_label("API key").fill("another")
        page.get_by_role("button", name="Continue").click()
        expect(page, ".served-key .served-problem").to_contain_text("not valid")
        picture(page, "key")
        page.get_by_label("API key").fill("the-key")
        page.get_by_role("button", name="Continue").click()
        talk(page, engine)
        page.reload()
        tab(page, "Playground")
        expect(page, "#message").to_contain_text("get_weather")
        assert page.evaluate("sessionStorage.getItem('unspool-key')") == "the-key"
        assert page.evaluate("localStorage.getItem('unspool-key')") is None
        opened(locked).get_by_label("API key").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_a_phone(
    gateway: GatewayThread, engine: EngineProcess, opened: Opened, scheme: str
) -> None:
    page = opened(gateway, viewport=PHONE, color_scheme=scheme)
    talk(page, engine)
    for title in ("Chat", "Latest requests", "Model"):
        tab(page, title)
        if title == "Latest requests":
            page.locator(".served-request").first.click()
            page.locator(".served-columns .served-detail").wait_for()
        if title == "Model":
            page.locator(".served-lead").wait_for()
        picture(page, f"phone-{scheme}-{title.split()[0].lower()}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], title


def test_dark_theme_is_used(gateway: GatewayThread, engine: EngineProcess, opened: Opened) -> None:
    page = opened(gateway, color_scheme="dark")
    talk(page, engine)
    picture(page, "chat-dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 15, 19)"
