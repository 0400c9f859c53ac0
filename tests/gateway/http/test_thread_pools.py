"""Worker pools: heavy work is bounded, and one client's burst does not delay other clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import MINIMAL_REQUESTS, EngineProcess, send, serving
from unspool.gateway.http.failure import Failure
from unspool.gateway.http.thread_pools import WorkerPool


class StoppedPool:
    """Work that runs until it is released."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()
        self._let = threading.Semaphore(0)

    def work(self, name: str) -> str:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self._let.acquire()
        with self._lock:
            self.running -= 1
            self.done.append(name)
        return name

    def let(self, count: int = 1) -> None:
        self._let.release(count)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def turns() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_full_queue_refuses_the_next_job() -> None:
    async def main() -> None:
        lane, gate = WorkerPool("tests", width=2, queue=3), StoppedPool()
        tasks = [asyncio.create_task(lane.run("a", gate.work, str(number))) for number in range(5)]
        await turns()
        assert lane.waiting == 3
        with pytest.raises(Failure) as refused:
            await lane.run("b", gate.work, "one too many")
        assert (refused.value.status, refused.value.retry_after) == (503, "1")
        gate.let(5)
        assert await asyncio.gather(*tasks) == ["0", "1", "2", "3", "4"]
        assert gate.most == 2
        assert lane.waiting == 0
        lane.close()

    run(main())


def test_owners_take_turns() -> None:
    async def main() -> None:
        lane, gate = WorkerPool("tests", width=1, queue=100), StoppedPool()
        names = [*(f"a{number}" for number in range(6)), "b0", "b1", "c0"]
        tasks = [asyncio.create_task(lane.run(name[0], gate.work, name)) for name in names]
        await turns()
        gate.let(len(names))
        await asyncio.gather(*tasks)
        assert gate.done == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4", "a5"]
        lane.close()

    run(main())


def test_cancelled_waiter_is_skipped_and_cancelled_job_keeps_its_thread() -> None:
    async def main() -> None:
        lane, gate = WorkerPool("tests", width=1, queue=100), StoppedPool()
        first, second, third = (
            asyncio.create_task(lane.run(name, gate.work, name)) for name in ("first", "second", "third")
        )
        await turns()
        second.cancel()
        first.cancel()
        await turns()
        assert lane.waiting == 1, "a thread cannot be stopped, so other work must wait for it"
        gate.let(2)
        assert await third == "third"
        assert gate.done == ["first", "third"]
        assert gate.most == 1
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.let()
        assert await lane.run("fourth", gate.work, "fourth") == "fourth"
        lane.close()

    run(main())


def test_failed_job_fails_its_caller_and_frees_the_thread() -> None:
    async def main() -> None:
        lane = WorkerPool("tests", width=1, queue=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await lane.run("", lambda: 1 // 0)
            await turns()
        lane.close()

    run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_large_response_is_encoded_off_the_event_loop(
    engine: EngineProcess, template: str, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    """Twenty responses of two megabytes used to block all clients for a third of a second."""
    entered: list[str] = []
    run = WorkerPool.run

    async def seen(self: WorkerPool, owner: str, work: Any, *args: Any, **more: Any) -> Any:
        entered.append(self.name)
        return await run(self, owner, work, *args, **more)

    monkeypatch.setattr(WorkerPool, "run", seen)
    path, request = MINIMAL_REQUESTS[api]
    with serving(upstream="completions", url=engine.url, engine="vllm", template=template) as gateway:
        for text, large in (("small", False), ("x" * 100_000, True)):
            engine.script(text)
            entered.clear()
            status, data, _ = send(gateway.url + path, {**request, "stream": stream})
            assert status == 200
            assert text.encode() in data or (stream and large)
            assert ("writing large answers" in entered) is large
