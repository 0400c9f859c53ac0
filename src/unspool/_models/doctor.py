"""The doctor: whether all of a model fits together, and what a server must be told.

A model directory holds a chat template, a tokenizer and a generation config,
each made by somebody else at another time.  The doctor detects the dialect,
holds the three against it and against each other, plans typical requests, and
*tries* what would go wrong: a detokenizer that strips special tokens, another
family's parser, no reasoning parser.  What it says about those is what came
out, not what ought to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .._core.ends.explain import EXAMPLE
from .._core.ends.parser import parse
from .._core.ends.render import render
from .._core.tokens.tokens import substitute
from .._core.values.errors import SpecError, UsageError
from .._core.values.message import Message
from .._core.words.dialect import Dialect
from .._core.words.facts import SWITCHES, RequestFacts
from .._core.words.template import Literal as LiteralPiece
from .._core.words.template import parse_template, split_marks
from .._request import Plan, plan
from .._request.table import switch
from ..dialects._registry import facts_of, get_dialect
from .detect import WITHOUT_TOOLS, Model, Probe, examine, load_model, read_json
from .engines import (
    ASSUME_OPEN,
    COMMON_PARSERS,
    DIFFERS,
    EngineName,
    Flags,
    Reading,
    Serving,
    flags,
    parsers_for,
)
from .infer import FLAT_TOOLS
from .report import LEVELS, Case, Finding, Level, Marker, Report
from .vocabulary import load_vocabulary

_CONTROL: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>")
"""What a template writes that must be a token of its own."""
_ANSWER: Final = "It is 21 degrees."
_TOOLS: Final = (
    FLAT_TOOLS[0],
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
)
"""The tools that the example message calls."""


def diagnose(source: object) -> Report:
    """Examine a model directory, a tokenizer configuration or a chat template."""
    model = load_model(source)
    return _Doctor(model).report()


# -- the examination


class _Doctor:
    """One model being examined."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.vocabulary = load_vocabulary(model)
        self.detection = examine(model, tokenizer=self.vocabulary)
        self.template = Probe(model.template, model.tokens)
        self.dialect = self.detection.dialect
        if self.detection.hint:
            self.dialect = get_dialect(self.detection.hint, tokenizer=self.vocabulary)
        self.checkpoint = self.find_checkpoint()
        self.end = self.end_of_turn()
        self.eos = self.eos_token_ids()

    def report(self) -> Report:
        cases = tuple(self.cases())
        findings = tuple(dict.fromkeys(self.findings(cases)))
        return Report(
            origin=self.model.origin,
            detection=self.detection,
            dialect=self.dialect,
            checkpoint=self.checkpoint,
            tokenizer="" if self.vocabulary is None else self.vocabulary.origin,
            markers=tuple(self.markers()),
            cases=cases,
            findings=tuple(sorted(findings, key=lambda each: LEVELS.index(each.level))),
            breaks=tuple(self.breaks()),
            flags=self.flags(),
        )

    def end_of_turn(self) -> str:
        """The marker that the template ends the model's turns with."""
        writing = self.template.write(Message(content=_ANSWER))
        behind = (writing.turn.partition(_ANSWER)[2] + writing.rest).strip()
        found = re.match(r"<[^<>\s]+>|\[[^\[\]\s]+\]", behind)
        return found[0] if found else ""

    def eos_token_ids(self) -> tuple[int, ...] | None:
        """What ends generation, by the files."""
        for name in ("generation_config.json", "config.json"):
            path = None if self.model.directory is None else self.model.directory / name
            if path is not None and path.is_file():
                found = read_json(path).get("eos_token_id")
                ids = found if isinstance(found, list) else [found]
                numbers = tuple(id for id in ids if isinstance(id, int))
                if numbers:
                    return numbers
        return None

    # -- markers

    def markers(self) -> Iterator[Marker]:
        dialect = self.dialect
        if dialect is None:
            return
        seen: set[str] = set()
        roles: list[tuple[str, Sequence[str]]] = [
            ("reasoning", dialect.reasoning[:1]),
            ("answer", dialect.content[:1]),
            ("calls", dialect.section[:1] if dialect.call else ()),
            ("call", dialect.call[:1]),
            ("parameter", dialect.param[:1]),
            ("furniture", dialect.drop),
            ("end", [self.end] if self.end else dialect.stop[:1]),
        ]
        if dialect.frame is not None:
            roles.insert(0, ("header", (*dialect.frame.open[:1], dialect.frame.sep)))
            roles.insert(1, ("message end", dialect.frame.ends))
        for role, templates in roles:
            for template in templates:
                for piece in parse_template(split_marks(template)[1]):
                    text = piece.text.strip()
                    if isinstance(piece, LiteralPiece) and len(text) > 2 and text not in seen:
                        seen.add(text)
                        yield self.marker(text, role)

    def marker(self, text: str, role: str) -> Marker:
        if self.vocabulary is None:
            return Marker(text, role, "unknown")
        inside = {token: id for id, token in self.vocabulary.special_tokens().items() if token in text}
        skipped = set(self.vocabulary.skipped_tokens().values())
        # Leftmost first, then longest, which is how tokenizers look for them.
        order = sorted(inside)
        places = {token: chr(0xD800 + number) for number, token in enumerate(order)}
        found = [
            order[ord(char) - 0xD800] for char in substitute(text, places) if "\ud800" <= char <= "\udfff"
        ]
        ids = tuple(inside[token] for token in found)
        kinds = {token in skipped for token in found}
        kind = "text" if not found else "mixed" if len(kinds) > 1 else "special" if True in kinds else "token"
        return Marker(text, role, kind, ids)

    # -- requests

    def cases(self) -> Iterator[Case]:
        if self.dialect is None:
            return
        facts = self.facts()
        if isinstance(facts, Finding):
            return
        question = [{"role": "user", "content": "What is the weather like?"}]
        tools = {"tools": FLAT_TOOLS}
        named = {"type": "function", "function": {"name": "get_weather"}}
        requests: dict[str, dict[str, Any]] = {
            "no tools": {},
            "tools": tools,
            "required": {**tools, "tool_choice": "required"},
            "named": {**tools, "tool_choice": named},
            "JSON answer": {"response_format": {"type": "json_object"}},
        }
        for on in (True, False):
            said = switch(facts.thinking, on=on)
            if said is not None:
                requests[f"reasoning {'on' if on else 'off'}"] = {**tools, **said}
        for name, request in requests.items():
            yield self.case(name, {"messages": question, **request}, facts)
        yield self.case("after a tool", {"messages": self.continued(), **tools}, facts)

    def continued(self) -> list[dict[str, object]]:
        call = EXAMPLE.tool_calls[0]
        function = {"name": "get_weather", "arguments": call.arguments}
        return [
            {"role": "user", "content": "What is the weather like?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": "21 degrees"},
        ]

    def case(self, name: str, request: Mapping[str, Any], facts: RequestFacts) -> Case:
        dialect = self.dialect
        assert dialect is not None  # noqa: S101 - cases() has looked
        try:
            decided = self.plan(dialect, request, facts)
        except UsageError as error:
            return Case(name, {}, (str(error),), {})
        settings: dict[str, object] = {
            "skip_special_tokens": decided.skip_special_tokens,
            "chat_template_kwargs": dict(decided.chat_template_kwargs),
            "reasoning": decided.reasoning,
            "start": decided.start,
            "tool_output": decided.tool_output,
            "constraint": decided.constraint.kind,
            "eos": list(decided.eos),
            "strip": decided.strip,
        }
        return Case(name, dict(decided.why), decided.warnings, settings)

    def plan(self, dialect: Dialect, request: Mapping[str, Any], facts: RequestFacts) -> Plan:
        first = plan(dialect, request, tokenizer=self.vocabulary, eos_token_ids=self.eos, facts=facts)
        prompt = self.template.conversation(
            *request["messages"],
            tools=request.get("tools"),
            generation=True,
            **first.chat_template_kwargs,
        )
        return first.with_prompt(prompt) if prompt else first

    def facts(self) -> RequestFacts | Finding:
        """The row of the truth table."""
        if self.dialect is None:
            return Finding("problem", "There is no dialect to plan with.")
        try:
            row = facts_of(self.dialect)
        except SpecError as error:
            return Finding("problem", f"Nothing can be planned: {error}.")
        return replace(row, thinking=dict(row.checkpoints)[self.checkpoint]) if self.checkpoint else row

    def find_checkpoint(self) -> str:
        """The checkpoint that seeds what this template seeds, where that is not the family's habit."""
        found, dialect = self.detection.reasoning, self.dialect
        if dialect is None or not found.seed or self.detection.inferred:
            return ""
        try:
            facts = facts_of(dialect)
        except SpecError:
            return ""
        habit = facts.thinking
        if habit.seed.strip() == found.seed.strip() and habit.default in ("on", "always"):
            return ""
        switched = bool(set(found.switches).intersection(SWITCHES))
        fitting = [each for each in facts.checkpoints if each[1].seed.strip() == found.seed.strip()]
        fitting.sort(key=lambda each: bool(each[1].switches) != switched)
        return fitting[0][0] if fitting else ""

    # -- agreement

    def findings(self, cases: Sequence[Case]) -> Iterator[Finding]:
        yield from self.template_findings()
        yield from self.vocabulary_findings()
        yield from self.eos_findings()
        facts = self.facts()
        if isinstance(facts, Finding) and self.dialect is not None:
            yield facts
        for case in cases:
            for warning in case.warnings:
                level: Level = "warning" if case.decisions else "problem"
                yield Finding(level, f"Request with {case.name}: {warning}")
            break  # the others say the same again

    def template_findings(self) -> Iterator[Finding]:
        found = self.detection
        for warning in found.warnings:
            yield Finding(
                "warning" if warning.startswith(f"{WITHOUT_TOOLS}:") else "problem",
                warning,
                "Engines that use Transformers' renderer refuse such requests: fix the template, "
                "and pass the fixed one with --chat-template",
            )
        if found.inferred:
            yield Finding(
                "warning",
                "No dialect reads what the template writes; one was inferred from it.",
                "Check the declaration below, and register it under a name of its own",
            )
        elif not found.renders_calls:
            yield Finding(
                "warning" if found.hint else "note",
                "The template renders no tool calls: earlier calls are missing from the history.",
                f"Pass the history through normalise_history(..., dialect={found.hint!r})"
                if found.hint
                else "Use another template if the model is to call tools",
            )
        elif found.dialect is None:
            yield Finding(
                "problem",
                f"The template renders tool calls that no dialect reads: {found.turn[:200]!r}.",
                "Declare a dialect for it: see docs, and Detection.turn",
            )
        if found.reasoning and not found.reasoning.read:
            yield Finding(
                "warning",
                "The template writes reasoning that the dialect does not read.",
                "Combine the dialect with another's reasoning: 'tools+reasoning'",
            )
        for name, text in self.model.others.items():
            yield from self.other_template(name, text)

    def other_template(self, name: str, text: str) -> Iterator[Finding]:
        if text == self.model.template:
            return
        used = f"{self.model.origin} was examined, but {name} differs from it"
        try:
            other = examine(replace(self.model, template=text, origin=name))
        except UsageError as error:
            yield Finding("warning", f"{used} and cannot be used: {error}.", "Remove it, or make them equal")
            return
        ours = self.detection
        if (other.renders_calls, other.dialect) == (ours.renders_calls, ours.dialect):
            yield Finding("note", f"{used}; both speak the same dialect.")
            return
        speaks = "renders no tool calls" if not other.renders_calls else "speaks another dialect"
        if other.renders_calls and other.dialect is not None:
            speaks = f"speaks {other.dialect.name}"
        yield Finding(
            "warning",
            f"{used} and {speaks}: which one counts depends on the engine.",
            "Name the template when starting the server (see the flags below)",
        )

    def vocabulary_findings(self) -> Iterator[Finding]:
        vocabulary = self.vocabulary
        if vocabulary is None:
            where = self.model.directory
            yield Finding(
                "problem" if where is not None else "warning",
                "There is no tokenizer: which markers are special tokens is not known, and what is said "
                "of it below comes from the table of families.",
                f"Put tokenizer.json (or tekken.json) into {where}"
                if where is not None
                else "Give the model directory, with tokenizer.json in it",
            )
            return
        known = set(vocabulary.special_tokens().values())
        header = self.detection.prompt[-200:]
        written = self.template.write(Message(content=_ANSWER))
        border = header + written.rest + self.end
        strangers = [
            token
            for token in dict.fromkeys(_CONTROL.findall(self.detection.prompt + written.turn + written.rest))
            if token not in known
        ]
        if strangers:
            what = "is no token" if len(strangers) == 1 else "are no tokens"
            yield Finding(
                "problem" if any(token in border for token in strangers) else "warning",
                f"The template writes {_and(strangers)}, which {what} of the vocabulary: "
                "the model will see pieces.",
                "Take template and tokenizer from the same model",
            )
        spelt = [
            marker.text
            for marker in self.markers()
            if marker.kind == "text" and _CONTROL.fullmatch(marker.text) and marker.role != "end"
        ]
        if spelt:
            what = "is no token" if len(spelt) == 1 else "are no tokens"
            yield Finding(
                "warning",
                f"{_and(spelt)} of the dialect {what} of the vocabulary.",
                "Check that the tokenizer is this model's; if it is, the model writes pieces, which are read "
                "all the same",
            )
        begin = self.model.tokens.get("bos_token")
        if begin and self.detection.prompt.startswith(begin) and self.model.config.get("add_bos_token"):
            yield Finding(
                "note",
                f"Both the template and the tokenizer put {begin} before a prompt.",
                "Encode rendered prompts with add_special_tokens=False",
            )

    def eos_findings(self) -> Iterator[Finding]:
        if self.model.directory is None or not self.end:
            return
        ids = {} if self.vocabulary is None else {v: k for k, v in self.vocabulary.special_tokens().items()}
        named = f"{self.end} ({ids[self.end]})" if self.end in ids else self.end
        # vLLM and SGLang look at both, generation_config.json and the tokenizer.
        of_tokenizer = self.model.tokens.get("eos_token") == self.end
        if self.eos is None:
            yield Finding(
                "note" if of_tokenizer else "warning",
                "There is no eos_token_id in generation_config.json or config.json: "
                + (
                    f"only engines that look at the tokenizer's eos_token, {self.end}, know where to stop "
                    "(vLLM and SGLang do)."
                    if of_tokenizer
                    else "nothing says where generation ends."
                ),
                f"Add it, with the id of {named}",
            )
        elif self.end in ids and ids[self.end] not in self.eos:
            except_for = ", except in engines that stop at the tokenizer's eos_token, too (vLLM, SGLang)"
            yield Finding(
                "problem",
                f"A turn ends with {named}, but generation stops at {', '.join(map(str, self.eos))} only: "
                f"the model will run on{except_for if of_tokenizer else ''}.",
                f"Add {ids[self.end]} to eos_token_id in generation_config.json",
            )
        if self.dialect is not None:
            text = f"{_ANSWER}{self.end}"
            read = parse(text, self.dialect, prompt="" if self.dialect.frame is None else None)
            if self.dialect.frame is None and (read.content or "").strip() != _ANSWER:
                yield Finding(
                    "note",
                    f"{self.dialect.name} does not know {self.end}, which ends a turn of this template.",
                    "Engines drop it as an EOS token; where they do not, it stays in the content",
                )

    # -- what would break

    def breaks(self) -> Iterator[Finding]:
        dialect = self.dialect
        if dialect is None:
            return
        text, right = _specimen(dialect, reasoning=self.reasons())
        yield from self.stripped(dialect, text, right)
        if right.tool_calls:
            yield from self.wrong_parsers(dialect, text, right)
        if right.reasoning and dialect.frame is None and self.reasons():
            yield from self.reasoning_parsers(dialect, text)

    def stripped(self, dialect: Dialect, text: str, right: Message) -> Iterator[Finding]:
        """What is left if the detokenizer removes special tokens."""
        setting = "skip_special_tokens=true"
        if self.vocabulary is None:
            yield self.stripped_perhaps(setting)
            return
        tokens = sorted(self.vocabulary.skipped_tokens().values(), key=len, reverse=True)
        removed = [token for token in tokens if token in text]
        if not removed:
            markers = (each for each in self.markers() if each.role != "end")
            rare = [each.text for each in markers if each.kind in ("special", "mixed")]
            yield (
                Finding(
                    "warning",
                    f"{setting} removes {_and(rare)}, which the model does not always write: where it does, "
                    "the output is read without it.",
                    "Send skip_special_tokens=false with tools",
                )
                if rare
                else Finding("note", f"{setting} is harmless: it removes no marker.")
            )
            return
        bare = text
        for token in removed:
            bare = bare.replace(token, "")
        lost = list(_lost(right, _read(bare, dialect)))
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
        facts = self.facts()
        kinds = (
            []
            if isinstance(facts, Finding)
            else [
                kind
                for kind, special in (
                    ("calls", facts.calls_special),
                    ("reasoning", facts.thinking.special if self.reasons() else "no"),
                    ("answers", facts.answers_special),
                )
                if special == "yes"
            ]
        )
        if not kinds:
            return Finding("note", f"{setting} is harmless, by the table of families: it removes no marker.")
        return Finding(
            "warning",
            f"{setting} (the default of detokenizers) removes markers of {_and(kinds)}, if the vocabulary "
            "has them as special tokens, as it does by the table of families: they are not found any more.",
            "Give the tokenizer to be sure, or send skip_special_tokens=false",
        )

    def wrong_parsers(self, dialect: Dialect, text: str, right: Message) -> Iterator[Finding]:
        """What other families' parsers make of the output."""
        named = parsers_for(dialect.name, self.model.template)
        nothing: list[str] = []
        wrong: list[str] = []
        fine: list[str] = []
        kinds = {"nothing": nothing, "wrong": wrong, "fine": fine}
        for name in COMMON_PARSERS:
            if get_dialect(name).name != dialect.name and name != named.vllm:
                kinds[reading(name, dialect, text, right)].append(name)
        if nothing:
            yield Finding(
                "problem",
                f"--tool-call-parser {_and(nothing, 'or')}: no call is found, and the markup ends up in "
                "the content.",
                "Use the parser named in the flags below",
            )
        if wrong:
            yield Finding(
                "problem",
                f"--tool-call-parser {_and(wrong, 'or')}: calls come out wrong or incomplete.",
                "Use the parser named in the flags below",
            )
        if fine:
            yield Finding("note", f"--tool-call-parser {_and(fine, 'or')}: reads well-formed calls as well.")

    def reasoning_parsers(self, dialect: Dialect, text: str) -> Iterator[Finding]:
        named = parsers_for(dialect.name, self.model.template)
        without = _read(text, replace(dialect, reasoning=()))
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
        if self.detection.reasoning.begins == "content" and self.detection.reasoning.key:
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
                    f"--reasoning-parser {_and(assuming)}: an answer without any reasoning is taken for "
                    "reasoning, since this template does not open it in the prompt.",
                    "Switch reasoning off in requests that want none, or decide by the prompt, as "
                    "unspool.plan does",
                )
        if self.detection.reasoning.begins == "reasoning":
            outside = parse(f"{thought}{_closer(dialect)}{_ANSWER}", dialect, prompt="")
            if thought in (outside.content or ""):
                yield Finding(
                    "warning",
                    "A parser that does not look at the prompt: this template opens reasoning there, so "
                    "that reasoning is taken for content.",
                    "Pass the prompt: Parser(..., prompt=...), or use unspool.plan",
                )

    # -- flags

    def flags(self) -> Mapping[EngineName, Flags]:
        if self.dialect is None:
            return {}
        return flags(self.serving(self.dialect))

    def serving(self, dialect: Dialect) -> Serving:
        return Serving(
            dialect=dialect.name,
            model=str(self.model.directory or "MODEL"),
            template=self.model.template,
            template_file=self.named_template(),
            calls=bool(dialect.call) or dialect.frame is not None,
            reasons=self.reasons(),
        )

    def named_template(self) -> str:
        """The template's file, where an engine might take another one."""
        model = self.model
        if model.file is None or model.file.suffix != ".jinja":
            return ""
        alone = all(text == model.template for text in model.others.values())
        usual = model.directory is not None and model.file.name == "chat_template.jinja"
        return "" if usual and alone else str(model.file)

    def reasons(self) -> bool:
        """Whether the template has anything to do with reasoning."""
        found = self.detection.reasoning
        dialect = self.dialect
        framed = (
            dialect is not None
            and dialect.frame is not None
            and any(route.into == "reasoning" for route in dialect.frame.routes)
        )
        return framed or bool(found) or bool(found.switches)


def _specimen(dialect: Dialect, *, reasoning: bool = True) -> tuple[str, Message]:
    """An output of the dialect with as much in it as can be read back."""
    said = replace(EXAMPLE, content=None)
    thoughtless = (replace(EXAMPLE, reasoning=None), replace(said, reasoning=None))
    for message in (EXAMPLE, said, *thoughtless) if reasoning else thoughtless:
        try:
            text = render(dialect, message)
        except UsageError:
            continue
        read = _read(text, dialect)
        if _calls(read) == _calls(message) and (read.reasoning or "").strip() == (message.reasoning or ""):
            return text, read
    text = EXAMPLE.content or ""
    if dialect.reasoning:
        text = render(dialect, replace(EXAMPLE, tool_calls=()))
    return text, _read(text, dialect)


def _and(words: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def reading(parser: str, dialect: Dialect, text: str, right: Message) -> Reading:
    """What an engine's parser makes of another dialect's calls."""
    differs = DIFFERS.get((dialect.name, parser))
    if differs is not None:
        return differs
    other = get_dialect(parser)
    read = _read(text, replace(other, reasoning=dialect.reasoning) if dialect.frame is None else other)
    if _calls(read) == _calls(right):
        return "fine"
    return "wrong" if read.tool_calls else "nothing"


def _read(text: str, dialect: Dialect) -> Message:
    return parse(text, dialect, tools=_TOOLS, prompt="" if dialect.frame is None else None)


def _calls(message: Message) -> list[tuple[str, object]]:
    return [(call.name, _json(call.arguments)) for call in message.tool_calls]


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _lost(right: Message, read: Message) -> Iterator[str]:
    """What was in the message and is not any more."""
    if _calls(read) != _calls(right):
        yield "no call is found" if not read.tool_calls else "calls come out wrong"
    if right.reasoning and (read.reasoning or "").strip() != right.reasoning.strip():
        leaked = right.reasoning.strip() in (read.content or "")
        yield "reasoning ends up in the content" if leaked else "reasoning comes out wrong"


def _closer(dialect: Dialect) -> str:
    return dialect.reasoning[0].partition("{text}")[2] if dialect.reasoning else ""
