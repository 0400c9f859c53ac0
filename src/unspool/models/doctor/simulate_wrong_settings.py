"""Checks of common server settings on an example output of the model.

Three wrong settings are tried:

1. The detokenizer removes special tokens.
2. The tool call parser is for another model family.
3. There is no reasoning parser.

The example output is processed with each setting, and the findings report what is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..._core.render.example_output import EXAMPLE, calls_of, example, read_example
from ...dialects import Dialect, RequestFacts, get_dialect
from ...dialects.parse_templates import text_around
from ...message import Message
from ...parser import parse
from ..detection.result import Reasoning
from ..sources.source import Vocabulary
from .engine_parser_table import ASSUME_OPEN, COMMON_PARSERS, DIFFERS, ReadingResult, parsers_for
from .report import Finding, Marker, listed

ANSWER: Final = "It is 21 degrees."


@dataclass(frozen=True, slots=True)
class SettingsCheck:
    """Search for server settings that would silently lose or change parts of a model's output."""

    dialect: Dialect
    template: str
    """The chat template."""
    reasoning: Reasoning
    """Properties of reasoning in the template."""
    has_reasoning: bool
    """True if the template renders reasoning, opens it in prompts, or has an option for it."""
    vocabulary: Vocabulary | None
    markers: Sequence[Marker]
    facts: RequestFacts | None
    """The request facts of the family; None if the family has no request facts."""

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about all settings."""
        text, expected = example(self.dialect, reasoning=self.has_reasoning)
        yield from self.stripped(text, expected)
        if expected.tool_calls:
            yield from self.wrong_parsers(text, expected)
        if expected.reasoning and self.dialect.frame is None and self.has_reasoning:
            yield from self.reasoning_parsers(text)

    def stripped(self, text: str, expected: Message) -> Iterator[Finding]:
        """Yield findings about the detokenizer setting that removes special tokens."""
        setting = "skip_special_tokens=true"
        if self.vocabulary is None:
            yield self.stripped_without_tokenizer(setting)
            return
        tokens = sorted(self.vocabulary.skipped_tokens().values(), key=len, reverse=True)
        removed = [token for token in tokens if token in text]
        if not removed:
            markers = (each for each in self.markers if each.role != "end")
            rare = [each.text for each in markers if each.kind in ("special", "mixed")]
            yield (
                Finding(
                    "warning",
                    f"{setting} removes {listed(rare)}, which the model writes only sometimes; the "
                    "output is then "
                    "parsed without it.",
                    "Send skip_special_tokens=false in requests with tools",
                )
                if rare
                else Finding("note", f"{setting} does no harm: it removes no marker.")
            )
            return
        stripped = text
        for token in removed:
            stripped = stripped.replace(token, "")
        lost = list(_losses(expected, read_example(stripped, self.dialect)))
        named = ", ".join(removed[:4]) + (", ..." if len(removed) > 4 else "")
        if not lost:
            yield Finding("note", f"{setting} removes {named}, but the output is still read correctly.")
            return
        yield Finding(
            "problem",
            f"{setting} (the default of detokenizers) removes {named}: {'; '.join(lost)}.",
            "Send skip_special_tokens=false and spaces_between_special_tokens=false; engines set this "
            "themselves only if their own parser for this family is on",
        )

    def stripped_without_tokenizer(self, setting: str) -> Finding:
        """Return the finding about removed special tokens for a model whose vocabulary is unknown."""
        facts = self.facts
        kinds = (
            []
            if facts is None
            else [
                kind
                for kind, special in (
                    ("calls", facts.calls_special),
                    ("reasoning", self.has_reasoning and facts.thinking.special),
                    ("answers", facts.answers_special),
                )
                if special
            ]
        )
        if not kinds:
            return Finding("note", f"{setting} does no harm in this family: it removes no marker.")
        return Finding(
            "warning",
            f"{setting} (the default of detokenizers) removes markers of {listed(kinds)} if they are "
            "special tokens, "
            "as is usual in this family; these parts of the output are then not found.",
            "Send skip_special_tokens=false, or pass the tokenizer to check it",
        )

    def wrong_parsers(self, text: str, expected: Message) -> Iterator[Finding]:
        """Yield findings about tool call parsers for other model families."""
        named = parsers_for(self.dialect.name, self.template)
        nothing: list[str] = []
        wrong: list[str] = []
        fine: list[str] = []
        results = {"nothing": nothing, "wrong": wrong, "fine": fine}
        for name in COMMON_PARSERS:
            if get_dialect(name).name != self.dialect.name and name != named.vllm:
                results[read_with_parser(name, self.dialect, text, expected)].append(name)
        if nothing:
            yield Finding(
                "problem",
                f"--tool-call-parser {listed(nothing, 'or')}: no call is found, and its markup stays in "
                "the content.",
                "Use the parser named in the flags below",
            )
        if wrong:
            yield Finding(
                "problem",
                f"--tool-call-parser {listed(wrong, 'or')}: calls are wrong or incomplete.",
                "Use the parser named in the flags below",
            )
        if fine:
            yield Finding(
                "note", f"--tool-call-parser {listed(fine, 'or')}: reads well-formed calls as well."
            )

    def reasoning_parsers(self, text: str) -> Iterator[Finding]:
        """Yield findings about reasoning parsers."""
        named = parsers_for(self.dialect.name, self.template)
        without = read_example(text, replace(self.dialect, reasoning=()))
        content = without.content or ""
        thought = EXAMPLE.reasoning or ""
        if thought in content:
            yield Finding(
                "warning",
                "No --reasoning-parser: reasoning and its markers stay in the content.",
                "Start the server with the reasoning parser named in the flags below"
                if named.vllm_reasoning or named.sglang_reasoning
                else "Parse the output with unspool; no engine has a reasoning parser for this dialect",
            )
        if self.reasoning.begins == "content" and self.reasoning.key:
            assume_open = [
                f"{name} of {engine}"
                for engine, names, name in (
                    ("vLLM", ASSUME_OPEN["vllm"], named.vllm_reasoning),
                    ("SGLang", ASSUME_OPEN["sglang"], named.sglang_reasoning),
                )
                if name in names
            ]
            if assume_open:
                yield Finding(
                    "warning",
                    f"--reasoning-parser {listed(assume_open)}: an answer without reasoning is reported as "
                    "reasoning, because this template does not open reasoning in the prompt.",
                    "Switch reasoning off in requests that do not need it, or decide by the prompt, as "
                    "unspool.plan does",
                )
        if self.reasoning.begins == "reasoning":
            outside = parse(f"{thought}{_closer(self.dialect)}{ANSWER}", self.dialect, prompt="")
            if thought in (outside.content or ""):
                yield Finding(
                    "warning",
                    "A parser that does not see the prompt: this template opens reasoning in the prompt, so "
                    "reasoning is reported as content.",
                    "Pass the prompt: Parser(..., prompt=...), or use unspool.plan",
                )


def read_with_parser(parser: str, dialect: Dialect, text: str, expected: Message) -> ReadingResult:
    """Return the result of parsing an output of this dialect with an engine's parser for another dialect."""
    differs = DIFFERS.get((dialect.name, parser))
    if differs is not None:
        return differs
    # Unlike unspool, an engine's parser accepts the calls of only one model family.
    other = replace(get_dialect(parser), also_accepts=())
    if dialect.frame is None:
        other = replace(other, reasoning=dialect.reasoning)
    parsed = read_example(text, other)
    if calls_of(parsed) == calls_of(expected):
        return "fine"
    return "wrong" if parsed.tool_calls else "nothing"


def _losses(expected: Message, parsed: Message) -> Iterator[str]:
    """Yield descriptions of the parts of a message that are missing or wrong after parsing."""
    if calls_of(parsed) != calls_of(expected):
        yield "no call is found" if not parsed.tool_calls else "calls are wrong"
    if expected.reasoning and (parsed.reasoning or "").strip() != expected.reasoning.strip():
        in_content = expected.reasoning.strip() in (parsed.content or "")
        yield "reasoning stays in the content" if in_content else "reasoning is wrong"


def _closer(dialect: Dialect) -> str:
    return text_around(dialect.reasoning[0], "text")[1] if dialect.reasoning else ""
