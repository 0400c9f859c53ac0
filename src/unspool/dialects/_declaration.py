"""Declaration language for dialects, which describe the output formats of model families.

A dialect consists of templates that look like the model's output, with placeholders for the parts that vary:

===============  ==============================================================
``{name}``       name of the function; ``{id}`` is the id of the call, and
                 ``{index}`` its number
``{args}``       arguments in the notation of the dialect; ``{args:python}``
                 selects another notation
``{envelope}``   object that contains the name and the arguments
``{params}``     any number of ``param`` templates
``{code}``       raw text, which becomes the argument ``code``
``{key}``        name of a parameter; ``{value}`` is the text of its value;
                 ``{type}`` is the type of the value, and ``{string}`` is
                 ``true`` if the value is a string
``{calls}``      the calls in a section
``{text}``       reasoning or content between its markers
``{_}``          any text except markup; the text is ignored
===============  ==============================================================

The grammar of templates:

- Only these names between braces are placeholders.  ``{{name}}`` stands for the text ``{name}``.  All other
  text is literal, including other braces.
- A newline stands for any whitespace, or none.  Beside ``{value}``, and beside the ``{text}`` of ``content``,
  it stands for one newline or none, because whitespace is data there.  ``render`` writes it unchanged.
- Between a marker and a placeholder for calls, names, keys or arguments, the parser accepts whitespace.
- A sequence of ``key="{placeholder}"`` stands for attributes, in any order and with any quotes.  Unknown
  attributes are ignored.
- If a template contains a placeholder twice, the text must be the same at both places.
- The first template of a tuple is canonical: ``render`` and the grammars use it.  The parser accepts all.

The text of a template does not say where the parser accepts it.  ``Section``, ``Wrapper`` and ``Opener`` have
fields for this purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .._dataclass_repr import short_repr
from ._family_request_facts import RequestFacts
from ._id_format import OPENAI_ID, IdFormat
from ._placed_templates import Opener, Section, Wrapper

Notation: TypeAlias = Literal["json", "python", "loose", "bare"]
"""Notation of arguments.

- ``json``: JSON.
- ``python``: keyword arguments of a Python call.
- ``loose``: like ``python``, but strings are not escaped.
- ``bare``: an object with unquoted keys, and with strings between delimiters.
"""


@dataclass(frozen=True, slots=True)
class Route:
    """Rule that determines the meaning of a message body from the header of the message."""

    when: Mapping[str, str]
    """Conditions: a mapping from header fields to their values, such as ``{"to": "functions.{name}"}``.

    All conditions must hold.  If the mapping is empty, the route applies to every message.  ``{name}`` stands
    for the name of the function.
    """
    into: Literal["reasoning", "content", "drop", "{args}", "{params}", "{calls}"]
    """Meaning of the body: a channel, ``drop`` (the body is removed), or the placeholder of a call."""
    header: str = ""
    """Header that ``render`` writes; if empty, ``render`` does not use this route."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Format of messages whose headers determine the meaning of their bodies, as in gpt-oss."""

    open: tuple[str | Opener, ...]
    """Markers that begin a header."""
    sep: str
    """Marker that ends the header."""
    ends: tuple[str, ...]
    """Markers that end the body; the next header also ends the body."""
    fields: tuple[str, ...]
    """Templates of header fields, which may be anywhere in the header.

    If a field occurs several times, its last value is used.
    """
    routes: tuple[Route, ...]
    """Rules for the meaning of bodies.  The first rule that applies to a message is used."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models that use a dialect, and the names under which the dialect can be looked up."""

    models: str = ""
    """Description of the models, for human readers."""
    model_names: tuple[str, ...] = ()
    """Names of models.  A model uses this dialect if the model's name contains one of these names.

    ``Qwen3 Coder`` matches ``qwen3-coder:30b``; a ``*`` matches the rest of a word.  If several
    families match, the one with the longest matching name is used.
    """
    aliases: tuple[str, ...] = ()
    """Other names of the dialect, such as those of tool parsers in engines."""
    reasoning_aliases: tuple[str, ...] = ()
    """Names of engines' reasoning parsers that parse this dialect's reasoning."""
    fingerprint: tuple[str, ...] = ()
    """Texts that distinguish this family from others with the same format of calls.

    A text is either a part of the chat template or ``model_type: NAME``, from ``config.json``.  The family
    matches if at least one of the texts is found.
    """
    variants: tuple[tuple[str, str], ...] = ()
    """Pairs of a special token and the name of a dialect.

    If the vocabulary contains the token, the dialect with this name is used instead.  The first matching
    pair is used.
    """


@dataclass(frozen=True, slots=True)
class Envelope:
    """Keys of the object in an ``{envelope}`` placeholder.

    The parser accepts all keys in a tuple, and ``render`` writes the first key.
    """

    name_keys: tuple[str, ...] = ("name",)
    """Keys of the function's name."""
    args_keys: tuple[str, ...] = ("arguments", "parameters")
    """Keys of the arguments."""
    id_keys: tuple[str, ...] = ("id",)
    """Keys of the call's id."""
    order: tuple[Literal["name", "args", "id"], ...] = ("name", "args")
    """Members of the object, in the order in which ``render`` writes them."""
    keyed: bool = False
    """True if the object has one member, which maps the function's name to the arguments: ``{"now": {}}``."""


@dataclass(frozen=True, slots=True)
class Values:
    """Format of values, in addition to the notation."""

    python: bool = False
    """True if a ``{value}`` may be a Python literal: ``True``, ``None``, ``{'k': 1}``."""
    escaped_newlines: bool = False
    """True if a line break between tags may be written as a backslash and an ``n``."""
    wrappers: tuple[str, ...] = ()
    """Names of parameters that hold all arguments as one JSON object.

    If the tool declares a parameter with such a name, that parameter is an ordinary parameter.
    """
    quote: str = '"'
    """String delimiter in ``bare`` notation."""


@dataclass(frozen=True, slots=True)
class Names:
    """Format of function names."""

    forms: tuple[str, ...] = ("{name}",)
    """Forms of the text in a ``{name}`` placeholder, such as ``functions.{name}``; the first match is
    used."""
    fixed: str = ""
    """Name of the function that all calls use, in dialects whose calls have no name."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Part of the model's turn that the prompt already contains."""

    ends: tuple[str, ...] = ()
    """Texts with which prompts end, without ``Thinking.seed``; empty if there are too many such texts."""
    opens_message: bool = False
    """True if the first text of ``ends`` opens a message, and the output continues this message.

    If the caller passes no prompt, the parser assumes a prompt that ends with this text.
    """
    begins_turn: bool = False
    """True if the texts of ``ends`` are also markers that begin a turn, like those in ``turn``."""
    turn: tuple[str, ...] = ()
    """Markers that begin a turn of the model, if they do not look like control tokens.

    Prompt text before the last of these markers, such as a user message, does not affect how the output
    is parsed.
    """

    @property
    def start(self) -> str:
        """End of the prompt that the parser assumes if the caller passes no prompt."""
        return self.ends[0] if self.opens_message else ""


@dataclass(frozen=True, slots=True)
class Writing:
    """Instructions for ``render`` that no template contains.

    The parser accepts any whitespace at these places, so most of the instructions do not affect parsing.
    """

    before_calls: str = ""
    """Newlines before the first section; not written at the start of the output or after whitespace."""
    between_calls: str = ""
    """Text between two calls in a section, or between two sections.

    If the text contains more than whitespace, the parser accepts any whitespace around it.
    """
    section_per_call: bool = False
    """True if the model writes a separate section for each call, with ``between_calls`` between them."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Habits that only one, two or three families have."""

    null_calls: tuple[str, ...] = ()
    """Function names that the model uses in order to call nothing; such calls are removed."""
    first_index: int = 0
    """Number that ``{index}`` stands for in the first call."""
    nested: bool = False
    """True if a ``{value}`` may consist of further parameters; then the closing tag may repeat the key."""
    list_key: str = ""
    """Name of the nested parameters that represent the items of a list."""
    type_words: tuple[str, ...] = ("string", "number", "boolean", "null", "array", "object")
    """Words for the ``{type}`` placeholder, one for each JSON type, in the order of the default words."""
    unescape: bool = False
    """True if the values of attributes are XML-escaped."""
    drop_text: tuple[str, ...] = ()
    """Templates of text that is removed together with the two markers around it, such as a tool's result."""
    repeated_calls: tuple[str, ...] = ()
    """Templates of a repetition of the calls directly after their section; the repetition is removed."""
    call_end: str = ""
    """Marker that the model writes after a call in a message with a header, instead of ``Frame.ends[0]``."""
    echo: str = ""
    """Text from the prompt that is added at the start of the output, because clients expect it there."""
    tolerates_spaces: bool = False
    """True if a space may stand between a control token and a word, as some detokenizers write it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Format in which a family of models writes reasoning, content and tool calls.

    The first template of each tuple is canonical: ``render`` and the grammars use it.  The parser
    accepts the others as well.
    """

    name: str
    """Name in the registry."""
    family: Family = Family()
    """Models that use the dialect, and aliases of the dialect."""

    call: tuple[str, ...] = ()
    """Templates of a single call."""
    section: tuple[str | Section, ...] = ("{calls}",)
    """Templates of the markup around calls."""
    separators: tuple[str, ...] = ()
    """Separators between two calls that the parser accepts in addition to ``writing.between_calls``."""
    param: tuple[str, ...] = ()
    """Templates of a single parameter in ``{params}``."""
    also_accepts: tuple[Dialect, ...] = ()
    """Other dialects whose calls are accepted, with a diagnostic, but never rendered.

    Models of families that share a call marker sometimes write another family's format.
    """
    reasoning: tuple[str | Wrapper, ...] = ("<think>\n{text}\n</think>\n\n",)
    """Templates of the markers around reasoning."""
    content: tuple[str, ...] = ()
    """Templates of the markers around content."""
    drop: tuple[str, ...] = ()
    """Templates of markers that are removed wherever they occur."""
    stop: tuple[str, ...] = ()
    """Markers that end the turn.  They are removed, and are never part of a value."""
    frame: Frame | None = None
    """Format of messages with headers, or None if messages have no headers."""

    args: Notation = "json"
    """Notation of the arguments in ``{args}`` and of the object in ``{envelope}``."""
    envelope: Envelope = Envelope()
    """Keys of the object in ``{envelope}``."""
    values: Values = Values()
    """Format of values, in addition to the notation."""
    names: Names = Names()
    """Format of function names."""
    id_format: IdFormat = OPENAI_ID
    """Format of call ids."""

    writing: Writing = Writing()
    """Instructions for ``render`` that no template contains."""
    habits: Habits = Habits()
    """Habits that only a few families have."""
    keep_whitespace: bool = False
    """True if whitespace before a call is content, because the template adds no separator before calls."""
    prompt: Prompt = Prompt()
    """Part of the model's turn that the prompt already contains."""
    request: RequestFacts | str | None = None
    """Facts about the family for building requests, or the name of a dialect that has the same facts."""

    def __hash__(self) -> int:
        # The hash must be fast, because every parser looks up its compiled dialect in a cache.  Hashing only
        # the name is enough, because few dialects have the same name.
        return hash(self.name)

    def __repr__(self) -> str:
        return short_repr(self, "name")

    def __post_init__(self) -> None:
        from ._validation import validate_dialect

        validate_dialect(self)
