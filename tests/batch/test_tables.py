"""Tables: a batch equals ``parse`` in a loop, a row never raises, and conversions are verified."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache
from itertools import product, zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus_cases
import standard_scenarios
from corpus_cases import Vector
from unspool import Dialect, Message, Policies, ToolCall, UsageError, list_dialects, parse, render
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS, calls_of, example
from unspool.batch import (
    PARSED,
    Column,
    convert_batch,
    parse_batch,
    parse_batches,
    render_batch,
)
from unspool.message import BrokenCall
from unspool.parser import seeded_ids
from vocabularies import bytes_for

NAMES = [dialect.name for dialect in list_dialects()]
HERMES = '<tool_call>\n{"name": "now", "arguments": {"zone": "Oslo"}}\n</tool_call>'


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


# -- law: a batch equals `parse` in a loop


@cache
def sample_vectors() -> list[Vector]:
    """Return a few outputs of every dialect, interleaved; other tests check how each is parsed."""
    vectors = [vector for vector in corpus_cases.load() if vector.dialect in NAMES and not vector.variant]
    vectors += [vector for name in NAMES for vector in standard_scenarios.vectors_of(name)]
    by_dialect = [[vector for vector in vectors if vector.dialect == name] for name in NAMES]
    turns = zip_longest(*(some[:: 1 + len(some) // 12] for some in by_dialect))
    return [vector for turn in turns for vector in turn if vector is not None]


def to_table(vectors: list[Vector]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "id": f"{vector.file}:{vector.line}",
                "text": vector.raw,
                "dialect": vector.dialect,
                "tools": None if vector.tools is None else json.dumps(vector.tools),
                "prompt": vector.prefix,
                "finish": vector.finish,
            }
            for vector in vectors
        ],
        schema=pa.schema(
            [(name, pa.string()) for name in ("id", "text", "dialect", "tools", "prompt", "finish")]
        ),
    )


def expected_row(message: Message) -> dict[str, Any]:
    """Return the table row of a message, without the positions of its calls."""
    return {
        "reasoning": message.reasoning,
        "content": message.content,
        "tool_calls": [
            {
                "id": part.id,
                "name": part.name,
                "arguments": part.arguments,
                "status": part.status if isinstance(part, BrokenCall) else "complete",
            }
            for part in message.parts
            if isinstance(part, ToolCall | BrokenCall)
        ],
        "finish_reason": message.finish_reason,
        "diagnostics": [
            {name: getattr(diagnostic, name) for name in ("kind", "detail", "start", "end", "raw")}
            for diagnostic in message.diagnostics
        ],
        "ok": True,
        "error": None,
    }


def test_batch_equals_parse_in_a_loop() -> None:
    vectors = sample_vectors()
    # Passthrough has no markup, so the corpus has no cases for it.
    assert {vector.dialect for vector in vectors} == set(NAMES) - {"passthrough"}
    table = to_table(vectors)
    parsed = parse_batch(
        table,
        Column("dialect"),
        tools=Column("tools"),
        prompt=Column("prompt"),
        finish_reason=Column("finish"),
        key="id",
    )
    for given_, row in zip(table.to_pylist(), parsed.to_pylist(), strict=True):
        for call in row["tool_calls"]:
            assert 0 <= call.pop("start") < call.pop("end") <= len(given_["text"])
        assert row == expected_row(
            parse(
                given_["text"],
                given_["dialect"],
                tools=None if given_["tools"] is None else json.loads(given_["tools"]),
                prompt=given_["prompt"],
                finish_reason=given_["finish"],
                new_id=seeded_ids(given_["id"], given_["dialect"]),
            )
        ), given_["id"]


def test_malformed_call_stays_in_place_as_text() -> None:
    vectors = sample_vectors()
    parsed = parse_batch(
        to_table(vectors), Column("dialect"), tools=Column("tools"), finish_reason=Column("finish")
    )
    broken = 0
    for vector, row in zip(vectors, parsed.to_pylist(), strict=True):
        raws = [diagnostic["raw"] for diagnostic in row["diagnostics"] if diagnostic["kind"] in KINDS]
        for call in row["tool_calls"]:
            if call["status"] != "complete":
                broken += 1
                assert vector.raw[call["start"] : call["end"]] in raws
    assert broken > 40


KINDS = {"malformed_call", "truncated_call"}


def test_constant_option_equals_column_of_it() -> None:
    text, _ = example(list_dialects()[0])
    name = NAMES[0]
    tools = list(EXAMPLE_TOOLS)
    by_column = parse_batch(
        batch(text=[text], of=[name], tools=[json.dumps(tools)], prompt=[""], why=["stop"]),
        Column("of"),
        tools=Column("tools"),
        prompt=Column("prompt"),
        finish_reason=Column("why"),
    )
    for_all = parse_batch(batch(text=[text]), name, tools=tools, prompt="", finish_reason="stop")
    assert by_column == for_all


def test_batch_size_does_not_change_result() -> None:
    table = pa.Table.from_batches([to_table(sample_vectors()[::5])])
    whole = parse_batch(table, Column("dialect"), tools=Column("tools"))
    for size in (1, 7, 1000):
        batches = table.to_batches(max_chunksize=size)
        cut = pa.Table.from_batches(parse_batches(batches, Column("dialect"), tools=Column("tools")))
        assert cut.equals(whole)


# -- errors within a row


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.text(), st.sampled_from([HERMES, HERMES[:40], "<tool_call>"]))))
def test_every_row_has_a_result(texts: list[str | None]) -> None:
    parsed = parse_batch(
        pa.record_batch({"text": pa.array(texts, pa.string())}), "hermes", policies=Policies()
    )
    assert parsed.schema.names == PARSED.names
    assert parsed["ok"].to_pylist() == [text is not None for text in texts]


def test_row_error_is_in_its_row() -> None:
    rows = batch(
        text=[HERMES, None, HERMES, HERMES, HERMES, HERMES],
        dialect=["hermes", "hermes", "klingon", None, "hermes", "hermes"],
        tools=[None, None, None, None, "[", '[{"type": "function"}]'],
    )
    parsed = parse_batch(rows, Column("dialect"), tools=Column("tools")).to_pylist()
    assert [row["ok"] for row in parsed] == [True, False, False, False, False, False]
    errors = [row["error"] for row in parsed]
    assert errors[:2] == [None, "the row has no output: 'text' is null"]
    assert "klingon" in errors[2]
    assert "None" in errors[3]
    assert "not JSON" in errors[4]
    assert "without a name" in errors[5]


def test_strict_policies_fail_in_the_row() -> None:
    rows = batch(text=[HERMES, HERMES[:40]])
    parsed = parse_batch(rows, "hermes", policies=Policies(truncated_call="error"))
    assert parsed["ok"].to_pylist() == [True, False]
    assert parsed["error"][1].as_py().startswith("MalformedOutput: truncated call at offset 40")


def test_row_does_not_depend_on_its_neighbours() -> None:
    """Rows with the same options share only what is derived from these options."""
    texts = [HERMES, HERMES[:40], f"Hm.</think>{HERMES}", "Hello.", HERMES, "[TOOL_CALLS]now[ARGS]{}", HERMES]
    dialects = ["hermes", "hermes", "hermes", "hermes", "hermes", "mistral", "hermes"]
    prompts = [None, None, "<think>", "<think>", None, None, None]
    policies = Policies(truncated_call="error")
    rows = batch(text=texts, dialect=dialects, prompt=prompts, key=["a", "b", "c", "d", "a", "e", "a"])
    options: Any = {"prompt": Column("prompt"), "key": "key", "policies": policies}
    together = parse_batch(rows, Column("dialect"), **options).to_pylist()
    alone = [parse_batch(rows.slice(n, 1), Column("dialect"), **options).to_pylist()[0] for n in range(7)]
    assert together == alone
    assert together[0] == together[4] == together[6]
    assert [row["ok"] for row in together] == [True, False, True, True, True, True, True]


def test_lone_surrogate_is_escaped() -> None:
    text = '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'
    parsed = parse_batch(batch(text=[text, HERMES]), "hermes").to_pylist()
    assert [row["tool_calls"][0]["name"] for row in parsed] == ["\\ud800", "now"]


def test_tools_may_be_json_text_inside_json() -> None:
    tools = [{"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}]
    rows = batch(text=["Hi."] * 3, tools=[json.dumps(json.dumps(tools)), json.dumps(tools), '"["'])
    parsed = parse_batch(rows, "hermes", tools=Column("tools")).to_pylist()
    assert [row["ok"] for row in parsed] == [True, True, False]


def test_tools_may_be_structs_with_nulls() -> None:
    tools = [
        [{"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}],
        [{"name": "g", "parameters": {"properties": {"s": {"type": "string", "enum": ["1"]}}}}],
    ]
    text = "<tool_call>\n<function={}>\n<parameter={}>\n1\n</parameter>\n</function>\n</tool_call>"
    rows = batch(text=[text.format("f", "n"), text.format("g", "s")], tools=tools)
    parsed = parse_batch(rows, "qwen3_coder", tools=Column("tools")).to_pylist()
    assert [row["tool_calls"][0]["arguments"] for row in parsed] == ['{"n": 1}', '{"s": "1"}']


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_arrow_string_type_is_accepted(kind: pa.DataType) -> None:
    parsed = parse_batch(
        pa.record_batch({"text": pa.array([HERMES, None], pa.string()).cast(kind)}), "hermes"
    )
    assert parsed["ok"].to_pylist() == [True, False]


# -- token ids


def test_batch_of_ids_equals_loop() -> None:
    from unspool.tokens import label_tokens

    dialects = ("hermes", "qwen3_coder", "deepseek_v3_1", "harmony", "mistral")
    for name in dialects:
        vectors = [vector for vector in sample_vectors() if vector.dialect == name]
        vocabulary = bytes_for(name)
        rows = [vocabulary.encode(vector.raw) for vector in vectors]
        table = pa.record_batch({"ids": pa.array([*rows, None, [10_000]], pa.list_(pa.int32()))})
        parsed = parse_batch(table, name, token_ids="ids", tokenizer=vocabulary, labels=True)
        assert parsed.schema.names == [*PARSED.names[:-2], "labels", *PARSED.names[-2:]]
        assert json.loads(parsed.schema.metadata[b"unspool"]) == {"spans": "tokens", "labels": 1}
        *good, empty, foreign = parsed.to_pylist()
        assert (empty["ok"], foreign["ok"]) == (False, False)
        for number, (ids, row) in enumerate(zip(rows, good, strict=True)):
            reading = label_tokens(ids, name, tokenizer=vocabulary, new_id=seeded_ids(number, name))
            places = [(call.pop("start"), call.pop("end")) for call in row["tool_calls"]]
            assert places == [(attempt.start, attempt.end) for attempt in reading.attempts]
            assert row.pop("labels") == reading.labels
            assert row == expected_row(reading.message) | {
                "diagnostics": [asdict(one) for one in reading.diagnostics]
            }


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.large_list(pa.uint16()), pa.list_(pa.int64(), 5)], ids=str
)
def test_every_arrow_list_type_is_accepted(kind: pa.DataType) -> None:
    vocabulary = bytes_for("hermes")
    ids = pa.array([list(b"Hello"), None, list(b"World")], kind)
    whole = pa.record_batch({"ids": ids})
    for batch_ in (whole, whole.slice(1)):
        parsed = parse_batch(batch_, "hermes", token_ids="ids", tokenizer=vocabulary)
        assert parsed["content"].to_pylist() == ["Hello", None, "World"][-batch_.num_rows :]
    full = pa.record_batch({"ids": pa.array([list(b"Hello"), list(b"World")], kind)})
    parsed = parse_batch(full, "hermes", token_ids="ids", tokenizer=vocabulary)
    assert parsed["content"].to_pylist() == ["Hello", "World"]


def test_padding_is_not_output() -> None:
    rows = batch(ids=[[*b"Hi", 0, 0], [*b"Hi", -100, -100]])
    parsed = parse_batch(rows, "hermes", token_ids="ids", tokenizer=bytes_for("hermes"), pad=0, labels=True)
    assert parsed["content"].to_pylist() == ["Hi", "Hi"]
    assert parsed["labels"].to_pylist() == [bytes([1, 1, 8, 8])] * 2


# -- usage errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "output"}, "exactly one column 'output'; it has: 'text', 'n'"),
        ({"text": "n"}, "the column 'n' has the type int64; it must be text"),
        ({"tools": Column("tool")}, "exactly one column 'tool'"),
        ({"tools": [{"type": "function"}]}, "function without a name"),
        ({"keep": "text"}, "pass a list of columns, or 'all'"),
        ({"keep": ["m"]}, "must have exactly one column 'm'"),
        ({"labels": True}, "labels=True needs token ids"),
        ({"token_ids": "n"}, "token_ids= needs a tokenizer"),
        (
            {"token_ids": "text", "tokenizer": bytes_for("hermes")},
            "has the type string; it must be lists of token ids",
        ),
        (
            {"token_ids": "n", "tokenizer": bytes_for("hermes"), "prompt": "x"},
            "the prompt must be token ids, too",
        ),
        ({"policies": 5}, "policies must be a Policies object"),
    ],
)
def test_usage_error_for_all_rows_is_raised_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        parse_batch(batch(text=[HERMES], n=[1]), "hermes", **options)


def test_duplicate_column_is_an_error() -> None:
    rows = batch(text=[HERMES], content=["mine"])
    with pytest.raises(UsageError, match="already has columns named 'content'"):
        parse_batch(rows, "hermes", keep="all")
    parsed = parse_batch(rows, "hermes", keep="all", prefix="read_")
    assert parsed.schema.names == ["text", "content", *(f"read_{name}" for name in PARSED.names)]
    again = render_batch(parsed, "hermes", prefix="read_", keep=["content"])
    assert again.to_pylist() == [{"content": "mine", "text": HERMES, "ok": True, "error": None}]


def test_table_input_gives_table() -> None:
    table = pa.table({"id": [1, 2], "text": [HERMES, None]})
    assert parse_batch(table, "hermes", keep=["id"])["id"].to_pylist() == [1, 2]
    nothing = parse_batch(table.slice(0, 0), "hermes")
    assert (nothing.num_rows, nothing.column_names) == (0, PARSED.names)


# -- conversion

DOZEN = [
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "mistral",
    "deepseek_v3_1",
    "deepseek_v3_2",
    "kimi_k2",
    "glm47",
    "minimax_m2",
    "pythonic",
    "harmony",
    "gemma4",
]
TRICKY = (
    '{"text": "it\'s \\"so\\"\\n</parameter> & <b>", "flag": true, "none": null}',
    '{"n": 1, "x": 1.5, "list": [1, "1", {"a": []}], "unicode": "\\u00e9 \u2603"}',
    "{}",
)
MESSAGES = [
    EXAMPLE,
    Message(tool_calls=EXAMPLE.tool_calls),
    Message(content="Only <b>text</b>, no calls."),
    Message(content="Look: <tool_call> and [TOOL_CALLS] are markers."),
    *(Message(tool_calls=(ToolCall("callcall1", "now", arguments),)) for arguments in TRICKY),
]


@pytest.mark.parametrize("source", DOZEN)
def test_conversion_is_verified_or_explained(source: str) -> None:
    texts = []
    for message in MESSAGES:
        try:
            texts.append(render(message, source))
        except UsageError:  # the target dialect cannot express the message
            continue
    read = parse_batch(batch(text=texts), source)
    for to in DOZEN:
        rows = convert_batch(batch(text=texts), source, to).to_pylist()
        for text, before, row in zip(texts, read.to_pylist(), rows, strict=True):
            if not row["ok"]:
                assert row["converted"] is None
                reasons = ("does not survive rendering", "cannot express")
                assert any(reason in row["error"] for reason in reasons), row["error"]
                continue
            # Between tags the number 5 and the text "5" look alike; the schemas of the tools distinguish
            # them.
            after = parse(row["converted"], to, tools=tools_for(before))
            assert comparable(after) == comparable(parse(text, source)), (source, to, text)


def comparable(message: Message) -> tuple[str, str, list[tuple[str, object]]]:
    return (message.reasoning or "").strip(), (message.content or "").strip(), calls_of(message)


def tools_for(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    from unspool._core.render.round_trip import fitting_tools

    return fitting_tools(ToolCall("", call["name"], call["arguments"]) for call in row["tool_calls"]) or None


def test_calls_convert_between_common_dialects() -> None:
    call = Message(tool_calls=(ToolCall("callcall1", "get_weather", '{"city": "Paris", "days": 3}'),))
    for source, to in product(DOZEN, DOZEN):
        rows = batch(text=[render(call, source)])
        (row,) = convert_batch(rows, source, to, tools=EXAMPLE_TOOLS).to_pylist()
        assert row["ok"], (source, to, row["error"])
        assert calls_of(parse(row["converted"], to, tools=EXAMPLE_TOOLS)) == calls_of(call)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('<tool_call>{"name": "now", "arguments": {"a": }}</tool_call>', "malformed call in the output"),
        (HERMES[:40], "truncated call in the output"),
        ("<tool_call>\n", "cut head in the output"),
        (None, "the row has no output"),
    ],
)
def test_invalid_message_is_not_converted(text: str | None, error: str) -> None:
    rows = pa.record_batch({"text": pa.array([text], pa.string())})
    (row,) = convert_batch(rows, "hermes", "mistral").to_pylist()
    assert (row["converted"], row["ok"]) == (None, False)
    assert error in row["error"]
    (again,) = render_batch(parse_batch(rows, "hermes"), "mistral").to_pylist()
    assert again["ok"] or error == "the row has no output" or "row cannot be rendered" in again["error"]


def test_conversion_without_verification_writes_anyway() -> None:
    rows = batch(text=["The tag </think> ends a thought."])
    (proved,) = convert_batch(rows, "passthrough", "hermes").to_pylist()
    (written,) = convert_batch(rows, "passthrough", "hermes", verify=False).to_pylist()
    assert (proved["ok"], written["ok"]) == (False, True)
    assert (proved["converted"], written["converted"]) == (None, rows["text"][0].as_py())


def test_verification_uses_the_tools_of_the_row() -> None:
    tools = [{"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}]
    text = '<tool_call>{"name": "f", "arguments": {"n": "1"}}</tool_call>'
    (row,) = convert_batch(batch(text=[text]), "hermes", "qwen3_coder", tools=tools).to_pylist()
    assert not row["ok"]
    assert row["error"].endswith("""is read with the arguments '{"n": 1}'""")


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda dialect: dialect.name)
def test_parsed_table_renders_like_its_messages(dialect: Dialect) -> None:
    text, message = example(dialect)
    prompt = "" if dialect.frame is None else None
    parsed = parse_batch(batch(text=[text]), dialect, tools=EXAMPLE_TOOLS, prompt=prompt)
    (row,) = render_batch(parsed, dialect).to_pylist()
    assert row["text"] == render(replace(message, parts=()), dialect)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"name": "f", "arguments": {"n": 1}}, "the arguments of 'f' must be JSON text, got dict"),
        ({"name": "f", "arguments": "{}", "status": "truncated"}, "the call of 'f' is truncated"),
        ({"id": "x"}, "expected a call with a name and arguments"),
    ],
)
def test_call_that_cannot_be_rendered_is_explained(call: dict[str, Any], error: str) -> None:
    (row,) = render_batch(batch(tool_calls=[[call]]), "hermes").to_pylist()
    assert error in row["error"]


def test_table_without_messages_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is nothing to render"):
        render_batch(batch(text=["Hello."]), "hermes")
