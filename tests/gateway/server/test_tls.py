"""TLS of the gateway and of upstreams, and the proxy on the way to upstreams."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from test_workers import Process, config_for, linux, run_process

from gateways import HOLD, MINIMAL_REQUESTS, EngineProcess, post, serving, until
from unspool import UsageError
from unspool.gateway import Settings
from unspool.gateway.server.tls import check_certificate

CHAT, CHAT_BODY = MINIMAL_REQUESTS["chat"]


def write_certificate(folder: Path, name: str = "localhost", *, password: bytes = b"") -> tuple[str, str]:
    """Write a self-signed certificate and its key; return the paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    alternatives = [x509.DNSName("localhost"), address]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption: Any = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    pem = serialization.Encoding.PEM
    folder.joinpath("cert.pem").write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
    folder.joinpath("key.pem").write_bytes(private)
    return str(folder / "cert.pem"), str(folder / "key.pem")


def connect(port: int, certificate: str) -> ssl.SSLSocket:
    """Return a client that trusts one certificate."""
    context = ssl.create_default_context(cafile=certificate)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")


def serves_certificate(port: int, certificate: str) -> bool:
    """Return whether a gateway has a certificate; an old worker may still have another one."""
    try:
        with connect(port, certificate) as client:
            return common_name(client) == "new"
    except ssl.SSLCertVerificationError:
        return False


def common_name(client: ssl.SSLSocket) -> str:
    certificate = client.getpeercert()
    assert certificate is not None
    subject: Any = certificate["subject"]
    return str(subject[0][0][1])


def request(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    return (
        f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n".encode()
        + data
    )


def read_until(client: ssl.SSLSocket, marker: bytes) -> bytes:
    data = b""
    while marker not in data and (portion := client.recv(1 << 16)):
        data += portion
    return data


# -- the gateway


@linux
@pytest.mark.parametrize("workers", [1, 2])
def test_certificate_is_reloaded_and_streams_go_on(
    engine: EngineProcess, tmp_path: Path, workers: int
) -> None:
    certificate, key = write_certificate(tmp_path, "old")
    config = config_for(engine, tmp_path) + f'ssl_certfile = "{certificate}"\nssl_keyfile = "{key}"\n'
    command = ("unspool", "serve", "--workers", str(workers), "--port", "0")
    with run_process(tmp_path, config, *command) as gateway:
        until(lambda: gateway.process.poll() is not None or bool(gateway.logged("listening")))
        port = _port(gateway)
        if workers > 1:
            gateway.serving(workers)
        engine.script("Hello", HOLD, " there.")
        with connect(port, certificate) as client:
            assert common_name(client) == "old"
            client.sendall(request({**CHAT_BODY, "stream": True}))
            read_until(client, b'"Hello"')
            write_certificate(tmp_path, "new")
            gateway.process.send_signal(signal.SIGHUP)
            if workers > 1:
                gateway.serving(2 * workers)
            else:
                until(lambda: bool(gateway.logged("reloaded")))
            until(lambda: serves_certificate(port, certificate))
            engine.release()
            assert b'"finish_reason":"stop"' in read_until(client, b"[DONE]")
        # A certificate that does not work changes nothing.
        Path(certificate).write_text("nothing")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: bool(gateway.logged("reload_failed")))
        assert "ssl_certfile" in gateway.logged("reload_failed")[0]["reason"]


def _port(gateway: Process) -> int:
    match = re.fullmatch(r"https://127\.0\.0\.1:(\d+)", gateway.logged("listening")[0]["url"])
    assert match is not None
    return int(match[1])


def test_mistakes_about_certificates_are_explained(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    check_certificate(Settings(ssl_certfile=certificate, ssl_keyfile=key))
    other, locked = tmp_path / "other", tmp_path / "locked"
    other.mkdir()
    locked.mkdir()
    for chosen, message in (
        ({"ssl_certfile": certificate}, "not a certificate in PEM format with its private key"),
        ({"ssl_certfile": key, "ssl_keyfile": key}, "not a certificate in PEM format"),
        ({"ssl_certfile": certificate, "ssl_keyfile": write_certificate(other)[1]}, "(?i)mismatch"),
        ({"ssl_certfile": "missing.pem"}, "cannot read missing.pem"),
        (
            dict(zip(("ssl_certfile", "ssl_keyfile"), write_certificate(locked, password=b"x"), strict=True)),
            "ssl_keyfile: the key is encrypted",
        ),
        ({"ssl_keyfile": key}, "ssl_keyfile is set, but ssl_certfile is empty"),
    ):
        with pytest.raises(UsageError, match=message):
            check_certificate(Settings(**chosen))  # type: ignore[arg-type]


# -- upstreams


@contextmanager
def run_server(handle: Any, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Run a server in a thread; yield its port."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop, server.sockets[0].getsockname()[1]))
        await stop.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    loop, stop, port = started.result()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("trusted", [True, False])
def test_upstream_is_checked_against_the_bundle(
    engine: EngineProcess, template: str, tmp_path: Path, *, trusted: bool
) -> None:
    certificate, key = write_certificate(tmp_path)
    port = int(engine.url.rpartition(":")[2])

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_engine = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, to_engine[1]), copy(to_engine[0], writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with (
        run_server(handle, context) as tls_port,
        serving(
            upstream="completions",
            url=f"https://localhost:{tls_port}",
            template=template,
            upstream_ca=certificate if trusted else "",
        ) as gateway,
    ):
        answer = post(gateway.url + CHAT, CHAT_BODY)
    if trusted:
        assert answer["choices"][0]["message"]["content"] == "Hello!"
    else:
        assert answer["error"]["code"] == "upstream_refused"


def test_upstream_is_asked_through_the_proxy(engine: EngineProcess, template: str) -> None:
    port = int(engine.url.rpartition(":")[2])
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_engine = await asyncio.open_connection("127.0.0.1", port)
        answers = asyncio.create_task(copy(to_engine[0], writer))
        while data := await reader.read(1 << 16):
            seen.append(data)
            to_engine[1].write(data.replace(b" http://engine.test", b" ", 1))
        to_engine[1].close()
        await answers

    with (
        run_server(handle) as proxy,
        serving(
            upstream="completions",
            url="http://engine.test",
            template=template,
            model="m",
            upstream_proxy=f"http://user:hidden@127.0.0.1:{proxy}",
        ) as gateway,
    ):
        assert post(gateway.url + CHAT, CHAT_BODY)["choices"][0]["message"]["content"] == "Hello!"
        assert "hidden" not in str(gateway.gateway.settings.shown())
    (asked,) = (data for data in seen if data.startswith(b"POST http://engine.test/v1/completions "))
    assert b"Proxy-Authorization: Basic " in asked


def test_mistakes_about_upstreams_are_explained(tmp_path: Path) -> None:
    from unspool.gateway.upstreams.http_client import Connection

    bundle = tmp_path / "ca.pem"
    bundle.write_text("nothing")
    for path, message in ((str(bundle), "not a file with certificates"), ("no.pem", "cannot read no.pem")):
        with pytest.raises(UsageError, match=f"upstream_ca.*{message}"):
            Connection("https://a", key="", connect=1, idle=1, limit=1, ca=path)
    with pytest.raises(UsageError, match="upstream_proxy: expected a URL"):
        Settings(upstream_proxy="127.0.0.1:3128")
