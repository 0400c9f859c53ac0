"""Soak test of the gateway, which reproduces the load and the faults of hours in minutes.

Real gateways (one with a single process, one with two workers and a file for stored responses) run in
front of scripted engines of every kind. Published clients and sockets use all APIs. Requests ask the
upstream for faults; engines are killed or suspended, workers are killed, the disk fills up; clients
disconnect, stop reading or send garbage. A log (``log.py``) checks that every request gets an answer or
an error in its API's form, and that every answer matches the request. At the end, memory and file
descriptors are compared with those after the warm-up.

The same ``--seed`` sends the same requests in the same order.

Needs: nothing but the development environment.
Takes: ``--minutes`` (default: 3), plus half a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from lab.soak.clients import CHAT_TOOLS, Client, RequestResult, read_chat, request, response
from lab.soak.disturbances import Disturber
from lab.soak.log import ResultLog
from lab.soak.processes import SETTINGS, TEMPLATE, UPSTREAMS, Engine, Gateway, State
from lab.soak.script import FAULTS, mark_of, output_of, question

REQUEST_LIMIT: Final = 40.0
"""Time limit of a request in seconds."""
NEEDS: Final[dict[str, set[str]]] = {
    "vllm": {"vllm"},
    "llamacpp": {"llamacpp"},
    "chat": {"chat"},
    "ollama": {"ollama"},
    "two": {"vllm", "spare"},
    "replay": set(),
}
"""Upstream engines by model."""
LIBRARY: Final = (
    *("openai_chat", "openai_whole", "openai_responses", "openai_completions"),
    *("anthropic_messages", "anthropic_whole", "ollama_chat"),
)


class Soak:
    """One run of the test."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.log = ResultLog()
        self.chance = random.Random(options.seed)  # noqa: S311 - a run can be repeated
        self.number = 0
        self.latencies: list[float] = []
        self.engines: dict[str, Engine] = {}
        self.gateways: list[Gateway] = []
        self.single: Gateway | None = None
        """Gateway with a model in its own process."""
        self.clients: dict[str, Client] = {}
        self.before: dict[str, State] = {}
        self.after: dict[str, State] = {}
        self.peak: Counter[str] = Counter()
        self.resting = asyncio.Event()

    def start(self) -> None:
        """Start engines and gateways."""
        folder = self.folder
        for name in UPSTREAMS:
            self.engines[name] = Engine(name)
            self.engines[name].start()
        (folder / "chatml.jinja").write_text(TEMPLATE, encoding="utf-8")
        (folder / "replay.jsonl").write_text('{"chunks": ["q00000000q", ".0"]}\n', encoding="utf-8")
        config = folder / "gateway.toml"
        ports = {name: engine.port for name, engine in self.engines.items()}
        config.write_text(SETTINGS.format(folder=folder, **ports), encoding="utf-8")
        self.gateways.append(Gateway("one process", config))
        flags = ("--workers", "2", "--set", f"store={folder}/kept.sqlite")
        self.gateways.append(Gateway("two workers", config, *flags))
        if self.options.embedded:
            self.single = Gateway("embedded", None, "--set", "idle_timeout=30")
            self.gateways.append(self.single)
        self.connect()

    def connect(self) -> None:
        """Create new clients."""
        self.clients = {one.name: Client(f"http://127.0.0.1:{one.port}") for one in self.gateways}

    def end(self) -> None:
        """Stop all processes."""
        for engine in self.engines.values():
            engine.kill()
        for gateway in self.gateways:
            gateway.end()

    # -- requests

    def next(self) -> tuple[str, str]:
        """Return the next mark and its fault."""
        self.number += 1
        fault = self.chance.choices(list(FAULTS), list(FAULTS.values()))[0]
        return mark_of(self.number), fault

    async def client(self) -> None:
        """Send requests until the run ends."""
        ways: list[Callable[[Gateway], Awaitable[None]]] = [
            *[self.by_library] * 12,
            *[self.by_socket] * 3,
            *[self.misbehave] * 3,
            self.send_small_requests,
            self.run_conversation,
            self.pipelined,
        ]
        while not self.resting.is_set():
            way, gateway = self.chance.choice(ways), self.chance.choice(self.gateways[:2])
            await way(gateway)
            if self.single is not None and self.number % 50 == 0:
                await self.use_embedded_model(self.single)

    async def timed(self, result: RequestResult, work: Awaitable[None]) -> None:
        """Run a request within the time limit."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(REQUEST_LIMIT):
                await work
        except TimeoutError:
            result.ended = "hung"
        except (OSError, asyncio.IncompleteReadError) as error:
            result.ended, result.problem = "broken", repr(error)
        except Exception as error:  # noqa: BLE001 - an answer must not crash a client
            result.ended = "broken"
            self.log.record_failure("client crashed", f"{type(error).__name__}: {error}, {result}")
        self.latencies.append(time.monotonic() - began)

    async def by_library(self, gateway: Gateway) -> None:
        """Send a request with a published client."""
        mark, fault = self.next()
        way = self.chance.choice(LIBRARY)
        # Ollama has no completions to forward, and a recording has only one answer.
        model = self.chance.choice([one for one in NEEDS if one != "replay"])
        if way == "openai_completions":
            model = self.chance.choice(("vllm", "llamacpp", "two"))
        await self.ask(gateway, way, model, mark, fault)

    async def ask(
        self,
        gateway: Gateway,
        way: str,
        model: str,
        mark: str,
        fault: str,
        *,
        other_marks: frozenset[str] = frozenset(),
        **more: Any,
    ) -> RequestResult:
        result, began, output = RequestResult(), time.monotonic(), output_of(mark)
        await self.timed(
            result, self.clients[gateway.name].ask(way, model, question(mark, fault), result, **more)
        )
        if way == "openai_completions" and result.ended == "answered":
            result.text = (
                output.text if result.text == output.raw else f"{result.text!r} instead of {output.raw!r}"
            )
            result.calls = list(output.calls)
        elif way == "openai_completions":
            result.text = "" if output.raw.startswith(result.text.rstrip("x")) else result.text
        self.log.check_result(way, result, output, fault, began, NEEDS[model] | {gateway.name})
        self.log.check_leak(way, result, {mark, *other_marks})
        return result

    async def by_socket(self, gateway: Gateway) -> None:
        """Send requests as bytes, each on its own connection, and some of them slowly."""
        mark, fault = self.next()
        model = self.chance.choice([one for one in NEEDS if one != "replay"])
        body = self.chat(model, mark, fault, stream=self.chance.random() < 0.5)
        slowly = self.chance.random() < 0.3
        result, began = RequestResult(), time.monotonic()

        async def work() -> None:
            data = request("/v1/chat/completions", body)
            reader, writer = await self.clients[gateway.name].send(b"" if slowly else data)
            try:
                for at in range(0, len(data) if slowly else 0, 97):
                    writer.write(data[at : at + 97])
                    await asyncio.sleep(0.01)
                read_chat(*await response(reader), result)
            finally:
                writer.transport.abort()

        await self.timed(result, work())
        self.log.check_result("sockets", result, output_of(mark), fault, began, NEEDS[model] | {gateway.name})
        self.log.check_leak("sockets", result, {mark})

    def chat(self, model: str, mark: str, fault: str, *, stream: bool) -> dict[str, Any]:
        """Return the body of a chat completion."""
        messages = [{"role": "user", "content": question(mark, fault)}]
        return {"model": model, "messages": messages, "tools": CHAT_TOOLS, "stream": stream}

    async def pipelined(self, gateway: Gateway) -> None:
        """Send three requests at once on one connection, and expect three answers in order."""
        model = self.chance.choice(("vllm", "chat"))
        marks = [self.next()[0] for _ in range(3)]
        bodies = [self.chat(model, mark, "none", stream=number == 1) for number, mark in enumerate(marks)]
        gots, began = [RequestResult() for _ in marks], time.monotonic()
        whole = RequestResult()

        async def work() -> None:
            data = b"".join(request("/v1/chat/completions", body) for body in bodies)
            reader, writer = await self.clients[gateway.name].send(data)
            try:
                for result in gots:
                    read_chat(*await response(reader), result)
            finally:
                writer.transport.abort()

        await self.timed(whole, work())
        for mark, result in zip(marks, gots, strict=True):
            result.problem = result.problem or whole.problem
            self.log.check_result(
                "pipelined", result, output_of(mark), "none", began, NEEDS[model] | {gateway.name}
            )
            self.log.check_leak("pipelined", result, {mark})

    async def misbehave(self, gateway: Gateway) -> None:
        """Act as a client that disconnects, stops reading or sends garbage."""
        mark, fault = self.next()
        how = self.chance.choice(
            ("leaves", "leaves at once", "stops reading", "rubbish", "half a body", "half closed")
        )
        fault = "huge" if how == "stops reading" else fault
        data = request("/v1/chat/completions", self.chat("vllm", mark, fault, stream=how != "half closed"))
        if how == "rubbish":
            data = self.chance.choice(
                (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9\r\n\r\n", b"\0" * 5000, b"POST /" + b"a" * 70_000)
            )
        if how == "half a body":
            data = data[:-20]
        result = RequestResult()

        async def work() -> None:
            reader, writer = await self.clients[gateway.name].send(data)
            try:
                if how == "leaves":
                    await reader.read(200)
                elif how == "stops reading":
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                    await asyncio.sleep(self.chance.choice((0.2, 1.0, 7.0)))
                elif how == "half closed":
                    writer.write_eof()
                    await reader.read()
                elif how == "half a body":
                    assert (await response(reader))[0] == 408  # noqa: S101
                elif how == "rubbish":
                    await reader.read(200)
            finally:
                writer.transport.abort()

        await self.timed(result, work())
        self.log.outcomes[f"a client: {how}"]["left" if result.ended != "hung" else "hung"] += 1
        if result.ended == "hung":
            self.log.record_failure("lost", f"a client that {how}")

    async def send_small_requests(self, gateway: Gateway) -> None:
        """Send requests that generate nothing: embeddings, tokens, parsing, a recording, lists."""
        client, began = self.clients[gateway.name], time.monotonic()
        mark, _ = self.next()
        output = output_of(mark)
        tools = CHAT_TOOLS
        model = self.chance.choice(("vllm", "llamacpp"))
        asked: list[tuple[str, str, Any, Callable[[Any], bool]]] = [
            (
                "POST",
                "/v1/embeddings",
                {"model": model, "input": mark},
                lambda v: v["data"][0]["embedding"][0] == 10.0,
            ),
            (
                "POST",
                "/api/embed",
                {"model": model, "input": [mark, "a"]},
                lambda v: len(v["embeddings"]) == 2,
            ),
            (
                "POST",
                "/tokenize",
                {"model": model, "prompt": mark},
                lambda v: v["tokens"] == list(mark.encode()),
            ),
            (
                "POST",
                "/detokenize",
                {"model": model, "tokens": list(mark.encode())},
                lambda v: v["prompt"] == mark,
            ),
            (
                "POST",
                "/v1/parse",
                {"dialect": "hermes", "text": output.raw, "tools": tools},
                lambda v: (v["message"]["content"] or "").strip() == output.text.strip(),
            ),
            (
                "POST",
                "/v1/chat/completions",
                {"model": "replay", "messages": [{"role": "user", "content": "x"}]},
                lambda v: v["choices"][0]["message"]["content"] == "q00000000q.0",
            ),
            ("GET", "/v1/models", None, lambda v: len(v["data"]) == len(NEEDS)),
            ("GET", "/health", None, lambda v: v == {"status": "ok"}),
            ("GET", "/api/tags", None, lambda v: len(v["models"]) == len(NEEDS)),
        ]
        method, path, body, good = self.chance.choice(asked)
        result = RequestResult()

        async def work() -> None:
            status, value = await client.json(method, path, body)
            result.status = status
            if status == 200 and good(value):
                result.ended = "answered"
            else:
                result.ended = "error" if status >= 400 and "error" in value else "broken"
                result.problem = str(value)

        await self.timed(result, work())
        self.log.outcomes[path][result.ended] += 1
        if result.ended != "answered" and not self.log.is_explained(began, NEEDS[model] | {gateway.name}):
            self.log.record_failure(
                "lost" if result.ended != "error" else "unexplained error", f"{path} {result}"
            )

    async def run_conversation(self, gateway: Gateway) -> None:
        """Run a conversation: store a response, continue it, fetch both, delete one."""
        client = self.clients[gateway.name]
        model = self.chance.choice(("vllm", "ollama", "chat"))
        first, second = self.next()[0], self.next()[0]
        began = time.monotonic()
        names = {gateway.name, *NEEDS[model]}
        one = await self.ask(gateway, "openai_responses", model, first, "none")
        if not one.id:
            return
        more: dict[str, Any] = {"previous_response_id": one.id}
        two = await self.ask(
            gateway, "openai_responses", model, second, "none", other_marks=frozenset({first}), **more
        )
        result = RequestResult()

        async def work() -> None:
            found = await client.json("GET", f"/v1/responses/{one.id}")
            deleted = await client.json("DELETE", f"/v1/responses/{one.id}")
            again = await client.json("GET", f"/v1/responses/{one.id}")
            result.problem = f"{found[0]}, {deleted[0]}, {again[0]}"
            good = (found[0], deleted[0], again[0]) == (200, 200, 404) and first in str(found[1])
            result.ended = "answered" if good else "error"

        await self.timed(result, work())
        self.log.outcomes["/v1/responses/{id}"][result.ended] += 1
        if result.ended != "answered" and not self.log.is_explained(began, names):
            self.log.record_failure("not kept", f"{result} {two.ended}")

    async def use_embedded_model(self, gateway: Gateway) -> None:
        """Use a model that generates a few tokens inside the gateway."""
        messages = [{"role": "user", "content": "Say hello."}]
        body = {
            "messages": messages,
            "max_tokens": 8,
            "tools": CHAT_TOOLS if self.chance.random() < 0.5 else [],
        }
        result = RequestResult()

        async def work() -> None:
            result.status, value = await self.clients[gateway.name].json("POST", "/v1/chat/completions", body)
            result.ended = "answered" if result.status == 200 and value["choices"] else "error"
            result.problem = str(value)

        await self.timed(result, work())
        self.log.outcomes["the embedded model"][result.ended] += 1
        if result.ended != "answered":
            self.log.record_failure(
                "lost" if result.ended != "error" else "unexplained error", f"embedded {result}"
            )

    # -- the run

    async def phase(self, seconds: float) -> None:
        """Send requests with disturbances for ``seconds``, then wait until the system is idle."""
        self.resting.clear()
        tasks = [asyncio.create_task(self.client()) for _ in range(self.options.clients)]
        disturber = Disturber(self.log, self.chance, self.engines, self.gateways[1])
        tasks.append(asyncio.create_task(disturber.run(self.resting)))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(1)
            for gateway in self.gateways:
                self.peak[gateway.name] = max(self.peak[gateway.name], int(gateway.memory()))
        self.resting.set()
        await asyncio.gather(*tasks)
        for client in self.clients.values():
            await client.close()
        self.connect()
        # After this time, the gateway has closed disconnected and idle keep-alive connections.
        await asyncio.sleep(self.options.rest)

    async def run(self) -> int:
        """Run the whole test and return the exit code."""
        seconds = self.options.minutes * 60
        await self.phase(max(5.0, seconds * 0.25))
        self.before = {one.name: one.state() for one in self.gateways}
        await self.phase(max(5.0, seconds * 0.75))
        self.after = {one.name: one.state() for one in self.gateways}
        for client in self.clients.values():
            await client.close()
        codes = [await asyncio.to_thread(one.stop) for one in self.gateways]
        for gateway, code in zip(self.gateways, codes, strict=True):
            if code not in (0, -signal.SIGTERM):
                self.log.record_failure(
                    "gateway does not stop", f"{gateway.name}: exit code {code}; {''.join(gateway.last)}"
                )
            for line in gateway.tracebacks:
                self.log.record_failure("a traceback", line)
        self.check_growth()
        return self.report()

    def check_growth(self) -> None:
        """Check that memory, descriptors and processes did not grow, except for template workers."""
        for name, now in self.after.items():
            was = self.before[name]
            if now.memory > was.memory * 1.1 + 8:
                self.log.record_failure("memory grows", f"{name}: {was}, then {now}")
            if now.descriptors > was.descriptors + 8 or now.processes > was.processes + 2:
                self.log.record_failure("descriptors or processes grow", f"{name}: {was}, then {now}")

    def report(self) -> int:
        """Print the table and return the exit code."""
        options, times = self.options, sorted(self.latencies) or [0.0]
        print(self.log.table())
        print()
        print(f"{options.minutes:g} minutes, seed {options.seed}, {self.number:,} marks.")
        middle = times[len(times) // 2] * 1000
        print(f"Request time: median {middle:.0f} ms, maximum {times[-1]:.1f} s (limit {REQUEST_LIMIT:g} s).")
        for name, now in self.after.items():
            print(f"{name}: {self.before[name]} after the warm-up;")
            print(f"  {now} at the end, {self.peak[name]} MB at most")
        print(self.log.verdict())
        return 1 if self.log.counts else 0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12, help="number of concurrent clients")
    parser.add_argument("--rest", type=float, default=8.0, help="idle seconds before memory is measured")
    parser.add_argument("--embedded", action="store_true", help="also use a model inside the gateway")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(options, Path(folder))
        try:
            soak.start()
            return asyncio.run(soak.run())
        finally:
            soak.end()


if __name__ == "__main__":
    sys.exit(main())
