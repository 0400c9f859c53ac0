"""The law of policies: each value shows, in each dialect that has the thing."""

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
from ._outputs import Case, Reading, ToolList, read
from ._parsing_laws import is_json
from ._round_trip_law import Ability


class Wording:
    """A call in the words of a dialect."""

    name: Final = "get_weather"
    arguments: Final = '{"city": "Oslo", "days": 3}'

    def __init__(self, spec: Dialect) -> None:
        tagged = [template for template in spec.call if "{params}" in template]
        self.ability = Ability(spec)
        self.params = bool(tagged) or self.ability.payload == "params"
        """Whether a call may have its arguments between tags; then it has."""
        self.spec = replace(spec, call=(*tagged, *spec.call)) if tagged else spec
        self.notation = "params" if self.params else self.ability.notation
        self.id = spec.id_format.new(self.name, 7)

    def call(self, arguments: str = arguments) -> ToolCall:
        return ToolCall(self.id, self.spec.names.fixed or self.name, arguments)

    def write(self, *parts: Part) -> str:
        """The text of a message; by default of one call and nothing else."""
        return render(self.spec, Message(parts=parts or (self.call(),)), check=False)

    def tools(self, **types: str) -> ToolList:
        """A request that declares the function, and the parameters of these types."""
        properties = {key: {"type": type_} for key, type_ in types.items()}
        function = {"name": self.call().name, "parameters": {"type": "object", "properties": properties}}
        return ({"type": "function", "function": function},)


class _Outcome:
    """What came of an output, as far as policies decide it."""

    def __init__(self, reading: Reading) -> None:
        message = reading.message
        self.raised = message is None
        self.calls = message.tool_calls if message is not None else ()
        self.arguments = self.calls[0].arguments if len(self.calls) == 1 else ""
        self.content = (message.content if message is not None else None) or ""
        self.reasoning = (message.reasoning if message is not None else None) or ""
        self.diagnostics = (
            {diagnostic.kind for diagnostic in message.diagnostics} if message is not None else set()
        )
        self.sent = [event.json for event in reading.events if isinstance(event, CallArgs)]

    @property
    def called(self) -> bool:
        """There is one call, and it is whole."""
        return is_json(self.arguments) and not self.diagnostics & {"malformed_call", "truncated_call"}

    @property
    def shown(self) -> bool:
        """There is no call, and the text of one is content."""
        return not self.calls and Wording.name in self.content

    @property
    def gone(self) -> bool:
        """There is neither."""
        return not self.raised and not self.calls and Wording.name not in self.content

    def value(self, key: str) -> object:
        """An argument of the call."""
        return json.loads(self.arguments).get(key) if self.called else None


_Shows = Callable[[_Outcome], bool]


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a policy is about, and how each of its values shows."""

    shows: Callable[[Wording], Mapping[str, _Shows]]
    """What each value makes of the same output."""
    cases: Callable[[Wording], Iterable[Case]] = lambda wording: (Case(wording.write()),)
    """Outputs; in one of them all values must show."""
    applies: Callable[[Wording], bool] = lambda _: True
    """Whether a dialect that has calls has the thing."""
    streamed: bool = False
    """It shows only in what is sent meanwhile."""


def _broken_calls(wording: Wording) -> Iterator[Case]:
    """Something is there that does not belong there, or the other way round."""
    text = wording.write()
    # A closing tag that is not confirmed would be data, and so would be what stands behind it.
    policies = Policies(close_in_value="first")
    for piece in ("}", "]", ")", "{", " !! ", ","):
        for at in range(len(text), 0, -1):
            yield Case(text[:at] + piece + text[at:], policies=policies)
    for at in range(len(text), 0, -1):
        yield Case(text[: at - 1] + text[at:], policies=policies)


def _cut_calls(wording: Wording) -> Iterator[Case]:
    text = wording.write()
    for at in range(len(text) - 1, 0, -1):
        yield Case(text[:at])


def _odd_spelling(wording: Wording) -> Iterator[Case]:
    """Arguments without blanks, or with an object in a tag that has none."""
    yield Case(wording.write(wording.call('{"city":"Oslo"}')))
    yield Case(wording.write().replace("3", '{"a":1}'), wording.tools(days="object"))


def _closers_in_value(wording: Wording) -> Iterator[Case]:
    """A value with the beginning of what follows values."""
    text = wording.write()
    at = text.index("Oslo") + len("Oslo")
    for end in range(at + 1, len(text)):
        value = json.dumps({"city": f"Os{text[at:end]}lo", "days": 3})
        yield Case(wording.write(wording.call(value)), wording.tools(city="string"))


def _numbers_in_tags(wording: Wording) -> Iterator[Case]:
    """A value that nothing says the type of."""
    text = wording.write()
    yield Case(text)
    attributes = re.findall(r"([\w:.-]+)=[\"']?\{(?:type|string)\}", " ".join(wording.spec.param))
    for attribute in dict.fromkeys(attributes):
        text = re.sub(rf""" {re.escape(attribute)}=("[^"]*"|'[^']*'|[^\s>]*)""", "", text)
    yield Case(text)


EFFECTS: Final[Mapping[str, _Effect]] = {
    "calls_in_reasoning": _Effect(
        lambda wording: {
            "call": lambda seen: seen.called,
            "text": lambda seen: seen.gone and wording.name in seen.reasoning,
        },
        lambda wording: (Case(wording.write(TextPart("reasoning", f"Hm.{wording.write()}"))),),
        # The header of a call ends the message before it, and text ends the place for anchored calls.
        lambda wording: (
            wording.ability.reasoning and wording.spec.frame is None and not wording.ability.anchored
        ),
    ),
    "unknown_tool": _Effect(
        lambda _: {"forward": lambda seen: seen.called, "text": lambda seen: seen.shown},
        lambda wording: (Case(wording.write(), ({"type": "function", "function": {"name": "other"}},)),),
    ),
    "malformed_call": _Effect(
        lambda wording: {
            "text": lambda seen: seen.shown and "malformed_call" in seen.diagnostics,
            # Where tags are missing nobody knows which.
            "repair": lambda seen: seen.shown if wording.params else seen.called,
            "keep": lambda seen: bool(seen.calls) and "malformed_call" in seen.diagnostics,
            "drop": lambda seen: seen.gone and "malformed_call" in seen.diagnostics,
            "error": lambda seen: seen.raised,
        },
        _broken_calls,
    ),
    "truncated_call": _Effect(
        lambda _: {
            "drop": lambda seen: seen.gone and "truncated_call" in seen.diagnostics,
            "text": lambda seen: seen.shown and "truncated_call" in seen.diagnostics,
            "keep": lambda seen: bool(seen.calls) and "truncated_call" in seen.diagnostics,
            "error": lambda seen: seen.raised,
        },
        _cut_calls,
    ),
    "commit": _Effect(
        lambda _: {
            "name": lambda seen: seen.called and len(seen.sent) > 1,
            "call": lambda seen: seen.called and len(seen.sent) == 1,
        },
        streamed=True,
    ),
    "arguments": _Effect(
        lambda _: {
            "verbatim": lambda seen: seen.called and seen.arguments != canonical_json(seen.arguments),
            "canonical": lambda seen: seen.called and seen.arguments == canonical_json(seen.arguments),
        },
        _odd_spelling,
        # What is no JSON is spelt by us, and in one way.
        lambda wording: wording.notation in ("json", "params"),
    ),
    "after_calls": _Effect(
        lambda wording: {
            "content": lambda seen: seen.called and "Bye." in seen.content,
            "drop": lambda seen: seen.called and "Bye." not in seen.content,
            "dialect": lambda seen: (
                seen.called and ("Bye." in seen.content) == (wording.spec.after_calls == "content")
            ),
        },
        lambda wording: (Case(wording.write(wording.call(), TextPart("content", "Bye."))),),
        lambda wording: wording.ability.content,
    ),
    "whitespace_around_calls": _Effect(
        lambda wording: {
            "framing": lambda seen: (
                seen.called and wording.spec.keep_whitespace == seen.content.endswith("\n\n")
            ),
            "keep": lambda seen: seen.called and seen.content == "Let me see. \n\n",
        },
        lambda wording: (Case(f"Let me see. \n\n{wording.write().lstrip()}"),),
        # A message with a header ends where it says; before an anchored call there is no text.
        lambda wording: wording.spec.frame is None and not wording.ability.anchored,
    ),
    "close_in_value": _Effect(
        lambda _: {
            "confirmed": lambda seen: str(seen.value("city")).endswith("lo"),
            "first": lambda seen: '"Os"' in "".join(seen.sent),
        },
        _closers_in_value,
        lambda wording: wording.params,
    ),
    "no_tools": _Effect(
        lambda _: {
            # The header of a message is framing, whatever the message is.
            "verbatim": lambda seen: not seen.calls and "Oslo" in seen.content,
            "strip": lambda seen: seen.gone and "Oslo" not in seen.content,
        },
        lambda wording: (Case(wording.write(), ()),),
    ),
    "schemaless_value": _Effect(
        lambda _: {
            "string": lambda seen: seen.value("days") == "3",
            "json": lambda seen: seen.value("days") == 3,
        },
        _numbers_in_tags,
        lambda wording: wording.params,
    ),
    "call_ids": _Effect(
        lambda wording: {
            "native": lambda seen: seen.called and seen.calls[0].id == wording.id,
            "generated": lambda seen: seen.called and seen.calls[0].id != wording.id,
        },
        # An id behind the arguments counts only where calls are announced whole.
        lambda wording: (Case(_numbered(wording), policies=Policies(commit="call")),),
        lambda wording: wording.id in _numbered(wording),
    ),
}
"""By the policy.  Those of the wire are not here."""


def _numbered(wording: Wording) -> str:
    """A call with an id that is not the first that we would give it, if it can have one."""
    spec = wording.spec
    with_id = [template for template in spec.call if "{id}" in template or "{envelope}" in template]
    envelope = replace(spec.envelope, order=("id", "name", "args"))
    spec = replace(spec, call=(*with_id, *spec.call), envelope=envelope)
    text = render(spec, Message(tool_calls=(wording.call(),)), check=False)
    return text.replace(spec.id_format.new(wording.name, 0), wording.id)


def assert_policy(dialect: str | Dialect, policy: str) -> Case | None:
    """There is an output in which every value of a policy shows.

    :param policy: the name of a field of ``Policies``, other than those of the wire.
    :return: the output; None if the dialect has nothing that the policy is about.
    """
    spec = find(dialect)
    wording, effect = Wording(spec), EFFECTS[policy]
    raw = wording.ability.payload == "code"  # neither malformed nor cut off, and without parameters
    if raw or not wording.ability.calls or not effect.applies(wording):
        return None
    shows = effect.shows(wording)
    fewest: list[Reading] = []
    for case in effect.cases(wording):
        silent: list[Reading] = []
        for value, is_shown in shows.items():
            chosen: dict[str, Any] = {policy: value}
            policies = replace(case.policies or Policies(), **chosen)
            chunks = list(case.text) if effect.streamed else [case.text]
            reading = read(spec, replace(case, policies=policies), chunks)
            if not is_shown(_Outcome(reading)):
                silent.append(reading)
        if not silent:
            return case
        if not fewest or len(silent) < len(fewest):
            fewest = silent
    values = [getattr(reading.case.policies, policy) for reading in fewest]
    raise fewest[0].broken("policies", f"{policy}={' and '.join(values)} makes no difference")
