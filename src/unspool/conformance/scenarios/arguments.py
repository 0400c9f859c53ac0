"""Scenarios that check that argument values arrive unchanged in every notation.

Each scenario puts one value into one call. The scenario is not applicable to a dialect whose notation cannot
express the value. In dialects with tags around parameters, the types of the values are taken from the tools
of the request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ...testing import markers
from .dialect_capabilities import Capabilities
from .sample_parts import PING, Call, values, write
from .scenario import Draft, DraftEdit, ExpectedCall, Scenario, make_draft

TITLE: Final = "Fidelity of arguments"
SAME_VALUE: Final = "The arguments have the value that the model wrote."


def _text_scenario(name: str, text: str, needs: Sequence[str] = ()) -> Scenario:
    return Scenario("arguments", f"text: {name}", [write("a", text)], SAME_VALUE, needs, _append_call)


def _append_call(draft: Draft) -> None:
    """Append another call, if the dialect allows two calls, to check that the first call ends correctly."""
    calls = [part.call for part in draft.order if isinstance(part, ExpectedCall)]
    if "parallel" not in draft.capabilities.missing:
        _replace_calls(draft, [*calls, PING])


def _replace_calls(draft: Draft, calls: Sequence[Call]) -> None:
    """Replace everything in the draft with these calls."""
    other = make_draft(calls, draft.capabilities)
    draft.pieces, draft.order = other.pieces, other.order


_TEXTS: Final = {
    "empty": "",
    "one space": " ",
    "spaces at both ends": "  a  ",
    "newlines at both ends": "\n\na\n\n",
    "carriage returns": "a\r\nb\rc",
    "tabs": "\ta\tb\t",
    "accents": "Crème brûlée à la carte, ñ, ß, Ø",
    "combining characters": "e\u0301 n\u0303 a\u030a",
    "CJK": "東京タワー、你好。서울",
    "right to left": "שלום مرحبا",
    "emoji": "🙂👩\u200d👩\u200d👧🇨🇭🏴\u200d☠\ufe0f",
    "astral letters": "\U0001d518\U0001d52b\U0001d526 \U00010348",
    "invisible characters": "a\u200bb\u2060c\ufeffd\u00ad",
    "line separators": "a\u2028b\u2029c\u0085d",
    "the last code points": "\uffff \U0010ffff \ue000",
    "full-width punctuation": "｜▁\uff1c\uff1e",
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
    "a code fence": "```python\nprint(1)\n```",
    "brackets": "[[ ]] (( )) {{ }}",
    "unbalanced brackets": "}]) {[(",
    "percent and dollar": "%s ${x} {0} $1",
    "a URL": "https://example.org/a?b=1&c=%20#d",
}
_ESCAPED: Final = {
    "double quotes": 'say "hi"',
    "single quotes": "it's 'so'",
    "backslashes": "C:\\new\\table\\",
    "backslash before quote": 'a\\"b\\\\"',
    "literal escape sequences": "\\n \\t \\u00e9 \\x41",
    "triple quotes": "\"\"\"doc\"\"\" '''doc'''",
    "JSON in a string": '{"a": "b\\n", "c": ["\\"d\\""]}',
    "control characters": "a\x01b\x1fc\x7fd",
    "Python code": 'def f(x):\n    """Doc."""\n    return {"a": [x, "\\n"]}\n',
    "a regular expression": r"^\s*(\w+)=\"([^\"\\]|\\.)*\"$",
}


def _insert_marker(which: int) -> DraftEdit:
    """Return an edit that puts one of the dialect's own markers into an argument value."""

    def edit(draft: Draft) -> str | None:
        found = _own_markers(draft.capabilities)
        if which >= len(found):
            return "the dialect has fewer markers"
        _replace_calls(draft, [write("a", f"see {found[which]} x")])
        _append_call(draft)
        return None

    return edit


def _own_markers(capabilities: Capabilities) -> list[str]:
    """Return the dialect's markers, except for markers that end a turn or a message."""
    dialect = capabilities.dialect
    ends = dialect.frame.ends if dialect.frame is not None and capabilities.tagged else ()
    forbidden = {*(stop.strip() for stop in dialect.stop), *ends}
    found = []
    for marker in markers(dialect):
        text = marker.strip()
        if text in forbidden or any(stop and stop in text for stop in forbidden):
            continue
        if not capabilities.verbatim and capabilities.notation != "tagged" and dialect.values.quote in text:
            continue
        if capabilities.tagged and dialect.habits.nested and _opens_param(text, capabilities):
            continue
        found.append(text)
    return found


def _opens_param(marker: str, capabilities: Capabilities) -> bool:
    heads = [param.partition("{")[0].split(" ")[0] for param in capabilities.dialect.param]
    return marker.startswith(tuple(heads))


def _call_from_json(arguments: str) -> Call:
    return Call("set_all", json.loads(arguments), arguments)


def _require_json(draft: Draft) -> str | None:
    return None if draft.capabilities.verbatim else "its notation is not JSON"


def _nested_value(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = {f"k{level % 3}": value} if level % 2 else [value]
    return {"root": value}


def _require_typed_values(draft: Draft) -> str | None:
    """Reject dialects in which a parser cannot recover lists and objects without the tool's schema."""
    nested = draft.capabilities.dialect.habits.nested
    return "nested values have no types without a schema" if nested else None


_LONG_LINE: Final = 'Line {} of a long file, with "quotes" and é.\n'

_ROME: Final = {"city": "Rome", "zip": "00100", "floor": 2}
_ITEMS: Final = [{"sku": "a", "qty": 1}, {"sku": "b,}", "qty": 2}]


def _choose(**arguments: Any) -> Call:
    """Create a call to the tool ``choose``, whose parameters allow alternatives, for example by ``anyOf``."""
    return Call("choose", arguments)


_VALUES: Final = {
    "null": values(n=None),
    "the string null, where null is also allowed": values(n="no null", s="null"),
    "booleans": values(b=True, s="False"),
    "zero": values(i=0, f=0.5),
    "a negative integer": values(i=-7),
    "an integer of 64 bits": values(i=9223372036854775807),
    "an integer beyond 64 bits": values(i=123456789012345678901234567890),
    "a float with many digits": Call("set_all", {"f": 0.1}, '{"f": 0.1000000000000000055}'),
    "empty array and object": values(ea=[], eo={}),
    "an array of numbers": values(a=[1, -2, 30000000000]),
    "a thousand numbers": values(a=list(range(1000))),
    "an object in an object": values(o={"k": "v", "deep": {"x": [1, 2, 3]}}),
    "a list of objects": Call("create_order", {"user_id": 7, "items": _ITEMS}),
    "keys in an unusual order": values(u="é", s="1", b=False, i=3),
    "nullable integer: a number": _choose(maybe_int=5),
    "nullable integer: null": _choose(maybe_int=None),
    "nullable string: text": _choose(maybe_text="Bob"),
    "nullable string: null": _choose(maybe_text=None),
    "integer or string: a word": _choose(int_or_text="five"),
    "integer or string: a number": _choose(int_or_text=5),
    "boolean or list: a list": _choose(flag_or_list=[1, 2]),
    "boolean or list: a boolean": _choose(flag_or_list=True),
    "an enum of numbers": _choose(level=2),
    "an enum of strings": _choose(word="on"),
    "an enum of strings, one of them numeric": _choose(word="1"),
    "a constant": _choose(always="yes"),
    "allOf": _choose(narrowed=12),
    "nullable object: an object": _choose(place=_ROME),
    "nullable object: null": _choose(place=None),
    "a reference to an object": Call("refer", {"place": _ROME}),
    "references to scalars": Call("refer", {"count": 3, "label": "3"}),
}
_STRUCTURES: Final = {
    "deep nesting": Call("nest", {"tree": _nested_value(24)}),
    "a list of everything": Call("nest", {"list": [1, "1", None, True, [], {}, {"a": [0.5]}]}),
}
_SPELLINGS: Final = {
    "compact JSON": '{"s":"a","a":[1,2],"b":true}',
    "loose JSON": '{ "s" :  "a" ,\n  "a":[ 1,\t2 ] }',
    "escapes": '{"s": "Z\\u00fcrich \\ud83d\\ude42 \\/ \\b"}',
    "numbers": '{"f": 1.50, "i": 1E3}',
}
_UNCHANGED: Final = "JSON is passed on unchanged."
_MARKER_IS_DATA: Final = "A marker inside a string is data."


def _scenario(
    name: str, call: Call, rule: str = SAME_VALUE, needs: Sequence[str] = (), edit: DraftEdit | None = None
) -> Scenario:
    return Scenario("arguments", name, [call], rule, needs, edit)


SCENARIOS: Final = (
    *(_text_scenario(name, text) for name, text in _TEXTS.items()),
    *(_text_scenario(name, text, ["escapes"]) for name, text in _ESCAPED.items()),
    *(
        _scenario(
            f"own marker {number + 1} in a string", PING, _MARKER_IS_DATA, ["escapes"], _insert_marker(number)
        )
        for number in range(12)
    ),
    *(_scenario(name, call) for name, call in _VALUES.items()),
    *(_scenario(name, call, edit=_require_typed_values) for name, call in _STRUCTURES.items()),
    *(
        _scenario(f"spelling: {name}", _call_from_json(text), _UNCHANGED, edit=_require_json)
        for name, text in _SPELLINGS.items()
    ),
    _scenario(
        "a value of 100 kB", write("a", "".join(map(_LONG_LINE.format, range(2400)))), needs=["escapes"]
    ),
)
