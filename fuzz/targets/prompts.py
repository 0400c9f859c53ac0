"""Prompts: wherever one ends, the output behind it obeys the same laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.choices import SEPARATOR, Choices, read_case, written_case
from fuzz.outputs import outputs
from unspool.testing import assert_laws, markers

_TURNS = ("<|im_end|>\n<|im_start|>assistant\n", "<|start|>assistant", "[/INST]", "<|Assistant|>")


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    prompt, _, text = case.text.partition(SEPARATOR)
    passed, left = len(case.text) - len(text), []
    for chunk in chunks:  # those of the output alone
        left.append(chunk[passed:])
        passed = max(0, passed - len(chunk))
    assert_laws(dialect, replace(case, text=text, prompt=prompt), [left])


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        turn, at = _TURNS[number % len(_TURNS)], len(text) * (number % 5) // 5
        words = markers(dialect) or ("",)
        said = f"What is {words[number % len(words)]}?{turn}"
        yield written_case(dialect, f"{said}{text[:at]}{SEPARATOR}{text[at:]}", number=number)
