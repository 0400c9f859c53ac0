"""A desk with two servers: one takes an agent's requests to the gateway, the other is the engine behind it.

Both are one program, so that the engine knows which tools the agent has offered, and in which turn it is.
Requests go through one after the other: the engine answers at once, and no agent minds.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from agent_dialects import Arguments, Hand

Call = tuple[str, Arguments]
Answer = Call | str
Turns = Callable[[Mapping[str, Any], int], Answer]
"""What the model does in a turn: with the tools of a request by name, and the number of the turn, from 0."""

WRITTEN: Final = 'unspool wrote this\n</tool_call> & "q" é\n'
"""What is to be in the file that the agent writes."""
COMMAND: Final = """printf '%s\\n' '</tool_call> & "q" é' > shell.txt && echo unspool-ran-"it" """.strip()
"""What the agent is to run; ``unspool-ran-it`` is in what it prints, and nowhere else."""
SHELLED: Final = '</tool_call> & "q" é\n'
"""What is then in ``shell.txt``."""
_MOST: Final = 8
"""Turns after which the model says no more: a tool that fails would be called for ever."""
_PATHS: Final = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
_KEPT: Final = ("content-type", "retry-after")


@dataclass
class Exchange:
    """A request, and the status of its answer."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    status: int = 0
    prompt: int = 0
    """Characters of the prompt that the engine was given."""
    problem: str = ""
    """What the gateway said, if it refused."""


@dataclass
class Desk:
    """What both servers know."""

    hand: Hand
    turns: Turns = lambda _tools, _turn: ""
    gateway: str = ""
    """Host and port."""
    seen: list[Exchange] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Other paths that were asked for, with the status of the answer."""
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, turns: Turns) -> None:
        """Another agent sits down."""
        self.turns, self.seen, self.others, self.asked = turns, [], set(), 0

    def output(self, prompt: str) -> str:
        """What the engine says to this prompt."""
        body = self.seen[-1].body
        self.seen[-1].prompt = len(prompt)
        self.asked += 1
        answer = self.turns(tools(body), turn(body)) if self.asked <= _MOST else "I give up."
        if isinstance(answer, str):
            return self.hand.write(None, answer, prompt)
        return self.hand.write(answer, "", prompt)


def tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """The tools of a request, by the names under which the model sees them."""
    out: dict[str, Any] = {}
    for tool in body.get("tools") or ():
        if tool.get("type") == "namespace":
            out |= {f"{tool['name']}__{inner['name']}": inner for inner in tool["tools"]}
        else:
            named = tool.get("function") or tool
            out[named.get("name", "")] = named
    return out


def turn(body: Mapping[str, Any]) -> int:
    """How far the task is: nothing is done, the file was written, the command was run."""
    text = json.dumps(body, ensure_ascii=False)
    if "unspool-ran-it" in text:
        return 2
    return int("unspool wrote this" in text)


@contextmanager
def servers(desk: Desk) -> Iterator[tuple[str, str]]:
    """The addresses to give to an agent, and to the gateway."""

    class ForAgents(_ForAgents):
        at = desk

    class Engine(_Engine):
        at = desk

    with _running(ForAgents) as front, _running(Engine) as back:
        yield front, back


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Agents leave when they like."""


class _Quiet(BaseHTTPRequestHandler):
    at: Desk
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def answer(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _ForAgents(_Quiet):
    """Hands on to the gateway, and notes what was asked."""

    def do_GET(self) -> None:
        self.hand_on()

    def do_HEAD(self) -> None:
        self.hand_on()

    def do_DELETE(self) -> None:
        self.hand_on()

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        if path not in _PATHS:
            self.hand_on()
            return
        with self.at.lock:
            data = self.body()
            exchange = Exchange(path, json.loads(data), {k.lower(): v for k, v in self.headers.items()})
            self.at.seen.append(exchange)
            exchange.status, problem = self.hand_on(data)
            exchange.problem = problem

    def hand_on(self, data: bytes | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.at.gateway, timeout=120)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, self.body() if data is None else data, headers)
        with connection.getresponse() as response:
            self.send_response(response.status)
            for name in _KEPT:
                if value := response.headers.get(name):
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            problem = b""
            while portion := response.read1():
                problem += portion if response.status >= 400 else b""
                self.wfile.write(portion)
            if data is None:
                self.at.others.add(f"{self.command} {self.path.partition('?')[0]} {response.status}")
        connection.close()
        return response.status, problem.decode()


class _Engine(_Quiet):
    """As much of vLLM's server as the gateway asks for."""

    def do_GET(self) -> None:
        self.answer({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "vllm"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.body())
        if self.path == "/tokenize":
            self.answer({"tokens": str(asked.get("prompt", "")).split()})
            return
        if self.path != "/v1/completions":
            self.answer({"error": {"message": "not here"}}, 404)
            return
        written = self.at.output(asked["prompt"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        pieces = [written[at : at + 5] for at in range(0, len(written), 5)]
        for piece in pieces:
            self.event({"choices": [{"index": 0, "text": piece, "finish_reason": None}]})
        self.event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 100, "completion_tokens": len(pieces), "total_tokens": 100 + len(pieces)}
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, value: object) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
