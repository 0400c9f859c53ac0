"""The suite itself: its cases are valid, unspool passes them, and wrong parsers fail.

Every dialect runs here in a few chunkings; the slow tests run all of them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paths import ROOT
from unspool import Message, ToolCall, UsageError, list_dialects, render
from unspool.conformance import (
    DeltaMessage,
    InProcess,
    Request,
    Run,
    TestCase,
    Unsupported,
    cases,
)
from unspool.conformance import scenarios as scenarios_package
from unspool.conformance._chunkings import CHUNKINGS, MAX_PIECES, _tokenizer, chunked
from unspool.conformance._known_differences_of_unspool import RULINGS
from unspool.conformance.case_format import DeltaToolCall
from unspool.conformance.parser_interface import UnspoolSession, unspool_adapter
from unspool.conformance.runner import ALL_CHUNKINGS, BATCH, CaseResult, Runner, explain_failure
from unspool.conformance.scenarios import GROUPS, SCENARIOS, Inapplicable, capabilities_of, select
from unspool.conformance.scenarios.scenario import to_render_parts
from unspool.message import TextPart
from unspool.testing._render_labelled_pieces import render_pieces

NAMES = [dialect.name for dialect in list_dialects()]
each_dialect = pytest.mark.parametrize("name", NAMES)


@cache
def suite(name: str) -> tuple[TestCase | Inapplicable, ...]:
    return tuple(cases([name]))


def cases_of(name: str) -> list[TestCase]:
    return [case for case in suite(name) if isinstance(case, TestCase)]


# -- unspool passes


def find_failures(runner: Runner, chosen: Iterable[TestCase]) -> list[str]:
    return [
        explain_failure(result)
        for result in map(runner.check, chosen)
        if result.status not in ("passed", "xfailed")
    ]


@each_dialect
def test_unspool_conforms(name: str) -> None:
    chosen = cases_of(name)
    quick = Runner(unspool_adapter(), (BATCH, "whole"), minimise=False)
    finely = Runner(unspool_adapter(), ("characters",), minimise=False)
    # Test a different third of the scenarios for each dialect, the same third in every run.
    third = [
        case for case in chosen if crc32(case.key.encode()) % 3 == 0 and len(case.model_output) < MAX_PIECES
    ]
    assert find_failures(quick, chosen) + find_failures(finely, third) == []


@pytest.mark.slow
@each_dialect
def test_unspool_conforms_in_every_chunking(name: str) -> None:
    assert find_failures(Runner(unspool_adapter(), ALL_CHUNKINGS, minimise=False), cases_of(name)) == []


@pytest.mark.parametrize("ruling", RULINGS, ids=lambda ruling: ruling.name)
def test_ruling_is_still_needed(ruling: object) -> None:
    assert ruling in RULINGS
    runner = Runner(unspool_adapter(), (BATCH, "whole"), minimise=False)
    for name in NAMES:
        for case in cases_of(name):
            covered = any(one is ruling and one.covers(case, one.classes[0]) for one in RULINGS)
            if covered and runner.check(case).reason == getattr(ruling, "reason", None):
                return
    pytest.fail("nothing fails without it: remove it")


def test_ruling_has_a_reason() -> None:
    assert len({ruling.name for ruling in RULINGS}) == len(RULINGS)
    docs = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    for ruling in RULINGS:
        assert len(ruling.reason) > 20
        assert ruling.reason in docs, f"docs/conformance.md lacks the ruling {ruling.name!r}"


# -- cases


def test_suite_is_large_and_has_every_group() -> None:
    groups = Counter(case.group for name in NAMES for case in cases_of(name))
    assert groups.keys() == GROUPS.keys()
    assert sum(groups.values()) > 20_000
    assert len(SCENARIOS) > 300


@each_dialect
def test_every_scenario_has_a_case_or_a_reason(name: str) -> None:
    case_names = suite(name)
    assert len(case_names) == len(SCENARIOS)
    assert len({case.key for case in cases_of(name)}) == len(cases_of(name))
    for one in case_names:
        if isinstance(one, Inapplicable):
            assert one.reason.strip(), one.scenario
        else:
            assert one.rule, one.key


@each_dialect
def test_dialect_with_calls_has_most_of_the_suite(name: str) -> None:
    capabilities = capabilities_of(name)
    if capabilities.has_calls:
        assert len(cases_of(name)) > (250 if capabilities.has_reasoning else 150)


def test_every_scenario_has_a_dialect() -> None:
    expressed = {case.scenario_name for name in NAMES for case in cases_of(name)}
    assert expressed == SCENARIOS.keys()


@each_dialect
def test_scenario_parts_match_render(name: str) -> None:
    dialect = capabilities_of(name).dialect
    parts: list[TextPart | ToolCall] = [
        TextPart("reasoning", "R."),
        TextPart("content", "T."),
        ToolCall("id1", "get_weather", '{"city": "Paris", "n": 3}'),
        ToolCall("id2", "ping", "{}"),
    ]
    tried = 0
    for length in range(1, 4):
        for chosen in product(parts, repeat=length):
            try:
                whole = render(Message(parts=chosen), dialect, check=False)
            except UsageError:
                continue  # some dialects cannot express this message
            tried += 1
            assert "".join(piece.text for piece in render_pieces(dialect, chosen)) == whole
    assert tried


@each_dialect
def test_plain_scenario_matches_render(name: str) -> None:
    for case in cases_of(name):
        scenario = SCENARIOS[case.scenario_name]
        if scenario.edit is None:
            message = Message(parts=tuple(to_render_parts(scenario.parts, capabilities_of(name))))
            assert case.model_output == render(message, capabilities_of(name).dialect, check=False)


def test_parser_does_not_compute_expectations() -> None:
    folder = Path(scenarios_package.__file__).parent
    names = {
        alias.name
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert "render_pieces" in names
    assert not names & {
        "Parser",
        "parse",
        "read",
        "fold",
        "MessageBuilder",
        "Machine",
        "plan",
        "compiled_dialect",
    }


def test_scenarios_are_selected_by_pattern() -> None:
    assert {one.group for one in select(["order", "empty"])} == {"order", "empty"}
    assert [one.name for one in select(["order/text-call"])] == ["text-call"]
    assert len(select(["order/*"])) == len(select(["order"]))
    with pytest.raises(UsageError, match="conformance list"):
        select(["nothing/*"])
    with pytest.raises(LookupError):
        list(cases(["nobody"]))


# -- chunkings


@given(st.text(max_size=300))
def test_chunks_join_to_the_text(text: str) -> None:
    for name in CHUNKINGS:
        chunkings = list(chunked(text, name))
        assert chunkings or (name == "two" and len(text) < 2)
        for chunks in chunkings:
            assert "".join(chunks) == text
        assert chunkings == list(chunked(text, name)), "chunkings differ between runs"


def test_chunkings_cut_as_documented() -> None:
    text = 'Hi <tool_call>\n{"a": "é🙂"}'
    assert list(chunked(text, "whole")) == [(text,)]
    assert list(chunked(text, "characters")) == [tuple(text)]
    assert {chunks[0] for chunks in chunked(text, "two")} == {text[:at] for at in range(1, len(text))}
    (burst,) = chunked(text, "burst")
    assert burst[1:3] == ("", "")
    assert len(burst[3]) > len(burst[0]) > 0
    (tokens,) = chunked(text, "tokens")
    assert 5 < len(tokens) < len(text)
    with pytest.raises(UsageError, match="choose from whole"):
        chunked(text, "slices")


def test_long_text_is_not_cut_too_finely() -> None:
    text = "word " * MAX_PIECES
    for name in ("characters", "random"):
        assert all(len(chunks) <= 2 * MAX_PIECES for chunks in chunked(text, name))


def test_token_chunking_works_without_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.conformance._chunkings._tokenizer", lambda: None)
    (tokens,) = chunked("Hello, world 2026: <tool_call>", "tokens")
    assert tokens[:3] == ("Hello", ",", " world")
    assert "".join(tokens) == "Hello, world 2026: <tool_call>"


def test_token_chunking_uses_a_real_tokenizer_if_available() -> None:
    pytest.importorskip("mistral_common")
    _tokenizer.cache_clear()
    assert _tokenizer() is not None


# -- faulty parsers fail


class Sabotage(UnspoolSession):
    """unspool with a deliberate fault."""

    def feed(self, chunk: str) -> list[DeltaMessage]:
        return [out for delta in super().feed(chunk) for out in self.spoil(delta)]

    def finish(self, reason: object) -> list[DeltaMessage]:
        return [out for delta in super().finish(reason) for out in self.spoil(delta)]

    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        return [delta]


class LosesCalls(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        kept = tuple(call for call in delta.tool_calls if call.index == 0)
        return [DeltaMessage(delta.content, delta.reasoning, kept)]


class LosesText(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        return [DeltaMessage(None, delta.reasoning, delta.tool_calls)]


class HalvesPairs(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        return [DeltaMessage("\ud83d", delta.reasoning, delta.tool_calls)]


class LeaksMarkup(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        extra = DeltaMessage("</tool_call>") if delta.tool_calls and delta.tool_calls[0].arguments else None
        return [delta, *([extra] if extra else [])]


class MixesChannels(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        return [DeltaMessage(delta.reasoning or delta.content, None, delta.tool_calls)]


class TypesAsStrings(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        calls = (
            DeltaToolCall(c.index, c.id, c.name, c.arguments and c.arguments.replace("true", '"true"'))
            for c in delta.tool_calls
        )
        return [DeltaMessage(delta.content, delta.reasoning, tuple(calls))]


class CallsFirst(Sabotage):
    """Keeps text until the end."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.kept: list[DeltaMessage] = []

    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        if delta.tool_calls:
            return [delta]
        self.kept.append(delta)
        return []

    def finish(self, reason: object) -> list[DeltaMessage]:
        return super().finish(reason) + self.kept


class Strips(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        return [DeltaMessage(delta.content and f" {delta.content}", delta.reasoning, delta.tool_calls)]


class Raises(Sabotage):
    def feed(self, chunk: str) -> list[DeltaMessage]:
        raise KeyError(chunk)


class NamesTwice(Sabotage):
    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        named = any(call.name for call in delta.tool_calls)
        return [delta, delta] if named else [delta]


class AlwaysStops(Sabotage):
    def finish(self, reason: object) -> list[DeltaMessage]:
        deltas = super().finish(reason)
        self.finish_reason = "stop"
        return deltas


def result_of(
    session: type[Sabotage], scenario: str, way: str = "whole", name: str = "unspool"
) -> CaseResult:
    runner = Runner(InProcess(session, name), (way,), minimise=False)
    (case,) = (one for one in cases(["hermes"], [scenario]) if isinstance(one, TestCase))
    return runner.check(case)


@pytest.mark.parametrize(
    ("session", "scenario", "expected"),
    [
        (LosesCalls, "order/text-call-call", "loss"),
        (LosesText, "order/text-call", "loss"),
        (LeaksMarkup, "order/text-call", "leak"),
        (MixesChannels, "order/reasoning-text", "loss"),
        (TypesAsStrings, "arguments/booleans", "arguments"),
        (CallsFirst, "order/text-call", "order"),
        (Strips, "order/text-call", "whitespace"),
        (Raises, "order/text", "error"),
        (NamesTwice, "order/call", "error"),
        (AlwaysStops, "order/call", "finish"),
    ],
)
def test_wrong_parser_fails(session: type[Sabotage], scenario: str, expected: str) -> None:
    result = result_of(session, scenario)
    assert (result.status, result.difference) == ("failed", expected)
    assert scenario in explain_failure(result)


def test_policy_differences_excuse_only_other_parsers() -> None:
    assert result_of(LosesText, "order/text-call").status == "failed"
    assert result_of(LosesText, "order/text-call", name="other").status == "xfailed"
    assert "dropped" in result_of(LosesText, "order/text-call", name="other").reason


class MixesChoices(UnspoolSession):
    """Keeps its state in the class, so that a second choice continues the first."""

    shared: UnspoolSession | None = None

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        type(self).shared = self

    def feed(self, chunk: str) -> list[DeltaMessage]:
        assert self.shared is not None
        return UnspoolSession.feed(self.shared, chunk)


def test_shared_state_between_choices_fails() -> None:
    runner = Runner(InProcess(MixesChoices, "unspool"), ("tokens",), minimise=False)
    (one,) = cases(["hermes"], ["choices/2: two calls"])
    (alone,) = cases(["hermes"], ["order/call"])
    assert isinstance(one, TestCase)
    assert isinstance(alone, TestCase)
    assert runner.check(one).status == "failed"
    assert runner.check(alone).status == "passed"


def test_unclaimed_abilities_do_not_count() -> None:
    def factory(request: Request) -> UnspoolSession:
        if request.start == "reasoning":
            raise Unsupported("it cannot begin inside reasoning")
        return UnspoolSession(request)

    runner = Runner(InProcess(factory, "mine", dialects=["hermes"]), ("whole",))
    report = runner.run(cases(["hermes", "glm45"], ["prefilled"]))
    assert {result.case.dialect for result in report.results} == {"hermes"}
    assert report.counts.keys() == {"passed", "unsupported"}
    refused = next(result for result in report.results if result.status == "unsupported")
    assert refused.reason == "it cannot begin inside reasoning"
    assert refused.case.start == "reasoning"


def test_parser_sees_the_request() -> None:
    seen: list[Request] = []

    def factory(request: Request) -> UnspoolSession:
        seen.append(request)
        return UnspoolSession(request)

    runner = Runner(InProcess(factory, "mine"), (BATCH, "whole"))
    (case,) = cases(["hermes"], ["guided/named: after prefilled reasoning"])
    assert isinstance(case, TestCase)
    assert runner.check(case).status == "passed"
    assert [request.streaming for request in seen] == [False, True]
    assert (seen[0].dialect, seen[0].start, seen[0].prompt) == ("hermes", "reasoning", "<think>\n")
    assert seen[0].tool_choice == {"type": "function", "function": {"name": "get_weather"}}
    assert seen[0].tools == case.tools


def test_case_runs_once_per_chunking() -> None:
    runner = Runner(unspool_adapter(), ALL_CHUNKINGS)
    (case,) = cases(["hermes"], ["order/text-call"])
    assert isinstance(case, TestCase)
    result = runner.check(case)
    assert list(result.chunkings) == list(ALL_CHUNKINGS)
    assert set(result.chunkings.values()) == {"match"}
    assert isinstance(result.worst, Run)
    assert result.worst.status == "passed"
