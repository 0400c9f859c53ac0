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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from .._errors import UsageError
from .._grammar import is_control
from .._ids import OPENAI_ID
from .._template import (
    PAYLOADS,
    Attributes,
    Hole,
    Piece,
    first_literal,
    literals,
    parse_template,
    split_at,
    split_marks,
)
from .ir import (
    NOTHING,
    Chars,
    Dispatch,
    Free,
    Many,
    Named,
    Node,
    Repeat,
    Schema,
    Text,
    Value,
    chars,
    choice,
    complement,
    first_text,
    optional,
    seq,
    strip_prefix,
    up_to,
)
from .json_schema import Function, self_contained

if TYPE_CHECKING:
    from .._dialect import Dialect, Frame

Start: TypeAlias = Literal["message", "reasoning", "content"]
"""Where the output begins: where a message does, or inside what the prompt has opened."""

_BLANK: Final = Chars(chars(" \n"))
_GAP: Final = Repeat(_BLANK, 0, 4)
"""White space between reasoning and what follows it."""
_NUMBER: Final = Repeat(Chars(chars("0-9")), 1, 4)
_SOME_ID: Final = Repeat(Chars(chars("a-zA-Z0-9_-")), 1, 40)
_KEY: Final = seq(Chars(chars("a-zA-Z_")), Repeat(Chars(chars("a-zA-Z0-9_")), 0, 30))
_NAMES: Final = re.compile(r"[^\s<>{}()\[\]\"'|｜,=]+")
_KEYS: Final = re.compile(r"[^\s/<>][^<>\n]*")
_KINDS: Final = ("string", "number", "boolean", "null", "array", "object")
"""JSON's types, in the order of ``Dialect.type_words``."""


class Walk:
    """Builds the grammar of a dialect for some functions."""

    def __init__(self, dialect: Dialect, offered: Sequence[Function], *, parallel: bool) -> None:
        self.dialect = dialect
        self.offered = offered
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
                    yield self.hole(Hole(field, ""), function, escape=self.dialect.unescape)
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
            form = dialect.name_forms[0]
            # A form that doubles the name is accepted, never written.
            return _number_in(form.replace("{name}", name)) if form.count("{name}") == 1 else Text(name)
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
            return Value(schema)
        if notation == "bare":
            return Value(schema, "bare", quote=self.dialect.quote)
        return Value(schema, "python", arguments=True)

    def envelope(self, function: Function, notation: str) -> Node:
        """An object that holds name and arguments."""
        dialect = self.dialect
        if notation == "json":
            return self._envelope(function, Value(function.parameters), '"')
        value = Value(function.parameters, "python")
        return choice(self._envelope(function, value, quote) for quote in ('"', "'"))

    def _envelope(self, function: Function, arguments: Node, quote: str) -> Node:
        dialect = self.dialect
        name = _quoted(function.name, quote)
        if dialect.keyed:
            return seq("{", name, ": ", arguments, "}")
        number: Node = NOTHING
        if "{index}" in dialect.id_format.pattern and "{name}" not in dialect.id_format.pattern:
            # The model numbers its calls.
            number = optional(_quoted(dialect.id_keys[0], quote), ": ", quote, self.id(function), quote, ", ")
        first, second = (_quoted(keys[0], quote) for keys in (dialect.name_keys, dialect.args_keys))
        return seq("{", number, first, ": ", name, ", ", second, ": ", arguments, "}")

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
        reasoning_marks, content_marks = (_marks(kind) for kind in (self.dialect.reasoning, self.dialect.content))
        openers = self.openers()
        forbidden = (*openers, *reasoning_marks, *content_marks)
        visible = (*openers, *(mark for mark in reasoning_marks if mark not in content_marks))
        body = self.answer(calls, visible) if kind == "auto" else seq(self.empty_content(), calls)
        if start == "message":
            lead = self.lead()
            if reasoning and self.dialect.reasoning:
                opening, closer = self._wrapper("reasoning")
                thought = seq(opening, up_to(closer, forbidden), self.gap())
                lead = optional(thought) if lead == NOTHING else choice((thought, lead))
            return seq(lead, body)
        _, closer = self._wrapper(start)
        return seq(up_to(closer, forbidden if start == "reasoning" else visible), self.gap(), body)

    def answer(self, calls: Node, forbidden: tuple[str, ...]) -> Node:
        """Content, calls, or both."""
        marks, _ = split_marks(self.dialect.section[0])
        if "^" in marks:
            first = complement(chars(" \n" + first_text(calls)[:1]))
            return choice((calls, seq(_GAP, optional(Chars(first), Free(forbidden)))))
        trigger = self.trigger()
        return Dispatch(trigger, calls, tuple(other for other in forbidden if other not in trigger))

    def trigger(self) -> str:
        """What tells that calls begin."""
        before, _, _ = split_at(parse_template(split_marks(self.dialect.section[0])[1]), "calls")
        opener = _marker(first_literal(before) or first_literal(parse_template(self.dialect.call[0])))
        return opener if _is_tag(opener) else _text(before).lstrip("\n") or opener

    def openers(self) -> tuple[str, ...]:
        """What begins a call, in any of the forms that are read, unless it may as well be prose."""
        dialect = self.dialect
        trigger = self.trigger()
        found = {trigger: None}
        for section in dialect.section:
            before, _, _ = split_at(parse_template(split_marks(section)[1]), "calls")
            for template in (section,) if first_literal(before) else dialect.call:
                # A form that contains the trigger is found by it.
                if trigger not in template:
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
        return optional(opening, closer) if is_control(opening) else NOTHING

    def gap(self) -> Node:
        """What may stand between two parts of the output."""
        dialect = self.dialect
        again = optional(dialect.start) if dialect.start in dialect.drop else NOTHING
        return seq(NOTHING if dialect.keep_blanks else _GAP, again)

    def lead(self) -> Node:
        """White space before the calls, if the model writes any."""
        body = split_marks(self.dialect.section[0])[1]
        return _GAP if body.startswith("\n") and not self.dialect.keep_blanks else NOTHING


class FramedWalk(Walk):
    """The same for messages with headers: a message for each part."""

    def __init__(
        self, dialect: Dialect, frame: Frame, offered: Sequence[Function], *, parallel: bool
    ) -> None:
        super().__init__(dialect, offered, parallel=parallel)
        self.frame = frame
        self.borders = (
            *frame.ends,
            *(opener.lstrip("^") for opener in frame.open if not opener.startswith("^")),
        )

    def message(self, into: str, end: Node | str) -> Node:
        """A message of reasoning or content, from its header on."""
        return seq(self.head(into), self._body(end))

    def _body(self, end: Node | str) -> Node:
        if isinstance(end, str) and end:
            return up_to(end, self.borders)
        return Free(self.borders)

    def head(self, *into: str) -> Node:
        route = self._route(*into)
        return seq(self.frame.open[0], route, self.frame.sep)

    def _route(self, *into: str) -> str:
        for route in self.frame.routes:
            if route.into in into and route.header:
                return route.header
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
        header = seq(*(self._field(piece, function) for piece in parse_template(route.header)))
        body = self.filled(route.into, function)
        if route.into == "{calls}":
            opening, closing = self.section()
            body = seq(opening, self.filled(self.dialect.call[0], function), closing)
        return seq(frame.open[0], header, frame.sep, body)

    def _field(self, piece: Piece, function: Function) -> Node | str:
        if not isinstance(piece, Hole):
            return piece.text
        if not re.fullmatch(r"[^\s<]+", function.name):
            raise UsageError(f"dialect {self.dialect.name!r} cannot write the tool name {function.name!r}")
        return function.name

    def calls(self) -> Node:
        frame = self.frame
        end = frame.call_end or (frame.ends[0] if frame.ends else "")
        one = choice(Named(f"{function.name}-call", self.call(function)) for function in self.offered)
        # The last end is what stops the model, so it is often not seen.
        last = optional(choice(map(Text, dict.fromkeys((end, *frame.ends))))) if end else NOTHING
        return seq(Many(one, end) if self.parallel else one, last)

    def output(self, kind: str, *, reasoning: bool, start: Start) -> Node:
        frame = self.frame
        end = frame.ends[0] if frame.ends else ""
        thinks = bool(self._route("reasoning"))
        if start == "reasoning" and not thinks:
            raise UsageError(
                f"dialect {self.dialect.name!r} has no reasoning of its own, so the output cannot start in it"
            )
        calls = self.calls()
        body: Node = calls
        if kind == "auto":
            body = choice((calls, *self._contents(calls, end)))
        if start == "reasoning":
            return seq(self._body(end), body)
        if start == "content":
            return choice(strip_prefix(option, first_text(option)) for option in self._contents(calls, end))
        options = [body]
        if reasoning and thinks:
            options.append(seq(self.message("reasoning", end), body))
        return choice(strip_prefix(option, self.dialect.start) for option in options)

    def _contents(self, calls: Node, end: str) -> Iterator[Node]:
        """An answer, and an answer before calls."""
        head = self.head("content")
        if not end:
            yield seq(head, Dispatch(self.frame.open[0], calls))
            return
        yield seq(head, up_to(end, self.borders), calls)
        yield seq(head, Free(self.borders))
        for final in self.frame.ends:
            yield seq(head, up_to(final, self.borders))


class Params:
    """Parameters in tags."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.without = tuple(self._markup())

    def _markup(self) -> Iterator[str]:
        """What ends a value: a closing tag, the next parameter, the end of the call."""
        dialect = self.dialect
        for template in dialect.param:
            before, _, after = split_at(parse_template(template), "value")
            yield first_literal(before).rstrip()
            yield first_literal(after).rstrip()
        for template in dialect.call:
            _, payload, after = split_at(parse_template(template), *PAYLOADS)
            if payload is not None:
                yield from (literal for literal in literals(after)[:1] if len(literal) > 1)
        if dialect.frame is not None:
            yield from dialect.frame.ends

    def all(self, schema: Schema) -> Node:
        """The parameters of a call."""
        return self.members(schema, schema, dict.fromkeys(()))

    def members(self, schema: Schema, root: Schema, seen: Mapping[str, None]) -> Node:
        """The members of an object as parameters."""
        parts: list[Node] = []
        found = _flat(schema, root)
        required = found.get("required", ())
        for key, inner in found.get("properties", {}).items():
            if inner is False:
                continue
            param = self.param(self._key(key), inner, root, seen)
            parts.append(param if key in required else optional(param))
        extra = found.get("additionalProperties", "properties" not in found)
        if extra is not False:
            parts.append(Repeat(self.param(_KEY, extra, root, seen)))
        return seq(*parts)

    def _key(self, key: str) -> Node:
        if not _KEYS.fullmatch(key) or any(marker in key for marker in self.without):
            raise UsageError(f"dialect {self.dialect.name!r} cannot write the parameter name {key!r}")
        return Text(key)

    def param(self, key: Node | None, schema: Schema, root: Schema, seen: Mapping[str, None]) -> Node:
        """One parameter; without a key, an item of a list."""
        template = self._template(key)
        options = list(self._values(schema, root, seen))
        before, _, after = split_at(parse_template(template), "value")
        heads: dict[Node, list[Node]] = {}
        for kind, value in options:
            head = seq(*self._parts(before, key, kind))
            tail = seq(*self._parts(after, key, kind))
            heads.setdefault(head, []).append(self._closed(value, tail))
        return choice(seq(head, choice(values)) for head, values in heads.items())

    def _template(self, key: Node | None) -> str:
        if key is None and not self.dialect.list_key:
            for template in self.dialect.param:
                if "{key}" not in template:
                    return template
        return self.dialect.param[0]

    def _parts(self, pieces: Iterable[Piece], key: Node | None, kind: str) -> Iterator[Node | str]:
        dialect = self.dialect
        name: Node = Text(dialect.list_key) if key is None else key
        fields: dict[str, Node] = {
            "key": name,
            "string": Text("true" if kind == "string" else "false"),
            "type": Text(dialect.type_words[_KINDS.index(kind)]),
        }
        for piece in pieces:
            if isinstance(piece, Hole):
                yield fields[piece.field]
            elif isinstance(piece, Attributes):
                for attribute, field in piece.fields.items():
                    value = fields[field]
                    if dialect.unescape and isinstance(value, Text):
                        value = Text(html.escape(value.text))
                    yield seq(f' {attribute}="', value, '"')
            else:
                yield piece.text

    def _closed(self, value: Node | None, tail: Node) -> Node:
        """A value and what follows it; none: raw text."""
        if value is not None:
            return seq(value, tail)
        closer = first_text(tail)
        cut = closer.rstrip("\n")
        return seq(up_to(cut, self.without), closer[len(cut) :], strip_prefix(tail, closer))

    def _values(
        self, schema: Schema, root: Schema, seen: Mapping[str, None]
    ) -> Iterator[tuple[str, Node | None]]:
        """The kinds of value that a schema allows, each as it is written; None: as raw text."""
        for kind, inner in kinds(schema, root):
            if kind == "string" and _given(inner):
                yield kind, choice(Text(value) for value in _given(inner))
            elif kind == "string":
                yield kind, None
            elif self.dialect.nested and kind in ("array", "object") and not _given(inner):
                yield kind, self._nested(kind, inner, root, seen)
            else:
                without = self.without if kind in ("array", "object") else ()
                yield kind, Value(self_contained(inner, root), without=without)

    def _nested(self, kind: str, schema: Mapping[str, Any], root: Schema, seen: Mapping[str, None]) -> Node:
        if len(seen) > 16:
            raise UsageError(
                f"dialect {self.dialect.name!r} writes nested values as tags, which a schema that contains itself "
                "has no end of"
            )
        deeper = {**seen, str(len(seen)): None}
        if kind == "object":
            return self.members(schema, root, deeper)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        return Repeat(self.param(None, schema.get("items", True), root, deeper), least, most)


# --- schemas


def kinds(schema: Schema, root: Schema, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The JSON types that a schema allows, each with what it says about them."""
    found = _flat(schema, root)
    for keyword in ("anyOf", "oneOf"):
        if keyword in found and depth < 16:
            outer = {key: value for key, value in found.items() if key != keyword}
            for branch in found[keyword]:
                inner = {**outer, **_flat(branch, root)}
                yield from kinds(inner, root, depth + 1)
            return
    values = [found["const"]] if "const" in found else found.get("enum")
    if values is not None:
        for kind in _KINDS:
            same = [value for value in values if _kind_of(value) == kind]
            if same:
                yield kind, {"enum": same}
        return
    types = found.get("type")
    if types is None:
        types = "object" if "properties" in found else "array" if "items" in found else None
    names = [types] if isinstance(types, str) else types or ("string",)
    merged: dict[str, Mapping[str, Any]] = {}
    for name in names:
        kind = "number" if name == "integer" else name
        if kind not in merged or name == "number":
            merged[kind] = {**found, "type": name}
    yield from merged.items()


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _given(schema: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = schema.get("enum", [])
    return found


def _flat(schema: Schema, root: Schema, depth: int = 0) -> Mapping[str, Any]:
    """A schema without references and ``allOf`` at its top."""
    if isinstance(schema, bool) or depth > 16:
        return {}
    definitions = root.get("$defs", {}) if isinstance(root, Mapping) else {}
    if "$ref" in schema:
        return _flat(definitions.get(schema["$ref"].rsplit("/", 1)[-1], True), root, depth + 1)
    out: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("allOf", "$defs")}
    for part in schema.get("allOf", ()):
        flat = _flat(part, root, depth + 1)
        for keyword in ("properties", "required"):
            if keyword in out and keyword in flat:
                both = out[keyword]
                more = flat[keyword]
                flat = {**flat, keyword: {**both, **more} if isinstance(both, Mapping) else [*both, *more]}
        out.update(flat)
    return out


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
    return literal.startswith("<") or is_control(literal)


def _number_in(form: str) -> Node:
    before, index, after = form.partition("{index}")
    return seq(before, _NUMBER, after) if index else Text(before)


def _quoted(text: str, quote: str) -> str:
    double = json.dumps(text, ensure_ascii=False)
    return double if quote == '"' else "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
