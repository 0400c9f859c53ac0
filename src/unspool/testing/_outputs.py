"""An output, and how it was read: what the laws are about; and outputs to try them on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final, NoReturn

from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..dialects._templates import literals, parse_template, split_marks
from ..errors import MalformedOutput
from ..events import CallStart, Diagnostic, Event, FinishReason, normalise
from ..message import Message, Part, TextPart
from ..parser import Parser
from ..policies import Policies

ToolList = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Case:
    """What a model wrote, and the request it answers."""

    text: str
    """The output."""
    tools: ToolList | None = None
    """As for ``Parser``, like the next two."""
    prompt: str | None = None
    policies: Policies | None = None
    finish_reason: FinishReason | None = None
    """As for ``Parser.finish``."""
    continues: bool = False
    """As for ``Parser``."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The state of a parser after one ``feed``."""

    taken: int
    """Characters fed so far."""
    covered: int
    """Characters that events account for so far."""
    pending: int
    max_pending: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A case, read in certain chunks."""

    dialect: Dialect
    case: Case
    chunks: Sequence[str]
    events: list[Event]
    """Everything that came out, ``finish`` included."""
    message: Message | None
    """What the events fold to; None if the policies made that an error."""
    feeds: list[Feed]

    def fail(self, law: str, why: str) -> NoReturn:
        """Raise ``AssertionError`` with all that is needed to see it again."""
        __tracebackhide__ = True  # the report is the message, not this frame
        raise self.broken(law, why)

    def broken(self, law: str, why: str) -> AssertionError:
        """The error of a law that this reading breaks."""
        lines = [f"{law}: {why}", f"  dialect: {self.dialect.name}", f"  text:    {self.case.text!r}"]
        if list(self.chunks) != [self.case.text]:
            lines.append(f"  chunks:  {list(self.chunks)!r}")
        for field in ("tools", "prompt", "continues", "policies", "finish_reason"):
            value = getattr(self.case, field)
            if value not in (None, False):
                lines.append(f"  {field}: {_changed(value) if isinstance(value, Policies) else repr(value)}")
        return AssertionError("\n".join(lines))


def _changed(policies: Policies) -> str:
    default = Policies()
    fields = [name for name in policies.__slots__ if getattr(policies, name) != getattr(default, name)]
    return ", ".join(f"{name}={getattr(policies, name)}" for name in fields)


def as_case(case: str | Case) -> Case:
    """The case, or one of this output and nothing else."""
    return Case(case) if isinstance(case, str) else case


def read(dialect: str | Dialect, case: str | Case, chunks: Sequence[str] | None = None) -> Reading:
    """Read a case with a new parser, in these chunks or at once."""
    case = as_case(case)
    parser = Parser(
        dialect, tools=case.tools, prompt=case.prompt, continues=case.continues, policies=case.policies
    )
    chunks = [case.text] if chunks is None else chunks
    portions: list[list[Event]] = []
    feeds: list[Feed] = []
    taken = covered = 0
    for chunk in chunks:
        new = parser.feed(chunk)
        taken += len(chunk)
        for event in new:
            if not isinstance(event, Diagnostic):
                covered = event.end
        portions.append(new)
        feeds.append(Feed(taken, covered, parser.pending, parser.max_pending))
    portions.append(parser.finish(case.finish_reason))
    fold = parser.fold()
    message = None
    try:
        for portion in portions:
            fold.push(portion)
        message = fold.message()
    except MalformedOutput:
        if "error" not in (parser.policies.malformed_call, parser.policies.truncated_call):
            raise
    events = [event for portion in portions for event in portion]
    return Reading(parser.dialect, case, chunks, events, message, feeds)


def comparable(events: Iterable[Event], text: str) -> list[Event]:
    """The normalised events, generated ids left out.

    Ids are random unless the model gives them: an id counts if it stands in the text.
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
    """The same message, generated ids left out."""
    if message is None:
        return None

    def anonymous(part: Part) -> Part:
        return part if isinstance(part, TextPart) or part.id in text else replace(part, id="")

    calls = [call if call.id in text else replace(call, id="") for call in message.tool_calls]
    return replace(message, tool_calls=tuple(calls), parts=tuple(map(anonymous, message.parts)))


# -- inputs


def chunkings(text: str, *, seed: int = 0, random: int = 3, splits: int = 64) -> Iterator[list[str]]:
    """Ways to cut a text: whole, into characters, in two, at random.

    :param random: how many random ones; they contain empty chunks, too.
    :param splits: a text no longer than this is cut in two at every place.

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
    """The text with something wrong with it.

    It is cut, doubled, put between words, or loses, gains or swaps pieces; what
    it gains are pieces of markers, by default those that it seems to have.
    """
    pieces: Sequence[str] = markers or _TAG.findall(text) or _WORDS
    a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
    kind = rng.randrange(9)
    if kind == 0:  # cut
        return text[:b]
    if kind == 1:
        return text[a:]
    if kind == 2:  # doubled
        return text + rng.choice(("", "\n", " ")) + text
    if kind == 3:  # between words
        return rng.choice(_WORDS) + text + rng.choice(_WORDS)
    if kind == 4:  # something is missing
        return text[:a] + text[min(b, a + rng.randint(1, 12)) :]
    if kind == 5:  # something is there twice
        return text[:b] + text[a:]
    if kind == 6:  # two pieces have changed places
        c = rng.randint(b, len(text))
        return text[:a] + text[b:c] + text[a:b] + text[c:]
    piece = rng.choice(pieces)
    if kind == 7:  # a marker, or a part of one, where none belongs
        piece = piece[: rng.randint(1, len(piece))] if rng.random() < 0.5 else piece
        return text[:a] + piece + text[a:]
    return text[:a] + rng.choice(_WORDS) + text[a:]


def markers(dialect: str | Dialect) -> tuple[str, ...]:
    """Every literal text of a dialect's templates, single characters aside."""
    spec = find(dialect)
    templates = [
        *spec.call,
        *spec.section,
        *spec.param,
        *spec.reasoning,
        *spec.content,
        *spec.drop,
        *spec.stop,
    ]
    if spec.frame is not None:
        templates += [*spec.frame.open, spec.frame.sep, *spec.frame.ends, *spec.frame.fields]
    found = {text for template in templates for text in literals(parse_template(split_marks(template)[1]))}
    # A bracket next to the calls may be forgotten.
    found |= {text.removesuffix("[").removeprefix("]") for text in found}
    return tuple(sorted(text for text in found if len(text.strip()) > 1))
