r"""Adapter for parsers in external programs, which exchange JSON Lines over standard input and output.

The adapter is used for parsers in Rust, Go and C++, and for Python parsers whose packages cannot be installed
in the same environment. The program writes one JSON value per line, in UTF-8, and flushes its output after
each line. The protocol is:

1. The program sends a greeting when it is ready::

    {"hello": {"parser": "vllm", "version": "0.32.0",
               "dialects": {"hermes": {"tool_parser": "hermes", "reasoning_parser": "qwen3"}}}}

   ``dialects`` has an entry for each dialect that the program can parse. The key is unspool's name of the
   dialect. The value can hold any details, such as the names of the program's own parsers; the report shows
   them. If the greeting contains ``"choices": true``, the program accepts requests with ``choices``.

2. Then the program receives requests, one per line, and answers each with one line, in any order::

    {"id": 7, "dialect": "hermes", "mode": "stream",
     "chunks": ["Let me look. <tool", "_call>..."],
     "tools": [...], "tool_choice": "auto",
     "start": "content", "prompt": null, "finish_reason": "stop"}

   ``dialect``        unspool's name of the dialect
   ``mode``           ``stream``: feed the chunks one by one; ``batch``: the only
                      chunk is the complete output; use the non-streaming
                      parser if there is a separate one
   ``tools``          as in a request to OpenAI's API; never null
   ``tool_choice``    ``auto``, ``none``, ``required`` or
                      ``{"type": "function", "function": {"name": ...}}``
   ``start``          the channel in which the output starts: ``content``
                      (outside all markers), ``reasoning`` or ``response``
                      (inside the markers that the family puts around answers)
   ``prompt``         the end of the prompt, such as ``<think>\n``; null means
                      the usual end, which opens neither reasoning nor an answer
   ``finish_reason``  the reason why generation stopped: ``stop`` or ``length``

   A request with several choices has ``"choices": [[chunk, ...], [chunk, ...]]``
   instead of ``chunks``. Create a separate parser for each choice. Feed the first chunk of each choice, then
   the second chunk of each choice, and so on.

3. The answer is one of::

    {"id": 7, "deltas": [null, {"content": "Let me look."}, ...], "finish_reason": "tool_calls"}
    {"id": 7, "choices": [{"deltas": [...], "finish_reason": ...}, ...]}
    {"id": 7, "error": "KeyError: 'name'"}
    {"id": 7, "unsupported": "no parser for calls that begin inside reasoning"}

   ``deltas`` has one entry per chunk, and one more for the end of the output. An entry is null, a delta, or a
   list of deltas if their order matters::

    {"content": "text", "reasoning": "text",
     "tool_calls": [{"index": 0, "id": "call_1", "name": "get_weather", "arguments": "{"}]}

   Every key is optional. The first delta of a call contains the name of the function. The suite checks ids if
   they are present. In ``batch`` mode, the only entry is the complete message. ``finish_reason`` is null if
   the parser does not determine it.

   ``error`` means that the parser raised an exception. ``unsupported`` names a feature that the parser does
   not claim to support; the case does not count as a failure.

If a program exceeds the time limit, exits, or writes a line that breaks this protocol, the suite kills the
program, reports an error for the case, and starts the program again.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, Final

from ..errors import UsageError
from .case_format import DeltaMessage, Json, TestCase
from .parser_interface import Identity, ParserFailed, Reply, Unsupported, as_delta

START_LIMIT: Final = 300.0
"""Time limit for the greeting in seconds; some programs need a minute for their imports."""
TIME_LIMIT: Final = 30.0
"""Time limit for each answer, in seconds."""


class Program:
    """Adapter for a parser in an external program; the program is started on first use."""

    def __init__(self, command: Sequence[str], *, time_limit: float = TIME_LIMIT) -> None:
        """Store the command, which is run without a shell, and the time limit for each answer."""
        self._command = list(command)
        self._limit = time_limit
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._hello: Json = {}
        self._number = 0

    def identity(self) -> Identity:
        self._start()
        hello = self._hello
        return Identity(hello["parser"], str(hello.get("version", "")), hello.get("dialects", {}))

    def answer(self, case: TestCase, choices: Sequence[Sequence[str]], *, streaming: bool) -> list[Reply]:
        self._start()
        has_choices = len(choices) > 1
        if has_choices and not self._hello.get("choices"):
            raise Unsupported("the program does not support several choices per request")
        self._number += 1
        request: Json = {
            "id": self._number,
            "dialect": case.dialect,
            "mode": "stream" if streaming else "batch",
            "tools": list(case.tools),
            "tool_choice": case.tool_choice,
            "start": case.start,
            "prompt": case.prompt,
            "finish_reason": case.finish_reason,
        }
        request |= {"choices": [list(c) for c in choices]} if has_choices else {"chunks": list(choices[0])}
        answer = self._send(request)
        if "unsupported" in answer:
            raise Unsupported(str(answer["unsupported"]))
        if "error" in answer:
            raise ParserFailed(str(answer["error"]))
        try:
            return [_parse_answer(one) for one in (answer["choices"] if has_choices else [answer])]
        except (KeyError, TypeError, AttributeError) as error:
            raise ParserFailed(f"the answer does not match the protocol: {error!r}") from error

    def close(self) -> None:
        """Stop the program."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> None:
        if self._process is not None:
            return
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except OSError as error:
            raise UsageError(f"cannot run {' '.join(self._command)}: {error}") from error
        if isinstance(self._process.stdout, TextIOWrapper):
            # A carriage return does not end a line, because it is whitespace in JSON.
            self._process.stdout.reconfigure(newline="\n")
        self._lines = queue.Queue()
        threading.Thread(target=_read_output, args=(self._process, self._lines), daemon=True).start()
        hello = self._read_line(START_LIMIT).get("hello")
        if not isinstance(hello, dict) or not isinstance(hello.get("parser"), str):
            self.close()
            raise UsageError(f'{self._command[0]}: the first line must be {{"hello": {{"parser": ...}}}}')
        self._hello = hello

    def _send(self, request: Json) -> Json:
        process = self._process
        assert process is not None  # noqa: S101 - it was started just now
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError as error:
            self.close()
            raise ParserFailed(f"the program exited: {error}") from error
        while (answer := self._read_line(self._limit)).get("id") != request["id"]:
            pass  # ignore a late answer to an earlier request that timed out
        return answer

    def _read_line(self, limit: float) -> Json:
        """Return the next line; stop the program if it does not write a line in time."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self.close()
            raise ParserFailed(f"no answer within {limit:g} s") from None
        if line is None:
            process = self._process
            self.close()
            raise ParserFailed(f"the program exited with code {process.returncode if process else '?'}")
        try:
            value = json.loads(line)
        except ValueError as error:
            self.close()
            raise ParserFailed(f"expected a line of JSON, got {line[:80]!r}") from error
        if not isinstance(value, dict):
            self.close()
            raise ParserFailed(f"expected a JSON object, got {line[:80]!r}")
        return value


def _read_output(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:
        pass  # the pipe was closed during the read
    lines.put(None)


def _parse_answer(value: Json) -> Reply:
    deltas: list[DeltaMessage | None] = []
    for entry in value["deltas"]:
        group: list[Any] = entry if isinstance(entry, list) else [entry]
        deltas += map(as_delta, group)
    return Reply(tuple(deltas), value.get("finish_reason"))
