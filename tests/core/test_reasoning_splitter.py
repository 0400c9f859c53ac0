"""Splitter for parsers of calls that know only the markup of calls."""

from __future__ import annotations

import pytest

from unspool.stages import ReasoningSplitter

CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("minimax_append_think", "Hm.</think>Yes.", ("", "<think>Hm.</think>Yes.")),
        (
            "cohere",
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
            ("Hm.", "Yes."),
        ),
        ("hunyuan_a13b", "<think>Hm.</think><answer>Yes.</answer>", ("Hm.", "Yes.")),
        ("deepseek_v4", "<think>Hm.</think>Yes.<\uff5cend\u2581of\u2581sentence\uff5c>", ("Hm.", "Yes.")),
        (
            "kimi_k3",
            "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|>",
            ("Hm.", "Yes."),
        ),
        ("hermes", f"<think>Hm.</think>Yes.\n{CALL}\n{CALL}", ("Hm.", f"Yes.\n{CALL}\n{CALL}")),
    ],
)
def test_only_the_markup_of_calls_remains(
    dialect: str, text: str, expected: tuple[str, str], size: int
) -> None:
    splitter = ReasoningSplitter(dialect, only_calls=True)
    splits = [splitter.feed(text[start : start + size]) for start in range(0, len(text), size)]
    splits.append(splitter.finish())
    assert ("".join(s.reasoning for s in splits), "".join(s.rest for s in splits)) == expected
