"""The doctor's report as Python values, JSON and a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...dialects import Dialect
from ...planning import DECISIONS
from ..detection.result import Detection
from ..sources import Source
from ..sources.source import EngineName as ServerName
from .engine_parser_table import VERSIONS, EngineName
from .server_flags import ServerFlags
from .training_checks import PREFIX_CASES, PrefixCase, Training

Level: TypeAlias = Literal["problem", "warning", "note"]
_DECLARATION_CLASSES: Final = ("Dialect", "Envelope", "Names", "RequestFacts", "Thinking", "Values")
"""Names of the classes that can appear in the source of an inferred dialect."""


class Finding(NamedTuple):
    """A problem with the setup and its fix, or a note about the setup."""

    level: Level
    text: str
    fix: str = ""


class Marker(NamedTuple):
    """A marker of the dialect, and the tokens that it consists of."""

    text: str
    role: str
    kind: str
    """The kind of the marker's tokens.

    * ``special``: tokens that ``skip_special_tokens`` removes.
    * ``token``: added tokens that ``skip_special_tokens`` keeps.
    * ``mixed``: tokens of both kinds.
    * ``text``: ordinary text.
    * ``unknown``: there is no tokenizer.
    """
    ids: tuple[int, ...] = ()


class TypicalRequest(NamedTuple):
    """A typical request, and the plan for it."""

    name: str
    decisions: Mapping[str, str]
    """Sentences that explain the decisions of the plan; empty if the request is refused."""
    warnings: tuple[str, ...]
    settings: Mapping[str, object]
    """The settings that the plan passes to the engine."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of diagnosing a model's setup."""

    source: Source
    """The source of the model."""
    detection: Detection
    dialect: Dialect | None
    """The dialect that was checked: the detected dialect, or a dialect that the template only mentions."""
    checkpoint: str
    """The checkpoint whose request facts are used; empty if the request facts of the family apply."""
    tokenizer: str
    """The file or other source of the vocabulary; empty if there is no vocabulary."""
    markers: tuple[Marker, ...]
    cases: tuple[TypicalRequest, ...]
    findings: tuple[Finding, ...]
    """Problems with the template, the tokenizer or the dialect."""
    breaks: tuple[Finding, ...]
    """Common server settings that would break the output without an error message."""
    flags: Mapping[EngineName, ServerFlags]
    """Commands that start a server for the model, keyed by engine."""
    training: Training | None
    """Properties of the template that matter for training; None if there is no template."""

    @property
    def healthy(self) -> bool:
        """True if there are no findings with level ``problem``."""
        return not any(finding.level == "problem" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values."""
        return {
            "healthy": self.healthy,
            "template": self.source.origin,
            "source": self.source.to_dict(),
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
            "training": None if self.training is None else self.training.to_dict(),
            "flags": {
                engine: {
                    "command": flags.command,
                    "notes": list(flags.notes),
                    "instead": flags.instead,
                    "because": list(flags.because),
                    "as_of": VERSIONS[engine],
                }
                for engine, flags in self.flags.items()
            },
        }

    def markdown(self) -> str:
        """Format the diagnosis as a Markdown page."""
        return "\n".join(_diagnosis_lines(self)).rstrip() + "\n"


# -- the page

LEVELS: Final[tuple[Level, ...]] = ("problem", "warning", "note")
_COLUMNS: Final = (
    "request",
    "special tokens",
    "reasoning",
    "output begins in",
    "calls",
    "enforced by",
    "stripped",
)
_ENGINES: Final[Mapping[EngineName, str]] = {"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp"}
_SERVERS: Final[Mapping[ServerName, str]] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "unspool": "an unspool gateway",
    "openai": "an unknown engine",
}
_KINDS: Final = {
    "special": "special token",
    "token": "token, not special",
    "mixed": "tokens, some of them special",
    "text": "text",
    "unknown": "unknown: no tokenizer",
}


def detection_page(detection: Detection, source: Source) -> str:
    """Format a detection as a Markdown page."""
    return "\n".join(_detection_lines(detection, source)).rstrip() + "\n"


def _detection_lines(detection: Detection, source: Source) -> Iterator[str]:
    if detection.dialect is not None and detection.renders_calls:
        yield f"# {detection.dialect.name}"
    elif not detection.tried:
        yield "# The dialect is unknown"
    elif not detection.renders_calls:
        yield "# This template does not render tool calls"
    else:
        yield "# No dialect reads these calls"
    yield ""
    label = "Template" if detection.tried else "Source"
    yield f"{label}: {source.origin}. Confidence: {detection.confidence:.2f}."
    yield ""
    facts = ", ".join(_model_facts(source))
    if facts:
        yield f"Model: {facts}."
        yield ""
    for sentence in detection.evidence:
        yield f"- {_escaped(sentence)}"
    for warning in detection.warnings:
        yield f"- **Warning**: {_escaped(warning)}"
    yield ""
    if detection.runners_up:
        yield f"Runners-up: {', '.join(detection.runners_up)}."
        yield ""
    if detection.inferred:
        yield "**Warning**: this dialect was inferred from the template. To use it, paste and register it:"
        yield ""
        words = [word for word in _DECLARATION_CLASSES if f"{word}(" in detection.declaration]
        imports = ", ".join([*words, "register"])
        yield from _fenced("python", f"from unspool import {imports}\n\n{detection.declaration}")
    elif detection.renders_calls and detection.dialect is None:
        yield "The turn that the template renders:"
        yield ""
        yield from _fenced("text", detection.turn)


def _model_facts(source: Source) -> Iterator[str]:
    """Yield short facts about the model, such as its name and its context length."""
    if source.name:
        yield source.name
    if source.engine is not None:
        yield f"served by {_SERVERS[source.engine]}"
    if source.model_type:
        yield f"architecture {source.model_type}"
    if source.context_length is not None:
        yield f"{source.context_length:,} tokens of context"
    if source.end_ids:
        known = {} if source.vocabulary is None else source.vocabulary.special_tokens()
        ends = (f"{id} {known[id]}" if id in known else str(id) for id in source.end_ids)
        yield f"ends with {_escaped(' or '.join(ends))}"
    if source.vocabulary is not None:
        yield f"{len(source.vocabulary.special_tokens()):,} tokens that are matched as a whole"


def _diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _detection_lines(diagnosis.detection, diagnosis.source)
    yield "## Setup"
    yield ""
    if not diagnosis.healthy:
        yield "The setup has problems. Change this:"
    elif diagnosis.findings:
        yield "The setup is good. Notes:"
    else:
        yield "The setup is good."
    yield ""
    yield from _finding_lines(diagnosis.findings)
    if diagnosis.markers:
        yield "## Markers"
        yield ""
        yield f"Vocabulary: {diagnosis.tokenizer or 'none was found'}."
        yield ""
        rows = [
            (_spanned(each.text), each.role, _KINDS[each.kind], " ".join(map(str, each.ids)))
            for each in diagnosis.markers
        ]
        yield from _table(("marker", "role", "in the vocabulary", "ids"), rows)
    if diagnosis.cases:
        yield "## Plans of typical requests"
        yield ""
        if diagnosis.checkpoint:
            yield (
                f"The template opens reasoning like {diagnosis.checkpoint}, so requests are planned "
                "for that checkpoint."
            )
            yield ""
        yield from _table(_COLUMNS, map(_case_row, diagnosis.cases))
        for name in DECISIONS:
            sentences = dict.fromkeys(case.decisions[name] for case in diagnosis.cases if case.decisions)
            if sentences:
                yield f"- {name}: {_escaped('; '.join(sentences))}"
        for case in diagnosis.cases:
            for warning in case.warnings:
                kind = "warning" if case.decisions else "refused"
                yield f"- **{case.name}** ({kind}): {_escaped(warning)}"
        yield ""
    if diagnosis.breaks:
        yield "## Server settings that break the output"
        yield ""
        yield from _finding_lines(diagnosis.breaks)
    if diagnosis.training is not None:
        yield from _training_lines(diagnosis.training)
    if diagnosis.flags:
        yield "## Flags"
        yield ""
        for engine, flags in diagnosis.flags.items():
            yield from _flag_lines(engine, flags)


_VERDICTS: Final = {
    "kept": "kept",
    "broken": "**broken**",
    "refused": "refused by the template",
    "opens": "every prompt opens reasoning",
}


def _training_lines(training: Training) -> Iterator[str]:
    yield "## Training"
    yield ""
    yield "Does the next prompt still start with the sampled tokens, after this is appended?"
    yield ""
    titles = {False: "without reasoning", True: "with reasoning"}
    modes = [thinking for thinking in titles if any(case.thinking is thinking for case in training.prefixes)]
    verdicts = {(case.appended, case.thinking): _VERDICTS[case.verdict] for case in training.prefixes}
    rows = [
        (appended, *(verdicts[appended, thinking] for thinking in modes))
        for appended in PREFIX_CASES
        if (appended, False) in verdicts
    ]
    yield from _table(("appended", *(titles[thinking] for thinking in modes)), rows)
    yield from _difference_lines(training.prefixes)
    yield f"- {_mask_sentence(training)}"
    if training.empty_block:
        yield (
            f"- With reasoning switched off, a prompt ends with `{training.empty_block!r}`. The model "
            "did not write "
            "it, so a mask must leave it out."
        )
    yield ""


def _difference_lines(cases: Sequence[PrefixCase]) -> Iterator[str]:
    shown: set[tuple[str, str]] = set()
    for case in cases:
        if case.difference is None:
            continue
        divergence = (
            case.difference.was[case.difference.at :][:20],
            case.difference.now[case.difference.at :][:20],
        )
        if divergence not in shown:
            shown.add(divergence)
            yield f"{case.appended.capitalize()}, {'with' if case.thinking else 'without'} reasoning:"
            yield ""
            yield from _fenced("text", case.difference.show())


def _mask_sentence(training: Training) -> str:
    mask = training.mask
    if not mask.answer:
        return (
            "`{% generation %}` marks nothing, so the assistant mask of Transformers is all zeros: use the "
            "labels of `unspool.tokens.label_tokens` instead"
        )
    outside = [
        name
        for name, inside in (
            ("the end of the turn", mask.end_of_turn),
            ("calls", mask.calls),
            ("reasoning", mask.reasoning),
        )
        if inside is False
    ]
    sentence = (
        f"`{{% generation %}}` marks what the model writes{', but not ' + listed(outside) if outside else ''}"
    )
    if mask.empty_block:
        sentence += "; it also marks an empty block of reasoning, which the template writes, not the model"
    return f"{sentence}."


def _flag_lines(engine: EngineName, flags: ServerFlags) -> Iterator[str]:
    yield f"{_ENGINES[engine]} (as of {VERSIONS[engine]}):"
    yield ""
    yield from _command_lines(flags.command)
    if flags.instead:
        yield from _instead_lines(flags)
        return
    for note in flags.notes:
        yield f"- {_escaped(note)}."
    if flags.notes:
        yield ""


def _command_lines(command: str) -> Iterator[str]:
    """Yield the lines of a command, one flag per line, because a long line could be wrapped inside a flag."""
    yield from _fenced("sh", command.replace(" --", " \\\n    --"))


def _instead_lines(flags: ServerFlags) -> Iterator[str]:
    """Yield the known faults of the engine's own parsers, and the command with unspool's parsers."""
    yield "Known faults of its own parsers:"
    yield ""
    for reason in flags.because:
        yield f"- {_escaped(reason)}."
    yield ""
    yield "Better: run `pip install unspool` in its environment (docs/engines.md), and start it with:"
    yield ""
    yield from _command_lines(flags.instead)


def _case_row(case: TypicalRequest) -> tuple[str, ...]:
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
    """Format words that contain Markdown syntax as inline code, so that they are shown unchanged."""
    return re.sub(r"\S*[<\[|*`]\S*?(?=[.,;:)]*(?:\s|$))", lambda word: _spanned(word[0]), text)


def _spanned(text: str) -> str:
    """Format text as inline code, with delimiters longer than any run of backticks in the text."""
    runs = re.findall("`+", text)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if runs else ""
    return f"{fence}{pad}{text}{pad}{fence}"


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


def listed(words: Sequence[str], word: str = "and") -> str:
    """Join words for use in a sentence: ``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(words[:-1]), words[-1])))
