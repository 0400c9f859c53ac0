"""Fidelity of arguments: every value arrives as it was meant, whatever the notation.

A value is put into one call alone, and the dialects whose notation cannot write it
say so.  Tagged dialects take types from the tools of the request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ...testing import markers
from .abilities import Able
from .meaning import PING, Call, values, write
from .scenario import Draft, Meant, Scenario, Twist, make_draft

TITLE: Final = "Fidelity of arguments"
MEANT: Final = "The arguments have the value that the model wrote."


def _text(name: str, text: str, needs: Sequence[str] = ()) -> Scenario:
    return Scenario("arguments", f"text: {name}", [write("a", text), PING], MEANT, needs)


def _typed(name: str, call: Call, needs: Sequence[str] = (), rule: str = MEANT) -> Scenario:
    return Scenario("arguments", name, [call], rule, needs)


_TEXTS: Final = {
    "empty": "",
    "one blank": " ",
    "blanks at both ends": "  a  ",
    "line breaks at both ends": "\n\na\n\n",
    "carriage returns": "a\r\nb\rc",
    "tabs": "\ta\tb\t",
    "accents": "Crème brûlée à la carte, ñ, ß, Ø",
    "combining characters": "e\u0301 n\u0303 a\u030a",
    "CJK": "東京タワー，你好。서울",
    "right to left": "שלום مرحبا",
    "emoji": "🙂👩\u200d👩\u200d👧🇨🇭🏴\u200d☠\ufe0f",
    "astral letters": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈",
    "invisible characters": "a\u200bb\u2060c\ufeffd\u00ad",
    "line separators": "a\u2028b\u2029c\u0085d",
    "the last code points": "\uffff \U0010ffff \ue000",
    "full-width signs": "｜▁〈〉＜＞",
    "null": "null",
    "true": "true",
    "a number": "42",
    "a number with zeros": "007",
    "a float": "1.0",
    "an exponent": "1e5",
    "an array": "[1, 2]",
    "an object": '{"a": 1}',
    "a word with a colon": "key: value",
    "commas and equals signs": "a=1, b=2",
    "HTML entities": "&lt;b&gt; &amp;amp; &#39;",
    "HTML": '<p class="x">1 < 2</p><br/>',
    "a fence": "```python\nprint(1)\n```",
    "brackets": "[[ ]] (( )) {{ }}",
    "unbalanced brackets": "}]) {[(",
    "percent and dollar": "%s ${x} {0} $1",
    "an URL": "https://example.org/a?b=1&c=%20#d",
}
_ESCAPED: Final = {
    "double quotes": 'say "hi"',
    "single quotes": "it's 'so'",
    "backslashes": "C:\\new\\table\\",
    "backslash before quote": 'a\\"b\\\\"',
    "escapes spelt out": "\\n \\t \\u00e9 \\x41",
    "triple quotes": '"""doc""" \'\'\'doc\'\'\'',
    "JSON in a string": '{"a": "b\\n", "c": ["\\"d\\""]}',
    "control characters": "a\x01b\x1fc\x7fd",
    "Python code": 'def f(x):\n    """Doc."""\n    return {"a": [x, "\\n"]}\n',
    "a regular expression": r"^\s*(\w+)=\"([^\"\\]|\\.)*\"$",
}


def _marker(which: int) -> Twist:
    """Puts a marker of the dialect's own grammar into the value."""

    def twist(draft: Draft) -> str | None:
        found = _own_markers(draft.able)
        if which >= len(found):
            return "it has fewer markers"
        marker = found[which]
        draft_of(draft, [write("a", f"see {marker} x"), PING])
        return None

    return twist


def draft_of(draft: Draft, parts: Sequence[Any]) -> None:
    """Say something else instead."""
    other = make_draft(parts, draft.able)
    draft.pieces, draft.order = other.pieces, other.order


def _own_markers(able: Able) -> list[str]:
    """Markers that a string may hold; those that end a turn or a message cannot be quoted."""
    dialect = able.dialect
    ends = dialect.frame.ends if dialect.frame is not None and able.tagged else ()
    forbidden = {*(stop.strip() for stop in dialect.stop), *ends}
    found = []
    for marker in markers(dialect):
        text = marker.strip()
        if text in forbidden or any(stop and stop in text for stop in forbidden):
            continue
        if not able.verbatim and able.notation != "tagged" and dialect.quote in text:
            continue
        if able.tagged and dialect.nested and _opens_param(text, able):
            continue
        found.append(text)
    return found


def _opens_param(marker: str, able: Able) -> bool:
    heads = [param.partition("{")[0].split(" ")[0] for param in able.dialect.param]
    return marker.startswith(tuple(heads))


def _spelt(arguments: str) -> Call:
    return Call("set_all", json.loads(arguments), arguments)


def _json_only(draft: Draft) -> str | None:
    return None if draft.able.verbatim else "its notation is not JSON"


def _deep(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = {f"k{level % 3}": value} if level % 2 else [value]
    return {"root": value}


def _plain_dicts(draft: Draft) -> str | None:
    """Lists and objects without a schema come back only where their text is JSON."""
    nested = draft.able.dialect.nested
    return "values are made of values, whose types only a schema could tell" if nested else None


_BIG: Final = "Line {} of a long file, with \"quotes\" and é.\n"

SCENARIOS: Final = (
    *(_text(name, text) for name, text in _TEXTS.items()),
    *(_text(name, text, ["escapes"]) for name, text in _ESCAPED.items()),
    *(
        Scenario(
            "arguments",
            f"own marker {number + 1} in a string",
            [write("a", "marker"), PING],
            "A marker inside a string is data.",
            ["escapes"],
            _marker(number),
        )
        for number in range(12)
    ),
    _typed("null", values(n=None)),
    _typed("the string null, where null is allowed, too", values(n="no null", s="null")),
    _typed("booleans", values(b=True, s="False")),
    _typed("zero", values(i=0, f=0.5)),
    _typed("a negative integer", values(i=-7)),
    _typed("an integer of 64 bits", values(i=9223372036854775807)),
    _typed("an integer beyond 64 bits", values(i=123456789012345678901234567890)),
    _typed("a float with many digits", Call("set_all", {"f": 0.1}, '{"f": 0.1000000000000000055}')),
    _typed("empty array and object", values(ea=[], eo={})),
    _typed("an array of numbers", values(a=[1, -2, 30000000000])),
    _typed("an object in an object", values(o={"k": "v", "deep": {"x": [1, 2, 3]}})),
    _typed("a list of objects", Call("create_order", {"user_id": 7, "items": [{"sku": "a", "qty": 1}, {"sku": "b,}", "qty": 2}]})),
    _typed("keys in an unusual order", values(u="é", s="1", b=False, i=3)),
    _typed("nullable integer: a number", Call("choose", {"maybe_int": 5})),
    _typed("nullable integer: null", Call("choose", {"maybe_int": None})),
    _typed("nullable string: text", Call("choose", {"maybe_text": "Bob"})),
    _typed("nullable string: null", Call("choose", {"maybe_text": None})),
    _typed("integer or string: a word", Call("choose", {"int_or_text": "five"})),
    _typed("integer or string: a number", Call("choose", {"int_or_text": 5})),
    _typed("boolean or list: a list", Call("choose", {"flag_or_list": [1, 2]})),
    _typed("boolean or list: a boolean", Call("choose", {"flag_or_list": True})),
    _typed("an enum of numbers", Call("choose", {"level": 2})),
    _typed("an enum of strings", Call("choose", {"word": "on"})),
    _typed("an enum of strings, one like a number", Call("choose", {"word": "1"})),
    _typed("a constant", Call("choose", {"always": "yes"})),
    _typed("allOf", Call("choose", {"narrowed": 12})),
    _typed("nullable object: an object", Call("choose", {"place": {"city": "Rome", "zip": "00100", "floor": 2}})),
    _typed("nullable object: null", Call("choose", {"place": None})),
    _typed("a reference to an object", Call("refer", {"place": {"city": "Rome", "zip": "00100", "floor": 2}})),
    _typed("references to scalars", Call("refer", {"count": 3, "label": "3"})),
    Scenario("arguments", "deep nesting", [Call("nest", {"tree": _deep(24)})], MEANT, (), _plain_dicts),
    Scenario("arguments", "a list of everything", [Call("nest", {"list": [1, "1", None, True, [], {}, {"a": [0.5]}]})], MEANT, (), _plain_dicts),
    Scenario("arguments", "spelling: compact JSON", [_spelt('{"s":"a","a":[1,2],"b":true}')], "JSON is passed on as it is written.", (), _json_only),
    Scenario("arguments", "spelling: loose JSON", [_spelt('{ "s" :  "a" ,\n  "a":[ 1,\t2 ] }')], "JSON is passed on as it is written.", (), _json_only),
    Scenario("arguments", "spelling: escapes", [_spelt('{"s": "Z\\u00fcrich \\ud83d\\ude42 \\/ \\b"}')], "JSON is passed on as it is written.", (), _json_only),
    Scenario("arguments", "spelling: numbers", [_spelt('{"f": 1.50, "i": 1E3}')], "JSON is passed on as it is written.", (), _json_only),
    _typed("a value of 100 kB", write("a", "".join(map(_BIG.format, range(2400)))), ["escapes"]),
    _typed("a thousand numbers", values(a=list(range(1000)))),
)  # fmt: skip
