"""Parsing of a pandas data frame of outputs.  ``python -m lab.examples`` runs this."""

import pandas as pd
import pyarrow as pa

from unspool.batch import parse_batch

OUTPUT = '<think>Noon?</think><tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'

frame = pd.DataFrame({"text": [OUTPUT, OUTPUT[:60], None]}, index=["a", "b", "c"])
table = pa.Table.from_pandas(frame.reset_index(names="id"), preserve_index=False)
parsed = parse_batch(table, "hermes", key="id", keep=["id"]).to_pandas().set_index("id")

both = frame.join(parsed)
print(both[["reasoning", "finish_reason", "ok", "error"]])

calls = both["tool_calls"].explode().dropna().apply(pd.Series)
print(calls[["name", "status", "arguments"]])

assert calls["status"].to_list() == ["complete", "truncated"]
assert both["ok"].to_list() == [True, True, False]
