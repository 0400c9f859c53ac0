"""Upstream that sends arbitrary bytes and records its requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

STAY: Final = "stay"
"""Portion of a reply: keep the connection open and send nothing more."""
WAIT: Final = "wait"
"""Portion of a reply: send the rest after :meth:`LyingServer.resume`."""
Reply: TypeAlias = Sequence[bytes | str]


class LyingServer:
    """Server on a loopback port, in a thread of this process."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        self.replies: dict[str, Reply] = dict(replies)
        """Replies by path; ``/a 2`` is the reply to the second request of ``/a`` and wins over ``/a``."""
        self.seen: list[tuple[str, bytes, bytes]] = []
        """Path, head and body of each request."""
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._resume, self._sent = asyncio.Semaphore(0), asyncio.Semaphore(0)
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stopped.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._reply(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        path = head.split(b" ")[1].decode()
        length = next((int(line.partition(b":")[2]) for line in lines if b"content-length" in line), 0)
        self.seen.append((path, head, await reader.readexactly(length)))
        times = sum(one[0] == path for one in self.seen)
        reply = self.replies.get(f"{path} {times}", self.replies.get(path, [not_found()]))
        for portion in reply:
            if portion == STAY:
                await reader.read(1)
                return False
            if portion == WAIT:
                await self._resume.acquire()
                continue
            assert isinstance(portion, bytes)
            writer.write(portion)
            await writer.drain()
            # Let the peer read each portion separately.
            await asyncio.sleep(0)
        self._sent.release()
        return _is_complete(reply)

    def resume(self) -> None:
        """Let the server send the rest of a reply, and wait until it has."""

        async def send_rest() -> None:
            while not self._sent.locked():
                await self._sent.acquire()
            self._resume.release()
            await self._sent.acquire()

        asyncio.run_coroutine_threadsafe(send_rest(), self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()


def _is_complete(reply: Reply) -> bool:
    """Return whether a reply is as long as its header says, so that another may follow."""
    head, _, body = b"".join(one for one in reply if isinstance(one, bytes)).partition(b"\r\n\r\n")
    return b"content-length: %d\r\n" % len(body) in head + b"\r\n"


@contextmanager
def lying(replies: Mapping[str, Reply]) -> Iterator[LyingServer]:
    """Run a lying server for the duration of the block."""
    server = LyingServer(replies)
    try:
        yield server
    finally:
        server.stop()


def http(body: bytes, *, kind: str = "application/json", status: str = "200 OK", headers: str = "") -> bytes:
    """Return a response with its length."""
    length = f"content-length: {len(body)}\r\n"
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}{headers}\r\n".encode("latin-1") + body


def response_head(kind: str = "text/event-stream", headers: str = "") -> bytes:
    """Return the head of a response that ends when its connection closes."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{headers}\r\n".encode("latin-1")


def not_found() -> bytes:
    return http(b"{}", status="404 Not Found")
