"""Loopback server with the chat and messages APIs that leaves markup in the text."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
OUTPUT = f"<think>\nI should look.\n</think>\n\nOne moment.\n{CALL}"
ANSWER = "<think>\nI know it now.\n</think>\n\nIt rains in Oslo."
"""Output after the result of a tool."""
PROMPT_TOKENS = 11
_USAGE = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 7, "total_tokens": PROMPT_TOKENS + 7}


def sse(*payloads: object, done: bool = True, named: bool = False) -> bytes:
    """Return server-sent events."""
    events = [
        (f"event: {payload['type']}\n" if named and isinstance(payload, dict) else "")
        + f"data: {json.dumps(payload)}\n\n"
        for payload in payloads
    ]
    return ("".join(events) + ("data: [DONE]\n\n" if done else "")).encode()


def chat_chunks(text: str = OUTPUT, size: int = 3) -> list[dict[str, Any]]:
    """Return the chunks of a chat completion."""
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": text[at : at + size]}, None) for at in range(0, len(text), size)]
    deltas.append(({}, "stop"))
    return [
        *(
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for delta, reason in deltas
        ),
        {**head, "choices": [], "usage": _USAGE},
    ]


def chat_body(text: str = OUTPUT) -> dict[str, Any]:
    """Return a chat completion."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-7",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _USAGE,
    }


def message_body(text: str = OUTPUT) -> dict[str, Any]:
    """Return a message."""
    return {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": 7},
    }


def message_events(text: str = OUTPUT, size: int = 3) -> list[dict[str, Any]]:
    """Return the events of a streamed message."""
    body = message_body(text)
    start = {**body, "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text[at : at + size]},
            }
            for at in range(0, len(text), size)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def reply(path: str, body: dict[str, Any]) -> tuple[str, bytes]:
    """Return the content type and the body of the response to a request."""
    is_answer = any("tool" in str(message.get("role")) for message in body["messages"][-1:]) or any(
        isinstance(block, dict) and block.get("type") == "tool_result"
        for message in body["messages"][-1:]
        for block in (message["content"] if isinstance(message["content"], list) else ())
    )
    text = ANSWER if is_answer else OUTPUT
    if path.endswith("/messages"):
        if body.get("stream"):
            return "text/event-stream", sse(*message_events(text), done=False, named=True)
        return "application/json", json.dumps(message_body(text)).encode()
    if body.get("stream"):
        return "text/event-stream", sse(*chat_chunks(text))
    return "application/json", json.dumps(chat_body(text)).encode()


@contextmanager
def serving_markup() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run the server; yield its address, and a list of the headers and bodies of all requests."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
            kind, data = reply(self.path.partition("?")[0], body)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
