"""A file of outputs in, a file of messages out: Parquet, with a column for each part.

    pip install 'unspool[batch]' && python examples/batch_parquet.py outputs.parquet messages.parquet

For files larger than memory, several processes and runs that go on where they were killed: ``unspool batch``.
"""

import sys

import pyarrow.parquet as pq

from unspool.batch import parse_batch

source, target = sys.argv[1:]
outputs = pq.read_table(source)  # "id" names a row, "text" is what the model wrote
messages = parse_batch(outputs, "hermes", key="id", keep=["id"])
pq.write_table(messages, target)

rows = messages.select(["id", "reasoning", "content", "tool_calls", "finish_reason", "ok"]).to_pylist()
for row in rows:
    calls = [f"{call['name']} {call['arguments']} ({call['status']})" for call in row["tool_calls"] or ()]
    print(row["id"], row["finish_reason"], row["content"], *calls)
