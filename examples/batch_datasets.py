"""Parsing of a Hugging Face dataset of outputs in two processes.  ``python -m lab.examples`` runs this."""

from functools import partial

from datasets import Dataset

from unspool.batch import parse_batch

OUTPUT = '<think>Noon?</think><tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'

if __name__ == "__main__":
    dataset = Dataset.from_dict({"id": ["a", "b", "c", "d"], "text": [OUTPUT, OUTPUT[:60], None, "Hello."]})
    parse = partial(parse_batch, dialect="hermes", key="id", keep="all")
    parsed = dataset.with_format("arrow").map(parse, batched=True, num_proc=2).with_format(None)
    print(parsed)
    print(parsed[1]["tool_calls"], parsed[2]["error"])

    assert parsed.column_names[:2] == ["id", "text"]
    assert [call["status"] for row in parsed for call in row["tool_calls"]] == ["complete", "truncated"]
    assert parsed["ok"][:] == [True, True, False, True]
