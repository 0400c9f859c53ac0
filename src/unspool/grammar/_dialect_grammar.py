"""Construction of a grammar from the templates of a dialect.

A dialect may list several templates of each kind.  The grammar allows only the first template, which is the
form that the model itself writes.  The literals of a template become fixed text.  The placeholders become
nodes for the function names of the tools, and for arguments that satisfy the tools' schemas.

Text that is not quoted or escaped must not contain markup.  A value between
tags must not contain its closing tag, and reasoning must not contain the
start of a call.  Because of these exclusions, the parser never misreads an output
that the grammar allows.

``GrammarBuilder`` is for dialects that write calls inside plain text.
``FramedGrammarBuilder`` is for dialects that write each part as a message with a
header, such as Harmony.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..dialects import OPENAI_ID, Wrapper, is_control_token
from ..dialects.parse_templates import (
    Attributes,
    Piece,
    Placeholder,
    first_literal,
    only_at_start,
    parse_template,
    split_at,
    template_text,
)
from ..errors import UsageError
from ._nodes import (
    NOTHING,
    AnyText,
    Chars,
    Dispatch,
    Exact,
    Named,
    Node,
    Repeat,
    Schema,
    SchemaValue,
    Separated,
    char_class,
    choice,
    complement,
    literal_prefix,
    optional,
    seq,
    strip_prefix,
    up_to,
)
from ._request_functions import Function
from ._tagged_parameters import TaggedParameters

if TYPE_CHECKING:
    from ..dialects import Dialect, Frame

Start: TypeAlias = Literal["message", "reasoning", "content"]
"""Where the output begins: at the start of a message, or in a channel that the prompt has opened."""

_BLANK: Final = Chars(char_class(" \n"))
_GAP: Final = Repeat(_BLANK, 0, 4)
"""Whitespace between reasoning and the text after it."""
_NUMBER: Final = Repeat(Chars(char_class("0-9")), 1, 4)
_OPENAI_ID_TEXT: Final = Repeat(Chars(char_class("a-zA-Z0-9_-")), 1, 40)
_NAMES: Final = re.compile(r"[^\s<>{}()\[\]\"'|｜,=]+")


class GrammarBuilder:
    """Builder of a dialect's grammar for the functions that the model may call."""

    def __init__(self, dialect: Dialect, offered: Sequence[Function], *, parallel: bool) -> None:
        self.dialect = dialect
        self.offered = [f for f in offered if not dialect.names.fixed or f.name == dialect.names.fixed]
        if not self.offered:
            raise UsageError(
                f"dialect {dialect.name!r} can call only {dialect.names.fixed!r}, "
                "which is not among the tools; add a tool with this name, or use guided_schema()"
            )
        self.parallel = parallel
        self.params = TaggedParameters(dialect) if dialect.param else None

    # -- calls

    def calls(self) -> Node:
        """Return the node for all calls and the markers around them, without the whitespace before them."""
        dialect = self.dialect
        opening, closing = self.section()
        separator = dialect.writing.between_calls
        if dialect.writing.section_per_call:
            separator = closing + separator + opening
        one = choice(Named(f"{function.name}-call", self.call(function)) for function in self.offered)
        return seq(opening, Separated(one, separator) if self.parallel else one, closing)

    def section(self) -> tuple[str, str]:
        """Return the fixed texts before and after the calls in the section template."""
        before, _, after = split_at(parse_template(self.dialect.section[0]), "calls")
        return _text(before).lstrip("\n"), _text(after)

    def call(self, function: Function) -> Node:
        """Return the node for a call of this function."""
        return self.fill(self.dialect.call[0], function)

    def fill(self, template: str, function: Function) -> Node:
        """Return the node for a template filled with the function's name and arguments."""
        return seq(*self._fill_pieces(parse_template(template), function))

    def _fill_pieces(self, pieces: Iterable[Piece], function: Function) -> Iterator[Node | str]:
        for piece in pieces:
            if isinstance(piece, Placeholder):
                yield self.placeholder(piece, function)
            elif isinstance(piece, Attributes):
                for attribute, field in piece.fields.items():
                    yield f' {attribute}="'
                    yield self.placeholder(
                        Placeholder(field, ""), function, escape=self.dialect.habits.unescape
                    )
                    yield '"'
            else:
                yield piece.text

    def placeholder(self, placeholder: Placeholder, function: Function, *, escape: bool = False) -> Node:
        """Return the node that fills a placeholder of a template.

        The function is long but flat, because it has one branch per kind of placeholder.
        """
        dialect = self.dialect
        notation = placeholder.notation or dialect.args
        if placeholder.field == "name":
            name = html.escape(function.name) if escape else function.name
            if not _NAMES.fullmatch(name):
                raise UsageError(
                    f"dialect {dialect.name!r} cannot write the tool name {function.name!r}; rename the tool"
                )
            form = dialect.names.forms[0]
            # The parser also accepts forms that repeat the name, but the grammar does not allow them.
            return _number_in(form.replace("{name}", name)) if form.count("{name}") == 1 else Exact(name)
        if placeholder.field == "index":
            return _NUMBER
        if placeholder.field == "id":
            return self.id(function)
        if placeholder.field == "params" and self.params is not None:
            return self.params.all(function.parameters)
        if placeholder.field == "envelope":
            return self.envelope(function, notation)
        if placeholder.field == "args":
            return self.arguments(function.parameters, notation)
        if placeholder.field == "code":
            raise UsageError(
                f"dialect {dialect.name!r} writes raw code without an end marker, "
                "so no grammar can constrain it; use guided_schema()"
            )
        return NOTHING

    def arguments(self, schema: Schema, notation: str) -> Node:
        """Return the node for a call's arguments in this notation."""
        if notation == "json":
            return SchemaValue(schema)
        if notation == "bare":
            return SchemaValue(schema, "bare", quote=self.dialect.values.quote)
        return SchemaValue(schema, "python", arguments=True)

    def envelope(self, function: Function, notation: str) -> Node:
        """Return the node for an object, in this notation, with the function's name and the arguments."""
        if notation == "json":
            return self._envelope(function, SchemaValue(function.parameters), '"')
        value = SchemaValue(function.parameters, "python")
        return choice(self._envelope(function, value, quote) for quote in ('"', "'"))

    def _envelope(self, function: Function, arguments: Node, quote: str) -> Node:
        keys = self.dialect.envelope
        name = _quoted(function.name, quote)
        if keys.keyed:
            return seq("{", name, ": ", arguments, "}")
        values: dict[str, tuple[str, Node]] = {
            "name": (keys.name_keys[0], Exact(name)),
            "args": (keys.args_keys[0], arguments),
            "id": (keys.id_keys[0], seq(quote, self.id(function), quote)),
        }
        members: list[Node | str] = []
        for part in keys.order:
            key, value = values[part]
            members += [", " if members else "{", _quoted(key, quote), ": ", value]
        return seq(*members, "}")

    def id(self, function: Function) -> Node:
        """Return the node for a call id in the format of the model family."""
        form = self.dialect.id_format
        if form == OPENAI_ID:
            return _OPENAI_ID_TEXT
        before, random, after = form.pattern.replace("{name}", function.name).partition("{random}")
        if not random:
            return _number_in(before)
        letters = Repeat(Chars(char_class("a-zA-Z0-9")), form.length, form.length)
        return seq(_number_in(before), letters, _number_in(after))

    # -- the whole output

    def output(self, *, required: bool, reasoning: bool, start: Start) -> Node:
        """Return the node for the whole output.

        An output is reasoning (if allowed), then content (unless a call is required), then calls.
        """
        calls = self.calls()
        openers = self.call_openers()
        thoughts, answers = _markers(self.dialect.reasoning), _markers(self.dialect.content)
        dropped = _markers(self.dialect.habits.drop_text)
        # Reasoning must not contain any marker of the dialect.  Content may contain the content markers.
        forbidden = (*openers, *thoughts, *answers, *dropped)
        visible = (*openers, *(marker for marker in (*thoughts, *dropped) if marker not in answers))
        body = seq(self.empty_content(), calls) if required else self.answer(calls, visible)
        # If the output may begin with content, whitespace before the content is part of the content.
        gap, lead = (NOTHING, NOTHING) if isinstance(body, Dispatch) else (self.gap(), self.lead())
        if start == "message":
            if reasoning and self.dialect.reasoning:
                opening, closer = self._wrapper("reasoning")
                thought = seq(opening, up_to(closer, forbidden), gap)
                lead = optional(thought) if lead == NOTHING else choice((thought, lead))
            return seq(lead, body)
        _, closer = self._wrapper(start)
        return seq(up_to(closer, forbidden if start == "reasoning" else visible), gap, body)

    def answer(self, calls: Node, forbidden: tuple[str, ...]) -> Node:
        """Return the node for an answer: content, calls, or content followed by calls."""
        if self.is_anchored:
            first = complement(char_class(" \n" + literal_prefix(calls)[:1]))
            return choice((calls, seq(_GAP, optional(Chars(first), AnyText(forbidden)))))
        trigger = self.trigger()
        return Dispatch(trigger, calls, tuple(other for other in forbidden if other not in trigger))

    @property
    def is_anchored(self) -> bool:
        """True if the parser recognises calls only at the start of the visible text."""
        return only_at_start(self.dialect.section[0])

    def trigger(self) -> str:
        """Return the marker that ends the content and begins the calls."""
        before, _, _ = split_at(parse_template(self.dialect.section[0]), "calls")
        opener = _marker(first_literal(before) or first_literal(parse_template(self.dialect.call[0])))
        return opener if _is_tag(opener) else _text(before).lstrip("\n") or opener

    def call_openers(self) -> tuple[str, ...]:
        """Return the opening markers of all call forms that the parser accepts.

        Markers that also occur in prose, such as a brace, are left out.
        """
        dialect = self.dialect
        trigger = "" if self.is_anchored else self.trigger()
        openers = {trigger: None}
        for section in dialect.section:
            before, _, _ = split_at(parse_template(section), "calls")
            for template in (section,) if first_literal(before) else dialect.call:
                # Skip forms that contain the trigger: text without the trigger cannot contain such a form.
                if not trigger or trigger not in template_text(template):
                    openers[_marker(first_literal(parse_template(template)))] = None
        return tuple(opener for opener in openers if _is_tag(opener))

    def _wrapper(self, channel: Literal["reasoning", "content"]) -> tuple[str, str]:
        """Return the opening and the closing marker of a channel."""
        templates = self.dialect.reasoning if channel == "reasoning" else self.dialect.content
        if not templates:
            raise UsageError(
                f"dialect {self.dialect.name!r} has no markers around {channel}, "
                "so the prompt cannot have opened it; use start='message'"
            )
        before, _, after = split_at(parse_template(templates[0]), "text")
        return _text(before).rstrip("\n"), first_literal(after)

    def empty_content(self) -> Node:
        """Return the node for the optional markers of empty content, which some models write before calls."""
        if not self.dialect.content:
            return NOTHING
        opening, closer = self._wrapper("content")
        return optional(opening, closer) if is_control_token(opening) else NOTHING

    def gap(self) -> Node:
        """Return the node for text between two parts of the output."""
        dialect = self.dialect
        again = optional(dialect.prompt.start) if dialect.prompt.start in dialect.drop else NOTHING
        return seq(NOTHING if dialect.keep_whitespace else _GAP, again)

    def lead(self) -> Node:
        """Return the node for the whitespace that the dialect writes before calls."""
        return _GAP if self.dialect.writing.before_calls and not self.dialect.keep_whitespace else NOTHING


class FramedGrammarBuilder(GrammarBuilder):
    """Builder for a dialect that writes each part of the output as a message with a header."""

    def __init__(
        self, dialect: Dialect, frame: Frame, offered: Sequence[Function], *, parallel: bool
    ) -> None:
        super().__init__(dialect, offered, parallel=parallel)
        self.frame = frame
        self.opener = template_text(frame.open[0])
        self.end = frame.ends[0] if frame.ends else ""
        self.boundaries = (*frame.ends, *(opener for opener in frame.open if isinstance(opener, str)))

    def header(self, into: str) -> str:
        """Return the header of a reasoning or content message; empty if there is no such header."""
        for route in self.frame.routes:
            if route.into == into and route.header:
                return self.opener + route.header + self.frame.sep
        return ""

    def call(self, function: Function) -> Node:
        frame = self.frame
        for route in frame.routes:
            if route.header and route.into in ("{args}", "{params}", "{calls}"):
                break
        else:
            raise UsageError(
                f"dialect {self.dialect.name!r} declares no message header for calls; "
                "set header in the route that reads calls"
            )
        if not re.fullmatch(r"[^\s<]+", function.name):
            raise UsageError(
                f"dialect {self.dialect.name!r} cannot write the tool name {function.name!r}; rename the tool"
            )
        body = self.fill(route.into, function)
        if route.into == "{calls}":
            opening, closing = self.section()
            body = seq(opening, self.fill(self.dialect.call[0], function), closing)
        return seq(self.opener + route.header.replace("{name}", function.name) + frame.sep, body)

    def calls(self) -> Node:
        frame = self.frame
        end = self.dialect.habits.call_end or self.end
        one = choice(Named(f"{function.name}-call", self.call(function)) for function in self.offered)
        # The last end marker is optional, because generation stops at this marker and backends often omit it.
        last = optional(choice(map(Exact, dict.fromkeys((end, *frame.ends))))) if end else NOTHING
        return seq(Separated(one, end) if self.parallel else one, last)

    def output(self, *, required: bool, reasoning: bool, start: Start) -> Node:
        calls = self.calls()
        if start != "message" and not self.header(start):
            raise UsageError(
                f"dialect {self.dialect.name!r} has no message header for {start}, "
                "so the prompt cannot have opened it; use start='message'"
            )
        content = self.text_then(calls) if required else self.answer(calls, ())
        if start == "content":
            return content
        body = calls if required else choice((calls, seq(self.header("content"), content)))
        if start == "reasoning":
            return self.text_then(body)
        options = [body]
        if reasoning and self.header("reasoning"):
            options.append(seq(self.header("reasoning"), self.text_then(body)))
        # The prompt already contains ``prompt.start``, so the output begins after that text.
        seed = self.dialect.prompt.start
        if not all(literal_prefix(option).startswith(seed) for option in options):
            raise UsageError(
                f"prompt.start of dialect {self.dialect.name!r} is {seed!r}, but not all of its messages "
                "begin with this text; correct the dialect's declaration"
            )
        return choice(strip_prefix(option, seed) for option in options)

    def text_then(self, body: Node) -> Node:
        """Return the node for a message's text and end marker, followed by ``body``."""
        if self.end:
            return seq(up_to(self.end, self.boundaries), body)
        return seq(up_to(self.opener), strip_prefix(body, self.opener))

    def answer(self, calls: Node, forbidden: tuple[str, ...]) -> Node:
        if not self.end:
            return Dispatch(self.opener, calls, forbidden)
        last = optional(choice(map(Exact, self.frame.ends)))
        return choice((self.text_then(calls), seq(AnyText((*self.boundaries, *forbidden)), last)))


# --- text


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if not isinstance(piece, Placeholder))


def _markers(wrappers: Iterable[str | Wrapper]) -> tuple[str, ...]:
    """Return the markers in wrapper templates, except for closing markers that also occur in prose."""
    markers: list[str] = []
    for template in wrappers:
        before, _, after = split_at(parse_template(template), "text")
        opener, closer = first_literal(before), first_literal(after)
        markers += [opener, closer] if _is_tag(closer) else [opener]
    return tuple(dict.fromkeys(markers))


def _marker(literal: str) -> str:
    """Return a literal without a trailing space or ``[``, because models sometimes omit the bracket."""
    return literal.rstrip(" ") if len(literal) == 1 else literal.rstrip(" [")


def _is_tag(literal: str) -> bool:
    return literal.startswith("<") or is_control_token(literal)


def _number_in(form: str) -> Node:
    before, index, after = form.partition("{index}")
    return seq(before, _NUMBER, after) if index else Exact(before)


def _quoted(text: str, quote: str) -> str:
    double = json.dumps(text, ensure_ascii=False)
    return double if quote == '"' else "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
