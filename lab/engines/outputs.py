"""Outputs that engines are forced to write, and their comparison with the expected answers.

Valid outputs are the recordings and those of the corpus, truncated outputs are prefixes of the
recordings, and malformed outputs come from the corpus. The expectation is unspool's own response on the wire,
without streaming, for the same text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from lab import ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))

import corpus_cases
from unspool import Dialect, Parser, UnspoolError, get_dialect
from unspool.dialects._registry import end_tokens, facts_of
from unspool.dialects.parse_templates import text_around
from unspool.sample_outputs import list_samples
from unspool.sample_outputs import tools as demo_tools
from unspool.wire import ChatStream

Kind: TypeAlias = Literal["good", "cut", "malformed"]
_CUTS: Final = (0.2, 0.5, 0.8, 0.97)
"""Positions at which recordings are truncated, as fractions of their length."""


@dataclass(frozen=True, slots=True)
class Output:
    """Output that a model is forced to write."""

    dialect: str
    title: str
    kind: Kind
    prompt: str
    """End of the prompt."""
    text: str
    finish: str
    """Finish reason of the backend, ``stop`` or ``length``."""
    tools: list[dict[str, Any]]


@dataclass(slots=True)
class Answer:
    """Answer to a client, in any API."""

    reasoning: str = ""
    content: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    """Names and arguments."""
    finish: str = ""
    error: str = ""

    def differs(self, other: Answer) -> str:
        """Describe the difference to another answer; return an empty string if there is none."""
        return ", ".join(
            f"{name}: {mine!r} instead of {theirs!r}"
            for (name, mine), theirs in zip(asdict(self).items(), asdict(other).values(), strict=True)
            if mine != theirs
        )


def outputs(names: Sequence[str] = ()) -> list[Output]:
    """Return all outputs, or those of some dialects."""
    found = [*_recorded(), *_collected()]
    return [output for output in found if not names or output.dialect in names]


def expected(output: Output) -> Answer:
    """Return the expected answer of Chat Completions."""
    parser = Parser(output.dialect, tools=output.tools, prompt=output.prompt)
    events = parser.feed(output.text) + parser.finish("length" if output.finish == "length" else "stop")
    whole: Any = ChatStream(parser).response(parser.message(events))
    (choice,) = whole["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return Answer(
        reasoning=message.get("reasoning_content", ""),
        content=message["content"] or "",
        calls=[{"name": call["name"], "arguments": call["arguments"]} for call in calls],
        finish=choice["finish_reason"],
    )


def _recorded() -> Iterator[Output]:
    tools: Any = demo_tools()
    for recording in list_samples():
        dialect = recording.dialect
        prompt = _prompt(dialect) if recording.prompt is None else recording.prompt
        text = _without_stop(recording.output.removeprefix("\n"), dialect)
        yield Output(dialect.name, "recording", "good", prompt, text, "stop", tools)
        for part in _CUTS:
            cut = text[: int(len(text) * part)]
            yield Output(
                dialect.name, f"recording, truncated at {part:.0%}", "cut", prompt, cut, "length", tools
            )


def _collected() -> Iterator[Output]:
    for vector in corpus_cases.load():
        if vector.file.endswith("/standard.md"):
            continue  # these outputs are rendered, as many recordings are
        plain = not (vector.response_template or vector.tool_choice or vector.policies or vector.variant)
        if not plain or vector.template_kwargs or vector.reasoning_parser:
            continue
        try:
            dialect = get_dialect(vector.dialect)
        except UnspoolError:
            continue
        if vector.start not in ("content", "detect", "reasoning", "header"):
            continue
        prompt = vector.prefix
        if prompt is None:
            seed = _opener(dialect) if vector.start == "reasoning" else ""
            prompt = _prompt(dialect) + seed
        names = dict.fromkeys(call.name for call in vector.calls)
        offered = [_tool(name) for name in names] or [_tool("get_weather")]
        tools = offered if vector.tools is None else [dict(tool) for tool in vector.tools]
        yield Output(
            dialect.name,
            f"{vector.file}: {vector.title}",
            "malformed" if vector.file.endswith("malformed.md") else "good",
            prompt,
            _without_stop(vector.raw, dialect),
            vector.finish or "stop",
            tools,
        )


def _tool(name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}},
    }


def _prompt(dialect: Dialect) -> str:
    """Return the end of the family's prompts, without a seed."""
    return dialect.prompt.start or next(
        (prompt for prompt in dialect.prompt.ends if prompt != "any"), "<|im_start|>assistant\n"
    )


def _opener(dialect: Dialect) -> str:
    return text_around(dialect.reasoning[0], "text")[0] if dialect.reasoning else ""


def _without_stop(text: str, dialect: Dialect) -> str:
    """Return the text as an engine passes it on, without the token that ended it."""
    stops = {*dialect.stop, *end_tokens(dialect, facts_of(dialect))}
    end = "|".join(map(re.escape, sorted(stops, key=len, reverse=True)))
    return re.sub(rf"(?:{end})\Z", "", text) if end else text


# -- tables
