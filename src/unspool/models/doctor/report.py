"""What the doctor says: the report as values, as JSON and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...dialects._declaration import Dialect
from ...planning._build_plan import WHY
from ..detect.result import Detection
from ..sources import Source
from ..sources.source import EngineName as ServerName
from .engine_parsers import VERSIONS, EngineName, Flags
from .training_checks import CASES, PrefixCase, Training

Level: TypeAlias = Literal["problem", "warning", "note"]
_WORDS: Final = ("Dialect", "Envelope", "Names", "RequestFacts", "Thinking", "Values")
"""What an inferred declaration may be made of."""


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


class TypicalRequest(NamedTuple):
    """A typical request, and what is decided about it."""

    name: str
    decisions: Mapping[str, str]
    """PRE.1 to PRE.6, a sentence each; empty if the request is refused."""
    warnings: tuple[str, ...]
    settings: Mapping[str, object]
    """What the backend is told."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor found."""

    source: Source
    """What was examined."""
    detection: Detection
    dialect: Dialect | None
    """What the rest of the report is about: the dialect, or the one that the template hints at."""
    checkpoint: str
    """The checkpoint that requests are planned for, where they differ from the family's."""
    tokenizer: str
    """Where the vocabulary was found; empty: nowhere."""
    markers: tuple[Marker, ...]
    cases: tuple[TypicalRequest, ...]
    findings: tuple[Finding, ...]
    """Whether template, tokenizer and dialect agree."""
    breaks: tuple[Finding, ...]
    """What common settings of servers would do to the output, silently."""
    flags: Mapping[EngineName, Flags]
    """By engine."""
    training: Training | None
    """What those who train the model must know of the template; None: there is none."""

    @property
    def healthy(self) -> bool:
        """Whether nothing must be changed."""
        return not any(finding.level == "problem" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
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
        """The same for people."""
        return "\n".join(_diagnosis_lines(self)).rstrip() + "\n"


# -- the page

LEVELS: Final[tuple[Level, ...]] = ("problem", "warning", "note")
_COLUMNS: Final = (
    "request",
    "special tokens",
    "reasoning",
    "output begins in",
    "calls",
    "held to them by",
    "stripped",
)
_ENGINES: Final[Mapping[EngineName, str]] = {"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp"}
_SERVERS: Final[Mapping[ServerName, str]] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "openai": "an engine that does not say which",
}
_KINDS: Final = {
    "special": "special token",
    "token": "token, not special",
    "mixed": "tokens, special in part",
    "text": "text",
    "unknown": "unknown: no tokenizer",
}


def detection_page(found: Detection, source: Source) -> str:
    """A detection for people, as Markdown."""
    return "\n".join(_detection_lines(found, source)).rstrip() + "\n"


def _detection_lines(found: Detection, source: Source) -> Iterator[str]:
    if found.dialect is not None and found.renders_calls:
        yield f"# {found.dialect.name}"
    elif not found.tried:
        yield "# The dialect cannot be told"
    elif not found.renders_calls:
        yield "# This template renders no tool calls"
    else:
        yield "# No dialect reads these calls"
    yield ""
    what = "Template" if found.tried else "Looked at"
    yield f"{what}: {source.origin}. Confidence: {found.confidence:.2f}."
    yield ""
    told = ", ".join(_told(source))
    if told:
        yield f"Model: {told}."
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
        words = [word for word in _WORDS if f"{word}(" in found.declaration]
        imports = ", ".join([*words, "register"])
        yield from _fenced("python", f"from unspool import {imports}\n\n{found.declaration}")
    elif found.renders_calls and found.dialect is None:
        yield "The turn that the template renders:"
        yield ""
        yield from _fenced("text", found.turn)


def _told(source: Source) -> Iterator[str]:
    """What else the source tells of the model."""
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
    yield "## Does it fit together?"
    yield ""
    if not diagnosis.healthy:
        yield "No. This must be changed:"
    elif diagnosis.findings:
        yield "Yes. What to know:"
    else:
        yield "Yes."
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
        yield "## What is decided about typical requests"
        yield ""
        if diagnosis.checkpoint:
            yield f"The template opens reasoning as that of {diagnosis.checkpoint} does: planned as such."
            yield ""
        yield from _table(_COLUMNS, map(_case_row, diagnosis.cases))
        for name in WHY:
            sentences = dict.fromkeys(case.decisions[name] for case in diagnosis.cases if case.decisions)
            if sentences:
                yield f"- {name}: {_escaped('; '.join(sentences))}"
        for case in diagnosis.cases:
            for warning in case.warnings:
                kind = "warning" if case.decisions else "refused"
                yield f"- **{case.name}** ({kind}): {_escaped(warning)}"
        yield ""
    if diagnosis.breaks:
        yield "## What would break without a word"
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
    yield "## For training"
    yield ""
    yield "Whether the next prompt begins with what was sampled, when this is appended:"
    yield ""
    titles = {False: "without reasoning", True: "with reasoning"}
    modes = [thinking for thinking in titles if any(case.thinking is thinking for case in training.prefixes)]
    verdicts = {(case.appended, case.thinking): _VERDICTS[case.verdict] for case in training.prefixes}
    rows = [
        (appended, *(verdicts[appended, thinking] for thinking in modes))
        for appended in CASES
        if (appended, False) in verdicts
    ]
    yield from _table(("appended", *(titles[thinking] for thinking in modes)), rows)
    yield from _difference_lines(training.prefixes)
    yield f"- {_mask_sentence(training)}"
    if training.empty_block:
        yield (
            f"- Told not to reason, a prompt ends with `{training.empty_block!r}`, which is not the model's: "
            "a mask leaves it out."
        )
    yield ""


def _difference_lines(cases: Sequence[PrefixCase]) -> Iterator[str]:
    shown: set[tuple[str, str]] = set()
    for case in cases:
        if case.difference is None:
            continue
        parted = (
            case.difference.was[case.difference.at :][:20],
            case.difference.now[case.difference.at :][:20],
        )
        if parted not in shown:
            shown.add(parted)
            yield f"{case.appended.capitalize()}, {'with' if case.thinking else 'without'} reasoning:"
            yield ""
            yield from _fenced("text", case.difference.show())


def _mask_sentence(training: Training) -> str:
    mask = training.mask
    if not mask.answer:
        return (
            "`{% generation %}` marks nothing: the mask of assistant tokens that Transformers makes is all "
            "zeros. Take the labels of `unspool.tokens.label_tokens`"
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
    words = (
        f"`{{% generation %}}` marks what the model says{', but not ' + listed(outside) if outside else ''}"
    )
    if mask.empty_block:
        words += "; an empty block of reasoning, which the template writes by itself, is marked with it"
    return f"{words}."


def _flag_lines(engine: EngineName, flags: Flags) -> Iterator[str]:
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
    """One flag a line: terminals would break lines elsewhere."""
    yield from _fenced("sh", command.replace(" --", " \\\n    --"))


def _instead_lines(flags: Flags) -> Iterator[str]:
    """What is known against the engine's own parsers, and how to have ours inside it."""
    yield "What is known against its own parsers:"
    yield ""
    for reason in flags.because:
        yield f"- {_escaped(reason)}."
    yield ""
    yield "Better, with `pip install unspool` in its environment (docs/engines.md):"
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
    """Words with markup in them as code: Markdown would take them for its own."""
    return re.sub(r"\S*[<\[|*`]\S*?(?=[.,;:)]*(?:\s|$))", lambda word: _spanned(word[0]), text)


def _spanned(text: str) -> str:
    """Text as code, between more backticks than it has itself."""
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
    """Words as a list in a sentence."""
    return f" {word} ".join(filter(None, (", ".join(words[:-1]), words[-1])))
