"""Parsing of a Parquet file of outputs into a Parquet file of messages, with a column for each part.

    pip install 'unspool[batch]' && python examples/batch_parquet.py outputs.parquet messages.parquet

For files larger than memory, several processes and resumable runs, use ``unspool batch``.
"""

import sys

import pyarrow.parquet as pq

from unspool.batch import parse_batch

source, target = sys.argv[1:]
outputs = pq.read_table(source)  # "id" identifies a row, "text" is the output of the model
messages = parse_batch(outputs, "hermes", key="id", keep=["id"])
pq.write_table(messages, target)

rows = messages.select(["id", "reasoning", "content", "tool_calls", "finish_reason", "ok"]).to_pylist()
for row in rows:
    calls = [f"{call['name']} {call['arguments']} ({call['status']})" for call in row["tool_calls"] or ()]
    print(row["id"], row["finish_reason"], row["content"], *calls)
