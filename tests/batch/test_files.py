"""``unspool batch``: every input, however it is split or interrupted, gives the rows of ``parse_batch``."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspool.batch import input_files as batch_inputs
from unspool.batch import parse_batch
from unspool.batch.input_files import cut, find_inputs, read, schema_of
from unspool.batch.run_job import InProcess, run_job
from unspool.cli import main
from unspool.cli.batch import Progress

CALL = '<tool_call>\n{{"name": "now", "arguments": {{"n": {n}}}}}\n</tool_call>'
ROWS: list[dict[str, Any]] = [
    {"id": f"row {n}", "text": f"<think>Hm{'m' * (n * 7 % 50)}.</think>Ok. ☃\n" + CALL.format(n=n), "n": n}
    for n in range(60)
]
ROWS[7]["text"] = None
ROWS[11]["text"] = ROWS[11]["text"][:-20]
PARSED = ["reasoning", "content", "tool_calls", "finish_reason", "diagnostics", "ok", "error"]


def to_json_lines(rows: list[dict[str, Any]] = ROWS) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def compress(data: bytes, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as file:
        file.write(data)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


def write(path: Path) -> Path:
    """Write the rows in the format of the suffix."""
    table = pa.Table.from_pylist(ROWS)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=7)
        case ".arrow":
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table, max_chunksize=7)
        case ".arrows":
            with pa.ipc.new_stream(path, table.schema) as file:
                file.write_table(table, max_chunksize=7)
        case ".gz":
            path.write_bytes(
                gzip.compress(to_json_lines(ROWS[:20])) + gzip.compress(to_json_lines(ROWS[20:]))
            )
        case ".zst":
            path.write_bytes(compress(to_json_lines(), "zstd"))
        case _:
            path.write_bytes(to_json_lines())
    return path


def read_rows(out: Path) -> list[dict[str, Any]]:
    """Return all written rows in order."""
    rows: list[dict[str, Any]] = []
    for path in sorted(out.glob("part-*")):
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        elif path.suffix == ".arrow":
            rows += pa.ipc.open_file(path).read_all().to_pylist()
        else:
            kind = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
            rows += map(json.loads, pa.input_stream(str(path), compression=kind).read().splitlines())
    return rows


def batch(*arguments: object) -> int:
    return main(["batch", "--quiet", *map(str, arguments)])


def list_files(out: Path) -> dict[str, bytes]:
    """Return the files of a run except its own records."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


# -- input formats


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("size", [0.0005, 32])
def test_every_input_format_parses_like_a_batch(tmp_path: Path, suffix: str, size: float) -> None:
    source = write(tmp_path / f"rows{suffix}")
    out = tmp_path / "out"
    assert batch(source, out, "--dialect", "hermes", "--key", "id", "--part-size", size) == 0
    expected = parse_batch(pa.RecordBatch.from_pylist(ROWS), "hermes", key="id", keep="all").to_pylist()
    rows = read_rows(out)
    for row in rows:
        assert row.pop("other", None) is None
    assert rows == expected
    assert (len(list(out.glob("part-*"))) > 1) == (size < 1)


@pytest.mark.parametrize("kind", ["arrow", "jsonl", "jsonl.gz", "jsonl.zst"])
def test_every_output_format_has_the_same_rows(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path / "rows.parquet")
    batch(source, tmp_path / "as parquet", "--dialect", "hermes")
    batch(source, tmp_path / "other", "--dialect", "hermes", "--format", kind)
    assert read_rows(tmp_path / "other") == read_rows(tmp_path / "as parquet")
    assert len(read_rows(tmp_path / "other")) == len(ROWS)


def test_ids_depend_on_row_position_not_on_parts(tmp_path: Path) -> None:
    for suffix in (".jsonl", ".jsonl.gz", ".parquet", ".arrow"):
        source = write(tmp_path / f"rows{suffix}")
        for size in (0.0008, 0.003, 32):
            batch(source, tmp_path / f"{suffix}{size}", "--dialect", "hermes", "--part-size", size)
        first, second, whole = (read_rows(tmp_path / f"{suffix}{size}") for size in (0.0008, 0.003, 32))
        assert first == second == whole
        ids = [call["id"] for row in whole for call in row["tool_calls"]]
        assert len(set(ids)) == len(ids) == len(ROWS) - 1


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_line_is_in_exactly_one_part(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rows.jsonl"
    wanted = [{"text": "x" * length} for length in (0, 1, 5, 30, 2, 0, 17)]
    text = (end or "\n").join(json.dumps(row) for row in wanted) + end
    path.write_text(text, newline="")
    inputs = find_inputs([str(path)])
    schema = schema_of(inputs, {})
    for size in range(1, len(text) + 2):
        places = [
            (place, row["text"])
            for part in cut(0, inputs[0], size)
            for rows in read(inputs[0], part, schema)
            for place, row in zip(rows.places, rows.batch.to_pylist(), strict=True)
        ]
        assert [text for _, text in places] == [row["text"] for row in wanted]
        assert all(text[place:].startswith('{"text"') for place, _ in places)


def test_parallel_run_writes_same_output(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl")
    options = ("--dialect", "hermes", "--part-size", "0.002")
    batch(source, tmp_path / "one", *options)
    batch(source, tmp_path / "two", *options, "--jobs", "2")
    assert list_files(tmp_path / "one") == list_files(tmp_path / "two")


# -- output rows


def test_no_part_of_a_line_is_lost(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    odd: list[Any] = [
        {"text": "Hi.", "n": 1, "meta": {"a": [None, {}]}, "mixed": 1, "f": 1, "big": 1},
        {"text": "Ho.", "n": None, "meta": "x", "mixed": "1", "f": 1.5, "big": 1 << 70},
    ]
    late: list[Any] = [
        {"text": 5, "n": "one", "new": ["\ud800"], "other": {"o": 1}, "big": 2},
        {"new": True},
    ]
    everything = [*odd * 500, *late]
    source.write_text("".join(json.dumps(row) + "\n" for row in everything) + "no JSON\n\n[1]\n")
    assert batch(source, tmp_path / "lines", "--dialect", "hermes", "--format", "jsonl") == 0
    rows = read_rows(tmp_path / "lines")
    for before, after in zip(everything, rows[:-2], strict=True):
        assert {name: value for name, value in after.items() if name in before} == before
    assert [row["other"] for row in rows[-2:]] == ["no JSON", "[1]"]
    assert [row["ok"] for row in rows] == [True] * 1000 + [False] * 4
    assert [row["error"] for row in rows[-2:]] == [
        "the line is not a JSON object: 'no JSON'",
        "the line is not a JSON object: '[1]'",
    ]

    assert batch(source, tmp_path / "table", "--dialect", "hermes") == 0
    table = read_rows(tmp_path / "table")
    assert [row["meta"] for row in table[:2]] == ['{"a": [null, {}]}', '"x"']
    assert [row["f"] for row in table[:2]] == [1.0, 1.5]
    assert json.loads(table[1000]["other"]) == {"text": 5, "n": "one", "new": ["\ud800"], "other": {"o": 1}}


def test_options_can_come_from_columns_or_flags(tmp_path: Path) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}]
    text = "Hm.</think><tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"
    row = {"text": text, "of": "qwen3_coder", "tools": tools, "start": "<think>", "why": "stop"}
    (tmp_path / "rows.jsonl").write_bytes(to_json_lines([row]))
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    by_column = ("--dialect", "of", "--tools", "tools", "--prompt-column", "start", "--finish-reason", "why")
    for_all = ("--dialect", "qwen3_coder", "--tools", tmp_path / "tools.json", "--prompt", "<think>")
    for name, options in (("columns", by_column), ("all", for_all)):
        assert batch(tmp_path / "rows.jsonl", tmp_path / name, *options) == 0
    (tmp_path / "text.jsonl").write_bytes(to_json_lines([{**row, "tools": json.dumps(tools)}]))
    assert batch(tmp_path / "text.jsonl", tmp_path / "text", *by_column) == 0
    (one,), (other,) = read_rows(tmp_path / "columns"), read_rows(tmp_path / "all")
    assert one == other
    (by_text,) = read_rows(tmp_path / "text")
    assert by_text["tool_calls"] == one["tool_calls"]
    assert (one["reasoning"], one["tool_calls"][0]["arguments"]) == ("Hm.", '{"n": 1}')


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_token_ids_are_labelled(tmp_path: Path, suffix: str) -> None:
    vocabulary = write_small_vocabulary(tmp_path / "model")
    ids = vocabulary.encode("Hi <tool_call> { } </tool_call>").ids
    rows = [{"ids": ids, "start": None}, {"ids": None, "start": ids[:1]}, {"ids": [99], "start": []}]
    source = tmp_path / f"rows{suffix}"
    if suffix == ".jsonl":
        source.write_bytes(to_json_lines(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), source)
    options = ("--dialect", "hermes", "--token-ids", "ids", "--tokenizer", tmp_path / "model", "--labels")
    out = tmp_path / "out"
    assert batch(source, out, *options, "--prompt-column", "start", "--format", "jsonl") == 0
    labelled = read_rows(out)
    assert [row["ok"] for row in labelled] == [True, False, False]
    assert len(labelled[0]["labels"]) == len(ids)
    assert labelled[0]["labels"][0] == 1


def write_small_vocabulary(directory: Path) -> Any:
    """Write a tokenizer with a vocabulary of four words."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    vocabulary = Tokenizer(models.WordLevel({"Hi": 0, "{": 1, "}": 2, "?": 3}, unk_token="?"))
    vocabulary.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    vocabulary.add_special_tokens([AddedToken("<tool_call>"), AddedToken("</tool_call>")])
    directory.mkdir()
    vocabulary.save(str(directory / "tokenizer.json"))
    return vocabulary


def test_converted_rows_are_verified(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet")
    assert batch(source, tmp_path / "out", "--dialect", "hermes", "--to", "mistral", "--keep", "id") == 0
    rows = read_rows(tmp_path / "out")
    assert [row["ok"] for row in rows] == [n not in (7, 11) for n in range(len(ROWS))]
    assert rows[0]["converted"].endswith('[TOOL_CALLS]now[ARGS]{"n": 0}')
    assert list(rows[0]) == ["id", "converted", "ok", "error"]


def test_summary_reports_rows_and_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "rows.jsonl")
    assert main(["batch", str(source), str(tmp_path / "out"), "--dialect", "hermes"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("60 rows of 1 file in 1 part: ")
    for line in (
        "bad rows       1\n",
        "1  the row has no output: 'text' is null\n",
        "calls          59\n",
        "58  complete\n",
        " 1  truncated\n",
        "1  truncated_call\n",
        "slowest rows ",
    ):
        assert line in page
    assert main(["batch", str(source), str(tmp_path / "out"), "--dialect", "hermes"]) == 0
    assert "nothing; all parts were done in an earlier run" in capsys.readouterr().out
    assert main(["batch", "--json", str(source), str(tmp_path / "out"), "--dialect", "hermes"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"] == {"complete": 58, "truncated": 1}


def test_progress_is_rewritten_on_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from argparse import ArgumentParser

    from unspool.cli.batch import add_arguments, job_of

    parser = ArgumentParser()
    add_arguments(parser)
    source = write(tmp_path / "rows.jsonl")
    options = [str(source), str(tmp_path / "out"), "--dialect", "hermes", "--part-size", "0.004"]
    job = job_of(parser.parse_args(options))
    progress = Progress(source.stat().st_size, shown=True)
    outcome = run_job(job, InProcess(), progress)
    progress.close()
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert outcome.parts > 1
    assert len(shown) == outcome.parts + 3
    assert "100%  60 rows  1 bad  " in shown[-2]


# -- usage errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dialect", "klingon"], "there is also no column 'klingon'"),
        (
            ["--dialect", "hermes", "--text", "output"],
            "the first rows have no column 'output'; they have id, text, n",
        ),
        (["--dialect", "hermes", "--tools", "tools.json"], "no column or file with this name"),
        (["--dialect", "hermes", "--to", "klingon"], "klingon"),
        (["--dialect", "hermes", "--keep", "m"], "exactly one column 'm'"),
        (["--dialect", "hermes", "--jobs", "0"], "use at least 1"),
        (["--dialect", "hermes", "--prompt", "", "--prompt-column", "text"], "are mutually exclusive"),
        (["--dialect", "hermes", "--labels"], "labels=True needs token ids"),
        (["--dialect", "hermes", "--token-ids", "n", "--tokenizer", "."], "no tokenizer.json"),
    ],
)
def test_usage_errors_are_reported_before_writing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    source = write(tmp_path / "rows.jsonl")
    assert batch(source, tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_invalid_inputs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, table = write(tmp_path / "rows.jsonl"), write(tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("text\n")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"text": ["Hi."]}), other)
    for inputs, message in (
        ([tmp_path / "nowhere"], "is not a file or directory"),
        ([tmp_path / "rows.csv"], "has an unknown suffix"),
        ([rows, table], "use one run per format"),
        ([table, other], "does not have the same columns as"),
    ):
        assert batch(*inputs, tmp_path / "out", "--dialect", "hermes") == 2
        assert message in capsys.readouterr().err


def test_directory_input_reads_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("b.jsonl", "a.jsonl.gz"):
        write(tmp_path / "in" / name)
    (tmp_path / "in" / "_notes.jsonl").write_text("not this\n")
    assert batch(tmp_path / "in", tmp_path / "out", "--dialect", "hermes") == 0
    assert len(read_rows(tmp_path / "out")) == 2 * len(ROWS)


def test_second_run_with_other_options_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write(tmp_path / "rows.jsonl"), tmp_path / "out"
    batch(source, out, "--dialect", "hermes")
    before = list_files(out)
    assert batch(source, out, "--dialect", "mistral", "--keep", "id") == 2
    message = capsys.readouterr().err
    assert 'dialect was "hermes", and is now "mistral"; keep was "all", and is now "id"' in message
    assert batch(source, write(tmp_path / "more.jsonl"), out, "--dialect", "hermes") == 2
    assert "more.jsonl is a new input" in capsys.readouterr().err
    source.write_bytes(to_json_lines().replace(b"Ok.", b"No."))
    assert batch(source, out, "--dialect", "hermes") == 2
    assert "has changed" in capsys.readouterr().err
    source.write_bytes(to_json_lines() * 2)
    assert batch(source, out, "--dialect", "hermes") == 2
    assert (
        f"had {len(to_json_lines()):,} bytes, and now has {2 * len(to_json_lines()):,}"
        in capsys.readouterr().err
    )
    assert list_files(out) == before


def test_directory_with_foreign_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write(tmp_path / "rows.jsonl"), tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    assert batch(source, out, "--dialect", "hermes") == 2
    assert "is not empty" in capsys.readouterr().err
    assert list_files(out) == {"thesis.tex": b"years of work"}


def test_failed_part_is_reported_and_redone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path / "a.jsonl"), write(tmp_path / "b.jsonl.gz")
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-10])
    out = tmp_path / "out"
    assert batch(good, bad, out, "--dialect", "hermes") == 1
    assert "part-00001-00000 failed: OSError: Truncated compressed stream" in capsys.readouterr().err
    assert len(read_rows(out)) == len(ROWS)
    assert not (out / "_summary.json").exists()


def test_missing_part_is_redone(tmp_path: Path) -> None:
    source, out = write(tmp_path / "rows.jsonl"), tmp_path / "out"
    options = ("--dialect", "hermes", "--part-size", "0.004")
    batch(source, out, *options)
    before = list_files(out)
    parts = sorted(out.glob("part-*"))
    parts[0].unlink()
    parts[1].write_bytes(b"half")
    batch(source, out, *options)
    assert list_files(out) == before


# -- hostile and damaged files


@pytest.mark.parametrize("size", [0.0005, 32])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_only_newlines_end_json_lines(tmp_path: Path, suffix: str, size: float) -> None:
    source = tmp_path / f"rows{suffix}"
    data = to_json_lines().replace(b'", "', b'",\r"')
    source.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    assert batch(source, tmp_path / "out", "--dialect", "hermes", "--part-size", size) == 0
    assert [row["id"] for row in read_rows(tmp_path / "out")] == [row["id"] for row in ROWS]


@pytest.mark.parametrize("size", [0.0001, 32])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_line_over_the_limit_is_an_error_of_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, size: float
) -> None:
    monkeypatch.setattr(batch_inputs, "_MAX_LINE_BYTES", 3000)
    source = tmp_path / f"rows{suffix}"
    short = [{"text": f"Row {n}."} for n in range(9)]
    data = (
        to_json_lines(short[:4])
        + b'{"text": "'
        + b"x" * 3000
        + b'"}\n'
        + to_json_lines(short[4:])
        + b'{"text": "'
        + b"y" * 9999
    )
    source.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    assert batch(source, tmp_path / "out", "--dialect", "hermes", "--part-size", size) == 0
    rows = read_rows(tmp_path / "out")
    assert [row["text"] for row in rows if row["ok"]] == [row["text"] for row in short]
    bad = [row for row in rows if not row["ok"]]
    assert [row["error"] for row in bad] == [
        "the line has more than 3,000 bytes; only its start is kept, in 'other'"
    ] * 2
    assert [json.loads(row["other"])[:12] for row in bad] == ['{"text": "xx', '{"text": "yy']
    assert all(len(row["other"]) < 1100 for row in bad)


def test_endless_line_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_inputs, "_MAX_LINE_BYTES", 1 << 20)
    source = tmp_path / "rows.jsonl.gz"
    source.write_bytes(gzip.compress(bytes(64 << 20)))  # contains no newline at all
    (one,) = find_inputs([str(source)])
    tracemalloc.start()
    try:
        schema = schema_of([one], {"text": "string"})
        for size in (1 << 10, 32 << 20):
            parts = [read(one, part, schema) for part in cut(0, one, size)]
            assert [len(rows.batch) for part in parts for rows in part] == [1]
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("column", ["text", "note", "deep", "of"])
def test_text_that_is_not_utf_8_is_an_error_of_its_row(tmp_path: Path, column: str, form: str) -> None:
    good = ["Hi.", "Ho.", "Hu."]
    texts = pa.array([b"Hi.", b"\xff\xfe.", b"Hu."]).view(pa.string())
    table = {"text": pa.array(good), "note": pa.array(good), "of": pa.array(["hermes"] * 3)}
    table["deep"] = pa.StructArray.from_arrays([pa.array(good)], ["t"])
    table[column] = pa.StructArray.from_arrays([texts], ["t"]) if column == "deep" else texts
    if column == "of":
        table["of"] = pa.array([b"hermes", b"\xff", b"hermes"]).view(pa.string())
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    options = ("--dialect", "of", "--format", form)
    assert batch(tmp_path / "rows.parquet", tmp_path / "out", *options) == 0
    (path,) = (tmp_path / "out").glob("part-*")
    parsed = (
        read_rows(tmp_path / "out")
        if form == "jsonl"
        else pq.read_table(path, columns=["ok", "error"]).to_pylist()
    )
    bad = column in ("text", "of")
    assert [row["ok"] for row in parsed] == [True, not bad, True]
    if bad:
        assert parsed[1]["error"] == f"{column!r} is not UTF-8: invalid start byte 0xff at byte 0"
    if form == "parquet":  # the kept columns must be unchanged
        assert pq.read_table(path, columns=[column]).column(0).chunk(0).equals(table[column])
    elif column == "note":
        assert [row["note"] for row in parsed] == ["Hi.", "\ufffd\ufffd.", "Hu."]
    elif column == "deep":
        assert [row["deep"] for row in parsed] == [{"t": "Hi."}, {"t": "\ufffd\ufffd."}, {"t": "Hu."}]


def test_nan_becomes_null_in_json(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(
        '{"text": "Hi.", "n": NaN, "meta": {"p": [-Infinity, 1e999, 0.5]}}\n'
        '{"text": "Ho.", "n": 1.5, "new": NaN}\n'
    )
    for form in ("jsonl", "parquet"):
        assert batch(source, tmp_path / form, "--dialect", "hermes", "--format", form) == 0
    (part,) = (tmp_path / "jsonl").glob("part-*")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    first, second = (json.loads(line, parse_constant=refuse) for line in part.read_text().splitlines())
    assert (first["n"], first["meta"], second["n"]) == (None, {"p": [None, None, 0.5]}, 1.5)
    table = read_rows(tmp_path / "parquet")
    assert math.isnan(table[0]["n"])
    assert table[0]["meta"] == '{"p": [null, null, 0.5]}'


def test_text_of_other_languages_stays_readable_in_json(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"text": "Grüße", "note": "Zürich"}\n', encoding="utf-8")
    assert batch(source, tmp_path / "out", "--dialect", "hermes", "--format", "jsonl") == 0
    (part,) = (tmp_path / "out").glob("part-*")
    written = part.read_text(encoding="utf-8")
    assert "Grüße" in written
    assert "Zürich" in written


def test_table_text_that_claims_to_be_json_stays_on_its_line(tmp_path: Path) -> None:
    field = pa.field("meta", pa.string(), metadata={"unspool": "json"})
    schema = pa.schema([pa.field("text", pa.string()), field, field.with_name("other")])
    table = pa.table(
        [["Hi.", "Ho."], ['1}\n{"text": "forged"', '{"a":\n1}'], ["[1]", "no JSON"]], schema=schema
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    assert batch(tmp_path / "rows.parquet", tmp_path / "out", "--dialect", "hermes", "--format", "jsonl") == 0
    rows = [(row["text"], row["meta"], row["other"]) for row in read_rows(tmp_path / "out")]
    assert rows == [("Hi.", '1}\n{"text": "forged"', [1]), ("Ho.", {"a": 1}, "no JSON")]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_unsupported_file_is_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_bytes(b"this is text\n" * 9)
    assert batch(tmp_path / name, tmp_path / "out", "--dialect", "hermes") == 2
    message = capsys.readouterr().err
    assert f"{name} cannot be read as " in message
    assert message.count("\n") == 1


def test_truncated_input_fails_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path / "a.jsonl"), tmp_path / "b.jsonl.gz"
    bad.write_bytes(gzip.compress(random.Random(1).randbytes(3000).hex().encode())[:-10])  # noqa: S311
    out = tmp_path / "out"
    assert batch(good, bad, out, "--dialect", "hermes", "--part-size", "0.001") == 1
    assert "b.jsonl.gz failed: OSError: Truncated compressed stream" in capsys.readouterr().err
    assert [row["id"] for row in read_rows(out) if row["id"]] == [row["id"] for row in ROWS]


# -- output folders that were modified between runs


def change_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


TAMPERED: list[Callable[[Path], object]] = [
    lambda out: flip(next(out.glob("part-*"))),
    lambda out: flip(next((out / "_done").glob("*.json"))),
    lambda out: change_json(next((out / "_done").glob("*.json")), lambda record: record.update(rows=1000)),
    lambda out: change_json(next((out / "_done").glob("*.json")), lambda record: record.pop("errors")),
    lambda out: change_json(next((out / "_done").glob("*.json")), lambda record: record.update(slowest=[1])),
    lambda out: next((out / "_done").glob("*.json")).write_text("[" * 100_000),
    lambda out: next((out / "_done").glob("*.json")).write_text("[]"),
    lambda out: replace_by_pipe(next((out / "_done").glob("*.json"))),
    lambda out: replace_by_pipe(next(out.glob("part-*"))),
]


def flip(path: Path) -> None:
    """Change a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("tamper", TAMPERED)
def test_changed_part_is_redone(tmp_path: Path, tamper: Callable[[Path], object]) -> None:
    source, out = write(tmp_path / "rows.jsonl"), tmp_path / "out"
    assert batch(source, out, "--dialect", "hermes") == 0
    before = list_files(out)
    tamper(out)
    assert batch(source, out, "--dialect", "hermes") == 0
    assert list_files(out) == before


@pytest.mark.parametrize(
    "text", ["[]", "{}", "{", "[" * 100_000, '{"unspool": "0.1.0", "options": {}, "inputs": 3}']
)
def test_changed_manifest_is_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    source, out = write(tmp_path / "rows.jsonl"), tmp_path / "out"
    batch(source, out, "--dialect", "hermes")
    (out / "_manifest.json").write_text(text)
    assert batch(source, out, "--dialect", "hermes") == 2
    message = capsys.readouterr().err
    assert "_manifest.json is not a manifest of unspool batch, or it was changed" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_lock_is_a_regular_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    source, out, precious = write(tmp_path / "rows.jsonl"), tmp_path / "out", tmp_path / "precious"
    batch(source, out, "--dialect", "hermes")
    precious.write_text("years of work")
    lock = out / "_done" / "lock"
    lock.unlink()
    if kind == "link":
        lock.symlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    assert batch(source, out, "--dialect", "hermes") == 2
    assert "lock cannot be used as a lock: " in capsys.readouterr().err
    assert precious.read_text() == "years of work"


def test_invalid_output_directory_is_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "rows.jsonl")
    assert batch(source, source, "--dialect", "hermes") == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- interrupted runs

KILLED = """
import os, signal, sys
from unspool.cli import main

def killing(work, last):
    def step(*values, **options):
        global steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*values, **options)
    return step

for last in range(1, 100):
    child = os.fork()
    if not child:
        steps = 0
        os.fsync, os.replace = killing(os.fsync, last), killing(os.replace, last)
        os._exit(main(sys.argv[1:]))
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        print(last, status)
        break
"""
"""Kill each run one step later than the one before: while a file is written or renamed."""


def test_run_killed_at_any_step_resumes(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl")
    options = ["--quiet", "--dialect", "hermes", "--part-size", "0.001"]
    batch(source, tmp_path / "whole", *options)
    command = [sys.executable, "-c", KILLED, "batch", str(source), str(tmp_path / "out"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    last, status = map(int, done.stdout.split())
    assert (last > 8, status) == (True, 0)
    assert list_files(tmp_path / "out") == list_files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_run_killed_twenty_times_equals_uninterrupted_run(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)  # noqa: S311 - the moments differ anyway
    source, out = tmp_path / f"rows.{kind}", tmp_path / "out"
    many = [{**row, "id": f"{row['id']} of {number}"} for number in range(400) for row in ROWS]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(many), source, row_group_size=500)
    else:
        source.write_bytes(to_json_lines(many) if kind == "jsonl" else compress(to_json_lines(many), "gzip"))
    options = ["--quiet", "--dialect", "hermes", "--part-size", str(source.stat().st_size / 40 / (1 << 20))]
    batch(source, tmp_path / "whole", *options)
    expected = list_files(tmp_path / "whole")
    command = [sys.executable, "-m", "unspool", "batch", str(source), str(out), *options, "--jobs", "2"]
    kills = 0
    while kills < 20:
        run = subprocess.Popen(command)
        try:
            assert run.wait(timeout=chance.uniform(0.2, 4)) == 0
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            kills += 1
        else:
            assert list_files(out) == expected
            shutil.rmtree(out)
    assert subprocess.run(command, check=False).returncode == 0
    assert list_files(out) == expected
    assert len(read_rows(out)) == len(many)
