"""Diagnosis of a model's setup, with findings, planned requests and server flags.

A model directory contains a chat template, a tokenizer and a generation configuration, which often have
different authors.  The doctor detects the dialect, and checks that the three files are consistent with the
dialect and with each other.  It also plans typical requests.  Wrong server settings are tried on an example
output (``simulate_wrong_settings.py``), so the findings report real results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._core.render.example_output import EXAMPLE
from ..._core.token_ids.tokenizer_adapters import substitute
from ...dialects import (
    CONTROL_TOKEN,
    SWITCHES,
    Dialect,
    RequestFacts,
    Section,
    Wrapper,
    facts_of,
    get_dialect,
)
from ...dialects.parse_templates import Literal as LiteralPiece
from ...dialects.parse_templates import parse_template, template_text
from ...errors import SpecError, UsageError
from ...message import Message
from ...parser import parse
from ...planning import Plan, plan, switch
from ..detection.detect_dialect import WITHOUT_TOOLS, detect_dialect
from ..detection.probe_tools import FLAT_TOOLS
from ..detection.template_probe import TemplateProbe
from ..sources import Source, read_source
from ..sources.special_tokens import load_vocabulary
from .engine_parser_table import EngineName
from .report import (
    LEVELS,
    Diagnosis,
    Finding,
    Level,
    Marker,
    TypicalRequest,
    listed,
)
from .server_flags import ServerFlags, ServerModel, server_flags
from .simulate_wrong_settings import ANSWER, SettingsCheck
from .training_checks import check_training


def diagnose(source: object) -> Diagnosis:
    """Diagnose the setup of a model; ``source`` is anything that :func:`read_source` accepts."""
    model = read_source(source)
    return _Doctor(model).diagnosis()


# -- the diagnosis


class _Doctor:
    """Diagnosis of one model."""

    def __init__(self, model: Source) -> None:
        self.vocabulary = load_vocabulary(model)
        self.model = model = replace(model, vocabulary=self.vocabulary)
        self.detection = detect_dialect(model)
        self.template = TemplateProbe(model.template, model.tokens)
        self.dialect = self.detection.dialect
        if self.detection.hint:
            self.dialect = get_dialect(self.detection.hint, tokenizer=self.vocabulary)
        self.checkpoint = self.find_checkpoint()
        self.end_marker = self.find_end_marker()
        self.end_ids = model.end_ids

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
            training=check_training(self.template, FLAT_TOOLS) if self.detection.tried else None,
        )

    def find_end_marker(self) -> str:
        """Return the marker that ends the model's turns in the template; empty if there is none."""
        rendered = self.template.render_turn(Message(content=ANSWER))
        after = (rendered.turn.partition(ANSWER)[2] + rendered.rest).strip()
        match = re.match(r"<[^<>\s]+>|\[[^\[\]\s]+\]", after)
        return match[0] if match else ""

    # -- markers

    def markers(self) -> Iterator[Marker]:
        """Yield the markers of the dialect, with the ids of their tokens."""
        dialect = self.dialect
        if dialect is None:
            return
        seen: set[str] = set()
        roles: list[tuple[str, Sequence[str | Section | Wrapper]]] = [
            ("reasoning", dialect.reasoning[:1]),
            ("answer", dialect.content[:1]),
            ("calls", dialect.section[:1] if dialect.call else ()),
            ("call", dialect.call[:1]),
            ("parameter", dialect.param[:1]),
            ("other", (*dialect.drop, *dialect.habits.drop_text)),
            ("end", [self.end_marker] if self.end_marker else dialect.stop[:1]),
        ]
        if dialect.frame is not None:
            roles.insert(0, ("header", (template_text(dialect.frame.open[0]), dialect.frame.sep)))
            roles.insert(1, ("message end", dialect.frame.ends))
        for role, templates in roles:
            for template in templates:
                for piece in parse_template(template):
                    text = piece.text.strip()
                    if isinstance(piece, LiteralPiece) and len(text) > 2 and text not in seen:
                        seen.add(text)
                        yield self.marker(text, role)

    def marker(self, text: str, role: str) -> Marker:
        """Return a marker with its tokens, which are looked up in the vocabulary."""
        if self.vocabulary is None:
            return Marker(text, role, "unknown")
        inside = {token: id for id, token in self.vocabulary.special_tokens().items() if token in text}
        skipped = set(self.vocabulary.skipped_tokens().values())
        # Replace each token in the marker with a code point.  If several tokens match, `substitute` behaves
        # like a tokenizer: the leftmost match wins, then the longest.
        order = sorted(inside)
        code_points = {token: chr(0xD800 + number) for number, token in enumerate(order)}
        found = [
            order[ord(char) - 0xD800]
            for char in substitute(text, code_points)
            if "\ud800" <= char <= "\udfff"
        ]
        ids = tuple(inside[token] for token in found)
        kinds = {token in skipped for token in found}
        kind = "text" if not found else "mixed" if len(kinds) > 1 else "special" if True in kinds else "token"
        return Marker(text, role, kind, ids)

    # -- requests

    def cases(self) -> Iterator[TypicalRequest]:
        """Yield typical requests, each with its plan."""
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
            switches = switch(facts.thinking, on=on)
            if switches is not None:
                requests[f"reasoning {'on' if on else 'off'}"] = {**tools, **switches}
        for name, request in requests.items():
            yield self.case(name, {"messages": question, **request}, facts)
        yield self.case("after a tool", {"messages": self.history_with_call(), **tools}, facts)

    def history_with_call(self) -> list[dict[str, object]]:
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
        assert dialect is not None  # noqa: S101 - cases() checks it
        try:
            plan = self.plan(dialect, request, facts)
        except UsageError as error:
            return TypicalRequest(name, {}, (str(error),), {})
        settings: dict[str, object] = {
            "skip_special_tokens": plan.skip_special_tokens,
            "chat_template_kwargs": dict(plan.chat_template_kwargs),
            "reasoning": plan.reasoning,
            "start": plan.start,
            "tool_output": plan.tool_output,
            "constraint": plan.constraint.kind,
            "eos": list(plan.eos),
            "strip": plan.strip,
        }
        return TypicalRequest(name, dict(plan.why), plan.warnings, settings)

    def plan(self, dialect: Dialect, request: Mapping[str, Any], facts: RequestFacts) -> Plan:
        first = plan(dialect, request, tokenizer=self.vocabulary, eos_token_ids=self.end_ids, facts=facts)
        prompt = self.template.conversation(
            *request["messages"],
            tools=request.get("tools"),
            generation=True,
            **first.chat_template_kwargs,
        )
        return first.with_prompt(prompt) if prompt else first

    def facts(self) -> RequestFacts | Finding:
        """Return the request facts of the dialect, or a finding if the dialect has no request facts."""
        if self.dialect is None:
            return Finding("problem", "There is no dialect, so requests cannot be planned.")
        try:
            row = facts_of(self.dialect)
        except SpecError as error:
            return Finding("problem", f"Requests cannot be planned: {error}.")
        return replace(row, thinking=dict(row.checkpoints)[self.checkpoint]) if self.checkpoint else row

    def find_checkpoint(self) -> str:
        """Return the family's checkpoint whose prompts open reasoning in the same way as this template.

        The result is empty if the template opens reasoning in the family's usual way.
        """
        reasoning, dialect = self.detection.reasoning, self.dialect
        if dialect is None or not reasoning.seed or self.detection.inferred:
            return ""
        try:
            facts = facts_of(dialect)
        except SpecError:
            return ""
        usual = facts.thinking
        if usual.seed.strip() == reasoning.seed.strip() and usual.default in ("on", "always"):
            return ""
        has_switch = bool(set(reasoning.switches).intersection(SWITCHES))
        matching = [each for each in facts.checkpoints if each[1].seed.strip() == reasoning.seed.strip()]
        matching.sort(key=lambda each: bool(each[1].switches) != has_switch)
        return matching[0][0] if matching else ""

    # -- findings

    def findings(self, cases: Sequence[TypicalRequest]) -> Iterator[Finding]:
        yield from self.template_findings()
        yield from self.vocabulary_findings()
        yield from self.end_findings()
        facts = self.facts()
        if isinstance(facts, Finding) and self.dialect is not None:
            yield facts
        for case in cases:
            for warning in case.warnings:
                level: Level = "warning" if case.decisions else "problem"
                yield Finding(level, f"Request with {case.name}: {warning}")
            break  # the warnings of all requests are the same

    def template_findings(self) -> Iterator[Finding]:
        detection = self.detection
        if not detection.tried:
            yield Finding(
                "warning" if detection.dialect is not None else "problem",
                "There is no chat template, so the results below were not checked against the model's "
                "own template.",
                "Pass the original model, whose files include the chat template",
            )
            return
        for warning in detection.warnings:
            yield Finding(
                "warning" if warning.startswith(f"{WITHOUT_TOOLS}:") else "problem",
                warning,
                "Engines that render with Transformers refuse such requests: fix the template, "
                "and pass the fixed file with --chat-template",
            )
        if detection.inferred:
            yield Finding(
                "warning",
                "No registered dialect reads what the template renders, so one was inferred from it.",
                "Check the declaration below, and register it under a name of its own",
            )
        elif not detection.renders_calls:
            yield Finding(
                "warning" if detection.hint else "note",
                "The template does not render tool calls, so earlier calls are missing from the prompt.",
                f"Pass the history through normalise_history(..., dialect={detection.hint!r})"
                if detection.hint
                else "Use another template if the model should call tools",
            )
        elif detection.dialect is None:
            yield Finding(
                "problem",
                f"The template renders tool calls that no dialect reads: {detection.turn[:200]!r}.",
                "Declare a dialect for it, as in docs/dialects.md; Detection.turn has the rendered text",
            )
        if detection.reasoning and not detection.reasoning.read:
            yield Finding(
                "warning",
                "The template renders reasoning that the dialect does not read, so reasoning stays in "
                "the content.",
                "Combine the dialect with the reasoning of another, as in 'hermes+deepseek_r1'",
            )
        for name, text in self.model.others.items():
            yield from self.other_template(name, text)

    def other_template(self, name: str, text: str) -> Iterator[Finding]:
        if text == self.model.template:
            return
        prefix = f"{self.model.origin} was examined, but {name} differs from it"
        try:
            other = detect_dialect(replace(self.model, template=text, origin=name))
        except UsageError as error:
            yield Finding(
                "warning", f"{prefix} and cannot be used: {error}.", "Remove it, or make both equal"
            )
            return
        ours = self.detection
        if (other.renders_calls, other.dialect) == (ours.renders_calls, ours.dialect):
            yield Finding("note", f"{prefix}; both have the same dialect.")
            return
        difference = "renders no tool calls" if not other.renders_calls else "has another dialect"
        if other.renders_calls and other.dialect is not None:
            difference = f"has the dialect {other.dialect.name}"
        yield Finding(
            "warning",
            f"{prefix} and {difference}; each engine uses a different one.",
            "Pass the template to the server, as in the flags below",
        )

    def vocabulary_findings(self) -> Iterator[Finding]:
        vocabulary = self.vocabulary
        if vocabulary is None:
            where = self.model.directory
            yield Finding(
                "problem" if where is not None else "warning",
                "There is no tokenizer, so it is not known which markers are special tokens; the "
                "results below "
                "assume what is usual for the family.",
                f"Put tokenizer.json (or tekken.json) into {where}"
                if where is not None
                else "Pass the model directory with its tokenizer.json",
            )
            return
        tokens = set(vocabulary.special_tokens().values())
        header = self.detection.prompt[-200:]
        rendered = self.template.render_turn(Message(content=ANSWER))
        boundary = header + rendered.rest + self.end_marker
        unknown = [
            token
            for token in dict.fromkeys(
                CONTROL_TOKEN.findall(self.detection.prompt + rendered.turn + rendered.rest)
            )
            if token not in tokens
        ]
        if unknown:
            what = "is not a token" if len(unknown) == 1 else "are not tokens"
            yield Finding(
                "problem" if any(token in boundary for token in unknown) else "warning",
                f"The template renders {listed(unknown)}, which {what} of the vocabulary, so the model sees "
                "ordinary pieces of text instead.",
                "Use the chat template and the tokenizer of the same model",
            )
        as_text = [
            marker.text
            for marker in self.markers()
            if marker.kind == "text" and CONTROL_TOKEN.fullmatch(marker.text) and marker.role != "end"
        ]
        if as_text:
            what = "is not a token" if len(as_text) == 1 else "are not tokens"
            yield Finding(
                "warning",
                f"{listed(as_text)} of the dialect {what} of the vocabulary, so the model writes "
                "pieces of text.",
                "Check that the tokenizer belongs to this model; if it does, nothing needs to change: "
                "unspool "
                "reads such text, too",
            )
        begin = self.model.tokens.get("bos_token")
        if begin and self.detection.prompt.startswith(begin) and self.model.config.get("add_bos_token"):
            yield Finding(
                "note",
                f"Both the template and the tokenizer add {begin} to the start of a prompt.",
                "Encode rendered prompts with add_special_tokens=False",
            )

    def end_findings(self) -> Iterator[Finding]:
        if (self.model.directory is None and self.end_ids is None) or not self.end_marker:
            return
        ids = {} if self.vocabulary is None else {v: k for k, v in self.vocabulary.special_tokens().items()}
        named = f"{self.end_marker} ({ids[self.end_marker]})" if self.end_marker in ids else self.end_marker
        # vLLM and SGLang stop at the end tokens of generation_config.json and at the tokenizer's eos_token.
        of_tokenizer = self.model.tokens.get("eos_token") == self.end_marker
        if self.end_ids is None:
            yield Finding(
                "note" if of_tokenizer else "warning",
                "There is no eos_token_id in generation_config.json or config.json, so "
                + (
                    f"only engines that read the tokenizer's eos_token, {self.end_marker}, know where "
                    "to stop "
                    "(vLLM and SGLang do)."
                    if of_tokenizer
                    else "generation does not stop at the end of a turn."
                ),
                f"Add eos_token_id with the id of {named}",
            )
        elif self.end_marker in ids and ids[self.end_marker] not in self.end_ids:
            yield self.runs_on(named, ids[self.end_marker], of_tokenizer=of_tokenizer)
        if self.dialect is not None:
            text = f"{ANSWER}{self.end_marker}"
            parsed = parse(text, self.dialect, prompt="" if self.dialect.frame is None else None)
            if self.dialect.frame is None and (parsed.content or "").strip() != ANSWER:
                yield Finding(
                    "note",
                    f"{self.dialect.name} does not know {self.end_marker}, which ends a turn of this "
                    "template, so it may stay in the content.",
                    "Make it an EOS token of the engine, which then drops it",
                )

    def runs_on(self, token: str, id: int, *, of_tokenizer: bool) -> Finding:
        """Return the finding that generation continues after the end of a turn.

        :param token: the end-of-turn token, as it is shown to the user.
        :param of_tokenizer: True if this token is the tokenizer's ``eos_token``.
        """
        stops = ", ".join(map(str, self.end_ids or ()))
        text = f"A turn ends with {token}, but generation stops only at {stops}, so the model runs on"
        if self.model.kind == "gguf":
            return Finding(
                "warning",
                f"{text}, unless the engine knows this token by its name (llama.cpp knows many).",
                f"Set tokenizer.ggml.eot_token_id to {id} (gguf-set-metadata does)",
            )
        exception = ", except in engines that stop at the tokenizer's eos_token, too (vLLM, SGLang)"
        return Finding(
            "problem",
            f"{text}{exception if of_tokenizer else ''}.",
            f"Add {id} to eos_token_id in generation_config.json",
        )

    def breaks(self) -> Iterator[Finding]:
        if self.dialect is None:
            return
        facts = self.facts()
        check = SettingsCheck(
            dialect=self.dialect,
            template=self.model.template,
            reasoning=self.detection.reasoning,
            has_reasoning=self.has_reasoning(),
            vocabulary=self.vocabulary,
            markers=tuple(self.markers()),
            facts=None if isinstance(facts, Finding) else facts,
        )
        yield from check.findings()

    # -- flags

    def flags(self) -> Mapping[EngineName, ServerFlags]:
        if self.dialect is None:
            return {}
        return server_flags(self.server_model(self.dialect))

    def server_model(self, dialect: Dialect) -> ServerModel:
        return ServerModel(
            dialect=dialect.name,
            model=str(self.model.directory or "MODEL"),
            weights=str(self.model.weights or "MODEL.gguf"),
            template=self.model.template,
            template_file=self.template_file(),
            has_calls=bool(dialect.call) or dialect.frame is not None,
            has_reasoning=self.has_reasoning(),
        )

    def template_file(self) -> str:
        """Return the template's path if an engine may use another template by default, else ``""``."""
        model = self.model
        if model.file is None or model.file.suffix != ".jinja":
            return ""
        only_one = all(text == model.template for text in model.others.values())
        usual = model.directory is not None and model.file.name == "chat_template.jinja"
        return "" if usual and only_one else str(model.file)

    def has_reasoning(self) -> bool:
        """Return whether the template renders reasoning, opens it in prompts, or has an option for it."""
        reasoning = self.detection.reasoning
        dialect = self.dialect
        framed = (
            dialect is not None
            and dialect.frame is not None
            and any(route.into == "reasoning" for route in dialect.frame.routes)
        )
        return framed or bool(reasoning) or bool(reasoning.switches)
