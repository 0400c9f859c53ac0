"""Text around calls: missing opening markers, stray closing markers, dropped text."""

from __future__ import annotations

import re

import pytest

from standard_scenarios import callers
from unspool import (
    Dialect,
    Message,
    Policies,
    SpecError,
    ToolCall,
    UsageError,
    get_dialect,
    parse,
    plan,
    render,
)
from unspool.dialects import Habits, Writing
from unspool.testing import ModelOutput, ParseRun, assert_laws, check_dialect, run_parser

CALLERS = [dialect.name for dialect in callers()]
FENCE = "Look:\n```py\nprint(1)\n```\nBye."


def message_of(dialect: str | Dialect, text: str, **request: object) -> Message:
    """Return the message after checking the laws for the text."""
    case = ModelOutput(text, **request)  # type: ignore[arg-type]
    assert_laws(dialect, case)
    reading: ParseRun = run_parser(dialect, case)
    assert reading.message is not None
    return reading.message


def kinds(message: Message) -> list[str]:
    return [diagnostic.kind for diagnostic in message.diagnostics]


# -- code fences


@pytest.mark.parametrize("policies", [Policies(), Policies(malformed_call="repair")], ids=["text", "repair"])
@pytest.mark.parametrize("name", CALLERS)
def test_code_fence_after_a_call_is_text(name: str, policies: Policies) -> None:
    dialect = get_dialect(name)
    call = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
    try:
        text = render(Message(tool_calls=(call,)), dialect)
    except UsageError:
        pytest.skip("the dialect cannot express this call")
    message = parse(text + "\n" + FENCE, dialect, policies=policies)
    if message.content is None or "Bye." not in message.content:
        pytest.skip("text after a call is not content")
    assert "```py\nprint(1)\n```" in message.content


def test_stray_closing_marker_takes_its_fence_along() -> None:
    message = message_of("deepseek_v3", "One. ```<｜tool▁call▁end｜>Two. ``` Three.")
    assert (message.content, kinds(message)) == ("One.Two. ``` Three.", ["stray_closer"])


def test_quoted_closing_marker_is_text() -> None:
    text = "The tag `</think>` ends it."
    for name in ("hermes", "qwen3_coder", "glm45"):
        assert message_of(name, text).content == text
    call = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    text = 'Write "</tool_call>" there.'
    assert message_of("hermes", f"{call}\n{text}").content == text


# -- dropped text

WITH_RESULTS = Dialect(
    name="with_results",
    call=("<call>{envelope}</call>",),
    drop=("<|br|>",),
    habits=Habits(drop_text=("<|result|>{text}<|/result|>",)),
)


def test_text_between_dropped_markers_is_noted() -> None:
    message = message_of(WITH_RESULTS, "One.<|result|>4 <b> <call>{}</call> <think><|/result|>Two.<|br|>")
    assert (message.content, message.tool_calls, kinds(message)) == ("One.Two.", (), ["dropped_text"])


def test_reasoning_continues_after_dropped_text() -> None:
    message = message_of(WITH_RESULTS, "<think>Hm.<|result|>4<|/result|>So.</think>Four.")
    assert (message.reasoning, message.content) == ("Hm.So.", "Four.")


def test_unterminated_dropped_text_is_dropped() -> None:
    message = message_of(WITH_RESULTS, "One.<|result|>4", finish_reason="length")
    assert (message.content, kinds(message)) == ("One.", ["dropped_text"])


def test_dropped_text_obeys_the_laws() -> None:
    check_dialect(WITH_RESULTS, ["One.<|result|>4<|/result|>Two.", "<think>A<|result|>b"], examples=20)


@pytest.mark.parametrize("template", ["{text}<|/result|>", "<|result|>{text}", "<|r|>{text}{text}<|/r|>"])
def test_dropped_text_needs_its_markers(template: str) -> None:
    with pytest.raises(SpecError):
        Dialect(name="wrong", drop=(template,))


def test_tool_results_in_the_prompt_are_not_output() -> None:
    results = (
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜><think><｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
    )
    message = message_of("deepseek_v3", "It rains.", prompt=f"<｜Assistant｜>{results}")
    assert (message.reasoning, message.content, kinds(message)) == (None, "It rains.", [])


# -- marker suffixes of Hy


@pytest.mark.parametrize("suffix", [":opensource", ":6124c78e"])
@pytest.mark.parametrize("name", ["hy_v3", "hy_v4"])
def test_base_dialect_reads_every_suffix_variant(name: str, suffix: str) -> None:
    def tagged(text: str) -> str:
        return re.sub("(｜?>)", rf"{suffix}\1", text)

    text = tagged(
        "Paris.</think>Let me check.<tool_calls><tool_call>get_weather<arg_key>city</arg_key>"
        "<arg_value>Paris</arg_value></tool_call></tool_calls><｜hy_eos｜>"
    )
    message = message_of(name, text, prompt=tagged("<think>"))
    assert (message.reasoning, message.content) == ("Paris.", "Let me check.")
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("get_weather", '{"city": "Paris"}')
    ]
    assert kinds(message) == []


@pytest.mark.parametrize("suffix", [":opensource", ":6124c78e"])
def test_plan_for_the_base_dialect_reads_every_variant_prompt(suffix: str) -> None:
    request = {"messages": [{"role": "user", "content": "Hi"}]}
    prompt = f"<｜hy_User{suffix}｜>Hi<｜hy_Assistant{suffix}｜><think{suffix}>"
    assert plan("hy_v4", request, prompt=prompt).start == "reasoning"


# -- missing opening markers

TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
UNOPENED = {
    "gemma4": "call:get_weather{}<tool_call|>",
    "lfm2": "[get_weather()]<|tool_call_end|>",
    "hy_v3": "<tool_call>get_weather<tool_sep></tool_call>",
    "hy_v4:opensource": "<tool_call:opensource>get_weather</tool_call:opensource>",
    "deepseek_v3_2": '<｜DSML｜invoke name="get_weather"></｜DSML｜invoke>',
}


@pytest.mark.parametrize("name", UNOPENED)
def test_missing_opening_marker_is_noted(name: str) -> None:
    message = message_of(name, UNOPENED[name], tools=TOOLS)
    assert [call.name for call in message.tool_calls] == ["get_weather"]
    assert kinds(message) == ["missing_opener"]


@pytest.mark.parametrize("name", UNOPENED)
def test_missing_opening_marker_without_tools_leaves_text(name: str) -> None:
    for reason in ("stop", "length"):
        for end in range(len(UNOPENED[name])):
            message = run_parser(name, ModelOutput(UNOPENED[name][:end], finish_reason=reason))
            assert message.message is not None
            assert not message.message.tool_calls
            assert "cut_head" not in kinds(message.message)


def test_answer_openers_in_a_prompt_have_no_effect() -> None:
    results = '<|turn>model\n<|tool_response>response:f{value:<|"|>a thought\nor two<|"|>}<tool_response|>'
    message = message_of("gemma4", "It rains.", prompt=results)
    assert (message.reasoning, message.content) == (None, "It rains.")


# -- repeated calls

ECHOING = Dialect(
    name="echoing",
    section=("<|calls|>[{calls}]<|/calls|>",),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    habits=Habits(repeated_calls=("[{calls}]<|/calls|>",)),
)
CALLS = '[{"name": "a", "arguments": {"x": 1}} , {"name": "b", "arguments": {}} ]<|/calls|>'


def test_repeated_calls_are_dropped_with_a_diagnostic() -> None:
    message = message_of(ECHOING, f"<|calls|>{CALLS}\n{CALLS}{CALLS}Done.")
    assert [call.name for call in message.tool_calls] == ["a", "b"]
    assert (message.content, kinds(message)) == ("Done.", ["dropped_text", "dropped_text"])


@pytest.mark.parametrize("end", range(1, len(CALLS)))
def test_unfinished_repetition_is_text_unless_cut(end: int) -> None:
    text = f"<|calls|>{CALLS}{CALLS[:end]}"
    assert message_of(ECHOING, text, finish_reason="length").content is None
    message = message_of(ECHOING, f"{text}#")
    assert message.content is not None
    assert message.content == CALLS[:end] + "#"


def test_long_calls_are_not_held_for_repetition() -> None:
    long = CALLS.replace("1", f'"{"y" * 2000}"')
    message = message_of(ECHOING, f"<|calls|>{long}{long}")
    assert message.content is not None


def test_repeated_calls_obey_the_laws() -> None:
    check_dialect(
        ECHOING, [f"<|calls|>{CALLS}{CALLS}Done.", f"One.<|calls|>{CALLS} \n{CALLS[1:]}"], examples=20
    )


@pytest.mark.parametrize(
    "template", ["{calls}", "[{calls}\n", "{calls}{_}<|/calls|>", "{calls}{calls}<|/calls|>"]
)
def test_repetition_needs_a_marker(template: str) -> None:
    with pytest.raises(SpecError):
        Dialect(name="wrong", drop=(template,))
