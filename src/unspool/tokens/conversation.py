"""A trajectory of several turns: which of its tokens the model wrote, and what they are.

Where a turn begins is read off the model's template, which is asked what it writes
before the words of each role.  Only special tokens count: a user who spells one out
begins no turn.  Where a template tells roles apart by words alone, nobody can tell
them from what people write, and that is an error.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._core.ends.parser import ToolList
from .._core.tokens.detokenizer import PRIVATE, Detokenizer
from .._core.tokens.tokens import AnyTokenizer, as_tokenizer, assign_code_points, substitute
from .._core.values.errors import UsageError
from .._core.words.dialect import Dialect
from .._core.words.pieces import is_control
from ..dialects._registry import find
from .labels import SHARED, Label
from .read import Ids, Reading, as_ids, behind_last, end_ids, ends_of_turn, is_padding, read

if TYPE_CHECKING:
    from ..template import ChatTemplate

Openers = Mapping[str, str]
"""What begins a turn, and whose it is."""
_TAG: Final = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]{3,}\]|\]~!?b[\]\[]")
_TAGS_AT_END: Final = re.compile(rf"(?:(?:{_TAG.pattern})\s*)*\Z")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one role said; places are in tokens."""

    role: str
    """``system`` (all before the first opener), ``user``, ``assistant`` or ``tool``."""
    start: int
    """Its first token, which opens it, ..."""
    end: int
    """... and the one behind its last."""
    reading: Reading | None = None
    """What the model wrote, if it is its turn; places in it count from ``written``."""
    written: int = 0
    """Where the model began to write."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What ids of several turns amount to; :func:`conversation` makes them."""

    labels: bytes
    """A :class:`Label` for each id, with the flags ``SHARED`` and ``BROKEN``."""
    turns: tuple[Turn, ...]
    """One after the other, without padding."""


def conversation(
    ids: Ids,
    dialect: str | Dialect,
    *,
    tokenizer: AnyTokenizer,
    template: "ChatTemplate | None" = None,
    openers: Openers | None = None,
    tools: ToolList | None = None,
    pad: int | None = None,
    **kwargs: Any,
) -> Conversation:
    r"""Take a trajectory apart: the turns, what the model wrote in its own, and a label for every token.

    :param ids: prompt and output of one or more rounds; there may be padding on both sides.
    :param template: the model's chat template, which is asked what begins a turn.
    :param openers: what begins the turns of each role, instead of a template, such as
        ``{"<|im_start|>user\n": "user", "<|im_start|>assistant\n": "assistant"}``.
    :param tools: the tools of the request.
    :param pad: the id that sequences are filled up with; ids below 0 are padding, too.
    :param kwargs: further variables for the template, such as ``enable_thinking``.
    """
    given = as_ids(ids)
    spec = find(dialect, tokenizer)
    if openers is None:
        if template is None:
            raise UsageError(
                "where do turns begin?  Give the model's template, or openers={...} with a text for each role"
            )
        openers = turn_openers(template, spec, **kwargs)
    ends = end_ids(spec, tokenizer)
    last = behind_last(given, pad, ends)
    first = next((at for at in range(last) if not is_padding(given[at], pad)), last)
    known = given[first:last]
    labels = bytearray([Label.PADDING]) * first
    turns: list[Turn] = []
    for mark in _marks(known, openers, tokenizer, ends):
        start, end = first + mark.start, first + mark.end
        if turns and turns[-1].role == "assistant" and labels[-1] != Label.END and known[mark.start] in ends:
            beginning = bytes([Label.END])  # the model ends its turn with what begins the next
        else:
            beginning = b"\0"
        opener = bytearray(beginning * bool(mark.length) + bytes(mark.length)[1:])
        if mark.shared and opener:
            opener[-1] |= SHARED
        labels += opener
        if mark.role != "assistant":
            labels += bytes(end - len(labels))
            turns.append(Turn(mark.role, start, end))
            continue
        written = known[mark.start + mark.length : mark.end]
        over = next((number for number, id in enumerate(written, 1) if id in ends), len(written))
        prompt = known[: mark.start + mark.length]
        reading = read(written[:over], spec, tokenizer=tokenizer, tools=tools, prompt_ids=prompt)
        turns.append(Turn(mark.role, start, end, reading, len(labels)))
        labels += reading.labels
        labels += bytes(end - len(labels))
    labels += bytes([Label.PADDING]) * (len(given) - last)
    return Conversation(bytes(labels), tuple(turns))


class _Mark(NamedTuple):
    """Where a turn begins, in tokens."""

    role: str
    start: int
    length: int
    """Of its opener."""
    shared: bool
    """The last token of the opener also holds what follows."""
    end: int


def _marks(
    ids: list[int], openers: Openers, tokenizer: AnyTokenizer, ends: frozenset[int]
) -> Iterator[_Mark]:
    """The turns of ids; what stands before the first is the system's."""
    vocabulary = as_tokenizer(tokenizer)
    code_points = assign_code_points(openers, vocabulary)
    roles = {substitute(opener, code_points): role for opener, role in openers.items()}
    for opener, role in roles.items():
        if not PRIVATE.search(opener):
            raise UsageError(
                f"the opener {opener!r} of {role} holds no special token of this vocabulary, so that anybody "
                "could have written it: these turns cannot be told apart"
            )
    decoder = Detokenizer(vocabulary, code_points)
    widths = decoder.measure()
    text = decoder.feed(ids) + decoder.finish()
    starts = list(accumulate(widths, initial=0))
    found = [_Mark("system", 0, 0, False, len(ids))]
    for match in re.finditer("|".join(map(re.escape, sorted(roles, key=len, reverse=True))), text):
        role = roles[match[0]]
        place, behind = decoder.offsets.to_text(match.start()), decoder.offsets.to_text(match.end())
        start, after = bisect_left(starts, place), bisect_left(starts, behind)
        last = found[-1]
        if role == last.role == "assistant" and ends.isdisjoint(ids[last.start + last.length : start]):
            continue  # a further message of the same turn, which the model began itself
        found[-1] = last._replace(end=start)
        found.append(_Mark(role, start, after - start, starts[after] != behind, len(ids)))
    return (mark for mark in found if mark.start < mark.end)


# -- what a template writes before the words of each role


def turn_openers(template: "ChatTemplate", dialect: str | Dialect, **kwargs: Any) -> dict[str, str]:
    """What begins the turns of each role, by what the template writes before their words.

    :param kwargs: further variables for the template, such as ``enable_thinking``.
    """
    spec = find(dialect)
    ends = ends_of_turn(spec)
    found: dict[str, str] = {}
    # Twice, with other names: what differs is no part of an opener.
    one, other = (_openers(template, spec, word, kwargs) for word in ("first", "second"))
    for (role, opener), (_, again) in zip(one, other, strict=True):
        shared = _behind_end(commonprefix((opener, again)), ends)  # noqa: RUF071 - no paths
        if shared.strip():
            found.setdefault(shared, role)
    models = [opener for opener, role in found.items() if role == "assistant"]
    if not models:
        raise UsageError("the template does not show where a turn of the model begins: give openers={...}")
    for opener, role in found.items():
        if role != "assistant" and any(begun in opener for begun in models):
            raise UsageError(
                f"the template does not show where a turn of the model ends and one of {role} begins: "
                "give openers={...}"
            )
    return found


def _openers(
    template: "ChatTemplate", dialect: Dialect, word: str, kwargs: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Roles, and what a template writes before what they say, in a conversation about a tool of this name."""
    from ..template import ChatTemplateError, normalise_history

    call = {"id": f"{word}call"[:9], "type": "function", "function": {"name": word, "arguments": {}}}
    schema = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": word, "description": word, "parameters": schema}}
    plain: list[dict[str, object]] = [
        {"role": "user", "content": "said0said"},
        {"role": "assistant", "content": "said1said"},
        {"role": "user", "content": "said2said"},
    ]
    called: list[dict[str, object]] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "name": word, "content": "said3said"},
        {"role": "assistant", "content": "said4said"},
    ]
    found: list[tuple[str, str]] = []
    for messages, tools in ((plain, None), (plain + called, [tool])):
        try:
            history = normalise_history(messages, template, dialect=dialect)
            text = template.render(history[: len(plain)], tools, add_generation_prompt=False, **kwargs)
            prompt = template.render(history[: len(plain)], tools, add_generation_prompt=True, **kwargs)
            whole = template.render(history, tools, add_generation_prompt=False, **kwargs)
        except ChatTemplateError:
            continue
        prompted = prompt.removeprefix(text).lstrip() if prompt.startswith(text) else ""
        found += _before_words(messages, whole, prompted, dialect)
    return found


def _before_words(
    messages: list[dict[str, object]], text: str, prompted: str, dialect: Dialect
) -> list[tuple[str, str]]:
    """What stands before the words of each message but the first; ``prompted``: what a prompt ends with."""
    found: list[tuple[str, str]] = [("assistant", prompted)]
    ends = ends_of_turn(dialect)
    behind = 0
    for message in messages:
        said = str(message["content"])
        place = text.find(said, behind) if said else -1
        if place < 0:
            continue
        gap, role = text[behind:place], str(message["role"])
        if role != "assistant":
            found.append((role, _from_end(gap, ends) if behind else ""))
        elif prompted:  # history may have less of what a prompt ends with
            found.append((role, _longest_within(prompted, gap)))
        else:
            tags = _TAGS_AT_END.search(gap)
            found.append((role, tags[0] if tags is not None else ""))
        behind = place + len(said)
    return found


def _longest_within(text: str, other: str) -> str:
    """The longest beginning of a text that another one holds, up to the end of a tag or a line."""
    for length in range(len(text), 0, -1):
        if (length == len(text) or text[length - 1] in ">]\n") and text[:length] in other:
            return text[:length]
    return ""


def _from_end(gap: str, ends: frozenset[str]) -> str:
    """What stands between two turns, from what ends the first."""
    return gap[max([0, *(gap.rfind(end) for end in ends)]) :].lstrip()


def _behind_end(opener: str, ends: frozenset[str]) -> str:
    """What begins a turn; where nothing else marks it, that is what ends the one before."""
    for end in ends:
        rest = opener.removeprefix(end).lstrip()
        if rest != opener and any(map(is_control, _TAG.findall(rest))):
            return rest
    return opener
