"""Property test: each value of a policy has an effect, in every dialect to which the policy applies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .._core.arguments.json_value import canonical_json
from .._core.render.message import render
from ..dialects import Dialect, find
from ..events import CallArgs
from ..message import Message, Part, TextPart, ToolCall
from ..policies import Policies
from ._parser_runs import ModelOutput, ParseRun, ToolList, run_parser
from ._parsing_laws import is_json
from ._round_trip_law import MessageCapabilities


class SampleCall:
    """Sample call for the tests of one dialect."""

    name: Final = "get_weather"
    arguments: Final = '{"city": "Oslo", "days": 3}'

    def __init__(self, spec: Dialect) -> None:
        tagged = [template for template in spec.call if "{params}" in template]
        self.capabilities = MessageCapabilities(spec)
        self.params = bool(tagged) or self.capabilities.payload == "params"
        """True if the dialect can write arguments between tags, so that the sample call uses tags."""
        self.spec = replace(spec, call=(*tagged, *spec.call)) if tagged else spec
        self.notation = "params" if self.params else self.capabilities.notation
        self.id = spec.id_format.new(self.name, 7)

    def call(self, arguments: str = arguments) -> ToolCall:
        return ToolCall(self.id, self.spec.names.fixed or self.name, arguments)

    def write(self, *parts: Part) -> str:
        """Return the rendering of a message with these parts, by default only the sample call."""
        return render(Message(parts=parts or (self.call(),)), self.spec, check=False)

    def tools(self, **types: str) -> ToolList:
        """Return tools that declare the called function, with parameters of these types."""
        properties = {key: {"type": type_} for key, type_ in types.items()}
        function = {"name": self.call().name, "parameters": {"type": "object", "properties": properties}}
        return ({"type": "function", "function": function},)


class _Outcome:
    """The properties of a parsed output that policies affect."""

    def __init__(self, run: ParseRun) -> None:
        message = run.message
        self.has_failed = message is None
        self.calls = message.tool_calls if message is not None else ()
        self.arguments = self.calls[0].arguments if len(self.calls) == 1 else ""
        self.content = (message.content if message is not None else None) or ""
        self.reasoning = (message.reasoning if message is not None else None) or ""
        self.diagnostics = (
            {diagnostic.kind for diagnostic in message.diagnostics} if message is not None else set()
        )
        self.sent = [event.json for event in run.events if isinstance(event, CallArgs)]

    @property
    def has_call(self) -> bool:
        """True if the output has exactly one call, and it is complete."""
        return is_json(self.arguments) and not self.diagnostics & {"malformed_call", "truncated_call"}

    @property
    def is_text(self) -> bool:
        """True if the output has no call, and the text of the call is content."""
        return not self.calls and SampleCall.name in self.content

    @property
    def is_removed(self) -> bool:
        """True if the output has no call, and the content does not contain the text of the call."""
        return not self.has_failed and not self.calls and SampleCall.name not in self.content

    def value(self, key: str) -> object:
        """Return the argument with this name; None if there is no complete call."""
        return json.loads(self.arguments).get(key) if self.has_call else None


_Predicate = Callable[[_Outcome], bool]


@dataclass(frozen=True, slots=True)
class _Effect:
    """Effects of a policy's values, as predicates on the parsed output."""

    predicates: Callable[[SampleCall], Mapping[str, _Predicate]]
    """Function that returns a mapping from each value of the policy to a predicate. A predicate is true if
    the parsed output shows the effect of the value."""
    cases: Callable[[SampleCall], Iterable[ModelOutput]] = lambda sample: (ModelOutput(sample.write()),)
    """Function that returns outputs to try. At least one of these outputs must show the effects of all values
    of the policy."""
    applies: Callable[[SampleCall], bool] = lambda _: True
    """Predicate that is true if the policy applies to the sample's dialect; it is not called for dialects
    without calls."""
    streamed: bool = False
    """True if the effect is visible only in the stream, not in the message."""


def _broken_calls(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield outputs with a broken call: an inserted fragment such as ``}``, or a missing character."""
    text = sample.write()
    # With another value of ``close_in_value``, a closing tag before an inserted fragment would be data, so
    # the call would not end.
    policies = Policies(close_in_value="first")
    for piece in ("}", "]", ")", "{", " !! ", ","):
        for at in range(len(text), 0, -1):
            yield ModelOutput(text[:at] + piece + text[at:], policies=policies)
    for at in range(len(text), 0, -1):
        yield ModelOutput(text[: at - 1] + text[at:], policies=policies)


def _cut_calls(sample: SampleCall) -> Iterator[ModelOutput]:
    text = sample.write()
    for at in range(len(text) - 1, 0, -1):
        yield ModelOutput(text[:at])


def _unusual_spellings(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield outputs with arguments that are not canonical, for example JSON without spaces."""
    yield ModelOutput(sample.write(sample.call('{"city":"Oslo"}')))
    yield ModelOutput(sample.write().replace("3", '{"a":1}'), sample.tools(days="object"))


def _closers_in_value(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield outputs with a value that contains a closing tag, or the beginning of one."""
    text = sample.write()
    at = text.index("Oslo") + len("Oslo")
    for end in range(at + 1, len(text)):
        value = json.dumps({"city": f"Os{text[at:end]}lo", "days": 3})
        yield ModelOutput(sample.write(sample.call(value)), sample.tools(city="string"))


def _untyped_numbers(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield outputs with a number whose type is declared neither by the tools nor by the markup."""
    text = sample.write()
    yield ModelOutput(text)
    attributes = re.findall(r"([\w:.-]+)=[\"']?\{(?:type|string)\}", " ".join(sample.spec.param))
    for attribute in dict.fromkeys(attributes):
        text = re.sub(rf""" {re.escape(attribute)}=("[^"]*"|'[^']*'|[^\s>]*)""", "", text)
    yield ModelOutput(text)


def _bare_calls(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield outputs with a call that is only an object, at the start and after a line of text."""
    call = json.dumps({"name": sample.call().name, "arguments": {"city": "Oslo"}})
    start = sample.spec.prompt.start and sample.write(TextPart("content", "HERE")).partition("HERE")[0]
    yield ModelOutput(f"{start}{call}\nThen:\n{call}", sample.tools(city="string"))


EFFECTS: Final[Mapping[str, _Effect]] = {
    "calls_in_reasoning": _Effect(
        lambda sample: {
            "call": lambda outcome: outcome.has_call,
            "text": lambda outcome: outcome.is_removed and sample.name in outcome.reasoning,
        },
        lambda sample: (ModelOutput(sample.write(TextPart("reasoning", f"Hm.{sample.write()}"))),),
        # A header always ends the reasoning before it, and some dialects allow calls only at the start of the
        # output.
        lambda sample: (
            sample.capabilities.reasoning and sample.spec.frame is None and not sample.capabilities.anchored
        ),
    ),
    "unknown_tool": _Effect(
        lambda _: {
            "call": lambda outcome: outcome.has_call and "unknown_tool" in outcome.diagnostics,
            "text": lambda outcome: outcome.is_text,
            "drop": lambda outcome: outcome.is_removed and "unknown_tool" in outcome.diagnostics,
            "error": lambda outcome: outcome.has_failed,
        },
        lambda sample: (ModelOutput(sample.write(), ({"type": "function", "function": {"name": "other"}},)),),
    ),
    "malformed_call": _Effect(
        lambda sample: {
            "text": lambda outcome: outcome.is_text and "malformed_call" in outcome.diagnostics,
            # Calls with tags cannot be repaired, because the parser cannot know which tags are missing.
            "repair": lambda outcome: outcome.is_text if sample.params else outcome.has_call,
            "call": lambda outcome: bool(outcome.calls) and "malformed_call" in outcome.diagnostics,
            "drop": lambda outcome: outcome.is_removed and "malformed_call" in outcome.diagnostics,
            "error": lambda outcome: outcome.has_failed,
        },
        _broken_calls,
    ),
    "truncated_call": _Effect(
        lambda _: {
            "drop": lambda outcome: outcome.is_removed and "truncated_call" in outcome.diagnostics,
            "text": lambda outcome: outcome.is_text and "truncated_call" in outcome.diagnostics,
            "call": lambda outcome: bool(outcome.calls) and "truncated_call" in outcome.diagnostics,
            "error": lambda outcome: outcome.has_failed,
        },
        _cut_calls,
    ),
    "commit": _Effect(
        lambda _: {
            "name": lambda outcome: outcome.has_call and len(outcome.sent) > 1,
            "call": lambda outcome: outcome.has_call and len(outcome.sent) == 1,
        },
        streamed=True,
    ),
    "arguments": _Effect(
        lambda _: {
            "verbatim": lambda outcome: (
                outcome.has_call and outcome.arguments != canonical_json(outcome.arguments)
            ),
            "canonical": lambda outcome: (
                outcome.has_call and outcome.arguments == canonical_json(outcome.arguments)
            ),
        },
        _unusual_spellings,
        # In all other notations, arguments are always converted to canonical JSON.
        lambda sample: sample.notation in ("json", "params"),
    ),
    "after_calls": _Effect(
        lambda _: {
            "text": lambda outcome: outcome.has_call and "Bye." in outcome.content,
            "drop": lambda outcome: outcome.has_call and "Bye." not in outcome.content,
        },
        lambda sample: (ModelOutput(sample.write(sample.call(), TextPart("content", "Bye."))),),
        lambda sample: sample.capabilities.content,
    ),
    "whitespace_around_calls": _Effect(
        lambda sample: {
            "drop": lambda outcome: (
                outcome.has_call and sample.spec.keep_whitespace == outcome.content.endswith("\n\n")
            ),
            "text": lambda outcome: outcome.has_call and outcome.content == "Let me see. \n\n",
        },
        lambda sample: (ModelOutput(f"Let me see. \n\n{sample.write().lstrip()}"),),
        # If a message header ends the content, or if calls must be at the start of the output, no whitespace
        # precedes a call, so the policy does not apply.
        lambda sample: sample.spec.frame is None and not sample.capabilities.anchored,
    ),
    "close_in_value": _Effect(
        lambda _: {
            "confirmed": lambda outcome: str(outcome.value("city")).endswith("lo"),
            "first": lambda outcome: '"Os"' in "".join(outcome.sent),
        },
        _closers_in_value,
        lambda sample: sample.params,
    ),
    "no_tools": _Effect(
        lambda _: {
            # Only the body of the call is checked, because the header of a message is always removed.
            "text": lambda outcome: not outcome.calls and "Oslo" in outcome.content,
            "drop": lambda outcome: outcome.is_removed and "Oslo" not in outcome.content,
        },
        lambda sample: (ModelOutput(sample.write(), ()),),
    ),
    "schemaless_value": _Effect(
        lambda _: {
            "string": lambda outcome: outcome.value("days") == "3",
            "json": lambda outcome: outcome.value("days") == 3,
        },
        _untyped_numbers,
        lambda sample: sample.params,
    ),
    "schema_mismatch": _Effect(
        lambda _: {
            "call": lambda outcome: outcome.has_call and "schema_mismatch" in outcome.diagnostics,
            "error": lambda outcome: outcome.has_failed,
        },
        lambda sample: (ModelOutput(sample.write(), _with_missing_parameter(sample)),),
    ),
    "bare_calls": _Effect(
        lambda _: {
            "off": lambda outcome: "bare_call" not in outcome.diagnostics,
            "alone": lambda outcome: len(outcome.calls) == 1,
            "declared": lambda outcome: len(outcome.calls) == 2 and "bare_call" in outcome.diagnostics,
        },
        _bare_calls,
    ),
    "call_ids": _Effect(
        lambda sample: {
            "native": lambda outcome: outcome.has_call and outcome.calls[0].id == sample.id,
            "generated": lambda outcome: outcome.has_call and outcome.calls[0].id != sample.id,
        },
        # An id after the arguments can be used only with commit=call.  By default, the call is reported
        # before its id is known.
        lambda sample: (ModelOutput(_render_with_id(sample), policies=Policies(commit="call")),),
        lambda sample: sample.id in _render_with_id(sample),
    ),
}
"""Mapping from the name of each policy to its effect."""


def _with_missing_parameter(sample: SampleCall) -> Sequence[Mapping[str, object]]:
    """Return the tools of the sample call, with a required parameter that the call lacks."""
    parameters = {"type": "object", "properties": {"unit": {"type": "string"}}, "required": ["unit"]}
    return ({"type": "function", "function": {"name": sample.name, "parameters": parameters}},)


def _render_with_id(sample: SampleCall) -> str:
    """Return the sample call rendered with its own id, if the dialect writes ids."""
    spec = sample.spec
    with_id = [template for template in spec.call if "{id}" in template or "{envelope}" in template]
    envelope = replace(spec.envelope, order=("id", "name", "args"))
    spec = replace(spec, call=(*with_id, *spec.call), envelope=envelope)
    text = render(Message(tool_calls=(sample.call(),)), spec, check=False)
    return text.replace(spec.id_format.new(sample.name, 0), sample.id)


def assert_policy(dialect: str | Dialect, policy: str) -> ModelOutput | None:
    """Assert that there is an output for which every value of a policy has its effect.

    :param policy: the name of a policy in ``EFFECTS``.
    :return: the output; None if the policy does not apply to the dialect.
    """
    spec = find(dialect)
    sample, effect = SampleCall(spec), EFFECTS[policy]
    # Policies do not apply to calls that are raw code, which have no parameters and are never malformed or
    # truncated.
    is_code = sample.capabilities.payload == "code"
    if is_code or not sample.capabilities.calls or not effect.applies(sample):
        return None
    predicates = effect.predicates(sample)
    fewest: list[ParseRun] = []
    for case in effect.cases(sample):
        without_effect: list[ParseRun] = []
        for value, shows_effect in predicates.items():
            setting: dict[str, Any] = {policy: value}
            policies = replace(case.policies or Policies(), **setting)
            chunks = list(case.text) if effect.streamed else [case.text]
            run = run_parser(spec, replace(case, policies=policies), chunks)
            if not shows_effect(_Outcome(run)):
                without_effect.append(run)
        if not without_effect:
            return case
        if not fewest or len(without_effect) < len(fewest):
            fewest = without_effect
    values = [getattr(run.case.policies, policy) for run in fewest]
    raise fewest[0].broken("policies", f"{policy}={' and '.join(values)} has no effect")
