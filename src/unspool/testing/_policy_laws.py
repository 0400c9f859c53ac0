"""Law of policies: each value of a policy has an effect, in every dialect with the feature."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .._core.arguments.json_value import canonical_json
from .._core.render.message import render
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..events import CallArgs
from ..message import Message, Part, TextPart, ToolCall
from ..policies import Policies
from ._parser_runs import ModelOutput, ParseRun, ToolList, run_parser
from ._parsing_laws import is_json
from ._round_trip_law import MessageCapabilities


class SampleCall:
    """Sample call, rendered in a dialect."""

    name: Final = "get_weather"
    arguments: Final = '{"city": "Oslo", "days": 3}'

    def __init__(self, spec: Dialect) -> None:
        tagged = [template for template in spec.call if "{params}" in template]
        self.capabilities = MessageCapabilities(spec)
        self.params = bool(tagged) or self.capabilities.payload == "params"
        """True if a call may have its arguments between tags; the sample call then has."""
        self.spec = replace(spec, call=(*tagged, *spec.call)) if tagged else spec
        self.notation = "params" if self.params else self.capabilities.notation
        self.id = spec.id_format.new(self.name, 7)

    def call(self, arguments: str = arguments) -> ToolCall:
        return ToolCall(self.id, self.spec.names.fixed or self.name, arguments)

    def write(self, *parts: Part) -> str:
        """Render a message, by default one with the sample call only."""
        return render(self.spec, Message(parts=parts or (self.call(),)), check=False)

    def tools(self, **types: str) -> ToolList:
        """Return tools that declare the function with parameters of these types."""
        properties = {key: {"type": type_} for key, type_ in types.items()}
        function = {"name": self.call().name, "parameters": {"type": "object", "properties": properties}}
        return ({"type": "function", "function": function},)


class _Outcome:
    """Result of an output, as far as policies affect it."""

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
        """True if there is one complete call."""
        return is_json(self.arguments) and not self.diagnostics & {"malformed_call", "truncated_call"}

    @property
    def is_text(self) -> bool:
        """True if there is no call, and the call's text is content."""
        return not self.calls and SampleCall.name in self.content

    @property
    def is_removed(self) -> bool:
        """True if there is neither a call nor its text."""
        return not self.has_failed and not self.calls and SampleCall.name not in self.content

    def value(self, key: str) -> object:
        """Return an argument of the call."""
        return json.loads(self.arguments).get(key) if self.has_call else None


_Predicate = Callable[[_Outcome], bool]


@dataclass(frozen=True, slots=True)
class _Effect:
    """Effect of a policy: how each of its values shows."""

    predicates: Callable[[SampleCall], Mapping[str, _Predicate]]
    """Predicates for the result of one output, by value of the policy."""
    cases: Callable[[SampleCall], Iterable[ModelOutput]] = lambda sample: (ModelOutput(sample.write()),)
    """Outputs to try; in one of them every value must show."""
    applies: Callable[[SampleCall], bool] = lambda _: True
    """Predicate that selects the dialects with the feature, among those with calls."""
    streamed: bool = False
    """True if the effect shows only in the stream, not in the message."""


def _broken_calls(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield calls with one superfluous or one missing piece."""
    text = sample.write()
    # An unconfirmed closing tag would be data, and so would the text after it.
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
    """Yield arguments without whitespace, and an object as the text of a tag."""
    yield ModelOutput(sample.write(sample.call('{"city":"Oslo"}')))
    yield ModelOutput(sample.write().replace("3", '{"a":1}'), sample.tools(days="object"))


def _closers_in_value(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield values that contain the beginning of the text after values."""
    text = sample.write()
    at = text.index("Oslo") + len("Oslo")
    for end in range(at + 1, len(text)):
        value = json.dumps({"city": f"Os{text[at:end]}lo", "days": 3})
        yield ModelOutput(sample.write(sample.call(value)), sample.tools(city="string"))


def _untyped_numbers(sample: SampleCall) -> Iterator[ModelOutput]:
    """Yield a number whose type is not declared."""
    text = sample.write()
    yield ModelOutput(text)
    attributes = re.findall(r"([\w:.-]+)=[\"']?\{(?:type|string)\}", " ".join(sample.spec.param))
    for attribute in dict.fromkeys(attributes):
        text = re.sub(rf""" {re.escape(attribute)}=("[^"]*"|'[^']*'|[^\s>]*)""", "", text)
    yield ModelOutput(text)


EFFECTS: Final[Mapping[str, _Effect]] = {
    "calls_in_reasoning": _Effect(
        lambda sample: {
            "call": lambda outcome: outcome.has_call,
            "text": lambda outcome: outcome.is_removed and sample.name in outcome.reasoning,
        },
        lambda sample: (ModelOutput(sample.write(TextPart("reasoning", f"Hm.{sample.write()}"))),),
        # The header of a call ends the message before it, and no text may precede an anchored call.
        lambda sample: (
            sample.capabilities.reasoning and sample.spec.frame is None and not sample.capabilities.anchored
        ),
    ),
    "unknown_tool": _Effect(
        lambda _: {"forward": lambda outcome: outcome.has_call, "text": lambda outcome: outcome.is_text},
        lambda sample: (ModelOutput(sample.write(), ({"type": "function", "function": {"name": "other"}},)),),
    ),
    "malformed_call": _Effect(
        lambda sample: {
            "text": lambda outcome: outcome.is_text and "malformed_call" in outcome.diagnostics,
            # If tags are missing, the parser cannot know which.
            "repair": lambda outcome: outcome.is_text if sample.params else outcome.has_call,
            "keep": lambda outcome: bool(outcome.calls) and "malformed_call" in outcome.diagnostics,
            "drop": lambda outcome: outcome.is_removed and "malformed_call" in outcome.diagnostics,
            "error": lambda outcome: outcome.has_failed,
        },
        _broken_calls,
    ),
    "truncated_call": _Effect(
        lambda _: {
            "drop": lambda outcome: outcome.is_removed and "truncated_call" in outcome.diagnostics,
            "text": lambda outcome: outcome.is_text and "truncated_call" in outcome.diagnostics,
            "keep": lambda outcome: bool(outcome.calls) and "truncated_call" in outcome.diagnostics,
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
        # Arguments in other notations are converted to JSON in one fixed spelling.
        lambda sample: sample.notation in ("json", "params"),
    ),
    "after_calls": _Effect(
        lambda _: {
            "content": lambda outcome: outcome.has_call and "Bye." in outcome.content,
            "drop": lambda outcome: outcome.has_call and "Bye." not in outcome.content,
        },
        lambda sample: (ModelOutput(sample.write(sample.call(), TextPart("content", "Bye."))),),
        lambda sample: sample.capabilities.content,
    ),
    "whitespace_around_calls": _Effect(
        lambda sample: {
            "framing": lambda outcome: (
                outcome.has_call and sample.spec.keep_whitespace == outcome.content.endswith("\n\n")
            ),
            "keep": lambda outcome: outcome.has_call and outcome.content == "Let me see. \n\n",
        },
        lambda sample: (ModelOutput(f"Let me see. \n\n{sample.write().lstrip()}"),),
        # A header determines the end of a message; no text may precede an anchored call.
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
            # The header of a message is framing, regardless of the message.
            "verbatim": lambda outcome: not outcome.calls and "Oslo" in outcome.content,
            "strip": lambda outcome: outcome.is_removed and "Oslo" not in outcome.content,
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
    "call_ids": _Effect(
        lambda sample: {
            "native": lambda outcome: outcome.has_call and outcome.calls[0].id == sample.id,
            "generated": lambda outcome: outcome.has_call and outcome.calls[0].id != sample.id,
        },
        # An id after the arguments counts only if calls are announced as a whole.
        lambda sample: (ModelOutput(_render_with_id(sample), policies=Policies(commit="call")),),
        lambda sample: sample.id in _render_with_id(sample),
    ),
}
"""Effects by policy, without the policies of the wire."""


def _render_with_id(sample: SampleCall) -> str:
    """Render a call with an id other than the first generated one, if the dialect has ids."""
    spec = sample.spec
    with_id = [template for template in spec.call if "{id}" in template or "{envelope}" in template]
    envelope = replace(spec.envelope, order=("id", "name", "args"))
    spec = replace(spec, call=(*with_id, *spec.call), envelope=envelope)
    text = render(spec, Message(tool_calls=(sample.call(),)), check=False)
    return text.replace(spec.id_format.new(sample.name, 0), sample.id)


def assert_policy(dialect: str | Dialect, policy: str) -> ModelOutput | None:
    """Assert that some output shows the effect of every value of a policy.

    :param policy: the name of a field of ``Policies``, other than those of the wire.
    :return: the output; None if the dialect lacks the feature.
    """
    spec = find(dialect)
    sample, effect = SampleCall(spec), EFFECTS[policy]
    # Code is never malformed or truncated, and has no parameters.
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
