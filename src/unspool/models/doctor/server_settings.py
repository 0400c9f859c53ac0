"""What common settings of servers do to the output of a model: each is tried on an example.

A detokenizer that strips special tokens, another family's parser, no parser of
reasoning: what is said about these is what came out, not what ought to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..._core.render.example import EXAMPLE, calls_of, example, read_example
from ...dialects._declaration import Dialect
from ...dialects._registry import get_dialect
from ...dialects._request_facts import RequestFacts
from ...message import Message
from ...parser import parse
from ..detect.result import Reasoning
from ..sources.source import Vocabulary
from .engine_parsers import ASSUME_OPEN, COMMON_PARSERS, DIFFERS, Verdict, parsers_for
from .report import Finding, Marker, listed

ANSWER: Final = "It is 21 degrees."


@dataclass(frozen=True, slots=True)
class Breaks:
    """What would break without a word."""

    dialect: Dialect
    template: str
    """The chat template."""
    reasoning: Reasoning
    """What the template does about reasoning."""
    reasons: bool
    """Whether it has anything to do with reasoning."""
    vocabulary: Vocabulary | None
    markers: Sequence[Marker]
    facts: RequestFacts | None
    """What is known of the family; None: nothing."""

    def findings(self) -> Iterator[Finding]:
        text, right = example(self.dialect, reasoning=self.reasons)
        yield from self.stripped(text, right)
        if right.tool_calls:
            yield from self.wrong_parsers(text, right)
        if right.reasoning and self.dialect.frame is None and self.reasons:
            yield from self.reasoning_parsers(text)

    def stripped(self, text: str, right: Message) -> Iterator[Finding]:
        """What is left if the detokenizer removes special tokens."""
        setting = "skip_special_tokens=true"
        if self.vocabulary is None:
            yield self.stripped_perhaps(setting)
            return
        tokens = sorted(self.vocabulary.skipped_tokens().values(), key=len, reverse=True)
        removed = [token for token in tokens if token in text]
        if not removed:
            markers = (each for each in self.markers if each.role != "end")
            rare = [each.text for each in markers if each.kind in ("special", "mixed")]
            yield (
                Finding(
                    "warning",
                    f"{setting} removes {listed(rare)}, which the model does not always write: where it "
                    "does, the output is read without it.",
                    "Send skip_special_tokens=false with tools",
                )
                if rare
                else Finding("note", f"{setting} is harmless: it removes no marker.")
            )
            return
        bare = text
        for token in removed:
            bare = bare.replace(token, "")
        lost = list(_lost(right, read_example(bare, self.dialect)))
        named = ", ".join(removed[:4]) + (", ..." if len(removed) > 4 else "")
        if not lost:
            yield Finding("note", f"{setting} removes {named}, and the output is read all the same.")
            return
        yield Finding(
            "problem",
            f"{setting} (the default of detokenizers) removes {named}: {'; '.join(lost)}.",
            "Send skip_special_tokens=false and spaces_between_special_tokens=false; engines do so by "
            "themselves only where their own parser for this family is on",
        )

    def stripped_perhaps(self, setting: str) -> Finding:
        """The same, where no tokenizer can be asked."""
        facts = self.facts
        kinds = (
            []
            if facts is None
            else [
                kind
                for kind, special in (
                    ("calls", facts.calls_special),
                    ("reasoning", facts.thinking.special if self.reasons else "no"),
                    ("answers", facts.answers_special),
                )
                if special == "yes"
            ]
        )
        if not kinds:
            return Finding("note", f"{setting} is harmless, by the table of families: it removes no marker.")
        return Finding(
            "warning",
            f"{setting} (the default of detokenizers) removes markers of {listed(kinds)}, if the vocabulary "
            "has them as special tokens, as it does by the table of families: they are not found any more.",
            "Give the tokenizer to be sure, or send skip_special_tokens=false",
        )

    def wrong_parsers(self, text: str, right: Message) -> Iterator[Finding]:
        """What other families' parsers make of the output."""
        named = parsers_for(self.dialect.name, self.template)
        nothing: list[str] = []
        wrong: list[str] = []
        fine: list[str] = []
        kinds = {"nothing": nothing, "wrong": wrong, "fine": fine}
        for name in COMMON_PARSERS:
            if get_dialect(name).name != self.dialect.name and name != named.vllm:
                kinds[reading(name, self.dialect, text, right)].append(name)
        if nothing:
            yield Finding(
                "problem",
                f"--tool-call-parser {listed(nothing, 'or')}: no call is found, and the markup ends up in "
                "the content.",
                "Use the parser named in the flags below",
            )
        if wrong:
            yield Finding(
                "problem",
                f"--tool-call-parser {listed(wrong, 'or')}: calls come out wrong or incomplete.",
                "Use the parser named in the flags below",
            )
        if fine:
            yield Finding(
                "note", f"--tool-call-parser {listed(fine, 'or')}: reads well-formed calls as well."
            )

    def reasoning_parsers(self, text: str) -> Iterator[Finding]:
        named = parsers_for(self.dialect.name, self.template)
        without = read_example(text, replace(self.dialect, reasoning=()))
        content = without.content or ""
        thought = EXAMPLE.reasoning or ""
        if thought in content:
            yield Finding(
                "warning",
                "No --reasoning-parser: reasoning is part of the content, markers included.",
                "Start the server with the reasoning parser named in the flags below"
                if named.vllm_reasoning or named.sglang_reasoning
                else "No engine has one for this dialect: parse with unspool",
            )
        if self.reasoning.begins == "content" and self.reasoning.key:
            assuming = [
                f"{name} of {engine}"
                for engine, known, name in (
                    ("vLLM", ASSUME_OPEN["vllm"], named.vllm_reasoning),
                    ("SGLang", ASSUME_OPEN["sglang"], named.sglang_reasoning),
                )
                if name in known
            ]
            if assuming:
                yield Finding(
                    "warning",
                    f"--reasoning-parser {listed(assuming)}: an answer without any reasoning is taken for "
                    "reasoning, since this template does not open it in the prompt.",
                    "Switch reasoning off in requests that want none, or decide by the prompt, as "
                    "unspool.plan does",
                )
        if self.reasoning.begins == "reasoning":
            outside = parse(f"{thought}{_closer(self.dialect)}{ANSWER}", self.dialect, prompt="")
            if thought in (outside.content or ""):
                yield Finding(
                    "warning",
                    "A parser that does not look at the prompt: this template opens reasoning there, so "
                    "that reasoning is taken for content.",
                    "Pass the prompt: Parser(..., prompt=...), or use unspool.plan",
                )


def reading(parser: str, dialect: Dialect, text: str, right: Message) -> Verdict:
    """What an engine's parser makes of another dialect's calls."""
    differs = DIFFERS.get((dialect.name, parser))
    if differs is not None:
        return differs
    other = replace(get_dialect(parser), also_accepts=())  # an engine's parser reads one family
    if dialect.frame is None:
        other = replace(other, reasoning=dialect.reasoning)
    found = read_example(text, other)
    if calls_of(found) == calls_of(right):
        return "fine"
    return "wrong" if found.tool_calls else "nothing"


def _lost(right: Message, read: Message) -> Iterator[str]:
    """What was in the message and is not any more."""
    if calls_of(read) != calls_of(right):
        yield "no call is found" if not read.tool_calls else "calls come out wrong"
    if right.reasoning and (read.reasoning or "").strip() != right.reasoning.strip():
        leaked = right.reasoning.strip() in (read.content or "")
        yield "reasoning ends up in the content" if leaked else "reasoning comes out wrong"


def _closer(dialect: Dialect) -> str:
    return dialect.reasoning[0].partition("{text}")[2] if dialect.reasoning else ""
