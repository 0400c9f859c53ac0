"""Property tests of prompts: text that a prompt quotes must not affect how the output is parsed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from typing import Any, Final

from ..dialects import Dialect, facts_of, find
from ..dialects.list_templates_and_markers import turn_markers
from ..dialects.parse_templates import parse_template, split_at
from ..events import CallStart
from ..policies import PRESETS, Policies, policy_choices
from ._every_policy_has_effect_law import SampleCall
from ._parser_runs import ModelOutput, ParseRun, ToolList, markers, run_parser
from ._parsing_laws import difference

_PART_COUNT: Final = 8
"""Number of equal parts into which a call is cut; a quotation may end after any of these parts."""


@dataclass(frozen=True, slots=True)
class TurnFormat:
    """Format in which a chat template writes a conversation."""

    message: str
    """Format string for one message, with the fields ``{role}`` and ``{text}``."""
    last: str
    """The text at the end of a prompt, directly before the output."""


CHATML: Final = TurnFormat("<|im_start|>{role}\n{text}<|im_end|>\n", "<|im_start|>assistant\n")
PLAIN: Final = (
    TurnFormat("{role}: {text}\n\n", "Assistant:"),
    TurnFormat("### {role}:\n{text}\n\n", "### Response:\n"),
)
"""Formats whose turns begin with ordinary words instead of control tokens."""
ROLES: Final = ("system", "user", "tool", "assistant")


def every_policy() -> list[Policies]:
    """Return policies that set each value of each field, and all presets."""
    values = [(name, value) for name, allowed in policy_choices().items() for value in allowed]
    settings: list[dict[str, Any]] = [{name: value} for name, value in values]
    every = [Policies(**each) for each in settings] + [Policies.preset(name) for name in PRESETS]
    return list(dict.fromkeys(every))


def assert_quotations(
    dialect: str | Dialect, text: str = "Hello world", *, policies: Sequence[Policies] | None = None
) -> None:
    """Assert that text quoted in the prompt does not change how the output is parsed.

    Messages of every role quote complete calls, unfinished calls, headers and all other markers.
    The turns of some prompts begin with control tokens, and the turns of others with words.

    :param text: the output after the prompt.
    :param policies: policies to try for each quotation. By default, only one policy is tried per quotation:
        the next one in the list from ``every_policy``.
    """
    spec = find(dialect)
    quoted = list(quotations(spec))
    tools = SampleCall(spec).tools(city="string", days="integer")
    all_policies = every_policy()
    next_policy = cycle(all_policies)
    unquoted: dict[tuple[str, Policies], ParseRun] = {}
    for turn_format, seed in product((*_own_turns(spec), CHATML, *PLAIN), _seeds(spec)):
        end = turn_format.last + seed
        for quotation, role in product(quoted, ROLES):
            prompt = _conversation(turn_format, end, role, quotation)
            for policy in policies or (next(next_policy),):
                case = ModelOutput(text, tools, policies=policy)
                if (end, policy) not in unquoted:
                    unquoted[end, policy] = run_parser(
                        spec, replace(case, prompt=_conversation(turn_format, end))
                    )
                run = run_parser(spec, replace(case, prompt=prompt))
                why = difference(unquoted[end, policy], run)
                if why:
                    run.fail(
                        "quotation",
                        f"{quotation!r}, quoted by the {role}, changes the output: {why}",
                    )
    for run in unquoted.values():
        _assert_only_text(run)


def _assert_only_text(run: ParseRun) -> None:
    message = run.message
    assert message is not None  # noqa: S101 - plain text violates no policy
    conversation = (message.content or "") + (message.reasoning or "")
    if message.tool_calls or not conversation.endswith(run.case.text):
        run.fail("quotation", f"the message is {message}")


def _conversation(turn_format: TurnFormat, end: str, role: str = "", quotation: str = "") -> str:
    """Return a prompt in which the last message of one role contains a quotation."""
    conversation = [(each, "What is it?") for each in ROLES]
    conversation.append((role or "user", f"What does {quotation or 'it'} mean, and {quotation or 'it'}"))
    if role in ("system", "assistant"):
        conversation.append(("user", "What is it?"))
    return "".join(turn_format.message.format(role=each, text=text) for each, text in conversation) + end


def _seeds(spec: Dialect) -> list[str]:
    """Return texts that a template may add at the end of a prompt: an empty text, or a reasoning opener."""
    wrapped = [split_at(parse_template(template), "text") for template in spec.reasoning]
    return ["", *("".join(piece.text for piece in before) for before, _, _ in wrapped)]


def _own_turns(spec: Dialect) -> Iterator[TurnFormat]:
    """Yield turn formats with the prompt endings of the family's own templates, if these are known."""
    facts = facts_of(spec) if spec.request is not None else None
    ends = [*turn_markers(spec)]
    if facts is not None:
        ends += spec.prompt.ends
    for end in ends:
        yield TurnFormat("{text}", end + "\n")


def quotations(spec: Dialect) -> Iterator[str]:
    """Yield texts to quote: markers, complete calls, unfinished calls, and a combination of them."""
    yield from (*markers(spec), *turn_markers(spec))
    sample = SampleCall(spec)
    if not sample.capabilities.calls:
        return
    call = sample.call('{"code": "Oslo"}') if sample.capabilities.payload == "code" else sample.call()
    whole = spec.prompt.start + sample.write(call)
    unknown_call = whole.replace(sample.call().name, "no_such_tool")
    yield from (whole, unknown_call)
    for text in (whole, unknown_call):
        for at in _cut_positions(text):
            yield from (text[:at], whole + text[:at])


def _cut_positions(text: str) -> Iterator[int]:
    for number in range(1, _PART_COUNT):
        yield len(text) * number // _PART_COUNT


def assert_continuations(dialect: str | Dialect, text: str = "Hello world") -> None:
    """Assert that the output continues a call from the prompt only if two conditions hold.

    The call must be unfinished, and the request must continue the turn that contains the call.

    :param text: the model's output after a prompt that ends with a complete call.
    """
    spec = find(dialect)
    sample = SampleCall(spec)
    if not sample.capabilities.calls or sample.capabilities.payload == "code":
        return
    tools = sample.tools(city="string", days="integer")
    one = spec.prompt.start + sample.write()
    two = spec.prompt.start + sample.write(sample.call(), sample.call())
    unknown = replace(sample.call(), name="no_such_tool")
    with_unknown_call = spec.prompt.start + sample.write(sample.call(), sample.call(), unknown)
    for number, policy in enumerate(every_policy()):
        turn_format = (CHATML, *PLAIN)[number % 3]
        for whole in (one, two):
            for continues in (True, False):
                _assert_no_call(
                    run_parser(spec, ModelOutput(text, tools, whole, policy, continues=continues))
                )
            _assert_continued(spec, tools, policy, _conversation(turn_format, turn_format.last), whole)
        if policy.unknown_tool == "text" and not spec.names.fixed:
            at = with_unknown_call.rindex("Oslo") + 2
            _assert_no_call(
                run_parser(
                    spec,
                    ModelOutput(
                        with_unknown_call[at:], tools, with_unknown_call[:at], policy, continues=True
                    ),
                )
            )


def _assert_no_call(run: ParseRun) -> None:
    if any(isinstance(event, CallStart) for event in run.events):
        run.fail("continuation", "the output has a call, but the call is only in the prompt")


def _assert_continued(
    spec: Dialect, tools: ToolList, policy: Policies, conversation: str, whole: str
) -> None:
    at = whole.rindex("Oslo") + 2  # cut the last call inside an argument
    open_call, rest = whole[:at], whole[at:]
    run = run_parser(spec, ModelOutput(rest, tools, open_call, policy, continues=True))
    calls = run.message.tool_calls if run.message is not None else ()
    if len(calls) != 1 or "Oslo" not in calls[0].arguments:
        run.fail("continuation", f"the output should continue one call, got {calls}")
    _assert_no_call(run_parser(spec, ModelOutput(rest, tools, conversation + open_call, policy)))
