r"""A parser in a program of its own: JSON lines over standard input and output.

So Rust, Go and C++ parsers can join, and parsers whose packages cannot live in
one environment.  A program speaks this protocol, one JSON value to a line,
UTF-8, and flushes after each:

1. It says what it is, once, when it is ready::

    {"hello": {"parser": "vllm", "version": "0.32.0",
               "dialects": {"hermes": {"tool_parser": "hermes", "reasoning_parser": "qwen3"}}}}

   ``dialects`` has an entry for each of our dialects that it claims to read, by
   our name; what the entry holds is for people: which of its own parsers it
   uses.  With ``"choices": true`` beside them it takes requests with ``choices``.

2. Then, for every request line, it answers one line, in any order::

    {"id": 7, "dialect": "hermes", "mode": "stream",
     "chunks": ["Let me look. <tool", "_call>..."],
     "tools": [...], "tool_choice": "auto",
     "start": "content", "prompt": null, "finish_reason": "stop"}

   ``dialect``        our name for it
   ``mode``           ``stream``: feed the chunks one by one; ``batch``: there is
                      one chunk, the whole output; use the parser for whole
                      outputs if there is another
   ``tools``          as in a request to OpenAI's API; never null
   ``tool_choice``    ``auto``, ``none``, ``required`` or
                      ``{"type": "function", "function": {"name": ...}}``
   ``start``          where the prompt left the model: ``content`` (outside of
                      everything), ``reasoning`` or ``response`` (inside the
                      wrapper that its family puts around answers)
   ``prompt``         the end of the prompt, such as ``<think>\n``; null: what
                      the family's template ends with, and it opens nothing
   ``finish_reason``  why generation stopped: ``stop`` or ``length``

   A request with several choices has, instead of ``chunks``,
   ``"choices": [[chunk, ...], [chunk, ...]]``: feed the first chunk of each, then
   the second of each, and so on, each choice to a parser of its own.

3. The answer is one of::

    {"id": 7, "deltas": [null, {"content": "Let me look."}, ...], "finish_reason": "tool_calls"}
    {"id": 7, "choices": [{"deltas": [...], "finish_reason": ...}, ...]}
    {"id": 7, "error": "KeyError: 'name'"}
    {"id": 7, "unsupported": "no parser for calls that begin inside reasoning"}

   ``deltas`` has an entry for every chunk, and one more for the end.  An entry
   is null or a delta; or a list of deltas, where the order inside one matters::

    {"content": "text", "reasoning": "text",
     "tool_calls": [{"index": 0, "id": "call_1", "name": "get_weather", "arguments": "{"}]}

   Every key may be missing.  A call's first delta has its name; ids are checked
   if they are given.  In ``batch`` mode there is one entry: the whole message.
   ``finish_reason`` is null where the parser does not decide it.

   ``error`` is for a parser that raised; ``unsupported`` for what it does not
   claim to do: such cases do not count against it.

A program that takes longer than the time limit, dies or writes something else is
stopped and started again, and the case is an error.
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
from ._adapters import Identity, ParserFailed, Reply, Unsupported, as_delta
from ._cases import DeltaMessage, Json, TestCase

START_LIMIT: Final = 300.0
"""Seconds that a program may take until it says hello: some import for a minute."""
TIME_LIMIT: Final = 30.0
"""Seconds for one answer."""


class Program:
    """A parser in a program of its own; it is started when it is first needed."""

    def __init__(self, command: Sequence[str], *, time_limit: float = TIME_LIMIT) -> None:
        """Take the command and its arguments; nothing goes through a shell."""
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
        several = len(choices) > 1
        if several and not self._hello.get("choices"):
            raise Unsupported("it takes one choice at a time")
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
        request |= {"choices": [list(c) for c in choices]} if several else {"chunks": list(choices[0])}
        answer = self._ask(request)
        if "unsupported" in answer:
            raise Unsupported(str(answer["unsupported"]))
        if "error" in answer:
            raise ParserFailed(str(answer["error"]))
        try:
            return [_answer(one) for one in (answer["choices"] if several else [answer])]
        except (KeyError, TypeError, AttributeError) as error:
            raise ParserFailed(f"its answer is not one of the protocol: {error!r}") from error

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
            self._process.stdout.reconfigure(newline="\n")  # JSON allows a carriage return inside a line
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        hello = self._line(START_LIMIT).get("hello")
        if not isinstance(hello, dict) or not isinstance(hello.get("parser"), str):
            self.close()
            raise UsageError(f'{self._command[0]}: its first line is not {{"hello": {{"parser": ...}}}}')
        self._hello = hello

    def _ask(self, request: Json) -> Json:
        process = self._process
        assert process is not None  # noqa: S101 - it was started just now
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError as error:
            self.close()
            raise ParserFailed(f"the program died: {error}") from error
        while (answer := self._line(self._limit)).get("id") != request["id"]:
            pass  # of a case that took too long
        return answer

    def _line(self, limit: float) -> Json:
        """The next line; a program that does not write one is stopped."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self.close()
            raise ParserFailed(f"no answer within {limit:g} s") from None
        if line is None:
            process = self._process
            self.close()
            raise ParserFailed(f"the program died, exit code {process.returncode if process else '?'}")
        try:
            value = json.loads(line)
        except ValueError as error:
            self.close()
            raise ParserFailed(f"it wrote something else than JSON: {line[:80]!r}") from error
        if not isinstance(value, dict):
            self.close()
            raise ParserFailed(f"it wrote something else than an object: {line[:80]!r}")
        return value


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:
        pass  # closed while it was read
    lines.put(None)


def _answer(value: Json) -> Reply:
    deltas: list[DeltaMessage | None] = []
    for entry in value["deltas"]:
        group: list[Any] = entry if isinstance(entry, list) else [entry]
        deltas += map(as_delta, group)
    return Reply(tuple(deltas), value.get("finish_reason"))
