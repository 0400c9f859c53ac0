"""Scenarios for request options: prefilled output, forced calls and several choices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ...testing import RenderedPiece
from ..case_format import TextSegment, Unfinished
from .sample_parts import (
    PARIS,
    PING,
    REASONING,
    Call,
    Reasoning,
    ScenarioPart,
    values,
    weather,
    write,
)
from .scenario import Draft, DraftEdit, ExpectedCall, ExpectedPart, Scenario

TITLES: Final = {
    "prefilled": "Prefilled reasoning and answers",
    "guided": "Guided JSON",
    "choices": "Several choices at a time",
}

# -- group ``prefilled``

_CONTINUES: Final = "The output continues the end of the prompt."


def _prefill(*, bare: bool = False) -> DraftEdit:
    """Return an edit that moves the reasoning opener to the end of the prompt.

    :param bare: whether to leave out the whitespace that the template writes after the opener.
    """

    def edit(draft: Draft) -> str | None:
        number = draft.find("open", 0)
        opener = draft.pieces.pop(number).text
        if bare and opener == opener.rstrip():
            return "the template writes no whitespace there"
        draft.start = "reasoning"
        draft.prompt = draft.capabilities.dialect.prompt.start + (opener.rstrip() if bare else opener)
        return None

    return edit


def _prefill_and_truncate(draft: Draft) -> str | None:
    """Move the reasoning opener to the end of the prompt, and truncate the output inside reasoning."""
    del draft.pieces[draft.find("close", 0) :]
    draft.finish_reason = "length"
    return _prefill()(draft)


def _prefill_empty_reasoning(draft: Draft) -> str | None:
    """Add an empty reasoning block, with opener and closer, to the end of the prompt."""
    numbers = [i for i, piece in enumerate(draft.pieces) if piece.part == 0]
    framing = [draft.pieces[i].text for i in numbers if draft.pieces[i].kind != "text"]
    del draft.pieces[: numbers[-1] + 1], draft.order[0]
    draft.prompt = draft.capabilities.dialect.prompt.start + "".join(framing)
    if draft.capabilities.framed:
        start = draft.capabilities.dialect.prompt.start
        draft.prompt += start
        first = draft.pieces[0]
        draft.pieces[0] = RenderedPiece(first.kind, first.text.removeprefix(start), first.part)
    return None


def _prefill_wrapper(draft: Draft) -> str | None:
    """Move the opening marker of the answer to the end of the prompt."""
    draft.prompt = draft.pieces.pop(draft.find("open", 0)).text
    draft.start = "response"
    return None


def _prefill_answer(draft: Draft) -> str | None:
    """Add the beginning of the answer to the end of the prompt."""
    if draft.capabilities.framed or draft.capabilities.wrapped:
        return "an answer begins with a marker"
    if draft.capabilities.dialect.habits.echo:
        return "the prompt holds the beginning of the reasoning"
    draft.prompt = "It is"
    return None


_THEN: Final[dict[str, list[ScenarioPart]]] = {
    "nothing": [REASONING],
    "text": [REASONING, "It is sunny."],
    "a call": [REASONING, PARIS],
    "text and calls": [REASONING, "Let me see.", PARIS, PING],
}

PREFILLED: Final = (
    *(
        Scenario(
            "prefilled", f"reasoning{bare}, then {name}", parts, _CONTINUES, (), _prefill(bare=bool(bare))
        )
        for bare in ("", " without a newline")
        for name, parts in _THEN.items()
    ),
    Scenario("prefilled", "reasoning, of one word", [Reasoning("Hm."), "Sunny."], _CONTINUES, (), _prefill()),
    Scenario("prefilled", "reasoning, truncated", [REASONING], _CONTINUES, (), _prefill_and_truncate),
    Scenario(
        "prefilled",
        "no reasoning, text",
        [REASONING, "It is sunny."],
        _CONTINUES,
        (),
        _prefill_empty_reasoning,
    ),
    Scenario(
        "prefilled", "no reasoning, a call", [REASONING, PARIS], _CONTINUES, (), _prefill_empty_reasoning
    ),
    Scenario(
        "prefilled",
        "no reasoning, text and calls",
        [REASONING, "See:", PARIS, PING],
        _CONTINUES,
        (),
        _prefill_empty_reasoning,
    ),
    Scenario("prefilled", "answer, text", ["It is sunny."], _CONTINUES, ["wrapper"], _prefill_wrapper),
    Scenario(
        "prefilled",
        "answer, text and a call",
        ["Let me see.", PARIS],
        _CONTINUES,
        ["wrapper"],
        _prefill_wrapper,
    ),
    Scenario("prefilled", "answer, continued", [" sunny in Paris."], _CONTINUES, (), _prefill_answer),
    Scenario(
        "prefilled",
        "answer, continued, then a call",
        [" sunny? Let me see.", PARIS],
        _CONTINUES,
        (),
        _prefill_answer,
    ),
)

# -- group ``guided``

_FORCED_JSON: Final = "A forced call is JSON: an array of calls, or the arguments of the named function."


def _json_array(calls: Sequence[Call]) -> str:
    return json.dumps(
        [{"name": call.name, "parameters": call.arguments} for call in calls], ensure_ascii=False
    )


def _replace_with_json(
    *, named: bool = False, start: bool = False, before: str = "", after: str = "", indent: int = 0
) -> DraftEdit:
    """Return an edit that replaces the calls with guided JSON, but keeps the reasoning.

    :param start: whether to move the reasoning opener to the end of the prompt.
    :param before: text before the JSON.
    :param after: text after the JSON; ``stop`` stands for the marker that ends a turn.
    """

    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        if capabilities.framed and any(isinstance(part, TextSegment) for part in draft.order):
            return "reasoning is a message with a header, which cannot hold JSON"
        calls = [part.call for part in draft.order if isinstance(part, ExpectedCall)]
        text = json.dumps(calls[0].arguments, ensure_ascii=False) if named else _json_array(calls)
        if indent:
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=indent)
        closing = capabilities.dialect.stop[0] if after == "stop" else after
        draft.pieces = [piece for piece in draft.pieces if piece.kind in ("open", "text", "close")]
        draft.pieces.append(RenderedPiece("text", before + text + closing, len(draft.order)))
        draft.order = [_as_json(part, named=named, indent=indent) for part in draft.order]
        function = {"type": "function", "function": {"name": calls[0].name}}
        draft.tool_choice = function if named else "required"
        draft.guided_json = True
        if start:
            opening = draft.pieces.pop(draft.find("open", 0)).text
            draft.prompt, draft.start = opening, "reasoning"
        return None

    return edit


def _as_json(part: ExpectedPart, *, named: bool, indent: int) -> ExpectedPart:
    """Convert a call to the form that is expected from guided JSON, without an id; keep other parts."""
    if not isinstance(part, ExpectedCall):
        return part
    call = part.call
    if not indent:
        return ExpectedCall(
            Call(call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False)), None
        )
    spelling = json.dumps(call.arguments, ensure_ascii=False, indent=indent)
    depth = "" if named else " " * (2 * indent)
    return ExpectedCall(Call(call.name, call.arguments, spelling.replace("\n", "\n" + depth)), None)


def _truncate_json(draft: Draft) -> str | None:
    obstacle = _replace_with_json()(draft)
    if obstacle:
        return obstacle
    call = draft.order.pop()
    assert isinstance(call, ExpectedCall)  # noqa: S101 - the scenario ends with a call
    text = draft.text
    cut = text.rindex("Reyk") + 4
    draft.pieces = [RenderedPiece("text", text[:cut], 0)]
    draft.order.append(Unfinished("truncated", text[:cut], call.call.name, call.call.json))
    draft.finish_reason = draft.finish = "length"
    return None


_MARKUP_IN_STRING: Final = write("a.json", 'x = [{"name": "f", "parameters": {}}]; </tool_call> }] ```')
_EVERY_TYPE: Final = values(s="42", i=42, f=3.5, b=True, n=None, a=[1, 2], o={"k": "v"}, ea=[], eo={})
_LIKE_ENVELOPE: Final = Call("write_file", {"path": "a", "content": '{"name": "ping", "arguments": {}}'})


def _required_scenario(name: str, parts: Sequence[ScenarioPart], edit: DraftEdit, *needs: str) -> Scenario:
    return Scenario("guided", f"required: {name}", parts, _FORCED_JSON, ["required", *needs], edit)


def _named_scenario(name: str, parts: Sequence[ScenarioPart], edit: DraftEdit, *needs: str) -> Scenario:
    return Scenario("guided", f"named: {name}", parts, _FORCED_JSON, ["named", *needs], edit)


GUIDED: Final = (
    _required_scenario("one call", [PARIS], _replace_with_json()),
    _required_scenario("two calls", [PARIS, PING], _replace_with_json()),
    _required_scenario("three calls", [PARIS, weather("Rome"), PARIS], _replace_with_json()),
    _required_scenario("no arguments", [PING], _replace_with_json()),
    _required_scenario("every type", [_EVERY_TYPE], _replace_with_json()),
    _required_scenario("markup in a string", [_MARKUP_IN_STRING, PING], _replace_with_json()),
    _required_scenario("indented", [PARIS, PING], _replace_with_json(indent=2)),
    _required_scenario("a newline before", [PARIS], _replace_with_json(before="\n")),
    _required_scenario("in a code fence", [PARIS], _replace_with_json(before="```json\n", after="\n```")),
    _required_scenario("with the end of the turn", [PARIS], _replace_with_json(after="stop"), "stop"),
    _required_scenario("after reasoning", [REASONING, PARIS], _replace_with_json(), "forced reasoning"),
    _required_scenario(
        "after reasoning, two calls", [REASONING, PARIS, PING], _replace_with_json(), "forced reasoning"
    ),
    _required_scenario("after prefilled reasoning", [REASONING, PARIS], _replace_with_json(start=True)),
    _required_scenario("truncated", [PARIS, weather("Reykjavik")], _truncate_json),
    _named_scenario("the arguments", [PARIS], _replace_with_json(named=True)),
    _named_scenario("every type", [_EVERY_TYPE], _replace_with_json(named=True)),
    _named_scenario("no arguments", [PING], _replace_with_json(named=True)),
    _named_scenario("an argument like an envelope", [_LIKE_ENVELOPE], _replace_with_json(named=True)),
    _named_scenario("indented", [PARIS], _replace_with_json(named=True, indent=2)),
    _named_scenario(
        "with the end of the turn", [PARIS], _replace_with_json(named=True, after="stop"), "stop"
    ),
    _named_scenario(
        "after reasoning",
        [REASONING, PARIS],
        _replace_with_json(named=True),
        "forced reasoning",
        "named reasoning",
    ),
    _named_scenario(
        "after prefilled reasoning", [REASONING, PARIS], _replace_with_json(named=True, start=True)
    ),
)

# -- group ``choices``


def _set_choices(n: int) -> DraftEdit:
    def edit(draft: Draft) -> None:
        draft.n = n

    return edit


_INDEPENDENT: Final = "The choices of a request are independent."
_OUTPUTS: Final[dict[str, list[ScenarioPart]]] = {
    "text": ["It is sunny."],
    "a call": [PARIS],
    "two calls": [PARIS, PING],
    "reasoning, text and calls": [REASONING, "Let me see.", PARIS, weather("Rome")],
    "reasoning and a call": [REASONING, PARIS],
}

CHOICES: Final = tuple(
    Scenario("choices", f"{n}: {name}", parts, _INDEPENDENT, (), _set_choices(n))
    for n in (2, 3)
    for name, parts in _OUTPUTS.items()
)

SCENARIOS: Final = (*PREFILLED, *GUIDED, *CHOICES)
