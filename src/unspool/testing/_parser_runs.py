"""Parser runs for the property tests, and generators of inputs: chunkings, broken texts, markers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final, NoReturn

from ..dialects import Dialect, find
from ..dialects.list_templates_and_markers import dialect_literals
from ..errors import MalformedOutput
from ..events import CallStart, Diagnostic, Event, FinishReason, normalise
from ..message import Message, Part, TextPart
from ..parser import Parser
from ..policies import Policies

ToolList = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """Model output, with the fields of the request that affect how the output is parsed."""

    text: str
    """The text of the output."""
    tools: ToolList | None = None
    """The ``tools`` argument for ``Parser``."""
    prompt: str | None = None
    """The ``prompt`` argument for ``Parser``."""
    policies: Policies | None = None
    """The ``policies`` argument for ``Parser``."""
    finish_reason: FinishReason | None = None
    """The ``reason`` argument for ``Parser.finish``."""
    continues: bool = False
    """The ``continues`` argument for ``Parser``."""


@dataclass(frozen=True, slots=True)
class Feed:
    """State of a parser after one call of ``feed``."""

    fed: int
    """Number of characters fed so far."""
    covered: int
    """Number of characters that are covered by events so far."""
    pending: int
    max_pending: int | None


@dataclass(frozen=True, slots=True)
class ParseRun:
    """Result of parsing an output in certain chunks."""

    dialect: Dialect
    case: ModelOutput
    chunks: Sequence[str]
    events: list[Event]
    """All events, including those from ``finish``."""
    message: Message | None
    """Message built from the events; None if building it raised ``MalformedOutput``, as strict policies
    require."""
    feeds: list[Feed]

    def fail(self, law: str, why: str) -> NoReturn:
        """Raise an ``AssertionError`` that contains everything needed to reproduce the run."""
        __tracebackhide__ = True  # hide this frame in pytest's tracebacks
        raise self.broken(law, why)

    def broken(self, law: str, why: str) -> AssertionError:
        """Return an ``AssertionError`` with the name of the broken law (see ``unspool.testing``)."""
        lines = [f"{law}: {why}", f"  dialect: {self.dialect.name}", f"  text:    {self.case.text!r}"]
        if list(self.chunks) != [self.case.text]:
            lines.append(f"  chunks:  {list(self.chunks)!r}")
        for field in ("tools", "prompt", "continues", "policies", "finish_reason"):
            value = getattr(self.case, field)
            if value not in (None, False):
                lines.append(
                    f"  {field}: {_describe_policies(value) if isinstance(value, Policies) else repr(value)}"
                )
        return AssertionError("\n".join(lines))


def _describe_policies(policies: Policies) -> str:
    default = Policies()
    fields = [name for name in policies.__slots__ if getattr(policies, name) != getattr(default, name)]
    return ", ".join(f"{name}={getattr(policies, name)}" for name in fields)


def as_model_output(case: str | ModelOutput) -> ModelOutput:
    """Return a case as a :class:`ModelOutput`; a string becomes an output without request fields."""
    return ModelOutput(case) if isinstance(case, str) else case


def run_parser(
    dialect: str | Dialect, case: str | ModelOutput, chunks: Sequence[str] | None = None
) -> ParseRun:
    """Parse a case with a new parser, in these chunks (by default, in one chunk), and return the run."""
    case = as_model_output(case)
    parser = Parser(
        dialect, tools=case.tools, prompt=case.prompt, continues=case.continues, policies=case.policies
    )
    chunks = [case.text] if chunks is None else chunks
    batches: list[list[Event]] = []
    feeds: list[Feed] = []
    fed = covered = 0
    for chunk in chunks:
        new = parser.feed(chunk)
        fed += len(chunk)
        for event in new:
            if not isinstance(event, Diagnostic):
                covered = event.end
        batches.append(new)
        feeds.append(Feed(fed, covered, parser.pending, parser.max_pending))
    batches.append(parser.finish(case.finish_reason))
    builder = parser.fold()
    message = None
    try:
        for batch in batches:
            builder.feed(batch)
        message = builder.message
    except MalformedOutput:
        if "error" not in astuple(parser.policies):
            raise
    events = [event for batch in batches for event in batch]
    return ParseRun(parser.dialect, case, chunks, events, message, feeds)


def comparable(events: Iterable[Event], text: str) -> list[Event]:
    """Return the normalised events without generated call ids, which differ between runs.

    A call id is a generated one if it does not occur in the text.
    """
    out: list[Event] = []
    for event in normalise(events):
        if isinstance(event, CallStart) and event.id not in text:
            places = event.start, event.end, event.name_start, event.name_end
            out.append(CallStart(event.index, event.name, "", *places))
        else:
            out.append(event)
    return out


def without_ids(message: Message | None, text: str) -> Message | None:
    """Return the message without generated call ids, which are the ids that do not occur in the text."""
    if message is None:
        return None

    def without_id(part: Part) -> Part:
        return part if isinstance(part, TextPart) or part.id in text else replace(part, id="")

    calls = [call if call.id in text else replace(call, id="") for call in message.tool_calls]
    return replace(message, tool_calls=tuple(calls), parts=tuple(map(without_id, message.parts)))


# -- generated inputs


def chunkings(text: str, *, seed: int = 0, random: int = 3, splits: int = 64) -> Iterator[list[str]]:
    """Yield ways to split a text: as one chunk, as characters, in two chunks, and in random chunks.

    :param random: number of random chunkings, in which chunks may be empty.
    :param splits: maximum length of a text to split in two at every position.

    >>> list(chunkings("abc", random=0))
    [['abc'], ['a', 'b', 'c'], ['a', 'bc'], ['ab', 'c']]
    """
    yield [text]
    yield list(text)
    if len(text) <= splits:
        for at in range(1, len(text)):
            yield [text[:at], text[at:]]
    rng = Random(f"{seed} {text}")  # noqa: S311 - reproducible, not secret
    for _ in range(random):
        longest = rng.choice((2, 4, 9, 30))
        cuts = [0]
        while cuts[-1] < len(text):
            cuts.append(min(len(text), cuts[-1] + rng.randint(0, longest)))
        yield [text[a:b] for a, b in pairwise(cuts)]


_TAG: Final = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_/]{3,}\]|```\w*|[{}\[\]\"',:]")
_WORDS: Final = ("Sure. ", "\n\n", " ", "`", '"', "{", "}", "x < y ", "</", "<|", "\\", "é", "\0", "🙂")


def mutate(text: str, rng: Random, markers: Sequence[str] = ()) -> str:
    """Return a randomly broken variant of the text.

    The variant is truncated, doubled or surrounded by words, or parts of it are removed,
    repeated, swapped or inserted.

    :param markers: markers to insert, by default those found in the text.
    """
    pieces: Sequence[str] = markers or _TAG.findall(text) or _WORDS
    a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
    mutation = rng.randrange(9)
    if mutation == 0:  # cut off the end
        return text[:b]
    if mutation == 1:  # cut off the start
        return text[a:]
    if mutation == 2:  # write the text twice
        return text + rng.choice(("", "\n", " ")) + text
    if mutation == 3:  # add words before and after the text
        return rng.choice(_WORDS) + text + rng.choice(_WORDS)
    if mutation == 4:  # remove a part
        return text[:a] + text[min(b, a + rng.randint(1, 12)) :]
    if mutation == 5:  # repeat a part
        return text[:b] + text[a:]
    if mutation == 6:  # swap two parts
        c = rng.randint(b, len(text))
        return text[:a] + text[b:c] + text[a:b] + text[c:]
    piece = rng.choice(pieces)
    if mutation == 7:  # insert a marker or a part of a marker
        piece = piece[: rng.randint(1, len(piece))] if rng.random() < 0.5 else piece
        return text[:a] + piece + text[a:]
    return text[:a] + rng.choice(_WORDS) + text[a:]


def markers(dialect: str | Dialect) -> tuple[str, ...]:
    """Return all literals in a dialect's templates that are longer than one character."""
    spec = find(dialect)
    texts = set(dialect_literals(spec))
    # Models may omit a list bracket that is next to a marker, so add the markers without brackets.
    texts |= {text.removesuffix("[").removeprefix("]") for text in texts}
    return tuple(sorted(text for text in texts if len(text.strip()) > 1))
