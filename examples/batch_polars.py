"""Parsing of a Polars data frame of outputs.  ``python -m lab.examples`` runs this."""

import polars as pl

from unspool.batch import parse_batch

OUTPUT = '<think>Noon?</think><tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'

frame = pl.DataFrame({"id": ["a", "b", "c"], "text": [OUTPUT, OUTPUT[:60], None]})
parsed = pl.from_arrow(parse_batch(frame.to_arrow(), "hermes", key="id", keep=["id"]))
assert isinstance(parsed, pl.DataFrame)

calls = (
    parsed.select("id", "tool_calls")
    .explode("tool_calls", empty_as_null=False)
    .drop_nulls()
    .unnest("tool_calls", separator=".")
)
print(calls.select("id", "tool_calls.name", "tool_calls.status", "tool_calls.arguments"))
print(parsed.filter(~pl.col("ok")).select("id", "error"))

assert calls["tool_calls.status"].to_list() == ["complete", "truncated"]
assert parsed["ok"].to_list() == [True, True, False]
