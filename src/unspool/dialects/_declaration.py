"""Declaration language for dialects: the output format of a family of models, as one value.

A dialect consists of templates that look like the model's output, with holes for the parts that vary:

===============  ==============================================================
``{name}``       name of the function; ``{id}`` and ``{index}`` are the id and
                 the number of the call
``{args}``       arguments in the notation of the dialect; ``{args:python}``
                 selects another notation
``{envelope}``   object that contains the name and the arguments
``{params}``     any number of ``param`` templates
``{code}``       raw text, which becomes the argument ``code``
``{key}``        name of a parameter; ``{value}`` is its text, ``{type}`` and
                 ``{string}`` tell the type of the text
``{calls}``      calls of a section
``{text}``       reasoning or content between its markers
``{_}``          any text except markup; it is ignored
===============  ==============================================================

``render`` writes the whitespace of a template as it stands.  The parser accepts any amount of
whitespace where the template has a line break, and between a marker and the hole of a payload.
Around ``{value}``, and around ``{text}`` in a wrapper of content, whitespace is data: there a line
break in the template matches one optional newline.

A run of ``key="{hole}"`` is read as attributes: in any order, with any quotes, and unknown attributes are
skipped.  If a template contains a hole twice, both must have the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._id_format import OPENAI_ID, IdFormat
from ._request_facts import RequestFacts

Notation: TypeAlias = Literal["json", "python", "loose", "bare"]
"""Notation of arguments.

- ``json``: JSON.
- ``python``: keyword arguments of a Python call.
- ``loose``: the same, but strings are not escaped.
- ``bare``: an object with unquoted keys, and strings between delimiters.
"""


@dataclass(frozen=True, slots=True)
class Route:
    """Rule that decides by the header of a framed message what its body is."""

    when: str
    """Conditions on header fields, such as ``to=functions.{name}`` or ``channel=analysis``.

    Spaces separate them.  All of them must hold.  If empty, the route always applies.
    """
    into: str
    """Meaning of the body: ``reasoning``, ``content``, ``drop``, or a hole for calls.

    The holes are ``{args}``, ``{params}`` and ``{calls}``.
    """
    header: str = ""
    """Header that ``render`` writes; if empty, ``render`` does not use this route."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages with headers that tell what their bodies are, as in gpt-oss."""

    open: tuple[str, ...]
    """Markers that begin a header.  With ``^`` in front, a marker counts only where a message may begin."""
    sep: str
    """Marker that ends the header."""
    ends: tuple[str, ...]
    """Markers that end the body; the next header ends it, too."""
    fields: tuple[str, ...]
    """Templates of header fields, which may stand anywhere in the header; the last match counts."""
    routes: tuple[Route, ...]
    """Rules for the bodies; the first one that applies counts."""
    call_end: str = ""
    """Marker that the model writes after a call, if it differs from ``ends[0]``."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models that use a dialect, and the names by which it is found."""

    models: str = ""
    """Description of the models, for people."""
    model_names: tuple[str, ...] = ()
    """Names that select this dialect if the name of a model contains them.

    ``Qwen3 Coder`` matches ``qwen3-coder:30b``; a ``*`` stands for the rest of a word.  If several
    families match, the longest name counts.
    """
    aliases: tuple[str, ...] = ()
    """Other names of the dialect, such as those of tool parsers in engines."""
    reasoning_aliases: tuple[str, ...] = ()
    """Names of reasoning parsers in engines that read this dialect's reasoning."""
    fingerprint: tuple[str, ...] = ()
    """Texts that distinguish this family from others with the same format of calls; one match is enough.

    Each is a part of the chat template, or ``model_type: NAME`` from ``config.json``.
    """
    variants: tuple[tuple[str, str], ...] = ()
    """Pairs of a special token and the dialect to use instead if the vocabulary has this token.

    The first pair that applies counts.
    """


@dataclass(frozen=True, slots=True)
class Envelope:
    """Keys of the object in an ``{envelope}`` hole.

    The parser accepts all keys of a tuple, and ``render`` writes the first one.
    """

    name_keys: tuple[str, ...] = ("name",)
    """Keys of the function's name."""
    args_keys: tuple[str, ...] = ("arguments", "parameters")
    """Keys of the arguments."""
    id_keys: tuple[str, ...] = ("id",)
    """Keys of the call's id."""
    order: tuple[Literal["name", "args", "id"], ...] = ("name", "args")
    """Members that ``render`` writes, in order."""
    keyed: bool = False
    """Whether the object is ``{"function name": {arguments}}`` instead."""


@dataclass(frozen=True, slots=True)
class Values:
    """Spelling of values, in addition to the notation."""

    python: bool = False
    """Whether a ``{value}`` may be a Python literal: ``True``, ``None``, ``{'k': 1}``."""
    nested: bool = False
    """Whether a ``{value}`` may consist of further parameters."""
    list_key: str = ""
    """Name of nested parameters that are the items of a list."""
    type_words: tuple[str, ...] = ("string", "number", "boolean", "null", "array", "object")
    """Words that ``render`` writes into a ``{type}`` hole, in the order of the JSON types in the default."""
    unescape: bool = False
    """Whether attributes are XML-escaped."""
    spelt_breaks: bool = False
    """Whether a line break between tags may be spelled out, as a backslash and an ``n``."""
    wrappers: tuple[str, ...] = ()
    """Names of parameters that hold all arguments as one JSON object, unless the tool declares the name."""
    quote: str = '"'
    """String delimiter in the ``bare`` notation."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of functions, and numbers of calls."""

    forms: tuple[str, ...] = ("{name}",)
    """Forms of the text in a ``{name}`` hole, such as ``functions.{name}``; the first match counts."""
    first_index: int = 0
    """Number of the first call in an ``{index}`` hole."""
    fixed: str = ""
    """Name of the function that all calls are for, in dialects whose calls have no name."""
    null_calls: tuple[str, ...] = ()
    """Function names by which the model says that it calls nothing; such calls are dropped."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Part of the model's turn that the prompt already contains."""

    start: str = ""
    """Tail of the prompt, which the parser assumes if the caller gives no prompt."""
    echo: str = ""
    """Text to add in front of the output, because it is in the prompt and clients expect to see it."""
    turn: tuple[str, ...] = ()
    """Markers that begin a turn of the model, if they do not look like control tokens.

    Text before the last of them, such as a message of the user, does not affect how the output is read.
    """


@dataclass(frozen=True, slots=True)
class Dialect:
    """Format in which a family of models writes reasoning, content and tool calls.

    The first template of each tuple is canonical: ``render`` and the grammars use it.  The parser
    accepts the others as well.
    """

    name: str
    """Name in the registry."""
    family: Family = Family()
    """Models that use the dialect, and its other names."""

    call: tuple[str, ...] = ()
    """Templates of one call."""
    section: tuple[str, ...] = ("{calls}",)
    """Templates of the markup around calls.

    Characters in front of a template restrict it.  ``^``: no visible text may come before;
    ``?``: only declared tools count; ``!``: its opener ends reasoning.
    """
    sep: tuple[str, ...] = ("\n",)
    """Separators between two calls of a section."""
    section_per_call: bool = False
    """Whether the model writes a separate section for each call, with ``sep`` in between."""
    param: tuple[str, ...] = ()
    """Templates of one parameter in ``{params}``."""
    also_accepts: tuple[Dialect, ...] = ()
    """Dialects whose calls are accepted as well, with a diagnostic, but never rendered.

    Models of families that share a marker sometimes mix up the formats inside it.
    """
    reasoning: tuple[str, ...] = ("<think>\n{text}\n</think>\n\n",)
    """Templates of the markers around reasoning."""
    content: tuple[str, ...] = ()
    """Templates of the markers around content."""
    drop: tuple[str, ...] = ()
    """Markers that are removed wherever they occur.

    With ``{text}``, the text between two markers is removed as well.  With ``{calls}``, a repetition of
    the calls right after their section is removed.
    """
    stop: tuple[str, ...] = ()
    """Markers that end the turn.  They are removed, and never become part of a value."""
    frame: Frame | None = None
    """Format of messages with headers, in dialects that have them."""

    args: Notation = "json"
    """Notation of ``{args}`` and ``{envelope}``."""
    envelope: Envelope = Envelope()
    """Keys of the object in ``{envelope}``."""
    values: Values = Values()
    """Spelling of values."""
    names: Names = Names()
    """Names of functions, and numbers of calls."""
    id_format: IdFormat = OPENAI_ID
    """Format of call ids."""

    keep_whitespace: bool = False
    """Whether whitespace before a call is content, because the template adds no separator there."""
    prompt: Prompt = Prompt()
    """Part of the model's turn that the prompt contains."""
    request: RequestFacts | str | None = None
    """Facts about the family for building requests, or the name of a dialect with the same facts."""

    def __hash__(self) -> int:
        # Every parser looks up its grammar by dialect.  The name is enough, because it is nearly unique.
        return hash(self.name)

    def __post_init__(self) -> None:
        from ._validation import check_dialect

        check_dialect(self)
