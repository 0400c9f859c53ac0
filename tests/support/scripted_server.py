"""HTTP server with fixed replies, for tests of code that asks a server about itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Mapping[str, Any]


@contextmanager
def answering(answers: Answers, key: str = "") -> Iterator[str]:
    """Run a server with a reply per path.

    :param answers: a reply may be JSON, a function of the request body, or bytes (JSON lines).
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, body: Any) -> None:
            reply = answers.get(self.path)
            reply = reply(body) if callable(reply) else reply
            status = 404 if reply is None else 200
            if key and self.headers["authorization"] != f"Bearer {key}":
                status = 401
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            kind = "application/x-ndjson" if isinstance(reply, bytes) else "application/json"
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
