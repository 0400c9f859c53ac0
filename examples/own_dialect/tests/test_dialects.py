"""Every dialect reads its sample, writes it back, and obeys the laws of unspool."""

import pytest
from unspool_parrot import MAGPIE, OWL, PARROT

from unspool import Dialect, parse, render
from unspool.testing import check_dialect

TOOL = {"type": "object", "properties": {"depth": {"type": "integer"}, "where": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "get_worm", "parameters": TOOL}}]

SAMPLES = {
    "parrot": (PARROT, '<preen>Hm.</preen>Hello!<squawk get_cracker>\n{"n": 1}\n</squawk>', '{"n": 1}'),
    "magpie": (
        MAGPIE,
        "Look!\n@@calls\nsteal get_worm [\n  - depth: 3;\n  - where: under the {old} tree;\n]\n@@end",
        '{"depth": 3, "where": "under the {old} tree"}',
    ),
    "owl": (
        OWL,
        ' to=self<|says|>Whom?<|end|><|from|>owl to=catch<|says|>{"prey": "mouse"}<|end|>',
        '{"prey": "mouse"}',
    ),
}


@pytest.mark.parametrize(("dialect", "text", "arguments"), SAMPLES.values(), ids=list(SAMPLES))
def test_sample_is_read_and_written_back(dialect: Dialect, text: str, arguments: str) -> None:
    """Parsing a sample and rendering the message returns the sample."""
    message = parse(text, dialect, tools=TOOLS if dialect is MAGPIE else None)
    assert [call.arguments for call in message.tool_calls] == [arguments]
    assert render(message, dialect) == text


@pytest.mark.parametrize(("dialect", "text", "arguments"), SAMPLES.values(), ids=list(SAMPLES))
def test_dialect_obeys_the_laws(dialect: Dialect, text: str, arguments: str) -> None:
    """The dialect obeys every law that built-in dialects obey."""
    del arguments
    check_dialect(dialect, [text], examples=10)


def test_forgotten_marker_counts_only_for_declared_tools() -> None:
    """Without the section's marker, only calls of declared tools are calls."""
    text = "steal get_worm [\n  - depth: 3;\n]\n@@end"
    assert parse(text, MAGPIE, tools=TOOLS).tool_calls
    assert not parse(text, MAGPIE).tool_calls
