"""What the request decides: where the output begins, whether a call is forced, how many choices there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from .._cases import Stretch, Unfinished
from .message_parts import (
    PARIS,
    PING,
    THOUGHT,
    Call,
    Say,
    Thought,
    values,
    weather,
    write,
)
from .rendering import Wording
from .scenario import Draft, Meant, Outcome, Scenario, Twist

TITLES: Final = {
    "prefilled": "Prefilled reasoning and answers",
    "guided": "Guided JSON",
    "choices": "Several choices at a time",
}

# -- prefilled

_GIVEN: Final = "The output goes on from what the prompt ends with."


def _prefill(*, bare: bool = False) -> Twist:
    """The prompt has opened the reasoning; ``bare``: without the white space that the template writes."""

    def twist(draft: Draft) -> str | None:
        number = draft.find("open", 0)
        opener = draft.pieces.pop(number).text
        if bare and opener == opener.rstrip():
            return "it writes no white space there"
        draft.start = "reasoning"
        draft.prompt = draft.able.dialect.prompt.start + (opener.rstrip() if bare else opener)
        return None

    return twist


def _cut_off(draft: Draft) -> str | None:
    """And it is never closed."""
    del draft.pieces[draft.find("close", 0) :]
    draft.finish_reason = "length"
    return _prefill()(draft)


def _closed(draft: Draft) -> str | None:
    """The prompt has opened the reasoning and closed it: there is none."""
    numbers = [i for i, piece in enumerate(draft.pieces) if piece.part == 0]
    framing = [draft.pieces[i].text for i in numbers if draft.pieces[i].role != "text"]
    del draft.pieces[: numbers[-1] + 1], draft.order[0]
    draft.prompt = draft.able.dialect.prompt.start + "".join(framing)
    if draft.able.framed:
        start = draft.able.dialect.prompt.start
        draft.prompt += start
        first = draft.pieces[0]
        draft.pieces[0] = Wording(first.role, first.text.removeprefix(start), first.part)
    return None


def _answering(draft: Draft) -> str | None:
    """The prompt has opened the wrapper of the answer."""
    draft.prompt = draft.pieces.pop(draft.find("open", 0)).text
    draft.start = "response"
    return None


def _continued(draft: Draft) -> str | None:
    """The prompt ends with the beginning of the answer."""
    if draft.able.framed or draft.able.wrapped:
        return "an answer begins with a marker"
    if draft.able.dialect.prompt.echo:
        return "the prompt holds the beginning of the reasoning"
    draft.prompt = "It is"
    return None


_THEN: Final[dict[str, list[Say]]] = {
    "nothing": [THOUGHT],
    "text": [THOUGHT, "It is sunny."],
    "a call": [THOUGHT, PARIS],
    "text and calls": [THOUGHT, "Let me see.", PARIS, PING],
}

PREFILLED: Final = (
    *(
        Scenario("prefilled", f"reasoning{bare}, then {name}", parts, _GIVEN, (), _prefill(bare=bool(bare)))
        for bare in ("", " without a line break")
        for name, parts in _THEN.items()
    ),
    Scenario("prefilled", "reasoning, of one word", [Thought("Hm."), "Sunny."], _GIVEN, (), _prefill()),
    Scenario("prefilled", "reasoning, cut off", [THOUGHT], _GIVEN, (), _cut_off),
    Scenario("prefilled", "no reasoning, text", [THOUGHT, "It is sunny."], _GIVEN, (), _closed),
    Scenario("prefilled", "no reasoning, a call", [THOUGHT, PARIS], _GIVEN, (), _closed),
    Scenario(
        "prefilled", "no reasoning, text and calls", [THOUGHT, "See:", PARIS, PING], _GIVEN, (), _closed
    ),
    Scenario("prefilled", "answer, text", ["It is sunny."], _GIVEN, ["wrapper"], _answering),
    Scenario("prefilled", "answer, text and a call", ["Let me see.", PARIS], _GIVEN, ["wrapper"], _answering),
    Scenario("prefilled", "answer, continued", [" sunny in Paris."], _GIVEN, (), _continued),
    Scenario(
        "prefilled", "answer, continued, then a call", [" sunny? Let me see.", PARIS], _GIVEN, (), _continued
    ),
)

# -- guided

_FORCED: Final = "A forced call is JSON: an array of calls, or the arguments of the function that was named."


def _envelopes(calls: Sequence[Call]) -> str:
    return json.dumps(
        [{"name": call.name, "parameters": call.arguments} for call in calls], ensure_ascii=False
    )


def _guided(
    *, named: bool = False, start: bool = False, before: str = "", behind: str = "", indent: int = 0
) -> Twist:
    """The calls as guided JSON, behind the reasoning that is there.

    :param start: the prompt has opened the reasoning.
    :param before, behind: what stands around the JSON; ``stop`` is the end of the turn.
    """

    def twist(draft: Draft) -> str | None:
        able = draft.able
        if able.framed and any(isinstance(part, Stretch) for part in draft.order):
            return "reasoning is a message with a header, in which JSON has no place"
        calls = [part.call for part in draft.order if isinstance(part, Meant)]
        text = json.dumps(calls[0].arguments, ensure_ascii=False) if named else _envelopes(calls)
        if indent:
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=indent)
        closing = able.dialect.stop[0] if behind == "stop" else behind
        draft.pieces = [piece for piece in draft.pieces if piece.role in ("open", "text", "close")]
        draft.pieces.append(Wording("text", before + text + closing, len(draft.order)))
        draft.order = [_as_json(part, named=named, indent=indent) for part in draft.order]
        function = {"type": "function", "function": {"name": calls[0].name}}
        draft.tool_choice = function if named else "required"
        draft.guided = True
        if start:
            opening = draft.pieces.pop(draft.find("open", 0)).text
            draft.prompt, draft.start = opening, "reasoning"
        return None

    return twist


def _as_json(part: Outcome, *, named: bool, indent: int) -> Outcome:
    """Guided calls have no ids; their arguments are spelt as in the array."""
    if not isinstance(part, Meant):
        return part
    call = part.call
    if not indent:
        return Meant(Call(call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False)), None)
    spelling = json.dumps(call.arguments, ensure_ascii=False, indent=indent)
    depth = "" if named else " " * (2 * indent)
    return Meant(Call(call.name, call.arguments, spelling.replace("\n", "\n" + depth)), None)


def _cut_guided(draft: Draft) -> str | None:
    why = _guided()(draft)
    if why:
        return why
    call = draft.order.pop()
    assert isinstance(call, Meant)  # noqa: S101 - so the scenario is written
    text = draft.text
    cut = text.rindex("Reyk") + 4
    draft.pieces = [Wording("text", text[:cut], 0)]
    draft.order.append(Unfinished("truncated", text[:cut], call.call.name, call.call.json))
    draft.finish_reason = draft.finish = "length"
    return None


_TRICKY: Final = write("a.json", 'x = [{"name": "f", "parameters": {}}]; </tool_call> }] ```')
_TYPES: Final = values(s="42", i=42, f=3.5, b=True, n=None, a=[1, 2], o={"k": "v"}, ea=[], eo={})
_NAMED: Final = Call("write_file", {"path": "a", "content": '{"name": "ping", "arguments": {}}'})


def _required(name: str, parts: Sequence[Say], twist: Twist, *needs: str) -> Scenario:
    return Scenario("guided", f"required: {name}", parts, _FORCED, ["required", *needs], twist)


def _named_choice(name: str, parts: Sequence[Say], twist: Twist, *needs: str) -> Scenario:
    return Scenario("guided", f"named: {name}", parts, _FORCED, ["named", *needs], twist)


GUIDED: Final = (
    _required("one call", [PARIS], _guided()),
    _required("two calls", [PARIS, PING], _guided()),
    _required("three calls", [PARIS, weather("Rome"), PARIS], _guided()),
    _required("no arguments", [PING], _guided()),
    _required("every type", [_TYPES], _guided()),
    _required("markup in a string", [_TRICKY, PING], _guided()),
    _required("indented", [PARIS, PING], _guided(indent=2)),
    _required("a line break before", [PARIS], _guided(before="\n")),
    _required("in a fence", [PARIS], _guided(before="```json\n", behind="\n```")),
    _required("with the end of the turn", [PARIS], _guided(behind="stop"), "stop"),
    _required("behind reasoning", [THOUGHT, PARIS], _guided(), "forced reasoning"),
    _required("behind reasoning, two calls", [THOUGHT, PARIS, PING], _guided(), "forced reasoning"),
    _required("behind prefilled reasoning", [THOUGHT, PARIS], _guided(start=True)),
    _required("cut", [PARIS, weather("Reykjavik")], _cut_guided),
    _named_choice("the arguments", [PARIS], _guided(named=True)),
    _named_choice("every type", [_TYPES], _guided(named=True)),
    _named_choice("no arguments", [PING], _guided(named=True)),
    _named_choice("an argument like an envelope", [_NAMED], _guided(named=True)),
    _named_choice("indented", [PARIS], _guided(named=True, indent=2)),
    _named_choice("with the end of the turn", [PARIS], _guided(named=True, behind="stop"), "stop"),
    _named_choice(
        "behind reasoning", [THOUGHT, PARIS], _guided(named=True), "forced reasoning", "named reasoning"
    ),
    _named_choice("behind prefilled reasoning", [THOUGHT, PARIS], _guided(named=True, start=True)),
)

# -- choices


def _choices(n: int) -> Twist:
    def twist(draft: Draft) -> None:
        draft.n = n

    return twist


_APART: Final = "The choices of a request do not know of each other."
_SAID: Final[dict[str, list[Say]]] = {
    "text": ["It is sunny."],
    "a call": [PARIS],
    "two calls": [PARIS, PING],
    "reasoning, text and calls": [THOUGHT, "Let me see.", PARIS, weather("Rome")],
    "reasoning and a call": [THOUGHT, PARIS],
}

CHOICES: Final = tuple(
    Scenario("choices", f"{n}: {name}", parts, _APART, (), _choices(n))
    for n in (2, 3)
    for name, parts in _SAID.items()
)

SCENARIOS: Final = (*PREFILLED, *GUIDED, *CHOICES)
