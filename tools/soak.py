"""Hours of a gateway's life in minutes: ``make soak MINUTES=30``.

Real gateways (one process; two workers with a file that keeps responses) before scripted engines
of every kind, all APIs, published clients and sockets.  Requests ask for faults of their
upstream; engines are killed and stopped, workers killed, the disk is full; clients leave, stop
reading, send rubbish.  Books are kept (``soak_books.py``): every request has an answer or an
error in its API's form, every answer is what was written to its mark.  At the end, memory and
file descriptors are compared with those after the warm-up.

The same ``--seed`` asks the same questions in the same order.
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

from soak_books import Books
from soak_clients import CHAT_TOOLS, Client, Got, read_chat, request, response
from soak_disturbances import Disturber
from soak_script import FAULTS, mark_of, output_of, question
from soak_world import SETTINGS, TEMPLATE, UPSTREAMS, Engine, Gateway, State

LIMIT: Final = 40.0
"""Seconds within which every request must be over."""
NEEDS: Final[dict[str, set[str]]] = {
    "vllm": {"vllm"},
    "llamacpp": {"llamacpp"},
    "chat": {"chat"},
    "ollama": {"ollama"},
    "two": {"vllm", "spare"},
    "replay": set(),
}
"""Models, and the engines behind them."""
LIBRARY: Final = (
    *("openai_chat", "openai_whole", "openai_responses", "openai_completions"),
    *("anthropic_messages", "anthropic_whole", "ollama_chat"),
)


class Soak:
    """One run."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.books = Books()
        self.chance = random.Random(options.seed)  # noqa: S311 - a run can be repeated
        self.number = 0
        self.latencies: list[float] = []
        self.engines: dict[str, Engine] = {}
        self.gateways: list[Gateway] = []
        self.alone: Gateway | None = None
        """The one with a model in its own process."""
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
            self.alone = Gateway("embedded", None, "--set", "idle_timeout=30")
            self.gateways.append(self.alone)
        self.connect()

    def connect(self) -> None:
        """New clients."""
        self.clients = {one.name: Client(f"http://127.0.0.1:{one.port}") for one in self.gateways}

    def end(self) -> None:
        """Leave no process behind."""
        for engine in self.engines.values():
            engine.kill()
        for gateway in self.gateways:
            gateway.end()

    # -- requests

    def next(self) -> tuple[str, str]:
        """A mark, and the fault that goes with it."""
        self.number += 1
        fault = self.chance.choices(list(FAULTS), list(FAULTS.values()))[0]
        return mark_of(self.number), fault

    async def client(self) -> None:
        """Ask, for as long as it lasts."""
        ways: list[Callable[[Gateway], Awaitable[None]]] = [
            *[self.by_library] * 12,
            *[self.by_socket] * 3,
            *[self.badly] * 3,
            self.small,
            self.kept,
            self.pipelined,
        ]
        while not self.resting.is_set():
            way, gateway = self.chance.choice(ways), self.chance.choice(self.gateways[:2])
            await way(gateway)
            if self.alone is not None and self.number % 50 == 0:
                await self.embedded(self.alone)

    async def timed(self, got: Got, work: Awaitable[None]) -> None:
        """Do it within the limit."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT):
                await work
        except TimeoutError:
            got.ended = "hung"
        except (OSError, asyncio.IncompleteReadError) as error:
            got.ended, got.problem = "broken", repr(error)
        except Exception as error:  # noqa: BLE001 - no client may stumble over an answer
            got.ended = "broken"
            self.books.accuse("a client stumbles", f"{type(error).__name__}: {error}, {got}")
        self.latencies.append(time.monotonic() - began)

    async def by_library(self, gateway: Gateway) -> None:
        """A published client."""
        mark, fault = self.next()
        way = self.chance.choice(LIBRARY)
        # Ollama has no completions that could be handed on; a recording has one answer.
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
        known: frozenset[str] = frozenset(),
        **more: Any,
    ) -> Got:
        got, began, output = Got(), time.monotonic(), output_of(mark)
        await self.timed(got, self.clients[gateway.name].ask(way, model, question(mark, fault), got, **more))
        if way == "openai_completions" and got.ended == "answered":
            got.text = output.text if got.text == output.raw else f"not {output.raw!r} but {got.text!r}"
            got.calls = list(output.calls)
        elif way == "openai_completions":
            got.text = "" if output.raw.startswith(got.text.rstrip("x")) else got.text
        self.books.enter(way, got, output, fault, began, NEEDS[model] | {gateway.name})
        self.books.search(way, got, {mark, *known})
        return got

    async def by_socket(self, gateway: Gateway) -> None:
        """Bytes, one connection for each request; some of them sent slowly."""
        mark, fault = self.next()
        model = self.chance.choice([one for one in NEEDS if one != "replay"])
        body = self.chat(model, mark, fault, stream=self.chance.random() < 0.5)
        slowly = self.chance.random() < 0.3
        got, began = Got(), time.monotonic()

        async def work() -> None:
            data = request("/v1/chat/completions", body)
            reader, writer = await self.clients[gateway.name].send(b"" if slowly else data)
            try:
                for at in range(0, len(data) if slowly else 0, 97):
                    writer.write(data[at : at + 97])
                    await asyncio.sleep(0.01)
                read_chat(*await response(reader), got)
            finally:
                writer.transport.abort()

        await self.timed(got, work())
        self.books.enter("sockets", got, output_of(mark), fault, began, NEEDS[model] | {gateway.name})
        self.books.search("sockets", got, {mark})

    def chat(self, model: str, mark: str, fault: str, *, stream: bool) -> dict[str, Any]:
        """The body of a chat completion."""
        messages = [{"role": "user", "content": question(mark, fault)}]
        return {"model": model, "messages": messages, "tools": CHAT_TOOLS, "stream": stream}

    async def pipelined(self, gateway: Gateway) -> None:
        """Three requests at once on one connection: three answers, in order."""
        model = self.chance.choice(("vllm", "chat"))
        marks = [self.next()[0] for _ in range(3)]
        bodies = [self.chat(model, mark, "none", stream=number == 1) for number, mark in enumerate(marks)]
        gots, began = [Got() for _ in marks], time.monotonic()
        whole = Got()

        async def work() -> None:
            data = b"".join(request("/v1/chat/completions", body) for body in bodies)
            reader, writer = await self.clients[gateway.name].send(data)
            try:
                for got in gots:
                    read_chat(*await response(reader), got)
            finally:
                writer.transport.abort()

        await self.timed(whole, work())
        for mark, got in zip(marks, gots, strict=True):
            got.problem = got.problem or whole.problem
            self.books.enter("pipelined", got, output_of(mark), "none", began, NEEDS[model] | {gateway.name})
            self.books.search("pipelined", got, {mark})

    async def badly(self, gateway: Gateway) -> None:
        """Clients that leave, stop reading, or never had anything to say."""
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
        got = Got()

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

        await self.timed(got, work())
        self.books.outcomes[f"a client: {how}"]["left" if got.ended != "hung" else "hung"] += 1
        if got.ended == "hung":
            self.books.accuse("lost", f"a client that {how}")

    async def small(self, gateway: Gateway) -> None:
        """What is not generated: embeddings, tokens, parsing, a recording, lists."""
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
        got = Got()

        async def work() -> None:
            status, value = await client.json(method, path, body)
            got.status = status
            if status == 200 and good(value):
                got.ended = "answered"
            else:
                got.ended = "error" if status >= 400 and "error" in value else "broken"
                got.problem = str(value)

        await self.timed(got, work())
        self.books.outcomes[path][got.ended] += 1
        if got.ended != "answered" and not self.books.excused(began, NEEDS[model] | {gateway.name}):
            self.books.accuse(
                "lost" if got.ended != "error" else "an error without a reason", f"{path} {got}"
            )

    async def kept(self, gateway: Gateway) -> None:
        """A conversation: a response, one that goes on from it, both fetched, one deleted."""
        client = self.clients[gateway.name]
        model = self.chance.choice(("vllm", "ollama", "chat"))
        first, second = self.next()[0], self.next()[0]
        began = time.monotonic()
        whom = {gateway.name, *NEEDS[model]}
        one = await self.ask(gateway, "openai_responses", model, first, "none")
        if not one.id:
            return
        more: dict[str, Any] = {"previous_response_id": one.id}
        two = await self.ask(
            gateway, "openai_responses", model, second, "none", known=frozenset({first}), **more
        )
        got = Got()

        async def work() -> None:
            found = await client.json("GET", f"/v1/responses/{one.id}")
            gone = await client.json("DELETE", f"/v1/responses/{one.id}")
            again = await client.json("GET", f"/v1/responses/{one.id}")
            got.problem = f"{found[0]}, {gone[0]}, {again[0]}"
            good = (found[0], gone[0], again[0]) == (200, 200, 404) and first in str(found[1])
            got.ended = "answered" if good else "error"

        await self.timed(got, work())
        self.books.outcomes["/v1/responses/{id}"][got.ended] += 1
        if got.ended != "answered" and not self.books.excused(began, whom):
            self.books.accuse("not kept", f"{got} {two.ended}")

    async def embedded(self, gateway: Gateway) -> None:
        """A model that really generates, a little."""
        messages = [{"role": "user", "content": "Say hello."}]
        body = {
            "messages": messages,
            "max_tokens": 8,
            "tools": CHAT_TOOLS if self.chance.random() < 0.5 else [],
        }
        got = Got()

        async def work() -> None:
            got.status, value = await self.clients[gateway.name].json("POST", "/v1/chat/completions", body)
            got.ended = "answered" if got.status == 200 and value["choices"] else "error"
            got.problem = str(value)

        await self.timed(got, work())
        self.books.outcomes["the embedded model"][got.ended] += 1
        if got.ended != "answered":
            self.books.accuse(
                "lost" if got.ended != "error" else "an error without a reason", f"embedded {got}"
            )

    # -- the run

    async def phase(self, seconds: float) -> None:
        """Ask and disturb for so long, then let everything come to rest."""
        self.resting.clear()
        tasks = [asyncio.create_task(self.client()) for _ in range(self.options.clients)]
        disturber = Disturber(self.books, self.chance, self.engines, self.gateways[1])
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
        # Connections that were left, and such that are kept for the next request, are closed by then.
        await asyncio.sleep(self.options.rest)

    async def run(self) -> int:
        """All of it; the exit code."""
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
                self.books.accuse(
                    "it does not stop", f"{gateway.name}: exit code {code}; {''.join(gateway.last)}"
                )
            for line in gateway.tracebacks:
                self.books.accuse("a traceback", line)
        self.check_growth()
        return self.report()

    def check_growth(self) -> None:
        """Memory, file descriptors and processes must be as they were; those that render come when needed."""
        for name, now in self.after.items():
            was = self.before[name]
            if now.memory > was.memory * 1.1 + 8:
                self.books.accuse("memory grows", f"{name}: {was}, then {now}")
            if now.descriptors > was.descriptors + 8 or now.processes > was.processes + 2:
                self.books.accuse("descriptors or processes grow", f"{name}: {was}, then {now}")

    def report(self) -> int:
        """Print the table."""
        options, times = self.options, sorted(self.latencies) or [0.0]
        print(self.books.table())
        print()
        print(f"{options.minutes:g} minutes, seed {options.seed}, {self.number:,} marks.")
        middle = times[len(times) // 2] * 1000
        print(
            f"A request took {middle:.0f} ms at the median, {times[-1]:.1f} s at most (limit: {LIMIT:g} s)."
        )
        for name, now in self.after.items():
            print(f"{name}: {self.before[name]} after the warm-up;")
            print(f"  {now} at the end, {self.peak[name]} MB at most")
        print(self.books.verdict())
        return 1 if self.books.counts else 0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12, help="how many ask at once")
    parser.add_argument("--rest", type=float, default=8.0, help="seconds of rest before memory is looked at")
    parser.add_argument("--embedded", action="store_true", help="with a model that runs in its gateway, too")
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
