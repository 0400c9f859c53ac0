"""Objects with bare keys: conversion to JSON, and the codec laws under every chunking."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unspool._core.arguments.bare_key_object import BareKeyObject
from unspool._core.render.arguments import encode_bare
from unspool._core.scan.character_runs import BOUND
from unspool._core.scan.markers import MarkerSet
from unspool._core.schema.tools import UNKNOWN, ValueType
from unspool.errors import UsageError
from unspool.testing._linear_time_law import assert_linear

GEMMA = '<|"|>'
ESCAPE = "<escape>"
PRIVATE = "\ud801"
QUOTES = (GEMMA, ESCAPE, PRIVATE, '"')
ENDS = MarkerSet(("<tool_call|>", "<|tool_call>", "<turn|>", "\ud802"))
NOTHING = MarkerSet(())


@dataclass
class Outcome:
    """Everything that a codec returned."""

    text: str
    end: int
    error: str
    status: str
    diagnostics: list[tuple[str, str, int]]


def read(
    chunks: Iterable[str],
    quote: str = GEMMA,
    ends: MarkerSet = ENDS,
    *,
    kind: ValueType = UNKNOWN,
    repair: bool = False,
) -> Outcome:
    """Drive a codec as the machine does: unconsumed input comes again with more text after it."""
    codec = BareKeyObject(quote, ends, kind=kind, repair=repair)
    out = Outcome("", 0, "", "", [])
    pieces: list[str] = []
    pending = ""
    for chunk in (*chunks, None):
        buf = pending + (chunk or "")
        # The codec must not look at text before `pos`.
        shift = len(buf) % 3
        at = codec.step("{" * shift + buf, shift, chunk is None) - shift
        assert 0 <= at <= len(buf)
        pieces.append(codec.text)
        assert all(where >= shift for _, _, where in codec.diagnostics)
        out.diagnostics += [
            (note, detail, out.end + where - shift) for note, detail, where in codec.diagnostics
        ]
        codec.diagnostics.clear()
        out.end += at
        pending = buf[at:]
        out.error = codec.error
        if codec.error:
            out.status = "malformed"
            # The codec stays in the error state, whatever follows.
            assert codec.step(pending + "}", 0, False) == 0
            assert not codec.text
            assert codec.error == out.error
            break
        if codec.done:
            out.status = "complete"
            break
        assert len(pending) <= 2 * BOUND + 32
    else:
        out.status = codec.finish(cut=False)
        assert out.status == "truncated"
        assert not codec.text
    out.text = "".join(pieces)
    return out


def value(text: str, quote: str = GEMMA, **options: Any) -> Any:
    """Return the value of a well-formed object that is the whole input."""
    out = read([text], quote, **options)
    assert out.status == "complete", out
    assert out.end == len(text)
    return json.loads(out.text)


def split_text(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def assert_chunking(text: str, *chunkings: Sequence[str], **options: Any) -> Outcome:
    whole = read([text], **options)
    for chunks in (list(text), split_text(text, 3), *chunkings):
        assert read(chunks, **options) == whole, chunks
    return whole


# -- syntax

EXAMPLES = [
    # well-formed objects
    ("{}", {}),
    ("{city:Q~Q}", {"city": "~"}),
    ("{city:QParisQ,n:1,ok:true,l:[1,QaQ],o:{k:null}}", None),
    (
        "{t:true,f:false,z:null,i:42,j:-7,x:3.14,e:1.5e10,w:hello}",
        {"t": True, "f": False, "z": None, "i": 42, "j": -7, "x": 3.14, "e": 1.5e10, "w": "hello"},
    ),
    ("{m:[[1,2],[{k:true}]],e:{},l:[]}", {"m": [[1, 2], [{"k": True}]], "e": {}, "l": []}),
    (
        '{p:QC:\\tmp\\a.txtQ,t:QHe said "hi", {x: [1]} <tool_call|> endQ}',
        {"p": "C:\\tmp\\a.txt", "t": 'He said "hi", {x: [1]} <tool_call|> end'},
    ),
    ("{b:Qlínea 1\n行 2 🙂Q}", {"b": "línea 1\n行 2 🙂"}),
    ("{QnameQ:QAliceQ,outer:{Qin:nerQ:1}}", {"name": "Alice", "outer": {"in:ner": 1}}),
    ("{t:Q} done <end_function Q}", {"t": "} done <end_function "}),
    ("{e:QQ,l:[QQ,QQ]}", {"e": "", "l": ["", ""]}),
    ("{a.b-c:1,my key:QxQ,other key:2}", {"a.b-c": 1, "my key": "x", "other key": 2}),
    ("\n{ a : 1 ,\n b : [ 1 , QxQ ] ,\n c : QyQ ,\n d : QzQ\n}", {"a": 1, "b": [1, "x"], "c": "y", "d": "z"}),
    # regressions C02, C04: words and numbers
    ("{p:null}", {"p": None}),
    ("{left:108.0,right:22.8}", {"left": 108.0, "right": 22.8}),
    ("{l:108.,r:.5,s:-.5,e:1.e2}", {"l": 108.0, "r": 0.5, "s": -0.5, "e": 100.0}),
    (
        "{a:None,b:none,c:nil,d:NULL,e:NIL,f:True,g:FALSE}",
        dict(zip("abcdefg", [*[None] * 5, True, False], strict=True)),
    ),
    ("{a:NaN,b:-Infinity,c:1e999,d:inf}", {"a": "NaN", "b": "-Infinity", "c": "1e999", "d": "inf"}),
    (
        "{a:007,b:-0,c:1-2-3,d:1 000,e:+5,f:1_0,g:-,h:.}",
        {"a": 7, "b": 0, "c": "1-2-3", "d": "1 000", "e": "+5", "f": "1_0", "g": "-", "h": "."},
    ),
    (
        "{a:nul,b:nulls,c:true story,d:5 apples}",
        {"a": "nul", "b": "nulls", "c": "true story", "d": "5 apples"},
    ),
    # regression E08: delimiters inside a string
    ("{code:Qsql(QQQ S QQQ)Q,n:1}", {"code": "sql(QQQ S QQQ)", "n": 1}),
    ("{code:Qprint(QaQ, end=QQ)Q}", {"code": "print(QaQ, end=QQ)"}),
    ("{code:Qf(QaQ, g(x)): passQ}", {"code": "f(QaQ, g(x)): pass"}),
    ("{code:Qd[QaQ] = {QbQ: QcQ, QdQ: 1}Q,n:1}", {"code": "d[QaQ] = {QbQ: QcQ, QdQ: 1}", "n": 1}),
    ("{code:Qg({QkQ: QvQ}, y)Q}", {"code": "g({QkQ: QvQ}, y)"}),
    ("{text:QHe said QyesQ, and the rule: goQ}", {"text": "He said QyesQ, and the rule: go"}),
    (
        "{json:Q{QaQ:{QbQ:[QcQ]}}Q,o:{json:Q[{QaQ:QbQ},{QaQ:QcQ}]Q}}",
        {"json": "{QaQ:{QbQ:[QcQ]}}", "o": {"json": "[{QaQ:QbQ},{QaQ:QcQ}]"}},
    ),
    # regression H04: parentheses in place of the opening delimiter
    ("(a=1)", {"a": 1}),
    ("()", {}),
    ("(a=QxQ, b=QyQ, c=[1], d={k:2})", {"a": "x", "b": "y", "c": [1], "d": {"k": 2}}),
    ("(a='x, y', b=\"z\", c=True)", {"a": "x, y", "b": "z", "c": True}),
    ("{city:ParisQ,n:1}", {"city": "Paris", "n": 1}),
    ("{city:New York, NY Q,n:42Q,l:[aQ,bQ]}", {"city": "New York, NY ", "n": "42", "l": ["a", "b"]}),
    # regression Q02: no delimiters at all
    ("{city:Austin}", {"city": "Austin"}),
    ("{city:San Francisco, CA,state:,n:5}", {"city": "San Francisco, CA", "state": "", "n": 5}),
    ("{a:f(x, y),b:x[0],c:{d:g({1})}}", {"a": "f(x, y)", "b": "x[0]", "c": {"d": "g({1})"}}),
    ("{l:[f(1, 2), b]}", {"l": ["f(1, 2)", "b"]}),
    # spellings of other notations
    (
        '{"a": "x\\n\\u00e9\\"", "b": [1, "y"], "c": {"d": null}}',
        {"a": 'x\né"', "b": [1, "y"], "c": {"d": None}},
    ),
    ('{a:"C:\\dir\ttab",b:"{]"}', {"a": "C:\\dir\ttab", "b": "{]"}),
    ("{a='it\\'s',b:'x',c:['p, q','r'],'d':1}", {"a": "it's", "b": "x", "c": ["p, q", "r"], "d": 1}),
    ("{a:'tis,b:it's,c:'x' or 'y'}", {"a": "'tis", "b": "it's", "c": "'x' or 'y'"}),
    ('{"a":QxQ, "b":QyQ, QcQ : 1}', {"a": "x", "b": "y", "c": 1}),
    ("{a=1,b = QxQ}", {"a": 1, "b": "x"}),
    ("{a:[1,2,],b:QxQ,}", {"a": [1, 2], "b": "x"}),
    ("{a:,b:}", {"a": "", "b": ""}),
]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
@pytest.mark.parametrize("quote", [GEMMA, ESCAPE, PRIVATE], ids=["gemma", "escape", "private"])
def test_examples_are_converted(text: str, expected: object, quote: str) -> None:
    if expected is None:
        expected = {"city": "Paris", "n": 1, "ok": True, "l": [1, "a"], "o": {"k": None}}
    written = text.replace("Q", quote)
    for rest in ("", "<tool_call|>", " call:f{}", "\nAnd so on."):
        out = assert_chunking(written + rest, quote=quote)
        assert (out.status, out.end) == ("complete", len(written)), out
        assert json.loads(out.text) == json.loads(json.dumps(expected).replace("Q", json.dumps(quote)[1:-1]))


def test_loose_spelling_is_converted() -> None:
    out = read(["( a = 1,b:[ ],c:[1 ,QxQ],d:{e=-07,},f:1e5)".replace("Q", GEMMA)])
    assert out.text == '{"a": 1, "b": [], "c": [1, "x"], "d": {"e": -7}, "f": 1e5}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a:9007199254740993}", "9007199254740993"),
        ("{a:-" + "9" * 4300 + "}", "-" + "9" * 4300),
        ("{a:" + "9" * 4301 + "}", '"' + "9" * 4301 + '"'),
        ("{a:1.10}", "1.10"),
        ("{a:1E+05}", "1E+05"),
        ("{a:000}", "0"),
        ("{a:1e400}", '"1e400"'),
    ],
)
def test_digits_are_copied(text: str, expected: str) -> None:
    assert read([text]).text == f'{{"a": {expected}}}'


def test_key_given_twice_is_noted() -> None:
    text = '{a:1,b:{a:2,"a":3},"\\u0061":[4]}'
    out = assert_chunking(text)
    assert out.text == '{"a": 1, "b": {"a": 2, "a": 3}, "\\u0061": [4]}'
    assert [(kind, detail) for kind, detail, *_ in out.diagnostics] == [("duplicate_argument", "a")] * 2


def test_double_quote_may_be_the_delimiter() -> None:
    assert value('{a:"x\\"y",b:["z"],"c":"}"}', '"') == {"a": 'x"y', "b": ["z"], "c": "}"}


def test_delimiter_may_have_any_shape() -> None:
    for quote in ("::", "=,", "]]", "((", "aa", "><", " '"):
        assert_chunking(f"{{a:{quote}x{quote},b:1}} ", quote=quote)


# -- streaming latency


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("{", "{"),
        ("{ci", "{"),
        ("{city:", '{"city": '),
        ("{city:Q", '{"city": "'),
        ("{city:QPar", '{"city": "Par'),
        ("{city:QPar<|", '{"city": "Par'),
        ("{city:QParQ", '{"city": "Par'),
        ("{city:QParQ,", '{"city": "Par'),
        ("{city:QParQ,n:", '{"city": "Par", "n": '),
        ("{city:QParQ x", '{"city": "ParQ x'),
        ("{l:[QaQ,", '{"l": ["a"'),
        ("{n:108.", '{"n": '),
        ("{n:108.0", '{"n": '),
        ("{n:108.0,", '{"n": 108.0'),
        ("{w:tru", '{"w": '),
        ("{w:true", '{"w": '),
        ("{w:trux", '{"w": "trux'),
        ("{w:San Fr", '{"w": "San Fr'),
        ("{w:San  ", '{"w": "San'),
        ("{w:San, Fr", '{"w": "San'),
        ("{w:San, Fr,", '{"w": "San, Fr'),
        ("{w:San, fr:", '{"w": "San", "fr": '),
        ('{w:"a\\u00', '{"w": "a'),
    ],
)
def test_output_is_emitted_as_early_as_possible(text: str, expected: str) -> None:
    codec = BareKeyObject(GEMMA, ENDS)
    codec.step(text.replace("Q", GEMMA), 0, False)
    assert codec.text == expected.replace("Q", '<|\\"|>')
    assert not codec.error


# -- errors


@pytest.mark.parametrize(
    ("text", "at", "error", "out"),
    [
        ("x", 0, "'{' or '('", ""),
        ("[1]", 0, "'{' or '('", ""),
        ("{a:1]", 4, "',' or a closing bracket", '{"a": 1'),
        ("{a:1,b}", 5, "a key or a closing bracket", '{"a": 1'),
        ("{,a:1}", 1, "a key or a closing bracket", "{"),
        ("{a:1,,b:2}", 5, "a key or a closing bracket", '{"a": 1'),
        ("{a:]", 3, "a value", '{"a": '),
        ("{a:[,1]}", 4, "a value or ']'", '{"a": ['),
        ("{a:[1,,2]}", 6, "a value or ']'", '{"a": [1'),
        ("{a:[1}", 5, "',' or a closing bracket", '{"a": [1'),
        ('{a:"x" y}', 7, "',' or a closing bracket", '{"a": "x"'),
        ("{a:{} x}", 6, "',' or a closing bracket", '{"a": {}'),
        ("{" + "k" * 600 + ":1}", 1, "a key or a closing bracket", "{"),
        ("{a:1<tool_call|>", 4, "',' or a closing bracket", '{"a": 1'),
        ("{a:1,<tool_call|>", 5, "a key or a closing bracket", '{"a": 1'),
        ("{a:<tool_call|>", 3, "a value", '{"a": '),
        ("{a:Paris <tool_call|>", 9, "',' or a closing bracket", '{"a": "Paris"'),
        ("{a:[1,<tool_call|>", 6, "a value or ']'", '{"a": [1'),
        (f"{{a:{GEMMA}x{GEMMA}<tool_call|>", 14, "',' or a closing bracket", '{"a": "x"'),
        (f"{{a:{{b:{GEMMA}x{GEMMA}}}\n<tool_call|>", 19, "',' or a closing bracket", '{"a": {"b": "x"}'),
    ],
)
def test_errors_have_position_and_prefix(text: str, at: int, error: str, out: str) -> None:
    for rest in ("", "}", " x:1}<tool_call|>"):
        outcome = assert_chunking(text + rest)
        assert (outcome.end, outcome.error, outcome.text) == (at, error, out)


@pytest.mark.parametrize(
    "text", ["{", "{a", "{a:", "{a:1", "{a:Qx", "{a:QxQ", "{a:QxQ,", "{a:[", "{a:x, b", '{a:"x\\', "(a='x"]
)
def test_cut_object_is_truncated(text: str) -> None:
    assert assert_chunking(text.replace("Q", GEMMA)).status == "truncated"


def test_partial_delimiter_is_not_data() -> None:
    assert read([f'{{a:{GEMMA}x<|"']).text == '{"a": "x'


# -- repair


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ("{l:[1,2}", '{"l": [1, 2]}', ("repaired", "missing ] added", 7)),
        ("{a:[{b:1]}", '{"a": [{"b": 1}]}', ("repaired", "missing } added", 8)),
        ("(a=[{b:1)", '{"a": [{"b": 1}]}', ("repaired", "missing }] added", 8)),
    ],
)
def test_missing_brackets_are_repaired(text: str, expected: str, note: tuple[str, str, int]) -> None:
    out = assert_chunking(text, repair=True)
    assert (out.status, out.text, out.diagnostics) == ("complete", expected, [note])
    assert read([text]).status == "malformed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a:1", '{"a": 1}'),
        ("{a:x", '{"a": "x"}'),
        ("{a:QxQ", '{"a": "x"}'),
        ("{a:[{b:QxQ,", '{"a": [{"b": "x"}]}'),
        ("{a:[", '{"a": []}'),
        ("{", "{}"),
        ("(a=1,", '{"a": 1}'),
        ("{a:", None),
        ("", None),
    ],
)
def test_close_completes_the_object(text: str, expected: str | None) -> None:
    codec = BareKeyObject(GEMMA, ENDS, repair=True)
    text = text.replace("Q", GEMMA)
    assert codec.step(text + "<tool_call|>", 0, False) == len(text)
    assert codec.error
    out = codec.text
    if expected is None:
        assert not codec.close()
        return
    assert codec.close()
    assert codec.done
    assert not codec.error
    assert out + codec.text == expected
    assert [kind for kind, _, _ in codec.diagnostics] == ["repaired"]


# -- types from the schema

SCHEMA = ValueType(
    {
        "properties": {
            "zip": {"type": "string"},
            "n": {"type": "integer"},
            "p": {"type": ["string", "null"]},
            "b": {"type": "boolean"},
            "o": {"properties": {"zip": {"type": "string"}}},
            "l": {"type": "array", "items": {"type": "number"}},
            "t": {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "u": {"type": ["string", "integer"]},
            "x": {},
        }
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{zip:01234}", '{"zip": "01234"}'),
        ("{zip:null}", '{"zip": null}'),
        ("{zip:}", '{"zip": ""}'),
        ("{n:Q42Q}", '{"n": "42"}'),
        ("{n:42Q}", '{"n": "42"}'),
        ("{n:Q x Q}", '{"n": " x "}'),
        ("{n:5.0,b:true}", '{"n": 5, "b": true}'),
        ("{b:QTrueQ,n:true}", '{"b": "True", "n": true}'),
        ("{p:null}", '{"p": null}'),
        ("{p:None}", '{"p": null}'),
        ("{p:5}", '{"p": "5"}'),
        ("{p:QnullQ}", '{"p": "null"}'),
        ("{o:{zip:01234,k:01234}}", '{"o": {"zip": "01234", "k": 1234}}'),
        ('{o:Q{"k": 1}Q}', '{"o": "{\\"k\\": 1}"}'),
        ("{l:[Q1.50Q,2]}", '{"l": ["1.50", 2]}'),
        ("{t:[1,Q2Q,3]}", '{"t": ["1", "2", 3]}'),
        ("{u:01,x:01,y:01}", '{"u": "01", "x": 1, "y": 1}'),
        ("{u:QaQ,x:Q1Q,y:Q1Q}", '{"u": "a", "x": "1", "y": "1"}'),
    ],
)
def test_values_follow_the_schema(text: str, expected: str) -> None:
    out = assert_chunking(text.replace("Q", GEMMA), kind=SCHEMA)
    assert (out.status, out.text) == ("complete", expected)


# -- laws

SHRED = (
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        "=",
        "'",
        '"',
        "\\",
        " ",
        "\n",
        "-",
        ".",
        "1",
        "e",
        "x",
        "true",
        "nu",
    ),
    *(
        "Q",
        "Q,",
        "Q}",
        "Q]",
        "Q,k:",
        ", k:",
        "k:",
        "k:Q",
        "k=",
        "<",
        "<|",
        '<|"',
        "<tool_call|>",
        "<tool",
        "<|tool_call>",
    ),
    *('{"k": "v", ', "\\u00", "é", "\x00", "🙂", " " * BOUND, "y" * (BOUND - 1), "]" * 40),
)


@st.composite
def shreds(draw: st.DrawFn, quote: str) -> str:
    """Generate text that is nearly an object."""
    start = draw(st.sampled_from(("{", "{", "{k:", "{k:Q", "{k:[Q", "(k=", "[", "{a:{b:[")))
    pieces = draw(st.lists(st.sampled_from(SHRED) | st.text(max_size=2), max_size=14))
    return "".join([start, *pieces]).replace("Q", quote)


@st.composite
def chunkings(draw: st.DrawFn, text: str) -> list[str]:
    at = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


@given(st.data())
def test_chunking_does_not_matter(data: st.DataObject) -> None:
    assert_laws(data)


@pytest.mark.slow
@settings(max_examples=20_000)
@given(st.data())
def test_chunking_does_not_matter_for_many_texts(data: st.DataObject) -> None:
    assert_laws(data)


def assert_laws(data: st.DataObject) -> None:
    quote = data.draw(st.sampled_from(QUOTES))
    repair = data.draw(st.booleans())
    kind = data.draw(st.sampled_from((UNKNOWN, SCHEMA)))
    ends = data.draw(st.sampled_from((ENDS, NOTHING)))
    text = data.draw(shreds(quote))
    chunks = data.draw(chunkings(text))
    out = assert_chunking(text, chunks, split_text(text, 7), quote=quote, ends=ends, repair=repair, kind=kind)
    if out.status == "complete":
        assert isinstance(json.loads(out.text), dict)
    # A decision made on a prefix is final: emitted text, an error and the end position do not change.
    part = text[: data.draw(st.integers(0, len(text)))]
    codec = BareKeyObject(quote, ends, repair=repair, kind=kind)
    at = codec.step(part, 0, False)
    assert out.text.startswith(codec.text)
    assert at <= out.end
    if codec.done or codec.error:
        assert (out.end, out.error, out.text) == (at, codec.error, codec.text)


# -- encoding

text_of = st.text(st.characters(codec="utf-8"), max_size=8)
pieces_of = st.sampled_from(
    (GEMMA, ESCAPE, "<|", '"', "'", "\\", "{", "}", "]", ",", ":", "=", "k:", ", k:", " ", "\n", "null", "1")
)
strings = text_of | st.lists(pieces_of | text_of, max_size=5).map("".join)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | strings,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(strings, values, max_size=5), st.sampled_from(QUOTES), st.data())
@example({"a": GEMMA, "b": f"x{GEMMA},n:1", f"k{GEMMA}": "<|"}, GEMMA, None)
@example({"": "", " k ": {"'": [""]}, "<tool_call|>": 1}, GEMMA, None)
def test_encoding_round_trips(
    arguments: Mapping[str, object], quote: str, data: st.DataObject | None
) -> None:
    source = json.dumps(arguments, ensure_ascii=False)
    written = encode_bare(source, quote)
    whole = read([written + "<tool_call|>"], quote)
    assert (whole.status, whole.end, whole.diagnostics) == ("complete", len(written), [])
    assert json.dumps(json.loads(whole.text), sort_keys=True) == json.dumps(arguments, sort_keys=True)
    if data is not None:
        assert read([*data.draw(chunkings(written)), "<tool_call|>"], quote) == whole


TEMPLATE = jinja2.Template(
    """
{%- macro format_argument(argument) -%}
    {%- if argument is string -%}
        {{- quote + argument + quote -}}
    {%- elif argument is boolean -%}
        {{- 'true' if argument else 'false' -}}
    {%- elif argument is mapping -%}
        {{- '{' -}}
        {%- for key, value in argument | dictsort -%}
            {{- key -}}:{{- format_argument(value) -}}
            {%- if not loop.last %},{% endif -%}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif argument is sequence -%}
        {{- '[' -}}
        {%- for item in argument -%}
            {{- format_argument(item) -}}
            {%- if not loop.last %},{% endif -%}
        {%- endfor -%}
        {{- ']' -}}
    {%- else -%}
        {{- argument -}}
    {%- endif -%}
{%- endmacro -%}
{{- format_argument(arguments) -}}"""
)
"""The argument macro of Gemma 4's chat templates."""
plain_keys = st.text("abcAB_é.-", min_size=1, max_size=4) | st.sampled_from(("my key", "天気"))
plain_values = st.recursive(
    st.none() | st.booleans() | numbers | text_of.filter(lambda text: "<" not in text),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_keys, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(plain_keys, plain_values, max_size=5))
def test_encoding_matches_the_template(arguments: Mapping[str, object]) -> None:
    written = encode_bare(json.dumps(arguments), GEMMA)
    assert written == TEMPLATE.render(arguments=arguments, quote=GEMMA)


def test_encoding_keeps_digits_and_surrogates() -> None:
    source = '{"a": 12345678901234567890.0123456789, "b": "\\ud801", "\\ud801": 1E5}'
    written = encode_bare(source, PRIVATE)
    assert PRIVATE not in written
    assert read([written], PRIVATE).text == source


@pytest.mark.parametrize("arguments", ["", "[]", "1", '"x"', '{"a": }', '{"a": 1} x', "null"])
def test_encoding_needs_an_object(arguments: str) -> None:
    with pytest.raises(UsageError, match="JSON object"):
        encode_bare(arguments, GEMMA)


# -- complexity


LINES = 'line "x" {1}, é\n' * 4_096


@pytest.mark.parametrize(
    ("text", "expected"),
    [(f"{{a:{GEMMA}{LINES}{GEMMA}}}", LINES), (f"{{a:{LINES}}}", LINES.rstrip())],
    ids=["quoted", "bare"],
)
def test_long_string_streams_in_linear_time(text: str, expected: str) -> None:
    out = read(split_text(text + "<tool_call|>", 4))
    assert json.loads(out.text) == {"a": expected}
    assert_linear(lambda length: read(split_text(text[:length], 4)), 4_000)


@pytest.mark.parametrize("size", [1, 4, 1_000_000])
def test_deep_nesting_does_not_recurse(size: int) -> None:
    depth = 10_000
    for opener, closer in (("[", "]"), ("{a:", "}")):
        text = "{a:" + opener * depth + GEMMA + "x" + GEMMA + closer * depth + "}<"
        out = read(split_text(text, size))
        assert (out.status, out.end) == ("complete", len(text) - 1)
        assert encode_bare(out.text, GEMMA) == text[:-1]


HOSTILE = {
    "delimiters": "Q",
    "delimiters and commas": "Q,",
    "delimiters and brackets": "Q}",
    "delimiters and keys": "Q, k",
    "delimiters and quoted keys": "Q, Qk",
    "delimiters and spaces": "Q" + " " * 30,
    "delimiters and many spaces": "Q" + " " * 400,
    "delimiters and long keys": "Q," + "k" * 400,
    "half delimiters": "<|",
    "single quotes": "'x,k:",
    "single quotes in a list": "',",
    "commas": ",",
    "words and commas": "x, y ",
    "brackets": "({[",
    "closing brackets": "]",
    "pairs": "k:1,",
    "empty pairs": "k:,",
    "digits": "1",
    "signs": "1-",
    "blanks": " ",
    "backslashes": "\\",
    "escapes": "\\u00e9",
    "markers": "<tool_call|",
    "colons": ":",
}


STARTS = ("{k:Q", "{k:x", "{k:[Q", "{", "{k:", '{k:"', "{k:[", "{k:[x", "(k=", "{k:" + "[" * 600 + "Q")


def assert_quick(start: str, piece: str, size: int) -> None:
    text = (start + piece * 64_000).replace("Q", GEMMA)
    assert_linear(lambda length: read(split_text(text[:length], size), repair=True), 4_000)


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_linear(piece: str) -> None:
    for start in STARTS[:3]:
        assert_quick(start, piece, 4)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_by_character_is_linear(piece: str) -> None:
    for start in STARTS:
        for size in (1, 16_000):
            assert_quick(start, piece, size)
