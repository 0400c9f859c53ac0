"""Dialect detection for models without a chat template.

The evidence, strongest first:

1. The tool call parser that the engine is configured to use.
2. The name of the model or of its family, if the markers in the Go template agree with that name.
3. The markers in the Go template alone.
4. The name alone.

If there is no evidence, the result lists the places that were examined and the next steps for the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ...dialects import Dialect
from ...dialects.model_names import NamedModel, dialect_of, known_model
from ...errors import UnknownDialect
from ..sources import Source
from .identifying_markers import call_markers, other_markers
from .result import Detection

_BY_PARSER: Final = 0.9
_BY_NAME_AND_MARKERS: Final = 0.85
_BY_MARKERS: Final = 0.7
_BY_NAME: Final = 0.6
"""Confidence in a dialect that was found only by its name; the constants above are for other evidence."""


def detect_without_template(source: Source, dialects: Iterable[Dialect]) -> Detection:
    """Detect the dialect of a source without a chat template."""
    return _Detection(source, tuple(dialects)).detection()


class _Detection:
    """Detection of one source's dialect from its parser setting, its names and its Go template."""

    def __init__(self, source: Source, dialects: tuple[Dialect, ...]) -> None:
        self.source = source
        self.dialects = dialects
        self.evidence = [self.examined()]

    def examined(self) -> str:
        """Return a sentence about the kind of evidence: a Go template, or only names."""
        if self.source.go_template:
            return "There is only a Go template, which unspool searches for markers but cannot render."
        return "There is no chat template, so only names were compared."

    def detection(self) -> Detection:
        dialect = self.by_parser()
        if dialect is not None:
            return self.result(dialect, _BY_PARSER)
        marked = self.by_markers()
        named = list(self.by_names())
        for model in named:
            if any(model.dialect == each for each in marked):
                self.evidence.append(f"{model.why[0].upper()}{model.why[1:]} ({model.asked}).")
                self.evidence.append(self.markers_sentence(model.dialect))
                return self.result(model.dialect, _BY_NAME_AND_MARKERS, marked)
        if marked:
            self.evidence.append(self.markers_sentence(marked[0]))
            return self.result(marked[0], _BY_MARKERS, marked)
        if named:
            self.evidence.append(f"{named[0].why[0].upper()}{named[0].why[1:]} ({named[0].asked}).")
            if self.source.go_template:
                self.evidence.append("The Go template has no calls, so Ollama will not offer it tools.")
            return self.result(named[0].dialect, _BY_NAME)
        return self.no_result()

    def by_parser(self) -> Dialect | None:
        parser = self.source.parser
        if not parser:
            return None
        try:
            dialect = dialect_of(parser).dialect
        except UnknownDialect:
            self.evidence.append(
                f"Its engine is configured for the parser {parser}, which unspool does not know."
            )
            return None
        if self.source.engine == "unspool":
            self.evidence = [f"The gateway is configured for the dialect {dialect.name}."]
        else:
            self.evidence.append(
                f"Its engine is configured for the parser {parser}, which reads {dialect.name}."
            )
        return dialect

    def by_names(self) -> Iterator[NamedModel]:
        for name in dict.fromkeys((self.source.name, *self.source.families, self.source.model_type)):
            model = known_model(name) if name else None
            if model is not None and model.dialect in self.dialects:
                yield model

    def by_markers(self) -> list[Dialect]:
        """Return the dialects whose call markers the Go template contains, the likeliest first."""
        text = self.source.go_template
        ranked: list[tuple[tuple[float, ...], Dialect]] = []
        for dialect in self.dialects:
            markers = call_markers(dialect, params=True)
            if text and markers and all(marker in text for marker in markers):
                others = other_markers(dialect)
                present = sum(marker in text for marker in others)
                marks = sum(mark in text for mark in dialect.family.fingerprint)
                missing = bool(dialect.family.fingerprint) and not marks
                length = sum(map(len, markers))
                score = (marks - missing, length, present / len(others) if others else 0.0)
                ranked.append(((*score, len(dialect.family.aliases)), dialect))
        ranked.sort(key=lambda each: each[0], reverse=True)
        marked = {dialect: set(call_markers(dialect, params=True)) for _, dialect in ranked}
        # Leave out less specific dialects: those whose markers are a proper subset of another dialect's
        # markers.
        return [one for one in marked if not any(marked[one] < other for other in marked.values())]

    def markers_sentence(self, dialect: Dialect) -> str:
        return f"The template contains markers of {dialect.name}: {', '.join(call_markers(dialect)[:4])}."

    def result(self, dialect: Dialect, confidence: float, others: Iterable[Dialect] = ()) -> Detection:
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=False,
            confidence=confidence,
            evidence=tuple(self.evidence),
            runners_up=tuple(each.name for each in others if each != dialect)[:5],
            tried=False,
        )

    def no_result(self) -> Detection:
        names = [name for name in (self.source.name, *self.source.families, self.source.model_type) if name]
        if names:
            self.evidence.append(f"There is no dialect for these names: {', '.join(dict.fromkeys(names))}.")
        if self.source.go_template:
            self.evidence.append("The Go template does not contain the markers of any dialect.")
        self.evidence.append(
            "Pass the chat template of the original model (its name on the Hugging Face hub or its "
            "chat_template.jinja), or choose the dialect yourself."
        )
        return Detection(
            dialect=None,
            renders_calls=False,
            renders_reasoning=False,
            confidence=0.0,
            evidence=tuple(self.evidence),
            runners_up=(),
            tried=False,
        )
