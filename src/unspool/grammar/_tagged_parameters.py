"""Grammar of call parameters that are written as tags.

Text between tags is not escaped.  A string is written without quotes or escapes, and any other value as JSON.
Dialects with nested values write arrays and objects as nested tags instead of JSON.  A value must not contain
a tag that would end it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..dialects.parse_templates import (
    PAYLOADS,
    Attributes,
    Piece,
    Placeholder,
    first_literal,
    literals,
    parse_template,
    placeholders,
    split_at,
)
from ..errors import UsageError
from ._combine_schemas import find_references, flatten_schema
from ._nodes import (
    Chars,
    Exact,
    Node,
    Repeat,
    Schema,
    SchemaValue,
    char_class,
    choice,
    complement,
    literal_prefix,
    optional,
    seq,
    strip_prefix,
    up_to,
)
from ._parse_regex import FORMATS, UnsupportedPattern, apply_escapes, parse_pattern
from ._schema_to_rules import count_bounds
from ._self_contained_schema import self_contained
from ._size_limit import DEEPEST_TAGS, Budget
from ._text_excluding_markers import char_set

if TYPE_CHECKING:
    from ..dialects import Dialect

_KINDS: Final = ("string", "number", "boolean", "null", "array", "object")
"""The JSON types, in the order of ``Habits.type_words`` in a dialect declaration."""
_ANY_KEY: Final = seq(Chars(char_class("a-zA-Z_")), Repeat(Chars(char_class("a-zA-Z0-9_")), 0, 30))
_KEYS: Final = re.compile(r"[^\s/<>\"][^<>\"\n]*")
_NO_REFERENCES: Final[frozenset[str]] = frozenset()
_DEEPEST: Final = 16
"""Maximum nesting of ``anyOf`` and ``oneOf``; keywords that are nested more deeply are ignored."""


class TaggedParameters:
    """Builder of the grammar nodes for the parameters of a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.budget = Budget()
        self._depth = 0  # current nesting depth of parameters
        self.without = tuple(dict.fromkeys(self._markup()))
        self._typed = any("{type}" in template or "{string}" in template for template in dialect.param[:1])

    def _markup(self) -> Iterator[str]:
        """Yield the markers that end a value: closing tags, the start of a parameter, the end of the call."""
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
        """Return the node for all parameters of a call."""
        return self._members(schema, schema, _NO_REFERENCES)

    def _members(self, schema: Schema, root: Schema, inside: frozenset[str]) -> Node:
        """Return the node for an object's members, in the order in which the schema declares them."""
        flat = flatten_schema(schema, root, self.budget)
        required = frozenset(flat.get("required", ()))
        parts: list[Node] = []
        for key, inner in flat.get("properties", {}).items():
            if inner is not False:
                param = self._param(self._key(key), inner, root, inside)
                parts.append(param if key in required else optional(param))
        extra = flat.get("additionalProperties", "properties" not in flat)
        if extra is not False:
            parts.append(Repeat(self._param(_ANY_KEY, extra, root, inside)))
        return seq(*parts)

    def _key(self, key: str) -> Node:
        if not _KEYS.fullmatch(key) or any(marker in key for marker in self.without):
            raise UsageError(
                f"dialect {self.dialect.name!r} cannot write the parameter name {key!r}; rename the parameter"
            )
        return Exact(key)

    def _param(self, key: Node | None, schema: Schema, root: Schema, inside: frozenset[str]) -> Node:
        """Return the node for one parameter; if ``key`` is None, return the node for an item of a list."""
        self.budget.spend(4)
        self._depth += 1
        if self._depth > DEEPEST_TAGS:
            raise UsageError(
                f"dialect {self.dialect.name!r} writes values as nested tags, and the schema of a tool "
                f"nests them more than {DEEPEST_TAGS} levels deep; use guided_schema()"
            )
        before, _, after = split_at(parse_template(self._template(key)), "value")
        values = list(self._values(schema, root, inside))
        self._depth -= 1
        # If the schema allows objects or arrays as well as strings, the parser decodes text that
        # looks like JSON.  So a string must not begin like an object or array.
        guarded = not self._typed and any(kind in ("array", "object") for kind, _ in values)
        nodes: dict[Node, list[Node]] = {}
        for kind, value in values:
            head = seq(*self._parts(before, key, kind))
            tail = seq(*self._parts(after, key, kind))
            node = seq(value, tail) if value is not None else self._raw(tail, guarded=guarded)
            nodes.setdefault(head, []).append(node)
        return choice(seq(head, choice(options)) for head, options in nodes.items())

    def _template(self, key: Node | None) -> str:
        if key is None and not self.dialect.habits.list_key:
            unnamed = [template for template in self.dialect.param if "key" not in placeholders(template)]
            if not unnamed:
                raise UsageError(
                    f"dialect {self.dialect.name!r} cannot express an array in a parameter: declare "
                    "habits=Habits(nested=True, list_key=...), or a param template without {key}"
                )
            return unnamed[0]
        return self.dialect.param[0]

    def _parts(self, pieces: Iterable[Piece], key: Node | None, kind: str) -> Iterator[Node | str]:
        dialect = self.dialect
        fields: dict[str, Node] = {
            "key": Exact(dialect.habits.list_key) if key is None else key,
            "string": Exact("true" if kind == "string" else "false"),
            "type": Exact(dialect.habits.type_words[_KINDS.index(kind)]),
        }
        for piece in pieces:
            if isinstance(piece, Placeholder):
                yield fields[piece.field]
            elif isinstance(piece, Attributes):
                for attribute, field in piece.fields.items():
                    value = fields[field]
                    if dialect.habits.unescape and isinstance(value, Exact):
                        value = Exact(html.escape(value.text))
                    yield seq(f' {attribute}="', value, '"')
            else:
                yield piece.text

    # -- values

    def _values(
        self, schema: Schema, root: Schema, inside: frozenset[str]
    ) -> Iterator[tuple[str, Node | None]]:
        """Yield each type that a schema allows, with the node for its values, or None for arbitrary text."""
        definitions = find_references(schema, root) if self.dialect.habits.nested else _NO_REFERENCES
        if definitions & inside:
            raise UsageError(
                f"dialect {self.dialect.name!r} writes values as nested tags, and the definition "
                f"{', '.join(sorted(definitions & inside))} contains itself without a limit; "
                "use guided_schema()"
            )
        for kind, inner in split_by_type(schema, root, self.budget):
            if kind == "string":
                yield kind, self._string(inner)
            elif self.dialect.habits.nested and kind == "object" and "enum" not in inner:
                yield kind, self._members(inner, root, inside | definitions)
            elif self.dialect.habits.nested and kind == "array" and "enum" not in inner:
                item = self._param(None, inner.get("items", True), root, inside | definitions)
                yield kind, Repeat(item, *count_bounds(inner, "minItems", "maxItems"))
            else:
                without = self.without if kind in ("array", "object") else ()
                yield kind, SchemaValue(self_contained(inner, root, budget=self.budget), without=without)

    def _string(self, schema: Mapping[str, Any]) -> Node | None:
        if "enum" in schema:
            return choice(map(Exact, schema["enum"]))
        pattern, format_pattern = schema.get("pattern"), FORMATS.get(str(schema.get("format")))
        if isinstance(pattern, str) or format_pattern is not None:
            plain = complement(char_set(marker[0] for marker in (*self.without, "\n")))
            try:
                return apply_escapes(
                    parse_pattern(pattern if isinstance(pattern, str) else f"^{format_pattern}$"), plain, {}
                )
            except UnsupportedPattern:
                pass
        return None

    def _raw(self, tail: Node, *, guarded: bool) -> Node:
        """Return the node for arbitrary text, followed by ``tail``.

        :param guarded: True to exclude text that begins like an object or an array.
        """
        closing = literal_prefix(tail)
        marker = closing.rstrip("\n")
        node = seq(up_to(marker, self.without), closing[len(marker) :], strip_prefix(tail, closing))
        if not guarded:
            return node
        unlike = complement(char_set((*" \t\r\n[{(", *(other[0] for other in (marker, *self.without)))))
        return choice((tail, seq(Chars(unlike), node)))


# --- schemas


def split_by_type(
    schema: Schema, root: Schema, budget: Budget, depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each JSON type that a schema allows, with the schema for values of that type."""
    flat = flatten_schema(schema, root, budget)
    for keyword in ("anyOf", "oneOf"):
        branches = [branch for branch in flat.get(keyword, ()) if branch is not False]
        if branches and depth < _DEEPEST:
            outer = {key: value for key, value in flat.items() if key != keyword}
            for branch in branches:
                yield from split_by_type(
                    {**outer, **flatten_schema(branch, root, budget)}, root, budget, depth + 1
                )
            return
    values = [flat["const"]] if "const" in flat else flat.get("enum")
    if values is not None:
        budget.spend(len(values))
        by_kind: dict[str, list[object]] = {}
        for value in values:
            by_kind.setdefault(_kind_of(value), []).append(value)
        yield from ((kind, {"enum": by_kind[kind]}) for kind in _KINDS if kind in by_kind)
        return
    types = flat.get("type", "object" if "properties" in flat else "array" if "items" in flat else "string")
    names = [types] if isinstance(types, str) else types
    for name in names:
        if name != "integer":
            yield name, {**flat, "type": name}
        elif "number" not in names:
            yield "number", {**flat, "type": name}


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
