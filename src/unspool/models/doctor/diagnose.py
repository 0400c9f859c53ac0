"""The doctor: whether all of a model fits together, and what a server must be told.

A model directory holds a chat template, a tokenizer and a generation config,
each made by somebody else at another time.  The doctor detects the dialect,
holds the three against it and against each other, plans typical requests, and
*tries* what would go wrong: a detokenizer that strips special tokens, another
family's parser, no reasoning parser.  What it says about those is what came
out, not what ought to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..._core.render.example import EXAMPLE
from ..._core.token_ids.tokenizers import substitute
from ...dialects._declaration import Dialect
from ...dialects._registry import facts_of, get_dialect
from ...dialects._request_facts import SWITCHES, RequestFacts
from ...dialects._templates import Literal as LiteralPiece
from ...dialects._templates import parse_template, split_marks
from ...errors import SpecError, UsageError
from ...message import Message
from ...parser import parse
from ...planning import Plan, plan
from ...planning._truth_table import switch
from ..detect.detect_dialect import WITHOUT_TOOLS, detect_dialect
from ..detect.probe_messages import FLAT_TOOLS
from ..detect.template_probe import TemplateProbe
from ..sources import Source, read_source
from ..sources.special_tokens import load_vocabulary
from .engine_parsers import EngineName, Flags, Serving, flags
from .report import (
    LEVELS,
    Diagnosis,
    Finding,
    Level,
    Marker,
    TypicalRequest,
    listed,
)
from .server_settings import ANSWER, Breaks
from .training_checks import training

_CONTROL: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>")
"""What a template writes that must be a token of its own."""


def diagnose(source: object) -> Diagnosis:
    """Examine a model: whatever :func:`read_source` takes."""
    model = read_source(source)
    return _Doctor(model).diagnosis()


# -- the examination


class _Doctor:
    """One model being examined."""

    def __init__(self, model: Source) -> None:
        self.vocabulary = load_vocabulary(model)
        self.model = model = replace(model, vocabulary=self.vocabulary)
        self.detection = detect_dialect(model)
        self.template = TemplateProbe(model.template, model.tokens)
        self.dialect = self.detection.dialect
        if self.detection.hint:
            self.dialect = get_dialect(self.detection.hint, tokenizer=self.vocabulary)
        self.checkpoint = self.find_checkpoint()
        self.end = self.end_of_turn()
        self.eos = model.end_ids

    def diagnosis(self) -> Diagnosis:
        cases = tuple(self.cases())
        findings = tuple(dict.fromkeys(self.findings(cases)))
        return Diagnosis(
            source=self.model,
            detection=self.detection,
            dialect=self.dialect,
            checkpoint=self.checkpoint,
            tokenizer="" if self.vocabulary is None else self.vocabulary.origin,
            markers=tuple(self.markers()),
            cases=cases,
            findings=tuple(sorted(findings, key=lambda each: LEVELS.index(each.level))),
            breaks=tuple(self.breaks()),
            flags=self.flags(),
            training=training(self.template, FLAT_TOOLS) if self.detection.tried else None,
        )

    def end_of_turn(self) -> str:
        """The marker that the template ends the model's turns with."""
        writing = self.template.render_turn(Message(content=ANSWER))
        behind = (writing.turn.partition(ANSWER)[2] + writing.rest).strip()
        found = re.match(r"<[^<>\s]+>|\[[^\[\]\s]+\]", behind)
        return found[0] if found else ""

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
            ("furniture", [template for template in dialect.drop if "{calls}" not in template]),
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

    def cases(self) -> Iterator[TypicalRequest]:
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

    def case(self, name: str, request: Mapping[str, Any], facts: RequestFacts) -> TypicalRequest:
        dialect = self.dialect
        assert dialect is not None  # noqa: S101 - cases() has looked
        try:
            decided = self.plan(dialect, request, facts)
        except UsageError as error:
            return TypicalRequest(name, {}, (str(error),), {})
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
        return TypicalRequest(name, dict(decided.why), decided.warnings, settings)

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

    def findings(self, cases: Sequence[TypicalRequest]) -> Iterator[Finding]:
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
        if not found.tried:
            yield Finding(
                "warning" if found.dialect is not None else "problem",
                "There is no chat template: nothing of what follows was tried on the model's own.",
                "Give the model that it was made from, if you can",
            )
            return
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
            other = detect_dialect(replace(self.model, template=text, origin=name))
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
        written = self.template.render_turn(Message(content=ANSWER))
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
                f"The template writes {listed(strangers)}, which {what} of the vocabulary: "
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
                f"{listed(spelt)} of the dialect {what} of the vocabulary.",
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
        if (self.model.directory is None and self.eos is None) or not self.end:
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
            yield self.runs_on(named, ids[self.end], of_tokenizer=of_tokenizer)
        if self.dialect is not None:
            text = f"{ANSWER}{self.end}"
            read = parse(text, self.dialect, prompt="" if self.dialect.frame is None else None)
            if self.dialect.frame is None and (read.content or "").strip() != ANSWER:
                yield Finding(
                    "note",
                    f"{self.dialect.name} does not know {self.end}, which ends a turn of this template.",
                    "Engines drop it as an EOS token; where they do not, it stays in the content",
                )

    def runs_on(self, named: str, id: int, *, of_tokenizer: bool) -> Finding:
        """Nothing stops generation where a turn ends."""
        stops = ", ".join(map(str, self.eos or ()))
        said = f"A turn ends with {named}, but generation stops at {stops} only: the model will run on"
        if self.model.kind == "gguf":
            return Finding(
                "warning",
                f"{said}, unless the engine knows that token by its name (llama.cpp knows many).",
                f"Set tokenizer.ggml.eot_token_id to {id} (gguf-set-metadata does)",
            )
        except_for = ", except in engines that stop at the tokenizer's eos_token, too (vLLM, SGLang)"
        return Finding(
            "problem",
            f"{said}{except_for if of_tokenizer else ''}.",
            f"Add {id} to eos_token_id in generation_config.json",
        )

    def breaks(self) -> Iterator[Finding]:
        if self.dialect is None:
            return
        facts = self.facts()
        found = Breaks(
            dialect=self.dialect,
            template=self.model.template,
            reasoning=self.detection.reasoning,
            reasons=self.reasons(),
            vocabulary=self.vocabulary,
            markers=tuple(self.markers()),
            facts=None if isinstance(facts, Finding) else facts,
        )
        yield from found.findings()

    # -- flags

    def flags(self) -> Mapping[EngineName, Flags]:
        if self.dialect is None:
            return {}
        return flags(self.serving(self.dialect))

    def serving(self, dialect: Dialect) -> Serving:
        return Serving(
            dialect=dialect.name,
            model=str(self.model.directory or "MODEL"),
            weights=str(self.model.weights or "MODEL.gguf"),
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
