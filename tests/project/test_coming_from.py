"""The counts on the migration page; `make peers` repeats them with the engines themselves."""

from __future__ import annotations

import pytest

import coming_from
from coming_from import TOPICS, ClientMessage, Topic
from unspool import Policies
from unspool.models.doctor.engine_parsers import DEFECTS

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


@pytest.mark.parametrize("engine", coming_from.ENGINES)
def test_docs_have_a_row_for_each_topic(engine: str) -> None:
    begin, end = coming_from.between(engine)
    table = coming_from.PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == [topic.about for topic in TOPICS]


def test_closed_call_differs_from_an_unclosed_one() -> None:
    (topic,) = (topic for topic in TOPICS if topic.policy == "truncated_call")
    outcomes = [
        topic.outcome(ClientMessage("", "", (("f", arguments),)))
        for arguments in ('{"city": "Os', '{"city": "Os"}', "")
    ]
    assert outcomes == [
        "a call with partial arguments",
        "a complete call",
        "a call with partial arguments",
    ]


def test_outdated_defects_are_reported() -> None:
    """The doctor's statements about an engine match the observed results of its parsers."""
    seen: coming_from.Outcomes = {}
    for defect in DEFECTS:
        if defect.engine == "vllm":
            for streaming, dialects in ((False, defect.whole), (True, defect.streamed)):
                seen.setdefault((defect.topic, defect.outcomes[0], streaming), set()).update(dialects)
    assert coming_from.changed("vllm", seen) == []
    seen["text after a call", "no call", True].add("hermes")
    (line,) = coming_from.changed("vllm", seen)
    assert "hermes" in line


def test_defects_concern_existing_topics() -> None:
    assert {defect.topic for defect in DEFECTS} <= {topic.about for topic in TOPICS}
