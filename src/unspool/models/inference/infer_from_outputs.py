"""Inference of a dialect from raw outputs of a model.

How it works:

1. Calls are found by the names of the tools and the keys of their arguments, under several assumptions about
   how calls are written (``find_calls.py``, ``find_parameters.py``).
2. What is common around the calls is markup (``divide_text_around_calls.py``).  What is common at the start
   of the remaining text, and after it, are the markers of reasoning and content
   (``find_reasoning_and_content_markers.py``).
3. Each combination is a dialect, which must explain the outputs: parse them, with all calls that were found,
   and render the messages back to the same text (``proof.py``).  The dialect that explains most outputs wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from ...dialects import Dialect, list_dialects
from ...errors import SpecError, UsageError
from ...message import Message
from ...parser import ToolList, parse
from ..convert.python_source import python_source
from ..detection.detect_dialect import detect_dialect
from ..sources import read_template
from .build_dialect import build_dialect, build_without_calls, with_texts_of
from .common_text import has_marker
from .divide_text_around_calls import Layout, layouts
from .find_calls import readings
from .find_parameters import tagged_parameters
from .find_reasoning_and_content_markers import end_of_turn, possible_wrappers
from .found_calls import Reading, without_mentions
from .outputs import Output, OutputLike, to_outputs
from .proof import OutputProof, prove

_POINTS: Final = {"equal": 4, "spelling": 4, "different": 2, "": 0}
"""Points of a dialect for an output, by how the output is rendered back."""


@dataclass(frozen=True, slots=True)
class InferredDialect:
    """A dialect that was inferred from outputs, with the proof for every output."""

    dialect: Dialect
    """The dialect.  It has no request facts, which outputs cannot show."""
    proofs: tuple[OutputProof, ...]
    """How well the dialect explains each output, in the order of the outputs."""
    evidence: tuple[str, ...] = ()
    """Sentences that explain how the dialect was inferred."""
    same_as: tuple[str, ...] = ()
    """Names of registered dialects that parse all outputs to the same messages."""

    @property
    def declaration(self) -> str:
        """The dialect as Python source."""
        return python_source(self.dialect)

    @property
    def unexplained(self) -> tuple[OutputProof, ...]:
        """The proofs of the outputs that the dialect does not explain."""
        return tuple(proof for proof in self.proofs if not proof.explained)

    def __repr__(self) -> str:
        explained = len(self.proofs) - len(self.unexplained)
        return f"InferredDialect({self.dialect.name!r}, explained={explained}/{len(self.proofs)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "name": self.dialect.name,
            "declaration": self.declaration,
            "explained": len(self.proofs) - len(self.unexplained),
            "outputs": len(self.proofs),
            "evidence": list(self.evidence),
            "same_as": list(self.same_as),
            "proofs": [proof.to_dict() for proof in self.proofs],
        }


def infer_dialect(
    outputs: Iterable[OutputLike],
    *,
    tools: ToolList | None = None,
    template: str | None = None,
    name: str = "inferred",
    dialects: Iterable[Dialect] | None = None,
) -> InferredDialect:
    """Infer the dialect of a model from a few dozen of its raw outputs.

    The outputs should differ: with and without calls, several calls in one output, different tools, arguments
    of all types, reasoning and content.  What never varies cannot be told from markup.

    :param outputs: texts, or mappings with ``text`` and optionally ``tools`` and ``prompt``.
    :param tools: the tools of all outputs that have none of their own.
    :param template: the text of the model's chat template, as further evidence.
    :param name: the name for the dialect.
    :param dialects: dialects to compare with; by default, all registered dialects.
    """
    if isinstance(outputs, str):
        raise UsageError("infer_dialect() takes several outputs: pass a list of texts")
    rows = to_outputs(outputs, tools)
    best = _best_of_readings(rows, name)
    if template is not None:
        best = max((best, *_from_template(template, rows, name)), key=lambda each: each.score)
    known = list_dialects() if dialects is None else dialects
    return InferredDialect(best.dialect, best.proofs, best.evidence, _same_as(best, rows, known))


class _Candidate:
    """A dialect that may explain the outputs."""

    def __init__(
        self, dialect: Dialect, outputs: Sequence[Output], reading: Reading, evidence: tuple[str, ...]
    ) -> None:
        self.dialect = dialect
        self.evidence = evidence
        names = [[call.name for call in calls] for calls in reading.calls]
        if not reading.count:
            # The text may have calls that were not found, so a mention of a tool is not explained.
            names = [[match[0] for match in output.names()] for output in outputs]
        self.proofs = tuple(
            prove(dialect, output, line, found)
            for line, (output, found) in enumerate(zip(outputs, names, strict=True), 1)
        )
        visible = sum(
            len(proof.message.content or "") + len(proof.message.reasoning or "") for proof in self.proofs
        )
        equal = sum(proof.rendered == "equal" for proof in self.proofs)
        self.score = (sum(map(_points, self.proofs)), -visible, equal)
        """Points for the outputs.  Of dialects with equal points, the one that leaves less text is better,
        because more of the text is markup."""


def _points(proof: OutputProof) -> int:
    """Return the points for an output; it counts more if it has calls."""
    if proof.problem:
        return 0
    return _POINTS[proof.rendered] + 2 * len(proof.message.tool_calls)


def _best_of_readings(outputs: Sequence[Output], name: str) -> _Candidate:
    """Return the dialect that explains most outputs."""
    likely = _likely_readings(outputs)
    best = max(_without_calls(outputs, likely[0], name), key=lambda each: each.score)
    for reading in likely:
        best = max((best, *_from_reading(reading, outputs, name)), key=lambda each: each.score)
        if all(proof.explained for proof in best.proofs):
            break  # other readings find the same calls or fewer
    return best


def _likely_readings(outputs: Sequence[Output]) -> list[Reading]:
    """Return the readings that find calls, those with most calls first; or one that finds none."""
    found = [without_mentions(each, outputs) for each in (*readings(outputs), *tagged_parameters(outputs))]
    # The sort is stable, so of readings with equally many calls the stricter notation comes first.
    likely = sorted((each for each in found if each.count), key=lambda each: -each.count)
    return likely or [Reading("", tuple(() for _ in outputs), "")]


def _without_calls(outputs: Sequence[Output], reading: Reading, name: str) -> Iterator[_Candidate]:
    """Yield dialects without calls, for outputs that have none or whose calls cannot be declared."""
    texts = [output.text for output in outputs]
    stop = end_of_turn(texts, [False] * len(texts))
    why = "The calls in the outputs have no markers that a dialect can declare."
    if not reading.count:
        why = "No calls were found in the outputs."
    for wrappers in possible_wrappers([_without_stop(text, stop) for text in texts]):
        with suppress(SpecError):  # the declaration language cannot express every combination
            yield _Candidate(build_without_calls(name, wrappers, stop), outputs, reading, (why,))


def _from_reading(reading: Reading, outputs: Sequence[Output], name: str) -> Iterator[_Candidate]:
    """Yield the dialects that are possible with the calls of a reading."""
    if not reading.count:
        return
    with_calls = [bool(calls) for calls in reading.calls]
    texts = [output.text for output in outputs]
    stop = end_of_turn(texts, with_calls)
    texts = [_without_stop(text, stop) for text in texts]
    where = f"{reading.where_calls_are()} of {len(outputs)} outputs"
    evidence = (f"{reading.count} calls in {where} are written as {reading.notation}.",)
    for layout in layouts(reading, texts):
        for wrappers in possible_wrappers(_texts_without_calls(texts, layout)):
            with suppress(SpecError):
                dialect = build_dialect(name, reading, layout, wrappers, stop)
                yield _Candidate(dialect, outputs, reading, evidence)


def _without_stop(text: str, stop: str) -> str:
    """Return a text without the marker that ends the turn, if there is one."""
    if not stop:
        return text
    end = text.rstrip()
    return end.removesuffix(stop) if end.endswith(stop) else text


def _texts_without_calls(texts: Sequence[str], layout: Layout) -> list[str]:
    """Return the texts before and after calls, without calls that are not complete."""
    found: list[str] = []
    opener = layout.opener_text.strip()
    for text, start, end in zip(texts, layout.starts, layout.ends, strict=True):
        if start < 0:
            found.append(text.partition(opener)[0] if has_marker(opener) else text)
            continue
        before = text[:start].removesuffix(layout.glue)
        # Whitespace after reasoning belongs to its closer.
        found += [text[:start] if before[-1:].isspace() else before, text[end:]]
    return found


def _from_template(template: str, outputs: Sequence[Output], name: str) -> Iterator[_Candidate]:
    """Yield the dialects that the chat template suggests, also with the reasoning markers of the outputs."""
    detected = detect_dialect(read_template(template), dialects=()).dialect
    if detected is None:
        return
    dialect = replace(detected, name=name)
    reading = _likely_readings(outputs)[0]
    evidence = ("The chat template renders calls in this format.",)
    yield _Candidate(dialect, outputs, reading, evidence)
    for candidate in _from_reading(reading, outputs, name):
        mixed = with_texts_of(dialect, candidate.dialect)
        yield _Candidate(mixed, outputs, reading, (*evidence, *candidate.evidence))


def _same_as(best: _Candidate, outputs: Sequence[Output], dialects: Iterable[Dialect]) -> tuple[str, ...]:
    """Return the names of the dialects that parse all outputs to the same messages."""
    if any(proof.problem for proof in best.proofs) or not any(p.message.tool_calls for p in best.proofs):
        return ()
    names: list[str] = []
    for dialect in dialects:
        for output, proof in zip(outputs, best.proofs, strict=True):
            message = parse(output.text, dialect, tools=output.tools, prompt=output.prompt)
            if message.diagnostics or not _equal(message, proof):
                break
        else:
            names.append(dialect.name)
    return tuple(names)


def _equal(message: Message, proof: OutputProof) -> bool:
    one, other = (
        (each.content, each.reasoning, [(call.name, call.arguments) for call in each.tool_calls])
        for each in (message, proof.message)
    )
    return one == other
