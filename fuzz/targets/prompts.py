"""Prompts: wherever one ends, the output after it obeys the same laws, and what it quotes says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.choices import SEPARATOR, Choices, read_case, written_case
from fuzz.outputs import outputs
from unspool import Dialect
from unspool.testing import Case, assert_laws, comparable, markers, read
from unspool.testing._prompt_laws import CHATML, PLAIN

ANSWER = "Hello world"
_TURNS = ("<|im_end|>\n<|im_start|>assistant\n", "<|start|>assistant", "[/INST]", "<|Assistant|>")


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    prompt, _, text = case.text.partition(SEPARATOR)
    passed, left = len(case.text) - len(text), []
    for chunk in chunks:  # those of the output alone
        left.append(chunk[passed:])
        passed = max(0, passed - len(chunk))
    for continues in (False, True):
        assert_laws(dialect, replace(case, text=text, prompt=prompt, continues=continues), [left])
    assert_said_nothing(dialect, case, prompt)


def assert_said_nothing(dialect: Dialect, case: Case, quoted: str) -> None:
    """Whatever is quoted before a turn that begins with plain words, the model's answer is the answer."""
    for turn in (*PLAIN, CHATML):
        prompt = turn.message.format(role="user", text=quoted) + turn.last
        reading = read(dialect, replace(case, text=ANSWER, prompt=prompt))
        plain = read(dialect, replace(case, text=ANSWER, prompt=turn.last))
        if comparable(reading.events, ANSWER) != comparable(plain.events, ANSWER):
            reading.fail("quotation", f"{quoted!r} counts")


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        turn, at = _TURNS[number % len(_TURNS)], len(text) * (number % 5) // 5
        words = markers(dialect) or ("",)
        said = f"What is {words[number % len(words)]}?{turn}"
        yield written_case(dialect, f"{said}{text[:at]}{SEPARATOR}{text[at:]}", number=number)
