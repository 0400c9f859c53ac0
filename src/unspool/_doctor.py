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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ._detect import WITHOUT_TOOLS, Detection, Model, Probe, examine, load_model, read_json, read_text
from ._dialect import Dialect
from ._errors import SpecError, UsageError
from ._explain import EXAMPLE
from ._infer import FLAT_TOOLS
from ._message import Message
from ._parser import parse
from ._plan import Plan, plan
from ._plan.decide import WHY
from ._plan.table import switch
from ._registry import get_dialect
from ._render import render
from ._switches import FAMILIES, SWITCHES, RequestFacts, facts_of
from ._template import Literal as LiteralPiece
from ._template import parse_template, split_marks
from ._tokens import substitute

Level: TypeAlias = Literal["problem", "warning", "note"]

_CONTROL: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>")
"""What a template writes that must be a token of its own."""
_ANSWER: Final = "It is 21 degrees."
_TOOLS: Final = (
    FLAT_TOOLS[0],
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
)
"""The tools that the example message calls."""


# -- what a report says


class Finding(NamedTuple):
    """Something that does not fit, and what to do about it."""

    level: Level
    text: str
    fix: str = ""


class Marker(NamedTuple):
    """A marker of the dialect, as the vocabulary has it."""

    text: str
    role: str
    kind: str
    """``special``: a token that ``skip_special_tokens`` removes; ``token``: one that it keeps;
    ``mixed``: in part the one or the other; ``text``: ordinary pieces; ``unknown``."""
    ids: tuple[int, ...] = ()


class Case(NamedTuple):
    """A typical request, and what is decided about it."""

    name: str
    decisions: Mapping[str, str]
    """PRE.1 to PRE.6, a sentence each; empty if the request is refused."""
    warnings: tuple[str, ...]
    settings: Mapping[str, object]
    """What the backend is told."""


class Flags(NamedTuple):
    """How to start a server."""

    command: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found."""

    origin: str
    """Where the chat template was found."""
    detection: Detection
    dialect: Dialect | None
    """What the rest of the report is about: the dialect, or the one that the template hints at."""
    checkpoint: str
    """The checkpoint that requests are planned for, where they differ from the family's."""
    tokenizer: str
    """Where the vocabulary was found; empty: nowhere."""
    markers: tuple[Marker, ...]
    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    """Whether template, tokenizer and dialect agree."""
    breaks: tuple[Finding, ...]
    """What common settings of servers would do to the output, silently."""
    flags: Mapping[str, Flags]
    """By engine."""

    @property
    def healthy(self) -> bool:
        """Whether nothing must be changed."""
        return not any(finding.level == "problem" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "healthy": self.healthy,
            "template": self.origin,
            "tokenizer": self.tokenizer,
            "dialect": None if self.dialect is None else self.dialect.name,
            "checkpoint": self.checkpoint,
            "detection": self.detection.to_dict(),
            "markers": [{**each._asdict(), "ids": list(each.ids)} for each in self.markers],
            "requests": [
                {
                    "name": case.name,
                    "decisions": dict(case.decisions),
                    "warnings": list(case.warnings),
                    "settings": dict(case.settings),
                }
                for case in self.cases
            ],
            "findings": [each._asdict() for each in self.findings],
            "breaks": [each._asdict() for each in self.breaks],
            "flags": {
                engine: {"command": flags.command, "notes": list(flags.notes)}
                for engine, flags in self.flags.items()
            },
        }

    def markdown(self) -> str:
        """The same for people."""
        return "\n".join(_report_lines(self)).rstrip() + "\n"


def diagnose(source: object) -> Report:
    """Examine a model directory, a tokenizer configuration or a chat template."""
    model = load_model(source)
    return _Doctor(model).report()


# -- the vocabulary


class Vocabulary:
    """The tokens that are matched as a whole, read off the files of a tokenizer.

    Enough of a tokenizer to plan with, and it needs no package to be installed.
    """

    def __init__(self, origin: str, tokens: Mapping[int, str], special: Iterable[int]) -> None:
        self.origin = origin
        self._tokens = tokens
        self._special = frozenset(special)

    def token_bytes(self, id: int) -> bytes:
        """Ordinary tokens are not known."""
        raise KeyError(id)

    def special_tokens(self) -> Mapping[int, str]:
        return self._tokens

    def skipped_tokens(self) -> Mapping[int, str]:
        """What ``skip_special_tokens`` removes."""
        return {id: token for id, token in self._tokens.items() if id in self._special}


def load_vocabulary(model: Model) -> Vocabulary | None:
    """The vocabulary beside a template, if there is one."""
    directory = model.directory or (model.file.parent if model.file is not None else None)
    if directory is not None:
        for name, read in (("tokenizer.json", _added_tokens), ("tekken.json", _tekken_tokens)):
            if (directory / name).is_file() and (model.directory is not None or model.config):
                entries = read(directory / name)
                if entries:
                    return _vocabulary(str(directory / name), entries)
    entries = _config_tokens(model.config)
    return _vocabulary(f"added_tokens_decoder of {model.origin}", entries) if entries else None


def _vocabulary(origin: str, entries: Sequence[tuple[int, str, bool]]) -> Vocabulary:
    # As everywhere: runs of white space are text.
    tokens = {id: text for id, text, _ in entries if text.replace("\u2581", " ").strip()}
    return Vocabulary(origin, tokens, (id for id, _, special in entries if special))


def _added_tokens(path: Path) -> list[tuple[int, str, bool]]:
    text = read_text(path)
    key = '"added_tokens":'
    at = text.find(key)
    try:
        # The list stands before the vocabulary, which may be twenty megabytes.
        found = json.JSONDecoder().raw_decode(text[at + len(key) :].lstrip())[0] if at >= 0 else []
    except ValueError:
        found = read_json(path).get("added_tokens")
    return list(_entries((entry.get("id"), entry) for entry in found or () if isinstance(entry, Mapping)))


def _config_tokens(config: Mapping[str, object]) -> list[tuple[int, str, bool]]:
    found = config.get("added_tokens_decoder")
    return list(_entries(found.items())) if isinstance(found, Mapping) else []


def _entries(items: Iterable[tuple[object, object]]) -> Iterator[tuple[int, str, bool]]:
    for id, entry in items:
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(content, str) and str(id).isdecimal():
            yield int(str(id)), content, bool(entry.get("special"))


def _tekken_tokens(path: Path) -> list[tuple[int, str, bool]]:
    found = read_json(path).get("special_tokens")
    entries = found if isinstance(found, list) else []
    return [
        (int(entry["rank"]), str(entry["token_str"]), True)
        for entry in entries
        if isinstance(entry, Mapping) and "rank" in entry and "token_str" in entry
    ]


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
            findings=tuple(sorted(findings, key=lambda each: _LEVELS.index(each.level))),
            breaks=tuple(self.breaks()),
            flags=dict(self.flags()),
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
        return replace(row, thinking=FAMILIES[self.checkpoint][1]) if self.checkpoint else row

    def find_checkpoint(self) -> str:
        """The checkpoint that seeds what this template seeds, where that is not the family's habit."""
        found, dialect = self.detection.reasoning, self.dialect
        if dialect is None or not found.seed or self.detection.inferred:
            return ""
        try:
            habit = facts_of(dialect).thinking
        except SpecError:
            return ""
        if habit.seed.strip() == found.seed.strip() and habit.default in ("on", "always"):
            return ""
        switched = bool(set(found.switches).intersection(SWITCHES))
        fitting = [
            name
            for name, (spoken, thinking) in FAMILIES.items()
            if spoken == dialect.name and thinking.seed.strip() == found.seed.strip()
        ]
        fitting.sort(key=lambda name: bool(FAMILIES[name][1].switches) != switched)
        return fitting[0] if fitting else ""

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
        for token in dict.fromkeys(_CONTROL.findall(self.detection.prompt + written.turn + written.rest)):
            if token in known:
                continue
            yield Finding(
                "problem" if token in border else "warning",
                f"The template writes {token}, which is no token of the vocabulary: "
                "the model will see it in pieces.",
                "Take template and tokenizer from the same model",
            )
        for marker in self.markers():
            if marker.kind == "text" and _CONTROL.fullmatch(marker.text) and marker.role != "end":
                yield Finding(
                    "warning",
                    f"{marker.text} of the dialect is no token of the vocabulary.",
                    "Check that the tokenizer is this model's; if it is, the model writes it in pieces, "
                    "which is read all the same",
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
        if self.eos is None:
            yield Finding(
                "warning",
                "Nothing says which tokens end generation: there is no eos_token_id in "
                "generation_config.json or config.json.",
                f"Add it, with the id of {self.end}",
            )
        elif self.end in ids and ids[self.end] not in self.eos:
            yield Finding(
                "problem",
                f"A turn ends with {self.end} ({ids[self.end]}), but generation stops at "
                f"{', '.join(map(str, self.eos))} only: the model will run on.",
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
        text, right = _specimen(dialect)
        yield from self.stripped(dialect, text, right)
        if right.tool_calls:
            yield from self.wrong_parsers(dialect, text, right)
        if right.reasoning and dialect.frame is None:
            yield from self.reasoning_parsers(dialect, text)

    def stripped(self, dialect: Dialect, text: str, right: Message) -> Iterator[Finding]:
        """What is left if the detokenizer removes special tokens."""
        tokens = self.strippable() if self.vocabulary is None else self.vocabulary.skipped_tokens().values()
        known = "" if self.vocabulary is not None else ", by the table of families"
        removed = [token for token in sorted(tokens, key=len, reverse=True) if token in text]
        bare = text
        for token in removed:
            bare = bare.replace(token, "")
        setting = "skip_special_tokens=true"
        if bare == text:
            yield Finding("note", f"{setting} is harmless{known}: it removes no marker.")
            return
        lost = list(_lost(right, _read(bare, dialect)))
        named = ", ".join(removed[:4]) + (", ..." if len(removed) > 4 else "")
        if not lost:
            yield Finding("note", f"{setting} removes {named}, and the output is read all the same.")
            return
        yield Finding(
            "problem",
            f"{setting} (the default of detokenizers) removes {named}{known}: {'; '.join(lost)}.",
            "Send skip_special_tokens=false and spaces_between_special_tokens=false; engines do so by "
            "themselves only where their own parser for this family is on",
        )

    def strippable(self) -> set[str]:
        """Markers that are special tokens where no tokenizer can be asked."""
        facts = self.facts()
        if isinstance(facts, Finding):
            return set()
        special = {
            "reasoning": facts.thinking.special == "yes",
            "answer": facts.answers_special == "yes",
            "furniture": False,
            "end": False,
        }
        calls = facts.calls_special == "yes"
        found: set[str] = set()
        for marker in self.markers():
            if special.get(marker.role, calls):
                found.update(_CONTROL.findall(marker.text) or [marker.text])
        return found

    def wrong_parsers(self, dialect: Dialect, text: str, right: Message) -> Iterator[Finding]:
        """What other families' parsers make of the output."""
        nothing: list[str] = []
        wrong: list[str] = []
        fine: list[str] = []
        for name in COMMON_PARSERS:
            other = get_dialect(name)
            if other.name == dialect.name or name in _names(dialect.name):
                continue
            read = _read(
                text, replace(other, reasoning=dialect.reasoning) if dialect.frame is None else other
            )
            if _calls(read) == _calls(right):
                fine.append(name)
            else:
                (wrong if read.tool_calls else nothing).append(name)
        if nothing:
            yield Finding(
                "problem",
                f"--tool-call-parser {' or '.join(nothing)}: no call is found, and the markup ends up in "
                "the content.",
                "Use the parser named in the flags below",
            )
        if wrong:
            yield Finding(
                "problem",
                f"--tool-call-parser {' or '.join(wrong)}: calls come out wrong or incomplete.",
                "Use the parser named in the flags below",
            )
        if fine:
            yield Finding("note", f"--tool-call-parser {' or '.join(fine)}: reads well-formed calls as well.")

    def reasoning_parsers(self, dialect: Dialect, text: str) -> Iterator[Finding]:
        without = _read(text, replace(dialect, reasoning=()))
        content = without.content or ""
        thought = EXAMPLE.reasoning or ""
        if thought in content:
            yield Finding(
                "warning",
                "No --reasoning-parser: reasoning is part of the content, markers included.",
                "Start the server with the reasoning parser named in the flags below",
            )
        if self.detection.reasoning.begins == "content" and dialect.reasoning[0].startswith("<think>"):
            inside = parse(_ANSWER, dialect, prompt="<think>")
            if inside.content is None:
                yield Finding(
                    "warning",
                    "A reasoning parser that assumes an open <think> (deepseek_r1; qwen3 of vLLM): this "
                    "template does not open it, so that an answer without reasoning is taken for reasoning.",
                    "Decide by the prompt, as unspool.plan does, or switch reasoning off in the request",
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

    def flags(self) -> Iterator[tuple[str, Flags]]:
        dialect = self.dialect
        if dialect is None:
            return
        calls, _, reasoning = dialect.name.partition("+")
        engines = dict(zip(("vllm", "sglang"), self.engines(calls, reasoning), strict=True))
        where = str(self.model.directory) if self.model.directory is not None else "MODEL"
        template = self.named_template()
        for engine, names in engines.items():
            yield engine, _serve(engine, names, where, template, self.reasons())
        notes = ["Without --jinja tools are refused"]
        if calls in _NOT_LLAMA_CPP:
            notes.append(
                f"It has no parser for {calls}: start it with --special, ask /completion, parse with unspool"
            )
        parts = ["llama-server -m MODEL.gguf --jinja"]
        parts += [f"--chat-template-file {template}"] if template else []
        parts += ["--reasoning-format auto"] if self.reasons() else []
        yield "llama.cpp", Flags(" ".join(parts), tuple(notes))

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

    def engines(self, calls: str, reasoning: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """Tool parser and reasoning parser of vLLM and of SGLang; empty: there is none."""
        vllm_tool, vllm_reasoning, sglang_tool, sglang_reasoning = _names(calls)
        if calls == "cohere" and "<|START_TEXT|>" not in self.model.template:
            vllm_tool = vllm_reasoning = "cohere_command3"
        if reasoning:
            _, vllm_reasoning, _, sglang_reasoning = _names(reasoning)
        return (vllm_tool, vllm_reasoning), (sglang_tool, sglang_reasoning)


def _serve(engine: str, names: tuple[str, str], where: str, template: str, reasons: bool) -> Flags:
    tool, reasoning = names
    notes: list[str] = []
    if engine == "vllm":
        parts = [f"vllm serve {where}"]
        parts += [f"--enable-auto-tool-choice --tool-call-parser {tool}"] if tool else []
    else:
        parts = [f"python -m sglang.launch_server --model-path {where}"]
        parts += [f"--tool-call-parser {tool}"] if tool else []
    if reasons and reasoning:
        parts.append(f"--reasoning-parser {reasoning}")
    if template:
        parts.append(f"--chat-template {template}")
    if not tool:
        notes.append(
            "It has no parser for these calls: start it without one, ask /v1/completions with "
            "skip_special_tokens=false, and parse with unspool"
        )
    if reasons and not reasoning:
        notes.append("It has no parser for this reasoning: unspool takes it out of the content")
    return Flags(" ".join(parts), tuple(notes))


def _specimen(dialect: Dialect) -> tuple[str, Message]:
    """An output of the dialect with as much in it as can be read back."""
    said = replace(EXAMPLE, content=None)
    for message in (EXAMPLE, said, replace(EXAMPLE, reasoning=None), replace(said, reasoning=None)):
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


# -- the page

_LEVELS: Final[tuple[Level, ...]] = ("problem", "warning", "note")
_COLUMNS: Final = (
    "request",
    "special tokens",
    "reasoning",
    "output begins in",
    "calls",
    "held to them by",
    "stripped",
)
_ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp"}
_KINDS: Final = {
    "special": "special token",
    "token": "token, not special",
    "mixed": "tokens, special in part",
    "text": "text",
    "unknown": "unknown: no tokenizer",
}


def detection_page(found: Detection, origin: str) -> str:
    """A detection for people, as Markdown."""
    return "\n".join(_detection_lines(found, origin)).rstrip() + "\n"


def _detection_lines(found: Detection, origin: str) -> Iterator[str]:
    if found.dialect is not None and found.renders_calls:
        yield f"# {found.dialect.name}"
    elif not found.renders_calls:
        yield "# This template renders no tool calls"
    else:
        yield "# No dialect reads these calls"
    yield ""
    yield f"Template: {origin}. Confidence: {found.confidence:.2f}."
    yield ""
    for sentence in found.evidence:
        yield f"- {_escaped(sentence)}"
    for warning in found.warnings:
        yield f"- **Warning**: {_escaped(warning)}"
    yield ""
    if found.runners_up:
        yield f"Runners-up: {', '.join(found.runners_up)}."
        yield ""
    if found.inferred:
        yield "**Warning**: this dialect was inferred from the template. To use it, paste and register it:"
        yield ""
        imports = "Dialect, RequestFacts, Thinking, register"
        yield from _fenced("python", f"from unspool import {imports}\n\n{found.declaration}")
    elif found.renders_calls and found.dialect is None:
        yield "The turn that the template renders:"
        yield ""
        yield from _fenced("text", found.turn)


def _report_lines(report: Report) -> Iterator[str]:
    yield from _detection_lines(report.detection, report.origin)
    yield "## Does it fit together?"
    yield ""
    if not report.healthy:
        yield "No. This must be changed:"
    elif report.findings:
        yield "Yes. What to know:"
    else:
        yield "Yes."
    yield ""
    yield from _finding_lines(report.findings)
    if report.markers:
        yield "## Markers"
        yield ""
        yield f"Vocabulary: {report.tokenizer or 'none was found'}."
        yield ""
        rows = [
            (f"`{each.text}`", each.role, _KINDS[each.kind], " ".join(map(str, each.ids)))
            for each in report.markers
        ]
        yield from _table(("marker", "role", "in the vocabulary", "ids"), rows)
    if report.cases:
        yield "## What is decided about typical requests"
        yield ""
        if report.checkpoint:
            yield f"The template opens reasoning as that of {report.checkpoint} does: planned as such."
            yield ""
        yield from _table(_COLUMNS, map(_case_row, report.cases))
        for name in WHY:
            sentences = dict.fromkeys(case.decisions[name] for case in report.cases if case.decisions)
            if sentences:
                yield f"- {name}: {_escaped('; '.join(sentences))}"
        for case in report.cases:
            for warning in case.warnings:
                kind = "warning" if case.decisions else "refused"
                yield f"- **{case.name}** ({kind}): {_escaped(warning)}"
        yield ""
    if report.breaks:
        yield "## What would break without a word"
        yield ""
        yield from _finding_lines(report.breaks)
    if report.flags:
        yield "## Flags"
        yield ""
        for engine, flags in report.flags.items():
            yield f"{_ENGINES[engine]}:"
            yield ""
            yield from _fenced("sh", flags.command)
            for note in flags.notes:
                yield f"- {_escaped(note)}."
            yield ""


def _case_row(case: Case) -> tuple[str, ...]:
    if not case.decisions:
        return (case.name, *["refused"] * (len(_COLUMNS) - 1))
    get = case.settings.get
    return (
        case.name,
        "may be stripped" if get("skip_special_tokens") else "keep",
        "on" if get("reasoning") else "off",
        str(get("start")),
        str(get("tool_output")).replace("_", " "),
        {"none": "nothing", "native": "grammar"}.get(str(get("constraint")), "JSON schema"),
        f"`{get('strip')}`" if get("strip") else "nothing",
    )


def _finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        fix = f" {finding.fix}." if finding.fix else ""
        yield f"- **{finding.level.capitalize()}**: {_escaped(finding.text + fix)}"
    yield ""


def _escaped(text: str) -> str:
    """Words with markup in them as code: Markdown would take them for its own."""
    return re.sub(r"\S*[<\[|*`]\S*?(?=[.,;:)]*(?:\s|$))", _code, text)


def _code(word: re.Match[str]) -> str:
    fence = "``" if "`" in word[0] else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{word[0]}{pad}{fence}"


def _fenced(language: str, text: str) -> Iterator[str]:
    fence = "~~~~"
    yield f"{fence}{language}"
    yield text
    yield fence
    yield ""


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for cells in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


# -- what engines call it

COMMON_PARSERS: Final = (
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "mistral",
    "pythonic",
    "deepseek_v3",
    "deepseek_v31",
    "glm45",
    "kimi_k2",
)
"""Parsers that are taken for another's most often."""

_PARSERS: Final[Mapping[str, str]] = {
    # dialect: vLLM tools, vLLM reasoning, SGLang tools, SGLang reasoning
    "hermes": "hermes qwen3 qwen25 qwen3",
    "trinity": "hermes - trinity -",
    "granite4": "granite4 - hermes -",
    "ernie45": "ernie45 ernie45 - -",
    "longcat": "longcat - - -",
    "k2_horizon": "k2_horizon k2_horizon k2_horizon k2_horizon",
    "mistral": "mistral mistral mistral mistral",
    "mistral_v11": "mistral mistral mistral mistral",
    "mistral_v3": "mistral mistral mistral mistral",
    "internlm2": "internlm - interns1 interns1",
    "jamba": "jamba - - -",
    "hunyuan_a13b": "hunyuan_a13b hunyuan_a13b - -",
    "apriel": "jamba - - -",
    "apertus": "apertus - apertus2509 apertus2509",
    "granite_20b_fc": "granite-20b-fc - - -",
    "gigachat3": "gigachat3 - gigachat3 -",
    "cohere": "cohere_command4 cohere_command4 cohere_command4 cohere_command4",
    "llama3_json": "llama3_json - llama3 -",
    "llama4_json": "llama4_json - llama3 -",
    "granite": "granite granite - -",
    "phi4mini": "phi4_mini_json - - -",
    "firefunction": "phi4_mini_json - - -",
    "xlam": "xlam - - -",
    "pythonic": "pythonic olmo3 pythonic -",
    "watt": "pythonic - pythonic -",
    "lfm2": "lfm2 qwen3 lfm2 qwen3",
    "gemma4": "gemma4 gemma4 gemma4 gemma4",
    "functiongemma": "functiongemma - - -",
    "qwen3_coder": "qwen3_coder qwen3 qwen3_coder qwen3",
    "nemotron_v3": "qwen3_coder nemotron_v3 qwen3_coder nemotron_3",
    "granite42": "qwen3_coder granite_thinking_parser qwen3_coder granite_thinking_parser",
    "step3p5": "step3p5 step3p5 step3p5 step3p5",
    "mimo": "mimo qwen3 mimo mimo",
    "minicpmv": "qwen3_coder minicpmv qwen3_coder qwen3",
    "seed_oss": "seed_oss seed_oss - -",
    "glm45": "glm45 glm45 glm45 glm45",
    "glm47": "glm47 glm45 glm47 glm45",
    "ling3": "ling3 ling3 ling3 -",
    "poolside_v1": "poolside_v1 poolside_v1 poolside_v1 poolside_v1",
    "spark25": "- qwen3 spark25 qwen3",
    "iquest_q1": "- - iquest_q1 iquest_q1",
    "hy_v3": "hy_v3 hy_v3 hunyuan hunyuan",
    "hy_v4": "hy_v4 hy_v4 hunyuan hunyuan",
    "minimax_m2": "minimax_m2 minimax_m2 minimax-m2 minimax",
    "minimax_m3": "minimax_m3 minimax_m3 minimax-m3 minimax-m3",
    "dots": "dots - dots dots",
    "minicpm5": "minicpm5 qwen3 minicpm5 qwen3",
    "step3": "step3 step3 step3 step3",
    "deepseek_v3": "deepseek_v3 deepseek_r1 deepseekv3 deepseek-r1",
    "deepseek_v3_1": "deepseek_v31 deepseek_v3 deepseekv31 deepseek-v3",
    "deepseek_v3_2": "deepseek_v32 deepseek_v3 deepseekv32 deepseek-v3",
    "deepseek_v4": "deepseek_v4 deepseek_v4 deepseekv4 deepseek-v4",
    "deepseek_v41": "deepseek_v41 deepseek_v41 deepseekv41 deepseek-v41",
    "gigachat35": "- - gigachat35 gigachat35",
    "kimi_k2": "kimi_k2 kimi_k2 kimi_k2 kimi_k2",
    "kimi_k3": "kimi_k3 kimi_k3 kimi_k3 kimi_k3",
    "kimi": "- - - kimi",
    "inkling": "inkling inkling inkling inkling",
    "plamo3": "plamo3 plamo3 - -",
    "harmony": "openai openai_gptoss gpt-oss gpt-oss",
    "beam": "hf hf beam beam",
    "muse_glimmer": "muse_glimmer muse_glimmer muse muse",
    "response_template": "hf hf response_template response_template",
    "nemotron_json": "- deepseek_r1 - deepseek-r1",
    "minimax_m1": "- deepseek_r1 - deepseek-r1",
}
"""What vLLM 0.32 and SGLang 0.5.23 call the parsers that read a dialect."""

_NOT_LLAMA_CPP: Final = frozenset(
    (
        *("beam", "cohere_cofl", "deepseek_v41", "hy_v4", "iquest_q1", "k2_horizon"),
        *("plamo3", "pythonic", "spark25", "step3", "watt"),
    )
)
"""Dialects that it does not parse, whatever the template."""


def _names(dialect: str) -> tuple[str, str, str, str]:
    """The names of parsers; empty: there is none."""
    row = _PARSERS.get(dialect) or _PARSERS.get(dialect.partition(":")[0], "- - - -")
    vllm, vllm_reasoning, sglang, sglang_reasoning = (name.replace("-", "") and name for name in row.split())
    return vllm, vllm_reasoning, sglang, sglang_reasoning
