"""Dialect: how a family of models writes, as one value.

A dialect is written the way the model writes it: templates with holes.

===============  ==============================================================
``{name}``       the function's name; ``{id}``, ``{index}``: its id, its number
``{args}``       the arguments in the dialect's notation; ``{args:python}`` in
                 a notation of its own
``{envelope}``   an object that holds name and arguments
``{params}``     any number of ``param`` templates
``{code}``       raw text, handed over under the key ``code``
``{key}``        a parameter's name; ``{value}`` its text; ``{type}`` and
                 ``{string}`` say what the text is
``{calls}``      the calls of a section
``{text}``       reasoning or content between its markers
``{_}``          anything but markup, ignored
===============  ==============================================================

White space is what ``render`` writes.  A reader accepts any amount of it where
the template has a line break, and between a marker and the hole of a payload;
only around ``{value}`` (and the ``{text}`` of a content wrapper) a line break
means exactly one optional line feed, because there white space is data.

A run of ``key="{hole}"`` is read as attributes: any order, any quotes, unknown
ones skipped.  A hole that occurs twice must repeat its text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._id_format import OPENAI_ID, IdFormat
from ._request_facts import RequestFacts

Notation: TypeAlias = Literal["json", "python", "loose", "bare"]
"""How arguments are written: JSON, Python keywords, Python without escapes,
objects with bare keys."""


@dataclass(frozen=True, slots=True)
class Route:
    """What the body of a framed message is, decided by its header."""

    when: str
    """Conditions on header fields, all of which must hold: ``to=functions.{name}``,
    ``channel=analysis``; empty: always."""
    into: str
    """``reasoning``, ``content``, ``drop``, or the hole of a payload:
    ``{args}``, ``{params}``, ``{calls}``."""
    header: str = ""
    """The header as the model writes it, for rendering; empty: never rendered."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages whose header decides what the body is."""

    open: tuple[str, ...]
    """What begins a header; ``^`` in front: only where a message may begin."""
    sep: str
    """What ends the header."""
    ends: tuple[str, ...]
    """What ends the body; the next header does, too."""
    fields: tuple[str, ...]
    """Templates of header fields, anywhere in the header, the last one counts."""
    routes: tuple[Route, ...]
    """Tried in order."""
    call_end: str = ""
    """What the model writes after a call, where that differs from ``ends[0]``."""


@dataclass(frozen=True, slots=True)
class Family:
    """Whose dialect it is: what it is found by, and told from its look-alikes."""

    models: str = ""
    """Which models write it, for readers."""
    model_names: tuple[str, ...] = ()
    """What these models' names begin with, or hold: ``Qwen3 Coder`` is found in ``qwen3-coder:30b``; a ``*``
    stands for the rest of a word.  Of several families the longest name counts."""
    aliases: tuple[str, ...] = ()
    """Other names engines know it by."""
    reasoning_aliases: tuple[str, ...] = ()
    """Names of reasoning parsers that mean this dialect's reasoning."""
    fingerprint: tuple[str, ...] = ()
    """Text of chat templates, or ``model_type: NAME`` of config.json, that tells this
    family from those that write calls alike; any one of them will do."""
    variants: tuple[tuple[str, str], ...] = ()
    """Special tokens, and the dialect to use where a vocabulary has them; the first one counts."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The object in an ``{envelope}`` hole.  The first of its keys is what is written."""

    name_keys: tuple[str, ...] = ("name",)
    """Keys of the function's name ..."""
    args_keys: tuple[str, ...] = ("arguments", "parameters")
    """... of its arguments ..."""
    id_keys: tuple[str, ...] = ("id",)
    """... and of the call's id."""
    order: tuple[Literal["name", "args", "id"], ...] = ("name", "args")
    """What it is written with, in order."""
    keyed: bool = False
    """It is ``{"function name": {arguments}}`` instead."""


@dataclass(frozen=True, slots=True)
class Values:
    """How values are spelt, beyond what the notation says."""

    python: bool = False
    """A ``{value}`` may be spelt as in Python: ``True``, ``None``, ``{'k': 1}``."""
    nested: bool = False
    """A ``{value}`` may itself be made of params."""
    list_key: str = ""
    """Nested params of this name are the items of a list."""
    type_words: tuple[str, ...] = ("string", "number", "boolean", "null", "array", "object")
    """What a ``{type}`` hole is written as, in the order of JSON's types here."""
    unescape: bool = False
    """Attributes are XML-escaped."""
    spelt_breaks: bool = False
    """A line break between tags may be spelt out, as a backslash and an ``n``."""
    wrappers: tuple[str, ...] = ()
    """Params that hold all arguments as one object, unless the tool has one of that name."""
    quote: str = '"'
    """String delimiter of the ``bare`` notation."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the functions are called."""

    forms: tuple[str, ...] = ("{name}",)
    """What a ``{name}`` hole may hold; the first form that fits refines it."""
    first_index: int = 0
    """The number of the first call in an ``{index}`` hole."""
    fixed: str = ""
    """Every payload is the arguments of this function."""
    null_calls: tuple[str, ...] = ()
    """Function names that mean 'no call'."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the prompt holds of the turn that the model goes on with."""

    start: str = ""
    """Its tail, to assume where the caller gives no prompt."""
    echo: str = ""
    """Text to put before the output: it is in the prompt, and clients want to see it."""
    turn: tuple[str, ...] = ()
    """What begins a turn of the model and does not look like a control token of others: nothing that
    stands before it, such as the words of a user, says anything about the output."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one family of models writes reasoning, content and tool calls.

    The first template of each tuple is canonical: it is what ``render`` and
    the grammars write.  The others are accepted as well.
    """

    name: str
    """Name in the registry."""
    family: Family = Family()
    """Which models write it, and what else it is known by."""

    call: tuple[str, ...] = ()
    """Templates of one call."""
    section: tuple[str, ...] = ("{calls}",)
    """What surrounds calls.  ``^`` in front: only where no visible text came
    before; ``?``: only for declared tools; ``!``: its opener ends reasoning."""
    sep: tuple[str, ...] = ("\n",)
    """What may stand between two calls of a section."""
    section_per_call: bool = False
    """The model writes a section of its own for each call, with ``sep`` between them."""
    param: tuple[str, ...] = ()
    """Templates of one parameter in ``{params}``."""
    also_accepts: tuple[Dialect, ...] = ()
    """Dialects whose calls are read as well, with a note, and never written: families that
    share a marker take over each other's calls, too."""
    reasoning: tuple[str, ...] = ("<think>\n{text}\n</think>\n\n",)
    """Wrappers of reasoning."""
    content: tuple[str, ...] = ()
    """Wrappers of content."""
    drop: tuple[str, ...] = ()
    """Furniture that vanishes wherever it stands; with ``{text}``, what is between its markers as well.
    With ``{calls}`` it is the calls of a section, repeated directly behind it."""
    stop: tuple[str, ...] = ()
    """End-of-turn markers: vanish, and never enter a value."""
    frame: Frame | None = None
    """For dialects of messages with headers."""

    args: Notation = "json"
    """Notation of ``{args}`` and ``{envelope}``."""
    envelope: Envelope = Envelope()
    """The keys of ``{envelope}``."""
    values: Values = Values()
    """How values are spelt."""
    names: Names = Names()
    """What the functions are called."""
    id_format: IdFormat = OPENAI_ID
    """How ids look."""

    after_calls: Literal["content", "drop"] = "content"
    """What text after a call is, unless a policy says otherwise."""
    keep_whitespace: bool = False
    """White space before a call is content: the template adds no separator."""
    prompt: Prompt = Prompt()
    """Where the output begins."""
    request: RequestFacts | str | None = None
    """What the request side must know of the family: its facts, or the name of a
    dialect that shares them."""

    def __hash__(self) -> int:
        # Grammars are looked up by dialect, for every parser; dialects of one name are rare.
        return hash(self.name)

    def __post_init__(self) -> None:
        from ._validation import check_dialect

        check_dialect(self)
