"""The walk: from a dialect's templates to what a model may write.

The first template of each kind is what the model itself would write, and the
only one a grammar allows.  Literals become text; holes become what the tools
say: names, and arguments by their schemas.

What nothing protects must not contain markup: a value between tags cannot hold
the tags that would end it, reasoning cannot hold what begins a call.  So what a
grammar allows, the parser reads back.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..dialects._control_tokens import is_control_token
from ..dialects._id_format import OPENAI_ID
from ..dialects._templates import (
    Attributes,
    Hole,
    Piece,
    first_literal,
    parse_template,
    split_at,
    split_marks,
)
from ..errors import UsageError
from ._intermediate import (
    NOTHING,
    Chars,
    Dispatch,
    Exact,
    Free,
    Many,
    Named,
    Node,
    Repeat,
    Schema,
    SchemaValue,
    chars,
    choice,
    complement,
    first_text,
    optional,
    seq,
    strip_prefix,
    up_to,
)
from ._json_schema import Function
from ._parameters import Params

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect, Frame

Start: TypeAlias = Literal["message", "reasoning", "content"]
"""Where the output begins: where a message does, or inside what the prompt has opened."""

_BLANK: Final = Chars(chars(" \n"))
_GAP: Final = Repeat(_BLANK, 0, 4)
"""White space between reasoning and what follows it."""
_NUMBER: Final = Repeat(Chars(chars("0-9")), 1, 4)
_SOME_ID: Final = Repeat(Chars(chars("a-zA-Z0-9_-")), 1, 40)
_NAMES: Final = re.compile(r"[^\s<>{}()\[\]\"'|｜,=]+")


class Walk:
    """Builds the grammar of a dialect for some functions."""

    def __init__(self, dialect: Dialect, offered: Sequence[Function], *, parallel: bool) -> None:
        self.dialect = dialect
        self.offered = [f for f in offered if not dialect.names.fixed or f.name == dialect.names.fixed]
        if not self.offered:
            raise UsageError(
                f"dialect {dialect.name!r} calls {dialect.names.fixed!r} only, which is not offered"
            )
        self.parallel = parallel
        self.params = Params(dialect) if dialect.param else None

    # -- calls

    def calls(self) -> Node:
        """Calls, as many as may be, with what surrounds them; without the white space before."""
        dialect = self.dialect
        opening, closing = self.section()
        separator = dialect.sep[0] if dialect.sep else ""
        if dialect.section_per_call:
            separator = closing + separator + opening
        one = choice(Named(f"{function.name}-call", self.call(function)) for function in self.offered)
        return seq(opening, Many(one, separator) if self.parallel else one, closing)

    def section(self) -> tuple[str, str]:
        """What stands before and behind the calls."""
        before, _, after = split_at(parse_template(split_marks(self.dialect.section[0])[1]), "calls")
        return _text(before).lstrip("\n"), _text(after)

    def call(self, function: Function) -> Node:
        """One call."""
        return self.filled(self.dialect.call[0], function)

    def filled(self, template: str, function: Function) -> Node:
        """A template with the function's name and what may be its arguments."""
        return seq(*self._parts(parse_template(template), function))

    def _parts(self, pieces: Iterable[Piece], function: Function) -> Iterator[Node | str]:
        for piece in pieces:
            if isinstance(piece, Hole):
                yield self.hole(piece, function)
            elif isinstance(piece, Attributes):
                for attribute, field in piece.fields.items():
                    yield f' {attribute}="'
                    yield self.hole(Hole(field, ""), function, escape=self.dialect.values.unescape)
                    yield '"'
            else:
                yield piece.text

    def hole(self, hole: Hole, function: Function, *, escape: bool = False) -> Node:
        """What a hole may hold."""
        dialect = self.dialect
        notation = hole.notation or dialect.args
        if hole.field == "name":
            name = html.escape(function.name) if escape else function.name
            if not _NAMES.fullmatch(name):
                raise UsageError(f"dialect {dialect.name!r} cannot write the tool name {function.name!r}")
            form = dialect.names.forms[0]
            # A form that doubles the name is accepted, never written.
            return _number_in(form.replace("{name}", name)) if form.count("{name}") == 1 else Exact(name)
        if hole.field == "index":
            return _NUMBER
        if hole.field == "id":
            return self.id(function)
        if hole.field == "params" and self.params is not None:
            return self.params.all(function.parameters)
        if hole.field == "envelope":
            return self.envelope(function, notation)
        if hole.field == "args":
            return self.arguments(function.parameters, notation)
        if hole.field == "code":
            raise UsageError(
                f"dialect {dialect.name!r} writes raw code, whose end nothing marks; no grammar can say more"
            )
        return NOTHING

    def arguments(self, schema: Schema, notation: str) -> Node:
        """Arguments in a notation."""
        if notation == "json":
            return SchemaValue(schema)
        if notation == "bare":
            return SchemaValue(schema, "bare", quote=self.dialect.values.quote)
        return SchemaValue(schema, "python", arguments=True)

    def envelope(self, function: Function, notation: str) -> Node:
        """An object that holds name and arguments."""
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
        """An id as the family spells it."""
        form = self.dialect.id_format
        if form == OPENAI_ID:
            return _SOME_ID
        before, random, after = form.pattern.replace("{name}", function.name).partition("{random}")
        if not random:
            return _number_in(before)
        letters = Repeat(Chars(chars("a-zA-Z0-9")), form.length, form.length)
        return seq(_number_in(before), letters, _number_in(after))

    # -- the whole output

    def output(self, kind: str, *, reasoning: bool, start: Start) -> Node:
        """Reasoning, if it may be; content, if calls are not required; calls."""
        calls = self.calls()
        openers = self.openers()
        thoughts, answers = _marks(self.dialect.reasoning), _marks(self.dialect.content)
        dropped = _marks([template for template in self.dialect.drop if "{text}" in template])
        forbidden = (*openers, *thoughts, *answers, *dropped)
        visible = (*openers, *(mark for mark in (*thoughts, *dropped) if mark not in answers))
        body = self.answer(calls, visible) if kind == "auto" else seq(self.empty_content(), calls)
        # White space before an answer is part of it.
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
        """Content, calls, or both."""
        if self.anchored:
            first = complement(chars(" \n" + first_text(calls)[:1]))
            return choice((calls, seq(_GAP, optional(Chars(first), Free(forbidden)))))
        trigger = self.trigger()
        return Dispatch(trigger, calls, tuple(other for other in forbidden if other not in trigger))

    @property
    def anchored(self) -> bool:
        """Whether calls are only looked for where no visible text came before."""
        return "^" in split_marks(self.dialect.section[0])[0]

    def trigger(self) -> str:
        """What tells that calls begin, if it is not their place."""
        before, _, _ = split_at(parse_template(split_marks(self.dialect.section[0])[1]), "calls")
        opener = _marker(first_literal(before) or first_literal(parse_template(self.dialect.call[0])))
        return opener if _is_tag(opener) else _text(before).lstrip("\n") or opener

    def openers(self) -> tuple[str, ...]:
        """What begins a call, in any of the forms that are read, unless it may as well be prose."""
        dialect = self.dialect
        trigger = "" if self.anchored else self.trigger()
        found = {trigger: None}
        for section in dialect.section:
            before, _, _ = split_at(parse_template(split_marks(section)[1]), "calls")
            for template in (section,) if first_literal(before) else dialect.call:
                # A form that contains the trigger is found by it.
                if not trigger or trigger not in template:
                    found[_marker(first_literal(parse_template(split_marks(template)[1])))] = None
        return tuple(opener for opener in found if _is_tag(opener))

    def _wrapper(self, channel: Literal["reasoning", "content"]) -> tuple[str, str]:
        """Opener and closer of a channel."""
        templates = self.dialect.reasoning if channel == "reasoning" else self.dialect.content
        if not templates:
            raise UsageError(
                f"dialect {self.dialect.name!r} has no {channel} of its own, so the output cannot start in it"
            )
        before, _, after = split_at(parse_template(split_marks(templates[0])[1]), "text")
        return _text(before).rstrip("\n"), first_literal(after)

    def empty_content(self) -> Node:
        """Control tokens around an empty answer: some models always write them."""
        if not self.dialect.content:
            return NOTHING
        opening, closer = self._wrapper("content")
        return optional(opening, closer) if is_control_token(opening) else NOTHING

    def gap(self) -> Node:
        """What may stand between two parts of the output."""
        dialect = self.dialect
        again = optional(dialect.prompt.start) if dialect.prompt.start in dialect.drop else NOTHING
        return seq(NOTHING if dialect.keep_whitespace else _GAP, again)

    def lead(self) -> Node:
        """White space before the calls, if the model writes any."""
        body = split_marks(self.dialect.section[0])[1]
        return _GAP if body.startswith("\n") and not self.dialect.keep_whitespace else NOTHING


class FramedWalk(Walk):
    """The same for messages with headers: a message for each part."""

    def __init__(
        self, dialect: Dialect, frame: Frame, offered: Sequence[Function], *, parallel: bool
    ) -> None:
        super().__init__(dialect, offered, parallel=parallel)
        self.frame = frame
        self.end = frame.ends[0] if frame.ends else ""
        self.borders = (*frame.ends, *(opener for opener in frame.open if not opener.startswith("^")))

    def head(self, into: str) -> str:
        """The header of a message of reasoning or content; nothing if there is none."""
        for route in self.frame.routes:
            if route.into == into and route.header:
                return self.frame.open[0] + route.header + self.frame.sep
        return ""

    def call(self, function: Function) -> Node:
        frame = self.frame
        for route in frame.routes:
            if route.header and route.into in ("{args}", "{params}", "{calls}"):
                break
        else:
            raise UsageError(
                f"dialect {self.dialect.name!r} does not say how the header of a call is written"
            )
        if not re.fullmatch(r"[^\s<]+", function.name):
            raise UsageError(f"dialect {self.dialect.name!r} cannot write the tool name {function.name!r}")
        body = self.filled(route.into, function)
        if route.into == "{calls}":
            opening, closing = self.section()
            body = seq(opening, self.filled(self.dialect.call[0], function), closing)
        return seq(frame.open[0] + route.header.replace("{name}", function.name) + frame.sep, body)

    def calls(self) -> Node:
        frame = self.frame
        end = frame.call_end or self.end
        one = choice(Named(f"{function.name}-call", self.call(function)) for function in self.offered)
        # The last end is what stops the model, so it is often not seen.
        last = optional(choice(map(Exact, dict.fromkeys((end, *frame.ends))))) if end else NOTHING
        return seq(Many(one, end) if self.parallel else one, last)

    def output(self, kind: str, *, reasoning: bool, start: Start) -> Node:
        calls = self.calls()
        if start != "message" and not self.head(start):
            raise UsageError(
                f"dialect {self.dialect.name!r} has no {start} of its own, so the output cannot start in it"
            )
        content = self.answer(calls, ()) if kind == "auto" else self.closed(calls)
        if start == "content":
            return content
        body = choice((calls, seq(self.head("content"), content))) if kind == "auto" else calls
        if start == "reasoning":
            return self.closed(body)
        options = [body]
        if reasoning and self.head("reasoning"):
            options.append(seq(self.head("reasoning"), self.closed(body)))
        given = self.dialect.prompt.start
        if not all(first_text(option).startswith(given) for option in options):
            raise UsageError(
                f"the messages of dialect {self.dialect.name!r} do not begin with its start {given!r}"
            )
        return choice(strip_prefix(option, given) for option in options)

    def closed(self, body: Node) -> Node:
        """The text of a message, and what follows it."""
        if self.end:
            return seq(up_to(self.end, self.borders), body)
        return seq(up_to(self.frame.open[0]), strip_prefix(body, self.frame.open[0]))

    def answer(self, calls: Node, forbidden: tuple[str, ...]) -> Node:
        if not self.end:
            return Dispatch(self.frame.open[0], calls, forbidden)
        last = optional(choice(map(Exact, self.frame.ends)))
        return choice((self.closed(calls), seq(Free((*self.borders, *forbidden)), last)))


# --- text


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if not isinstance(piece, Hole))


def _marks(wrappers: Iterable[str]) -> tuple[str, ...]:
    """What begins and ends such text; not an end that may as well be prose."""
    found: list[str] = []
    for template in wrappers:
        before, _, after = split_at(parse_template(split_marks(template)[1]), "text")
        opener, closer = first_literal(before), first_literal(after)
        found += [opener, closer] if _is_tag(closer) else [opener]
    return tuple(dict.fromkeys(found))


def _marker(literal: str) -> str:
    """A literal without the bracket of a list, which may be forgotten, and blanks."""
    return literal.rstrip(" ") if len(literal) == 1 else literal.rstrip(" [")


def _is_tag(literal: str) -> bool:
    return literal.startswith("<") or is_control_token(literal)


def _number_in(form: str) -> Node:
    before, index, after = form.partition("{index}")
    return seq(before, _NUMBER, after) if index else Exact(before)


def _quoted(text: str, quote: str) -> str:
    double = json.dumps(text, ensure_ascii=False)
    return double if quote == '"' else "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
