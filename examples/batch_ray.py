"""Parsing of a Ray dataset of outputs on a cluster.  ``python -m lab.examples`` runs this."""

import ray

from unspool.batch.ray import parse_dataset

OUTPUT = '<think>Noon?</think><tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'

ray.init(num_cpus=2, log_to_driver=False)
rows = [{"id": f"row {number}", "text": OUTPUT if number % 10 else OUTPUT[:60]} for number in range(1000)]
dataset = ray.data.from_items(rows, override_num_blocks=8)

parsed = parse_dataset(dataset, "hermes", key="id", keep=["id"]).take_all()
print(parsed[0])

assert sorted(row["id"] for row in parsed) == sorted(row["id"] for row in rows)
assert len({row["tool_calls"][0]["id"] for row in parsed}) == len(rows)
assert sum(row["tool_calls"][0]["status"] == "truncated" for row in parsed) == 100
ray.shutdown()
