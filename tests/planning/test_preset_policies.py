"""Policies named after engines have the outcomes on the migration page."""

from __future__ import annotations

import pytest

from lab import coming_from
from lab.coming_from import TOPICS, Topic
from unspool import Policies

LIKE = {
    "text after a call": ("dropped", "kept"),
    "whitespace between text and a call": ("kept", "kept"),
    "a call truncated by the length limit": ("a call with partial arguments", "nothing"),
    "a call with broken JSON": ("a call with broken arguments", "text"),
    "an undeclared tool": ("forwarded", "text"),
    "a call under `tool_choice: none`": ("text", "text"),
    "a call inside reasoning": ("a call", "text"),
    "a tagged value without a schema": ("string", "string"),
    "a closing tag inside a value": ("data", "data"),
}
"""The outcome of our parser under the policies of vLLM and of SGLang."""


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.about)
def test_topic_outputs_have_the_stated_outcome(topic: Topic) -> None:
    outputs = {dialect: coming_from.output_of(topic, dialect) for dialect in ("hermes", "qwen3_coder")}
    assert any(outputs.values())
    for dialect, output in outputs.items():
        if output is not None:
            seen = [
                topic.outcome(coming_from.run_unspool(dialect, output, Policies.preset(engine)))
                for engine in coming_from.ENGINES
            ]
            assert tuple(seen) == LIKE[topic.about]
