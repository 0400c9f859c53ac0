"""What stands around calls: missing openers, closers that are no markers, text that is for nobody."""

from __future__ import annotations

import pytest

from standard import callers
from unspool import Dialect, Message, Policies, SpecError, ToolCall, UsageError, get_dialect, parse, render
from unspool.testing import Case, Reading, assert_laws, check_dialect, read

CALLERS = [dialect.name for dialect in callers()]
FENCE = "Look:\n```py\nprint(1)\n```\nBye."


def message_of(dialect: str | Dialect, text: str, **request: object) -> Message:
    """The message, after the laws have been tried on the text."""
    case = Case(text, **request)  # type: ignore[arg-type]
    assert_laws(dialect, case)
    reading: Reading = read(dialect, case)
    assert reading.message is not None
    return reading.message


def kinds(message: Message) -> list[str]:
    return [problem.kind for problem in message.problems]


# -- code fences


@pytest.mark.parametrize("policies", [Policies(), Policies(malformed_call="repair")], ids=["text", "repair"])
@pytest.mark.parametrize("name", CALLERS)
def test_a_code_fence_behind_a_call_is_text(name: str, policies: Policies) -> None:
    dialect = get_dialect(name)
    call = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
    try:
        text = render(dialect, Message(tool_calls=(call,)))
    except UsageError:
        pytest.skip("it cannot write that call")
    found = parse(text + "\n" + FENCE, dialect, policies=policies)
    if found.content is None or "Bye." not in found.content:
        pytest.skip("what follows a call is not content")
    assert "```py\nprint(1)\n```" in found.content


# -- text that is for nobody

WITH_RESULTS = Dialect(
    name="with_results",
    call=("<call>{envelope}</call>",),
    drop=("<|result|>{text}<|/result|>", "<|br|>"),
)


def test_what_stands_between_markers_is_dropped_with_a_note() -> None:
    found = message_of(WITH_RESULTS, "One.<|result|>4 <b> <call>{}</call> <think><|/result|>Two.<|br|>")
    assert (found.content, found.tool_calls, kinds(found)) == ("One.Two.", (), ["dropped_text"])


def test_reasoning_goes_on_behind_dropped_text() -> None:
    found = message_of(WITH_RESULTS, "<think>Hm.<|result|>4<|/result|>So.</think>Four.")
    assert (found.reasoning, found.content) == ("Hm.So.", "Four.")


def test_dropped_text_that_does_not_end_is_dropped() -> None:
    found = message_of(WITH_RESULTS, "One.<|result|>4", finish_reason="length")
    assert (found.content, kinds(found)) == ("One.", ["dropped_text"])


def test_dropped_text_keeps_the_laws() -> None:
    check_dialect(WITH_RESULTS, ["One.<|result|>4<|/result|>Two.", "<think>A<|result|>b"], examples=20)


@pytest.mark.parametrize("template", ["{text}<|/result|>", "<|result|>{text}", "<|r|>{text}{text}<|/r|>"])
def test_dropped_text_needs_its_markers(template: str) -> None:
    with pytest.raises(SpecError):
        Dialect(name="wrong", drop=(template,))


def test_results_in_the_prompt_are_not_the_models() -> None:
    results = (
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜><think><｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
    )
    found = message_of("deepseek_v3", "It rains.", prompt=f"<｜Assistant｜>{results}")
    assert (found.reasoning, found.content, kinds(found)) == (None, "It rains.", [])
