"""Two servers around the gateway: a recorder that agents connect to, and a scripted engine.

Both servers are in one program, so that the engine knows the agent's tools and the number of the turn.
Requests are handled one at a time, which agents do not notice, because the engine answers immediately.
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

from lab.agents.model_formats import Arguments, ModelFormat

Call = tuple[str, Arguments]
Answer = Call | str
Turns = Callable[[Mapping[str, Any], int], Answer]
"""Function that returns the model's answer, given the request's tools by name and the number of the turn."""

FILE_TEXT: Final = 'unspool wrote this\n</tool_call> & "q" é\n'
"""Expected contents of the file that the agent writes."""
COMMAND: Final = """printf '%s\\n' '</tool_call> & "q" é' > shell.txt && echo unspool-ran-"it" """.strip()
"""Command for the agent to run; only its output contains ``unspool-ran-it``."""
SHELL_FILE_TEXT: Final = '</tool_call> & "q" é\n'
"""Expected contents of ``shell.txt`` after the command."""
_MAX_TURNS: Final = 8
"""Maximum number of turns, because the model would call a failing tool forever."""
_PATHS: Final = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
_KEPT: Final = ("content-type", "retry-after")


@dataclass
class Exchange:
    """Request and the status of its response."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    status: int = 0
    prompt: int = 0
    """Length of the engine's prompt in characters."""
    problem: str = ""
    """Error message of the gateway, if it refused the request."""


@dataclass
class Scenario:
    """Shared state of both servers."""

    model_format: ModelFormat
    turns: Turns = lambda _tools, _turn: ""
    gateway: str = ""
    """Host and port of the gateway."""
    seen: list[Exchange] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Method, path and status of each request without a body."""
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, turns: Turns) -> None:
        """Start the task of another agent."""
        self.turns, self.seen, self.others, self.asked = turns, [], set(), 0

    def output(self, prompt: str) -> str:
        """Return the engine's output for a prompt."""
        body = self.seen[-1].body
        self.seen[-1].prompt = len(prompt)
        self.asked += 1
        answer = self.turns(tools(body), turn(body)) if self.asked <= _MAX_TURNS else "I give up."
        if isinstance(answer, str):
            return self.model_format.write(None, answer, prompt)
        return self.model_format.write(answer, "", prompt)


def tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tools of a request by the names that the model sees."""
    out: dict[str, Any] = {}
    for tool in body.get("tools") or ():
        if tool.get("type") == "namespace":
            out |= {f"{tool['name']}__{inner['name']}": inner for inner in tool["tools"]}
        else:
            named = tool.get("function") or tool
            out[named.get("name", "")] = named
    return out


def turn(body: Mapping[str, Any]) -> int:
    """Return the number of finished steps: 0, 1 (the file is written) or 2 (the command has run)."""
    text = json.dumps(body, ensure_ascii=False)
    if "unspool-ran-it" in text:
        return 2
    return int("unspool wrote this" in text)


@contextmanager
def servers(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Start both servers; yield the address for the agents and the address for the gateway."""

    class ForAgents(_ForAgents):
        at = scenario

    class Engine(_Engine):
        at = scenario

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
        """Ignore disconnects of agents."""


class _Quiet(BaseHTTPRequestHandler):
    at: Scenario
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
    """Handler that forwards requests to the gateway and records them."""

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
    """Handler with the part of vLLM's server that the gateway uses."""

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
