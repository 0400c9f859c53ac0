"""Requests to an engine's server and the expected answers: forced outputs, and outputs under a grammar.

The expectation is unspool's own result for the same text: the message of ``unspool.parse``, as
the wires encode it. Each request goes to each API, streamed and not. All answers are compared
with the expectation, and so with each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from lab.engines.clients import APIS, Answer, Api, Refused, ask
from lab.engines.models import Recording, prompt_ends
from unspool import (
    CallEnd,
    CallStart,
    Event,
    Message,
    Parser,
    Text,
    get_dialect,
    parse,
    render,
)
from unspool.dialects._registry import facts_of
from unspool.planning.derived_dialects import closer
from unspool.wire import ChatStream, is_poisoned, is_poisoned_as_malformed

KINDS: Final = (
    "whole outputs",
    "cut",
    "malformed",
    "thinking off",
    "n, stop, one call",
    "required, named",
    "format after reasoning",
    "usage",
)
"""Groups of cases, in the order of the table."""
_CONCURRENCY: Final = 8
"""Number of concurrent requests, which the engine processes in one batch."""

_FINITE_TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "enum": ["Oslo", "Rome"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 9},
                },
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "set_light",
            "parameters": {
                "type": "object",
                "properties": {"on": {"type": "boolean"}},
                "required": ["on"],
                "additionalProperties": False,
            },
        },
    },
]
"""Tools with arguments that a model with random weights can complete."""

_FORMAT: Final = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "dark": {"type": "boolean"}},
    "required": ["colour", "dark"],
    "additionalProperties": False,
}


@dataclass
class Tally:
    """Number of correct answers in a group."""

    right: int = 0
    asked: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.right}/{self.asked}" if self.asked else "-"


@dataclass
class Output:
    """Output to force, with its expected result."""

    ids: list[int]
    expected: Answer
    reasoning_tokens: int


class Bench:
    """Requests to one server."""

    def __init__(self, url: str, model: Path, recording: Recording) -> None:
        self.url = url
        self.recording = recording
        self.tallies = {kind: Tally() for kind in KINDS}
        self._lock = Lock()
        self._questions: list[tuple[str, str, Callable[[], str]]] = []
        self._dialect = get_dialect(recording.dialect)
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._end = json.loads((model / "config.json").read_text())["eos_token_id"]
        self._prompt, self._prompt_off = prompt_ends(recording.dialect)
        events = self._events(recording.output, self._prompt)
        thoughts = [event for event in events if isinstance(event, Text) and event.channel == "reasoning"]
        self._reasoning_end = max((event.end for event in thoughts), default=0)
        """Offset of the end of reasoning in the recording; 0 if there is none."""
        habit = facts_of(self._dialect).thinking.default
        self._reasons_by_default = bool(
            self._reasoning_end and (recording.prompt or habit in ("on", "always"))
        )
        """True if the model reasons without being asked to."""
        self._answer_start = min(
            event.start
            for event in events
            if event.start >= self._reasoning_end
            and (isinstance(event, CallStart) or (isinstance(event, Text) and event.text.strip()))
        )
        """Offset of the first text after reasoning."""
        self._call = (
            next(event.start for event in events if isinstance(event, CallStart)),
            next(event.end for event in events if isinstance(event, CallEnd)),
        )
        """Span of the first call."""

    def run(self) -> None:
        """Send all requests, some of them concurrently."""
        self._prepare()
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            for _ in pool.map(lambda question: self._judge(*question), self._questions):
                pass

    def _prepare(self) -> None:
        text = self.recording.output
        whole = self._encode(text)
        prose = self._encode(text[: self._answer_start] + "Blåbær & 雪: it is warmer in Rome.")
        for ids in (whole, prose):
            self._everywhere("whole outputs", self._output(ids))
        for share in (0.1, 0.5, 0.8, 0.95):
            ids = whole[: int(len(whole) * share)]
            self._everywhere("cut", self._output(ids, cut=True), max_tokens=len(ids))
        for damaged in islice(self._damaged(), 2):
            self._everywhere("malformed", self._output(self._encode(damaged)))
        self._options(self._output(whole))
        self._grammars()

    def _damaged(self) -> Iterator[str]:
        """Yield outputs with a malformed call, in which one character is missing."""
        text = self.recording.output
        start, end = self._call
        for place in range(end - 1, start, -1):
            damaged = text[:place] + text[place + 1 :]
            message = self._message(self._visible_text(self._encode(damaged)), self._prompt)
            if any(problem.kind == "malformed_call" for problem in message.diagnostics):
                yield damaged

    def _options(self, output: Output) -> None:
        kind = "n, stop, one call"
        self._compare(kind, "chat", output, self._body("chat", output.ids) | {"n": 2})
        one = replace(output, expected=replace(output.expected, calls=output.expected.calls[:1]))
        stop = "Rome"
        stopped = self._output(output.ids, stop=stop)
        for api in APIS[:2]:
            self._compare(kind, api, one, self._body(api, output.ids) | {"parallel_tool_calls": False})
        self._compare(kind, "chat", stopped, self._body("chat", output.ids) | {"stop": [stop]})
        if self._reasoning_end and self._dialect.frame is None:
            answer = self._encode(self.recording.output[self._answer_start :].lstrip())
            quiet = self._output(answer, prompt=self._prompt_off)
            for api in APIS[:2]:
                off = {"chat_template_kwargs": {"enable_thinking": False}}
                self._compare("thinking off", api, quiet, self._body(api, quiet.ids) | off)

    # -- grammars

    def _grammars(self) -> None:
        for api in APIS:
            for stream in (True, False):
                where = f"{api}, {'streamed' if stream else 'whole'}"
                for name in ("", "set_light"):
                    called = partial(self._called, api, name, stream=stream)
                    self._questions.append(("required, named", f"{name or 'any'}, {where}", called))
                if self._reasons_by_default and api != "messages":
                    formatted = partial(self._formatted, api, stream=stream)
                    self._questions.append(("format after reasoning", where, formatted))

    def _free(self, api: Api, *, answers: bool = False) -> dict[str, Any]:
        """Force only the reasoning, because a model with random weights would never end it.

        :param answers: whether an answer follows the reasoning; the header of the answer is forced as well.
        """
        ids: list[int] = []
        if self._reasons_by_default:
            head = self.recording.output[: self._reasoning_end]
            ids = self._encode(head + self._closer(answers=answers))
        return {
            "vllm_xargs": {"force": ids, "free": 1} if ids else {"free": 1},
            "max_output_tokens" if api == "responses" else "max_tokens": len(ids) + 300,
        }

    def _closer(self, *, answers: bool) -> str:
        """Return the marker that ends reasoning."""
        frame = self._dialect.frame
        if frame is None:
            return closer(self._dialect.reasoning[0])
        if answers:
            shown = render(Message(reasoning="Hm.", content="Yes."), self._dialect)
            return shown.partition("Hm.")[2].partition("Yes.")[0]
        return next(end for end in frame.ends if self.recording.output.startswith(end, self._reasoning_end))

    def _called(self, api: Api, name: str, *, stream: bool) -> str:
        body = self._body(api, [], tools=_FINITE_TOOLS) | self._free(api) | _choice(api, name)
        (answer,) = ask(self.url, api, body, stream=stream)
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in _FINITE_TOOLS}
        if not answer.calls or (name and {called for called, _ in answer.calls} != {name}):
            return str(answer)
        for called, arguments in answer.calls:
            jsonschema.validate(json.loads(arguments), schemas[called])
        if answer.content or answer.reasoning != (self._reasoning() if self._reasons_by_default else ""):
            return str(answer)
        wanted = "stop" if name and api == "chat" else "tool_calls"
        return "" if answer.finish == wanted else f"finish reason {answer.finish}"

    def _formatted(self, api: Api, *, stream: bool) -> str:
        body = self._body(api, []) | self._free(api, answers=True)
        del body["tools"]
        schema = {"name": "answer", "schema": _FORMAT}
        if api == "chat":
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            body["text"] = {"format": {"type": "json_schema", **schema}}
        (answer,) = ask(self.url, api, body, stream=stream)
        jsonschema.validate(json.loads(answer.content), _FORMAT)
        return "" if answer.reasoning == self._reasoning() else f"the reasoning is {answer.reasoning!r}"

    def _reasoning(self) -> str:
        """Return the reasoning of the recording."""
        return self._output(self._encode(self.recording.output)).expected.reasoning

    # -- requests

    def _everywhere(self, kind: str, output: Output, max_tokens: int = 1000) -> None:
        for api in APIS:
            self._compare(kind, api, output, self._body(api, output.ids, max_tokens=max_tokens))

    def _compare(self, kind: str, api: Api, output: Output, body: dict[str, Any]) -> None:
        """Send a request, streamed and not, and compare the answers."""
        for stream in (True, False):
            where = f"{api}, {'streamed' if stream else 'whole'}"
            self._questions.append((kind, where, partial(self._differs, api, output, body, stream=stream)))

    def _differs(self, api: Api, output: Output, body: dict[str, Any], *, stream: bool) -> str:
        expected = output.expected
        calls = expected.calls
        if api == "messages" and not stream:
            # Messages sends arguments as objects: it omits a truncated call, and a malformed one is an error.
            if any(is_poisoned_as_malformed(arguments) for _, arguments in calls):
                return self._not_refused(api, body)
            calls = [(name, json.dumps(json.loads(text))) for name, text in calls if not is_poisoned(text)]
        answers = ask(self.url, api, body, stream=stream)
        if len(answers) != body.get("n", 1):
            return f"{len(answers)} choices"
        for answer in answers:
            if answer.contents() != (expected.reasoning, expected.content, calls):
                return f"{answer} instead of {expected}"
            if answer.finish != expected.finish:
                return f"finish reason {answer.finish} instead of {expected.finish}"
        self._judge("usage", api, partial(_usage_error, output, answers, stopped="stop" in body))
        return ""

    def _not_refused(self, api: Api, body: dict[str, Any]) -> str:
        try:
            ask(self.url, api, body, stream=False)
        except Refused:
            return ""
        return "a malformed call is in the answer"

    def _judge(self, kind: str, what: str, differs: Callable[[], str]) -> None:
        try:
            wrong = differs()
        except (Refused, jsonschema.ValidationError, json.JSONDecodeError, LookupError, OSError) as error:
            wrong = f"{type(error).__name__}: {error}"
        with self._lock:
            tally = self.tallies[kind]
            tally.asked += 1
            tally.right += not wrong
            if wrong:
                tally.wrong.append(f"{kind}, {what}: {wrong[:800]}")

    def _body(
        self, api: Api, ids: list[int], *, tools: list[dict[str, Any]] | None = None, max_tokens: int = 1000
    ) -> dict[str, Any]:
        tools = tools or self.recording.tools
        functions: list[dict[str, Any]] = [tool["function"] for tool in tools]
        body: dict[str, Any] = {"model": "tiny", "seed": 17, "vllm_xargs": {"force": ids} if ids else {}}
        if api == "responses":
            offered = [{"type": "function", **function} for function in functions]
            return body | {"input": "Hi", "max_output_tokens": max_tokens, "tools": offered}
        body |= {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": max_tokens, "tools": tools}
        if api == "messages":
            del body["seed"]
            body["tools"] = [{"name": f["name"], "input_schema": f["parameters"]} for f in functions]
        return body

    # -- expectations

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _visible_text(self, ids: list[int]) -> str:
        """Return the text that the engine decodes from these ids, without stop tokens."""
        ids = ids[:-1] if ids[-1] == self._end else ids
        return str(self._tokenizer.decode(ids, skip_special_tokens=False)).rstrip("\ufffd")

    def _output(self, ids: list[int], *, cut: bool = False, stop: str = "", prompt: str = "") -> Output:
        if not cut and ids[-1] != self._end:
            ids = [*ids, self._end]
        prompt = prompt or self._prompt
        text = self._visible_text(ids)
        if stop:
            text = text[: text.index(stop)]
        message = self._message(text, prompt)
        shown: Any = ChatStream(self._parser(prompt)).response(message)
        choice = shown["choices"][0]
        found = [call["function"] for call in choice["message"].get("tool_calls", ())]
        calls = [(function["name"], function["arguments"]) for function in found]
        # The server knows that a stop string ended the output, but not that it was inside a call.
        finish = "tool_calls" if stop and calls else "length" if cut else choice["finish_reason"]
        expected = Answer(
            choice["message"].get("reasoning", ""), choice["message"]["content"] or "", calls, finish
        )
        return Output(ids, expected, self._reasoning_tokens(text, prompt))

    def _parser(self, prompt: str) -> Parser:
        return Parser(self._dialect, tools=self.recording.tools, prompt=prompt or None)

    def _events(self, text: str, prompt: str) -> list[Event]:
        parser = self._parser(prompt)
        return parser.feed(text) + parser.finish()

    def _message(self, text: str, prompt: str) -> Message:
        # The engine does not tell its parsers why an output ended.
        return parse(text, self._dialect, tools=self.recording.tools, prompt=prompt or None)

    def _reasoning_tokens(self, text: str, prompt: str) -> int:
        """Count the tokens with characters of reasoning, by the tokenizer's offsets."""
        spans = [
            (event.start, event.end)
            for event in self._events(text, prompt)
            if isinstance(event, Text) and event.channel == "reasoning"
        ]
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return sum(any(start < to and since < end for since, to in spans) for start, end in offsets)


def _usage_error(output: Output, answers: list[Answer], *, stopped: bool) -> str:
    """Describe wrong token counts; the first choice must contain the counts of all choices."""
    usage, n = answers[0], len(answers)
    if not stopped and usage.completion_tokens != len(output.ids) * n:
        return f"{usage.completion_tokens} tokens, not {len(output.ids) * n}"
    if usage.reasoning_tokens not in (None, output.reasoning_tokens * n):
        return f"{usage.reasoning_tokens} tokens of reasoning, not {output.reasoning_tokens * n}"
    return ""


def _choice(api: Api, name: str) -> dict[str, Any]:
    """Return the API's parameters that require a call, or a call of the named function."""
    if api == "messages":
        chosen = {"type": "tool", "name": name} if name else {"type": "any"}
        return {"tool_choice": {**chosen, "disable_parallel_tool_use": True}}
    one: dict[str, Any] = {"parallel_tool_calls": False, "tool_choice": "required"}
    if name and api == "responses":
        one["tool_choice"] = {"type": "function", "name": name}
    elif name:
        one["tool_choice"] = {"type": "function", "function": {"name": name}}
    return one
