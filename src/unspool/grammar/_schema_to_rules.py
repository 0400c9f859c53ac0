"""Grammar rules for values that satisfy a JSON schema, in the notations of the dialects.

The schema determines which values are allowed.  The notation determines how they are written.  There is one
class per notation: ``JsonValues``, ``PythonValues`` and ``BareValues`` (keys without quotes).

The rules enforce types, ``enum``, ``const``, ``required``, declared properties in
their order, ``additionalProperties`` if present, ``items`` and ``prefixItems`` with
their counts, ``anyOf`` and ``oneOf`` (at least one branch), ``allOf`` (merged),
``$ref``, integer bounds, lengths, common formats, and patterns that a grammar
can express.  Other keywords are ignored.  So a grammar may allow values that the
schema forbids, but it always allows at least one value that satisfies the schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ._combine_schemas import (
    CONSTRAINTS,
    find_definition,
    find_references,
    flatten_schema,
    has_type,
    intersect,
)
from ._named_rules import Rules
from ._nodes import (
    NOTHING,
    Chars,
    Exact,
    Node,
    Ranges,
    Repeat,
    Schema,
    SchemaValue,
    char_class,
    choice,
    complement,
    optional,
    seq,
    union,
)
from ._parse_regex import FORMATS, MOST, UnsupportedPattern, apply_escapes, parse_pattern
from ._text_excluding_markers import add_text_rules, add_word_rules, char_set

_DIGIT: Final = Chars(char_class("0-9"))
_HEX: Final = Chars(char_class("0-9a-fA-F"))
_CONTROL: Final[Ranges] = ((0, 31), (127, 127))
_SPACE: Final = choice(
    (NOTHING, Exact(" "), seq(Repeat(Exact("\n"), 1, 2), Repeat(Chars(char_set(" \t")), 0, 20)))
)
"""Whitespace of limited length, where JSON allows whitespace."""
_EXPONENT: Final = optional(Chars(char_set("eE")), optional(Chars(char_set("+-"))), Repeat(_DIGIT, 1, 2))
_FRACTION: Final = optional(".", Repeat(_DIGIT, 1, 16))
_NATURAL: Final = choice((Exact("0"), seq(Chars(char_class("1-9")), Repeat(_DIGIT, 0, 18))))


def add_value_rules(rules: Rules, value: SchemaValue) -> Node:
    """Add the rules for a value, and return the node that refers to them."""
    notations = {"json": JsonValues, "bare": BareValues, "python": PythonValues}
    values = notations[value.notation](rules, value)
    if value.arguments and isinstance(values, PythonValues):
        node = values.arguments(value.schema)
    else:
        node = values.value(value.schema)
    rules.define_deferred()
    return node


class JsonValues:
    """Values in JSON; subclasses for other notations override the nodes of strings, keys and whitespace."""

    notation = "json"
    null: Node = Exact("null")
    true: Node = Exact("true")
    false: Node = Exact("false")

    def __init__(self, rules: Rules, value: SchemaValue) -> None:
        self.rules = rules
        self.space = self.white_space()
        self.colon = seq(":", self.space)
        self.comma = seq(",", self.space)
        self.quote = value.quote
        self.without = value.without
        self.root = value.schema
        self._context = (self.notation, self.quote, self.without)
        self._document = json.dumps(self.root, sort_keys=True, default=str)

    # -- strings, keys and whitespace in this notation

    def white_space(self) -> Node:
        """Return the node for the whitespace that may follow a comma or a colon."""
        return self.rules.get_or_add("space", "space", lambda: _SPACE)

    def text(self, value: str) -> Node:
        """Return the node for this string, quoted and escaped."""
        return choice(Exact(json.dumps(value, ensure_ascii=ascii_)) for ascii_ in (False, True))

    def key(self, key: str) -> Node:
        """Return the node for this key."""
        return self.text(key)

    def any_text(self) -> Node:
        """Return the node for an arbitrary string."""
        return self.rules.get_or_add(
            (*self._context, "string"),
            "any-string",
            lambda: seq(
                '"', add_text_rules(self.rules, '"', self.without, plain=_JSON_PLAIN, escape=_json_escape())
            ),
        )

    def some_text(self, least: int, most: int | None) -> Node:
        """Return the node for a string whose length is between two bounds."""
        if self.without:
            return self.any_text()
        character = self.rules.get_or_add(
            (*self._context, "char"), "char", lambda: choice((Chars(_JSON_PLAIN), _json_escape()))
        )
        return seq('"', Repeat(character, least, most), '"')

    def matching(self, node: Node) -> Node:
        """Return the node for a string whose text is one that ``node`` allows."""
        return seq('"', apply_escapes(node, self._safe(_JSON_PLAIN), {'"': '\\"', "\\": "\\\\"}), '"')

    def other_key(self, names: frozenset[str]) -> Node:
        """Return the node for a key that is not in ``names``; the key is an identifier in every notation."""
        return seq('"', self._word(names), '"')

    # -- methods for all notations

    def _word(self, names: frozenset[str]) -> Node:
        return self.rules.get_or_add(("word", names), "word", lambda: add_word_rules(self.rules, names))

    def _safe(self, plain: Ranges) -> Ranges:
        """Return the characters of ``plain`` that do not begin an excluded marker."""
        return complement(union(complement(plain), char_set(marker[0] for marker in self.without)))

    def constant(self, value: object) -> Node:
        """Return the node for exactly this value."""
        if value is None:
            return self.null
        if isinstance(value, bool):
            return self.true if value else self.false
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            members = [seq(self.key(str(k)), self.colon, self.constant(v)) for k, v in value.items()]
            return seq("{", self.space, self._joined(members), self.space, "}")
        if isinstance(value, (list, tuple)):
            return seq("[", self.space, self._joined([self.constant(v) for v in value]), self.space, "]")
        return Exact(json.dumps(value))

    def _joined(self, nodes: Sequence[Node]) -> Node:
        self.rules.budget.spend(len(nodes))
        return seq(*(part for i, node in enumerate(nodes) for part in ((self.comma, node) if i else (node,))))

    # -- schemas

    def value(self, schema: Schema) -> Node:
        """Return the node for values that satisfy a schema."""
        self.rules.budget.spend(4)  # the estimated number of parts that one schema adds
        if isinstance(schema, bool) or not CONSTRAINTS & schema.keys():
            return self.anything()
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "allOf" in schema and find_references(schema, self.root):
            return self._with_references(schema)
        return self._plain(self._merged(schema))

    def _plain(self, schema: Mapping[str, Any]) -> Node:
        """Return the node for values that satisfy a schema without a reference at its top level."""
        constants = [schema["const"]] if "const" in schema else schema.get("enum", ())
        self.rules.budget.spend(len(constants))
        fitting = [value for value in constants if has_type(value, schema.get("type"))]
        if fitting:
            return choice(self.constant(value) for value in fitting)
        for keyword in ("anyOf", "oneOf"):
            outer = {key: value for key, value in schema.items() if key not in (keyword, "$defs")}
            branches = [intersect(outer, branch) for branch in schema.get(keyword, ()) if branch is not False]
            branches = [branch for branch in branches if branch is not False]
            if branches:
                return choice(self.value(branch) for branch in branches)
        types = schema.get("type") or _implied_type(schema)
        names = [types] if isinstance(types, str) else types
        return choice(self._typed(name, schema) for name in names) if types else self.anything()

    def _reference(self, reference: str) -> Node:
        name, target = find_definition(reference, self.root)
        key = (*self._context, self._document, name)
        return self.rules.get_or_defer(key, name, lambda: self.value(target))

    def _with_references(self, schema: Mapping[str, Any]) -> Node:
        """Return the node for values that satisfy a schema with a reference and other keywords.

        The referenced definition may contain this schema again.  Rules are stored by the text of their
        schema, so the inner schema refers to the same rule, and the recursion ends.
        """
        text = json.dumps(schema, sort_keys=True, default=str)
        self.rules.budget.spend(len(text) // 16)
        key = (*self._context, self._document, "all", text)
        return self.rules.get_or_defer(key, "all", lambda: self._plain(self._merged(schema)))

    def _merged(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema with its ``allOf`` merged into it."""
        return flatten_schema(schema, self.root, self.rules.budget) if "allOf" in schema else schema

    def _typed(self, name: str, schema: Mapping[str, Any]) -> Node:
        """Return the node for values of one type."""
        if name == "string":
            return self._string(schema)
        if name == "object":
            return self.object(schema)
        if name == "array":
            return self._array(schema)
        if name == "integer":
            return self._integer(schema)
        if name == "number":
            sign = NOTHING if _integer_bounds(schema)[0] >= 0 else optional("-")
            number = self.rules.get_or_add("number", "number", lambda: seq(_NATURAL, _FRACTION, _EXPONENT))
            return seq(sign, number)
        if name == "boolean":
            return choice((self.true, self.false))
        return self.null

    def _string(self, schema: Mapping[str, Any]) -> Node:
        pattern = schema.get("pattern")
        format_pattern = FORMATS.get(str(schema.get("format")))
        if isinstance(pattern, str) or format_pattern is not None:
            try:
                return self.matching(
                    parse_pattern(pattern if isinstance(pattern, str) else f"^{format_pattern}$")
                )
            except UnsupportedPattern:
                pass
        least, most = count_bounds(schema, "minLength", "maxLength")
        return self.any_text() if (least, most) == (0, None) else self.some_text(least, most)

    def _integer(self, schema: Mapping[str, Any]) -> Node:
        low, high = _integer_bounds(schema)
        if (low == -math.inf and high == math.inf) or low > high:
            whole = seq(optional("-"), Chars(char_class("1-9")), Repeat(_DIGIT, 0, 18))
            return self.rules.get_or_add("integer", "integer", lambda: choice((Exact("0"), whole)))
        return integer_range(low, high)

    def _array(self, schema: Mapping[str, Any]) -> Node:
        first = [self.value(item) for item in schema.get("prefixItems", ())]
        rest = schema.get("items", not first)
        least, most = count_bounds(schema, "minItems", "maxItems")
        if rest is False:
            most = len(first) if most is None else min(most, len(first))
        item = self.rules.add("item", self.value(rest)) if rest is not False else NOTHING
        inner = self._items(first, item, least, most)
        return seq("[", self.space, inner, self.space, "]") if inner != NOTHING else Exact("[]")

    def _items(self, first: list[Node], item: Node, least: int, most: int | None) -> Node:
        if most is not None:
            first = first[:most]
        if item == NOTHING:
            return self._joined(first)
        more = (max(0, least - len(first)), None if most is None else most - len(first))
        if first:
            tail = Repeat(seq(self.comma, item), *more) if more[1] != 0 else NOTHING
            return seq(self._joined(first), tail)
        if most == 0:
            return NOTHING
        tail = Repeat(seq(self.comma, item), max(0, least - 1), None if most is None else most - 1)
        inner = seq(item, tail) if most != 1 else item
        return inner if least else optional(inner)

    def object(self, schema: Mapping[str, Any]) -> Node:
        """Return the node for an object that satisfies a schema."""
        inner = self.members(schema, self.key, self.other_key, self.colon)
        return seq("{", self.space, inner, self.space, "}") if inner != NOTHING else Exact("{}")

    def members(
        self,
        schema: Mapping[str, Any],
        key: Callable[[str], Node],
        other_key: Callable[[frozenset[str]], Node],
        colon: Node,
    ) -> Node:
        """Return the node for the members of an object, without the braces.

        :param key: function that returns the node for a declared key.
        :param other_key: function that returns the node for any key that is not declared.
        :param colon: the node between a key and its value.
        """
        required = frozenset(schema.get("required", ()))
        properties: Mapping[str, Any] = schema.get("properties", {})
        pairs: list[tuple[Node, bool]] = []
        for name, inner in self.ordered(properties):
            if inner is not False:
                member = self.rules.add(name, seq(key(name), colon, self.value(inner)))
                pairs.append((member, name in required))
        extra = schema.get("additionalProperties", "properties" not in schema)
        if extra is False:
            return self._sequence(pairs, NOTHING)
        more = seq(other_key(frozenset(properties)), colon, self.value(extra))
        return self._sequence(pairs, self.rules.add("more", more))

    def ordered(self, properties: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        """Return the properties in the order in which the notation writes them."""
        return properties.items()

    def _sequence(self, pairs: Sequence[tuple[Node, bool]], extra: Node) -> Node:
        """Return the node for members in a fixed order, with commas; some of the members may be optional.

        A comma comes before every member except the first one that is present.  So the result has one
        alternative for each member that may come first.  For example, if ``a`` is optional and ``b`` is
        required, the alternatives are ``a, b`` and ``b``.

        The loop runs from the last member to the first, and the lists ``tail`` and ``heads`` are in reverse
        order.  ``tail`` contains the nodes that may follow the current member, including the commas.
        ``heads`` contains the alternatives.  A required member clears ``heads``, because alternatives that
        begin with a later member would skip the required member.
        """
        tail: list[Node] = [Repeat(seq(self.comma, extra))] if extra != NOTHING else []
        heads: list[Node] = [optional(extra, *tail)] if extra != NOTHING else []
        # the required member with which the object may begin: the first of several consecutive ones
        needed: Node | None = None
        needed_tail = 0  # number of nodes in ``tail`` that come after ``needed``
        for member, required in reversed(pairs):
            if required:
                heads, needed, needed_tail = [], member, len(tail)
                tail += (member, self.comma)
                continue
            if needed is not None:
                heads.append(seq(needed, *reversed(tail[:needed_tail])))
                needed = None
            # All alternatives share one rule for the tail.  If each alternative had a copy, the grammar would
            # grow quadratically.
            rest = self.rules.add("rest", seq(*reversed(tail))) if tail else NOTHING
            head = seq(member, rest)
            heads.append(head if heads else optional(head))
            tail = [rest, optional(self.comma, member)]
        if needed is not None:
            heads.append(seq(needed, *reversed(tail[:needed_tail])))
        return choice(reversed(heads)) if heads else NOTHING

    def anything(self) -> Node:
        """Return the node for an arbitrary value."""
        return self.rules.get_or_add(
            (*self._context, "value"),
            "value",
            lambda: choice(
                self._typed(name, {}) for name in ("object", "array", "string", "number", "boolean", "null")
            ),
        )


_JSON_PLAIN: Final = complement(union(_CONTROL, char_set('"\\')))


def _json_escape() -> Node:
    return seq("\\", choice((Chars(char_set('"\\/bfnrt')), seq("u", Repeat(_HEX, 4, 4)))))


class PythonValues(JsonValues):
    """Values as Python literals."""

    notation = "python"
    null = Exact("None")
    true = Exact("True")
    false = Exact("False")

    def white_space(self) -> Node:
        return optional(" ")

    def text(self, value: str) -> Node:
        double = json.dumps(value, ensure_ascii=False)
        single = "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return choice((Exact(double), Exact(single)))

    def any_text(self) -> Node:
        return self.some_text(0, None)

    def some_text(self, least: int, most: int | None) -> Node:
        return choice(seq(quote, Repeat(self._character(quote), least, most), quote) for quote in ('"', "'"))

    def _character(self, quote: str) -> Node:
        plain = complement(union(_CONTROL, char_set(quote + "\\")))
        return self.rules.get_or_add(
            ("python", quote), "char", lambda: choice((Chars(plain), _python_escape()))
        )

    def matching(self, node: Node) -> Node:
        plain = complement(union(_CONTROL, char_set('"\\')))
        return seq('"', apply_escapes(node, plain, {'"': '\\"', "\\": "\\\\"}), '"')

    def other_key(self, names: frozenset[str]) -> Node:
        return choice(seq(quote, self._word(names), quote) for quote in ('"', "'"))

    def arguments(self, schema: Schema) -> Node:
        """Return the node for keyword arguments in parentheses.

        A parameter name such as ``max-size`` is not an identifier, so it cannot be a keyword. If there is
        such a name, the arguments may also be an object in parentheses: ``({"max-size": 3})``.
        """
        merged = self._merged(schema) if isinstance(schema, Mapping) else {}
        if "$ref" in merged or ("properties" not in merged and {"anyOf", "oneOf"} & merged.keys()):
            return seq("(", self.value(merged), ")")
        properties = merged.get("properties", {})
        words = {name: inner for name, inner in properties.items() if name.isidentifier()}
        options: list[Node] = []
        if all(name in words for name in merged.get("required", ()) if name in properties):
            keywords = {**merged, "properties": words} if "properties" in merged else merged
            options.append(seq("(", self.members(keywords, Exact, self._word, Exact("=")), ")"))
        if len(words) < len(properties):
            options.append(seq("(", self.object(merged), ")"))
        return choice(options)


def _python_escape() -> Node:
    return seq("\\", choice((Chars(char_set("\"'\\bfnrt")), seq("u", Repeat(_HEX, 4, 4)))))


class BareValues(JsonValues):
    """Values in ``bare`` notation: unquoted keys in alphabetical order, and strings between delimiters."""

    notation = "bare"
    null = choice((Exact("null"), Exact("None")))

    def white_space(self) -> Node:
        return NOTHING

    def text(self, value: str) -> Node:
        if self.quote in value + self.quote[:-1]:
            return Exact(json.dumps(value, ensure_ascii=False))
        return Exact(self.quote + value + self.quote)

    def key(self, key: str) -> Node:
        from .._core.render.arguments import encode_bare

        return Exact(encode_bare(json.dumps({key: 0}), self.quote)[1:-3])

    def any_text(self) -> Node:
        return self.rules.get_or_add(
            (*self._context, "string"),
            "any-string",
            lambda: seq(self.quote, add_text_rules(self.rules, self.quote, self.without)),
        )

    def some_text(self, least: int, most: int | None) -> Node:
        plain = complement(char_set(self.quote[0]))
        return seq(self.quote, Repeat(Chars(plain), least, most), self.quote)

    def matching(self, node: Node) -> Node:
        return seq(self.quote, apply_escapes(node, complement(char_set(self.quote[0])), {}), self.quote)

    def other_key(self, names: frozenset[str]) -> Node:
        return self._word(names)

    def ordered(self, properties: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        return sorted(properties.items(), key=lambda item: str(item[0]).lower())


# --- schemas


def _implied_type(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema's keywords imply (``properties`` implies ``object``), or ``""``."""
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else ""


def count_bounds(schema: Mapping[str, Any], low: str, high: str) -> tuple[int, int | None]:
    """Return the values of the keywords ``low`` and ``high``; a missing or very large ``high`` is None."""
    least, most = schema.get(low), schema.get(high)
    least = least if isinstance(least, int) and least > 0 else 0
    most = most if isinstance(most, int) and most <= MOST else None
    least = min(least, MOST)
    return least, most if most is None or most >= least else least


def _integer_bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the smallest and the largest integer that a schema allows."""
    lows, highs = [-math.inf], [math.inf]
    if _is_number(schema.get("minimum")):
        lows.append(math.ceil(schema["minimum"]))
    if _is_number(schema.get("exclusiveMinimum")):
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1)
    if _is_number(schema.get("maximum")):
        highs.append(math.floor(schema["maximum"]))
    if _is_number(schema.get("exclusiveMaximum")):
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1)
    return max(lows), min(highs)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


# --- integers between bounds


def integer_range(low: float, high: float) -> Node:
    """Return the node for integers in an interval; if a bound is missing, integers have at most 19 digits."""
    bound = 10**19 - 1
    first = -bound if low == -math.inf else max(int(low), -bound)
    last = bound if high == math.inf else min(int(high), bound)
    options: list[Node] = []
    if first < 0:
        options.append(seq("-", _naturals(max(1, -last), -first)))
    if last >= 0:
        options.append(_naturals(max(0, first), last))
    return choice(options)


def _naturals(low: int, high: int) -> Node:
    options: list[Node] = []
    while low <= high:
        digits = len(str(low))
        top = min(high, 10**digits - 1)
        options.append(_same_length(str(low), str(top)))
        low = top + 1
    return choice(options)


def _same_length(low: str, high: str) -> Node:
    if not low:
        return NOTHING
    if low[0] == high[0]:
        return seq(low[0], _same_length(low[1:], high[1:]))
    rest = len(low) - 1
    free = Repeat(_DIGIT, rest, rest) if rest else NOTHING
    first, last = int(low[0]), int(high[0])
    options: list[Node] = []
    if low[1:].strip("0"):
        options.append(seq(low[0], _same_length(low[1:], "9" * rest)))
        first += 1
    if high[1:].strip("9"):
        options.append(seq(high[0], _same_length("0" * rest, high[1:])))
        last -= 1
    if first <= last:
        options.insert(0, seq(Chars(((48 + first, 48 + last),)), free))
    return choice(options)
