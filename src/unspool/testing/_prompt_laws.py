"""The laws of prompts: what is said in a prompt is not part of the output that follows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from typing import Any, Final

from ..dialects._declaration import Dialect
from ..dialects._registry import facts_of, find
from ..dialects._request_facts import ANY
from ..dialects._templates import parse_template, split_at, split_marks
from ..events import CallStart
from ..policies import ENGINES, STRICT, Policies, policy_choices
from ._outputs import Case, Reading, ToolList, markers, read
from ._parsing_laws import difference
from ._policy_laws import Wording

_CUTS: Final = 8
"""Places at which a quotation is cut off."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How a chat template writes a conversation."""

    message: str
    """One message, with the holes ``{role}`` and ``{text}``."""
    last: str
    """What stands before the output."""


CHATML: Final = Turns("<|im_start|>{role}\n{text}<|im_end|>\n", "<|im_start|>assistant\n")
PLAIN: Final = (
    Turns("{role}: {text}\n\n", "Assistant:"),
    Turns("### {role}:\n{text}\n\n", "### Response:\n"),
)
"""Templates whose turns begin with plain words."""
ROLES: Final = ("system", "user", "tool", "assistant")


def every_policy() -> list[Policies]:
    """Return every value of every policy, and every engine's set."""
    values = [(name, value) for name, allowed in policy_choices().items() for value in allowed]
    chosen: list[dict[str, Any]] = [{name: value} for name, value in values]
    found = [Policies(**each) for each in chosen] + [Policies.preset(engine) for engine in ENGINES]
    return list(dict.fromkeys([*found, STRICT]))


def assert_quotations(
    dialect: str | Dialect, text: str = "Hello world", *, policies: Sequence[Policies] | None = None
) -> None:
    """Nothing that is quoted in a prompt changes how the output is read, whoever quotes it.

    Whole calls, begun calls, openers, headers and all other markers are quoted in every role,
    in templates whose turns begin with control tokens and in those where plain words do.

    :param text: the output.
    :param policies: each quotation is read under all of these; by default under one of every policy.
    """
    spec = find(dialect)
    quoted = list(quotations(spec))
    tools = Wording(spec).tools(city="string", days="integer")
    chosen = every_policy()
    turn = cycle(chosen)
    plain: dict[tuple[str, Policies], Reading] = {}
    for turns, seed in product((*_own_turns(spec), CHATML, *PLAIN), _seeds(spec)):
        end = turns.last + seed
        for quotation, role in product(quoted, ROLES):
            prompt = _conversation(turns, end, role, quotation)
            for policy in policies or (next(turn),):
                case = Case(text, tools, policies=policy)
                if (end, policy) not in plain:
                    plain[end, policy] = read(spec, replace(case, prompt=_conversation(turns, end)))
                reading = read(spec, replace(case, prompt=prompt))
                why = difference(plain[end, policy], reading)
                if why:
                    reading.fail("quotation", f"{quotation!r} in the words of the {role} counts: {why}")
    for reading in plain.values():
        _assert_only_text(reading)


def _assert_only_text(reading: Reading) -> None:
    message = reading.message
    assert message is not None  # noqa: S101 - text breaks no policy
    said = (message.content or "") + (message.reasoning or "")
    if message.tool_calls or not said.endswith(reading.case.text):
        reading.fail("quotation", f"the message is {message}")


def _conversation(turns: Turns, end: str, role: str = "", quotation: str = "") -> str:
    """Write a conversation in which one role quotes; that message is the last but for a user's."""
    said = [(each, "What is it?") for each in ROLES]
    said.append((role or "user", f"What does {quotation or 'it'} mean, and {quotation or 'it'}"))
    if role in ("system", "assistant"):
        said.append(("user", "What is it?"))
    return "".join(turns.message.format(role=each, text=words) for each, words in said) + end


def _seeds(spec: Dialect) -> list[str]:
    """Return what a template may put before the output: nothing, or the opener of reasoning."""
    wrapped = [split_at(parse_template(split_marks(template)[1]), "text") for template in spec.reasoning]
    return ["", *("".join(piece.text for piece in before) for before, _, _ in wrapped)]


def _own_turns(spec: Dialect) -> Iterator[Turns]:
    """Return the turns of the family's own templates, as far as they are known."""
    facts = facts_of(spec) if spec.request is not None else None
    ends = [*spec.prompt.turn]
    if facts is not None and ANY not in facts.prompts:
        ends += facts.prompts
    for end in ends:
        yield Turns("{text}", end + "\n")


def quotations(spec: Dialect) -> Iterator[str]:
    """Yield what somebody may quote: markers, calls, begun calls, and a call before a begun one."""
    yield from (*markers(spec), *spec.prompt.turn)
    wording = Wording(spec)
    if not wording.ability.calls:
        return
    call = wording.call('{"code": "Oslo"}') if wording.ability.payload == "code" else wording.call()
    whole = spec.prompt.start + wording.write(call)
    other = whole.replace(wording.call().name, "no_such_tool")
    yield from (whole, other)
    for text in (whole, other):
        for at in _places(text):
            yield from (text[:at], whole + text[:at])


def _places(text: str) -> Iterator[int]:
    for number in range(1, _CUTS):
        yield len(text) * number // _CUTS


def assert_continuations(dialect: str | Dialect, text: str = "Hello world") -> None:
    """A call that a continued turn has begun goes on in the output, and no other call does.

    :param text: what the model writes after a whole call.
    """
    spec = find(dialect)
    wording = Wording(spec)
    if not wording.ability.calls or wording.ability.payload == "code":
        return
    tools = wording.tools(city="string", days="integer")
    one = spec.prompt.start + wording.write()
    two = spec.prompt.start + wording.write(wording.call(), wording.call())
    unknown = replace(wording.call(), name="no_such_tool")
    refused = spec.prompt.start + wording.write(wording.call(), wording.call(), unknown)
    for number, policy in enumerate(every_policy()):
        turns = (CHATML, *PLAIN)[number % 3]
        for whole in (one, two):
            for continues in (True, False):
                _assert_over(read(spec, Case(text, tools, whole, policy, continues=continues)))
            _assert_continued(spec, tools, policy, _conversation(turns, turns.last), whole)
        if policy.unknown_tool == "text" and not spec.names.fixed:
            at = refused.rindex("Oslo") + 2
            _assert_over(read(spec, Case(refused[at:], tools, refused[:at], policy, continues=True)))


def _assert_over(reading: Reading) -> None:
    if any(isinstance(event, CallStart) for event in reading.events):
        reading.fail("continuation", "a call of the prompt is a call of the output")


def _assert_continued(spec: Dialect, tools: ToolList, policy: Policies, said: str, whole: str) -> None:
    at = whole.rindex("Oslo") + 2  # in the last call
    begun, rest = whole[:at], whole[at:]
    reading = read(spec, Case(rest, tools, begun, policy, continues=True))
    calls = reading.message.tool_calls if reading.message is not None else ()
    if len(calls) != 1 or "Oslo" not in calls[0].arguments:
        reading.fail("continuation", f"the output continues one call, and has {calls}")
    _assert_over(read(spec, Case(rest, tools, said + begun, policy)))
