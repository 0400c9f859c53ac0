"""A model without a chat template that could be tried: what else tells its dialect.

In this order: the parser that its engine was told to use, the name of the model and of
its family, the markers in a template of Go's.  A name is believed only as far as the
template, if there is one, does not speak of something else.  Where nothing tells, that
is the answer, with what was looked at and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ...dialects._declaration import Dialect
from ...dialects._registry import get_dialect
from ...errors import UnknownDialect
from ..sources import Source
from .markers import call_markers, furniture
from .model_names import Known, known_model
from .result import Detection

_BY_PARSER: Final = 0.9
_BY_BOTH: Final = 0.85
_BY_MARKERS: Final = 0.7
_BY_NAME: Final = 0.6


def guess(source: Source, dialects: Iterable[Dialect]) -> Detection:
    """The dialect of a source that has no chat template."""
    return _Guess(source, tuple(dialects)).detection()


class _Guess:
    def __init__(self, source: Source, dialects: tuple[Dialect, ...]) -> None:
        self.source = source
        self.dialects = dialects
        self.evidence = [self.looked()]

    def looked(self) -> str:
        """What there is instead of a chat template."""
        if self.source.go_template:
            return (
                "There is no chat template in Jinja, only one of Ollama's: it is not run, its text is read."
            )
        return "There is no chat template: only names tell."

    def detection(self) -> Detection:
        dialect = self.by_parser()
        if dialect is not None:
            return self.found(dialect, _BY_PARSER)
        spoken = self.by_markers()
        named = list(self.by_names())
        for known in named:
            if any(known.dialect == each for each in spoken):
                self.evidence.append(f"{known.why[0].upper()}{known.why[1:]} ({known.asked}).")
                self.evidence.append(self.markers_sentence(known.dialect))
                return self.found(known.dialect, _BY_BOTH, spoken)
        if spoken:
            self.evidence.append(self.markers_sentence(spoken[0]))
            return self.found(spoken[0], _BY_MARKERS, spoken)
        if named:
            self.evidence.append(f"{named[0].why[0].upper()}{named[0].why[1:]} ({named[0].asked}).")
            if self.source.go_template:
                self.evidence.append("The template shows no calls: Ollama will not offer it tools.")
            return self.found(named[0].dialect, _BY_NAME)
        return self.nothing()

    def by_parser(self) -> Dialect | None:
        parser = self.source.parser
        if not parser:
            return None
        try:
            dialect = get_dialect(parser)
        except UnknownDialect:
            self.evidence.append(f"Its engine is told to use the parser {parser}, which is not known here.")
            return None
        self.evidence.append(f"Its engine is told to use the parser {parser}, which is {dialect.name}.")
        return dialect

    def by_names(self) -> Iterator[Known]:
        for name in dict.fromkeys((self.source.name, *self.source.families, self.source.model_type)):
            known = known_model(name) if name else None
            if known is not None and known.dialect in self.dialects:
                yield known

    def by_markers(self) -> list[Dialect]:
        """The dialects of whose calls the template speaks, the likelier first."""
        text = self.source.go_template
        ranked: list[tuple[tuple[float, ...], Dialect]] = []
        for dialect in self.dialects:
            markers = call_markers(dialect, params=True)
            if text and markers and all(marker in text for marker in markers):
                around = furniture(dialect)
                known = sum(literal in text for literal in around)
                marks = sum(mark in text for mark in dialect.family.fingerprint)
                missing = bool(dialect.family.fingerprint) and not marks
                said = sum(map(len, markers))
                score = (marks - missing, said, known / len(around) if around else 0.0)
                ranked.append(((*score, len(dialect.family.aliases)), dialect))
        ranked.sort(key=lambda each: each[0], reverse=True)
        spoken = {dialect: set(call_markers(dialect, params=True)) for _, dialect in ranked}
        # One whose markers are only a part of another's is not what is meant.
        return [one for one in spoken if not any(spoken[one] < other for other in spoken.values())]

    def markers_sentence(self, dialect: Dialect) -> str:
        return f"The template has its markers {', '.join(call_markers(dialect)[:4])}."

    def found(self, dialect: Dialect, confidence: float, others: Iterable[Dialect] = ()) -> Detection:
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=False,
            confidence=confidence,
            evidence=tuple(self.evidence),
            runners_up=tuple(each.name for each in others if each != dialect)[:5],
            tried=False,
        )

    def nothing(self) -> Detection:
        names = [name for name in (self.source.name, *self.source.families, self.source.model_type) if name]
        if names:
            self.evidence.append(f"No dialect is known by these names: {', '.join(dict.fromkeys(names))}.")
        if self.source.go_template:
            self.evidence.append("The template has the markers of no dialect.")
        self.evidence.append(
            "Give the chat template of the model that it was made from (its name on the Hugging Face hub "
            "or its chat_template.jinja), or say the dialect yourself."
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
