"""An upstream that sends whatever bytes it is told, and tells what it was sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

STAY: Final = "stay"
"""Among the portions of an answer: keep the connection open, and say no more."""
WAIT: Final = "wait"
"""Likewise: say the rest when :meth:`Liar.go_on` is called."""
Answer: TypeAlias = Sequence[bytes | str]


class Liar:
    """A server on a loopback port, in a thread of this process."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers: dict[str, Answer] = dict(answers)
        """By path, and how often it was asked: ``/a``, or ``/a 2`` for the second time; the latter counts."""
        self.seen: list[tuple[str, bytes, bytes]] = []
        """Of every request: path, headers and body."""
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._going_on, self._said = asyncio.Semaphore(0), asyncio.Semaphore(0)
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        path = head.split(b" ")[1].decode()
        length = next((int(line.partition(b":")[2]) for line in lines if b"content-length" in line), 0)
        self.seen.append((path, head, await reader.readexactly(length)))
        times = sum(one[0] == path for one in self.seen)
        answer = self.answers.get(f"{path} {times}", self.answers.get(path, [not_found()]))
        for portion in answer:
            if portion == STAY:
                await reader.read(1)
                return False
            if portion == WAIT:
                await self._going_on.acquire()
                continue
            assert isinstance(portion, bytes)
            writer.write(portion)
            await writer.drain()
            # So that the portions are reads of their own.
            await asyncio.sleep(0)
        self._said.release()
        return _is_whole(answer)

    def go_on(self) -> None:
        """Let it say the rest of an answer; returns when it has."""

        async def rest() -> None:
            while not self._said.locked():
                await self._said.acquire()
            self._going_on.release()
            await self._said.acquire()

        asyncio.run_coroutine_threadsafe(rest(), self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()


def _is_whole(answer: Answer) -> bool:
    """Whether it is as long as it says, so that another may follow."""
    head, _, body = b"".join(one for one in answer if isinstance(one, bytes)).partition(b"\r\n\r\n")
    return b"content-length: %d\r\n" % len(body) in head + b"\r\n"


@contextmanager
def lying(answers: Mapping[str, Answer]) -> Iterator[Liar]:
    """Such a server, for as long as the block runs."""
    liar = Liar(answers)
    try:
        yield liar
    finally:
        liar.stop()


def http(body: bytes, *, kind: str = "application/json", status: str = "200 OK", headers: str = "") -> bytes:
    """A response with its length."""
    length = f"content-length: {len(body)}\r\n"
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}{headers}\r\n".encode("latin-1") + body


def begun(kind: str = "text/event-stream", headers: str = "") -> bytes:
    """The head of a response that ends with its connection."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{headers}\r\n".encode("latin-1")


def not_found() -> bytes:
    return http(b"{}", status="404 Not Found")
