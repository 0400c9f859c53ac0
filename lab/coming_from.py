"""Comparison of other engines' parsers with the presets in ``Policies.preset`` that imitate them.

The program reports if ``docs/coming-from.md`` is out of date; ``--write`` regenerates its tables. Every cell
is a count of dialects: the engine's parsers, and unspool's parser under the preset of the engine, parse a few
outputs of each dialect, complete and streamed.

Needs: the environments of vLLM and SGLang, which the program installs (several GB).
Takes: minutes for each engine, longer on the first run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lab import environments, peers
from lab.docs_section import read_section, write_section
from unspool import (
    Message,
    Policies,
    ToolCall,
    UnspoolError,
    get_dialect,
    parse,
    render,
)
from unspool.conformance._delta_reader import decode_stream
from unspool.conformance.case_format import TestCase
from unspool.conformance.external_program import Program
from unspool.conformance.parser_interface import ParserFailed, Unsupported
from unspool.errors import ProtocolError
from unspool.message import TextPart
from unspool.models.doctor.engine_parser_table import DEFECTS
from unspool.testing._round_trip_law import MessageCapabilities

ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang"}
TIME_LIMIT: Final = 600.0
"""Time limit per output in seconds, generous enough for a busy machine."""

NAME: Final = "get_weather"
TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": NAME,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    },
    {"type": "function", "function": {"name": "free", "parameters": {"type": "object"}}},
)


Outcomes: TypeAlias = dict[tuple[str, str, bool], set[str]]
"""Dialects by topic, outcome, and streaming."""


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """Message that a client gets."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]

    @property
    def arguments(self) -> str:
        """Arguments of the first call."""
        return self.calls[0][1] if self.calls else ""

    @property
    def value(self) -> Any:
        """Value of the arguments; None if they are not JSON."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Output:
    """Model output and its request."""

    text: str
    finish_reason: str = "stop"
    tool_choice: str = "auto"


class Writer:
    """Writer of outputs in a dialect."""

    def __init__(self, dialect: str) -> None:
        self.spec = get_dialect(dialect)
        self.can = MessageCapabilities(self.spec)

    def write(self, *parts: TextPart | ToolCall) -> str:
        return render(Message(parts=parts), self.spec, check=False)

    def call(self, name: str = NAME, arguments: str = '{"city": "Oslo", "days": 3}') -> ToolCall:
        return ToolCall(self.spec.id_format.new(name, 0), name, arguments)

    def one(self, name: str = NAME, arguments: str = '{"city": "Oslo", "days": 3}') -> str:
        return self.write(self.call(name, arguments))


@dataclass(frozen=True, slots=True)
class Topic:
    """Behaviour in which engines differ."""

    about: str
    policy: str
    output: Callable[[Writer], Output | None]
    """Function that returns an output that shows the behaviour; None if the dialect has no such feature."""
    outcome: Callable[[ClientMessage], str]
    """Function that describes the outcome in a few words."""


def _after(writer: Writer) -> Output | None:
    if not writer.can.content or writer.spec.frame is not None:
        return None
    return Output(writer.write(writer.call(), TextPart("content", "\nI will wait.")))


def _before(writer: Writer) -> Output | None:
    if writer.can.anchored or writer.spec.frame is not None:
        return None
    return Output(f"Let me see.\n\n{writer.one().lstrip()}")


def _cut(writer: Writer) -> Output:
    text = writer.one()
    return Output(text[: text.index("Oslo") + 2], "length")


def _malformed(writer: Writer) -> Output | None:
    text = writer.one()
    return Output(text.replace('"Oslo"', "oops")) if '"city": "Oslo"' in text else None


def _close_in_value(writer: Writer) -> Output | None:
    if not writer.can.typed:
        return None
    text = writer.one(arguments='{"city": "Oslo"}')
    behind = text[text.index("Oslo") + 4 :].lstrip()
    closer = behind[: behind.index(">") + 1] if ">" in behind else ""
    return Output(text.replace("Oslo", f"Os{closer}lo")) if closer.startswith("</") else None


def _in_reasoning(writer: Writer) -> Output | None:
    if not writer.can.reasoning or writer.can.anchored or writer.spec.frame is not None:
        return None
    return Output(f"{writer.write(TextPart('reasoning', f'Hm.{writer.one()}'))}Done.")


def _cut_outcome(message: ClientMessage) -> str:
    if not message.calls:
        return "text" if NAME in message.content else "nothing"
    return "a complete call" if isinstance(message.value, dict) else "a call with partial arguments"


def _malformed_outcome(message: ClientMessage) -> str:
    if not message.calls:
        return "text" if NAME in message.content else "dropped"
    return (
        "a call with other arguments" if isinstance(message.value, dict) else "a call with broken arguments"
    )


def _unknown_outcome(message: ClientMessage) -> str:
    if message.calls:
        return "forwarded"
    if "no_such" in message.content:
        return "text"
    return "parts of it as text" if message.content.strip() else "dropped"


def _blanks_outcome(message: ClientMessage) -> str:
    if not message.calls:
        return "no call"
    return {"Let me see.\n\n": "kept", "Let me see.": "removed"}.get(message.content, "changed")


def _after_outcome(message: ClientMessage) -> str:
    if not message.calls:
        return "no call"
    if message.value != {"city": "Oslo", "days": 3}:
        return "broken arguments"
    return "kept" if "I will wait." in message.content else "dropped"


def _value_outcome(message: ClientMessage) -> str:
    value = message.value.get("n") if isinstance(message.value, dict) else None
    return "string" if value == "3" else "JSON" if value == 3 else "no value"


def _close_outcome(message: ClientMessage) -> str:
    value = message.value.get("city", "") if isinstance(message.value, dict) else ""
    return "data" if str(value).endswith("lo") else "ends the value" if value == "Os" else "no value"


TOPICS: Final = (
    Topic("text after a call", "after_calls", _after, _after_outcome),
    Topic("whitespace between text and a call", "whitespace_around_calls", _before, _blanks_outcome),
    Topic("a call truncated by the length limit", "truncated_call", _cut, _cut_outcome),
    Topic("a call with broken JSON", "malformed_call", _malformed, _malformed_outcome),
    Topic(
        "an undeclared tool",
        "unknown_tool",
        lambda writer: Output(writer.one().replace(NAME, "no_such")),
        _unknown_outcome,
    ),
    Topic(
        "a call under `tool_choice: none`",
        "no_tools",
        lambda writer: Output(writer.one(), tool_choice="none"),
        lambda message: "a call" if message.calls else "text" if "Oslo" in message.content else "removed",
    ),
    Topic(
        "a call inside reasoning",
        "calls_in_reasoning",
        _in_reasoning,
        lambda message: "a call" if message.calls else "text" if NAME in message.reasoning else "lost",
    ),
    Topic(
        "a tagged value without a schema",
        "schemaless_value",
        lambda writer: Output(writer.one("free", '{"n": 3}')) if writer.can.typed else None,
        _value_outcome,
    ),
    Topic("a closing tag inside a value", "close_in_value", _close_in_value, _close_outcome),
)


# -- parser runs


def run_unspool(dialect: str, output: Output, policies: Policies) -> ClientMessage:
    """Parse an output with unspool."""
    message = parse(
        output.text,
        dialect,
        tools=() if output.tool_choice == "none" else TOOLS,
        policies=policies,
        finish_reason="length" if output.finish_reason == "length" else "stop",
    )
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return ClientMessage(message.content or "", message.reasoning or "", calls)


def run_peer(program: Program, dialect: str, output: Output, topic: Topic, *, streaming: bool) -> str | None:
    """Return the outcome of a peer on the output; None if the peer has no parser for the dialect."""
    text = output.text
    case = TestCase(
        "what engines do",
        dialect,
        "standard",
        text,
        False,
        tools=TOOLS,
        tool_choice=output.tool_choice,
        finish_reason="length" if output.finish_reason == "length" else "stop",
    )
    chunks = [text[at : at + 5] for at in range(0, len(text), 5)] if streaming else [text]
    try:
        (answer,) = program.answer(case, [chunks], streaming=streaming)
        message = decode_stream(answer.deltas, answer.finish_reason).message
    except Unsupported:
        return None
    except ParserFailed:
        return "an error"
    except ProtocolError:
        return "deltas that violate the API"
    calls = tuple((call.function.name, call.function.arguments) for call in message.tool_calls)
    return topic.outcome(ClientMessage(message.content or "", message.reasoning or "", calls))


# -- tables


def rows(program: Program, engine: str, outcomes: Outcomes) -> Iterator[str]:
    """Yield the table of an engine, and add each dialect's outcomes to ``outcomes``."""
    policies = Policies.preset(engine)
    dialects = program.identity().dialects
    yield f"| | {ENGINES[engine]}, complete | streamed | preset | the same, complete | streamed |"
    yield "|---|---|---|---|---|---|"
    for topic in TOPICS:
        found: list[Counter[str]] = [Counter(), Counter()]
        same = [0, 0]
        mine: Counter[str] = Counter()
        for dialect in dialects:
            output = output_of(topic, dialect)
            if output is None:
                continue
            outcome = topic.outcome(run_unspool(dialect, output, policies))
            mine[outcome] += 1
            for number, streaming in enumerate((False, True)):
                message = run_peer(program, dialect, output, topic, streaming=streaming)
                if message is not None:
                    outcomes.setdefault((topic.about, message, streaming), set()).add(dialect)
                    found[number][message] += 1
                    same[number] += message == outcome
        chosen = f"`{getattr(policies, topic.policy)}`: {_counted(mine)}"
        shares = [f"{share} of {count.total()}" for share, count in zip(same, found, strict=True)]
        yield f"| {' | '.join([topic.about, *map(_counted, found), chosen, *shares])} |"


def changed(engine: str, outcomes: Outcomes) -> list[str]:
    """Return the differences between the outcomes and ``DEFECTS``, the defects that the doctor reports."""
    differences = []
    for defect in DEFECTS:
        for streaming, expected in ((False, defect.whole), (True, defect.streamed)):
            observed: set[str] = set()
            for outcome in defect.outcomes:
                observed |= outcomes.get((defect.topic, outcome, streaming), set())
            if defect.engine == engine and observed != expected:
                where = "streamed" if streaming else "whole"
                differences.append(f"{engine}, {defect.text}, {where}: {' '.join(sorted(observed))}")
    return differences


def output_of(topic: Topic, dialect: str) -> Output | None:
    """Return an output of a dialect that shows the behaviour, if there is one."""
    try:
        writer = Writer(dialect)
        if not writer.can.calls or writer.can.payload == "code" or writer.can.fixed:
            return None
        return topic.output(writer)
    except UnspoolError:  # the dialect cannot express the output
        return None


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(
        f"{word} {number}" for word, number in sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))
    )


def main() -> int:
    """Compare the page with the engines' behaviour, or update it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", default=list(ENGINES), help="vllm, sglang (default: both)")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/coming-from.md")
    options = parser.parse_args()
    stale: list[str] = []
    defects: list[str] = []
    for engine in options.engines:
        environments.install(engine)
        program = Program(peers.command(engine), time_limit=TIME_LIMIT)
        identity = program.identity()
        outcomes: Outcomes = {}
        table = "\n".join(rows(program, engine, outcomes))
        defects += changed(engine, outcomes)
        program.close()
        text = f"{ENGINES[engine]} {identity.version}, {len(identity.dialects)} dialects:\n\n{table}"
        if options.write:
            write_section("docs/coming-from.md", engine, text)
        elif text != read_section("docs/coming-from.md", engine):
            stale.append(engine)
    if stale:
        print(f"docs/coming-from.md is out of date for {', '.join(stale)}; run this program with --write")
    for line in defects:
        print(f"DEFECTS of models/doctor/engine_parser_table.py is out of date: {line}")
    return int(bool(defects or stale))


if __name__ == "__main__":
    raise SystemExit(main())
