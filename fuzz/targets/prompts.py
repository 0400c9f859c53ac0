"""Target: prompts. The output after any prompt obeys the laws, and quotations in it have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.choices import SEPARATOR, Choices, read_case, written_case
from fuzz.outputs import outputs
from unspool import Dialect
from unspool.testing import ModelOutput, assert_laws, comparable, markers, run_parser
from unspool.testing._quoted_prompt_laws import CHATML, PLAIN

ANSWER = "Hello world"
_TURNS = ("<|im_end|>\n<|im_start|>assistant\n", "<|start|>assistant", "[/INST]", "<|Assistant|>")


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    prompt, _, text = case.text.partition(SEPARATOR)
    passed, left = len(case.text) - len(text), []
    for chunk in chunks:  # the chunks of the output without the prompt
        left.append(chunk[passed:])
        passed = max(0, passed - len(chunk))
    for continues in (False, True):
        assert_laws(dialect, replace(case, text=text, prompt=prompt, continues=continues), [left])
    assert_no_effect(dialect, case, prompt)


def assert_no_effect(dialect: Dialect, case: ModelOutput, quoted: str) -> None:
    """Assert that a quotation before a turn that begins with plain words does not change the answer."""
    for turn in (*PLAIN, CHATML):
        prompt = turn.message.format(role="user", text=quoted) + turn.last
        reading = run_parser(dialect, replace(case, text=ANSWER, prompt=prompt))
        plain = run_parser(dialect, replace(case, text=ANSWER, prompt=turn.last))
        if comparable(reading.events, ANSWER) != comparable(plain.events, ANSWER):
            reading.fail("quotation", f"{quoted!r} counts")


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        turn, at = _TURNS[number % len(_TURNS)], len(text) * (number % 5) // 5
        words = markers(dialect) or ("",)
        prompt_text = f"What is {words[number % len(words)]}?{turn}"
        yield written_case(dialect, f"{prompt_text}{text[:at]}{SEPARATOR}{text[at:]}", number=number)
