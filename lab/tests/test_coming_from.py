"""The counts on the migration page, which ``lab.coming_from`` repeats with the engines themselves."""

from __future__ import annotations

import pytest

from lab import coming_from
from lab.coming_from import TOPICS, ClientMessage
from lab.docs_section import read_section
from unspool.models.doctor.engine_parser_table import DEFECTS


@pytest.mark.parametrize("engine", coming_from.ENGINES)
def test_docs_have_a_row_for_each_topic(engine: str) -> None:
    table = read_section("docs/coming-from.md", engine)
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
