"""The programs that run the suite over other parsers: their shared part, and each in its environment.

``python -m lab.environments`` installs them; without them only the shared part is tested.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import ROOT, environments, peers
from lab.peers import _protocol
from lab.peers._protocol import Facts, ProtocolRequest, aligned, any_of
from unspool import Message, ToolCall, UsageError, render
from unspool.conformance._delta_reader import decode_stream
from unspool.conformance.case_format import TestCase as Case
from unspool.conformance.external_program import Program

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = ToolCall(id="", name="get_weather", arguments='{"city": "Oslo"}')

FACTS = Facts(
    openers=["<think>"],
    closers=["</think>"],
    seed="<think>",
    always=False,
    prompt="<|im_start|>assistant",
    stops=["<|im_end|>"],
    controls=["<tool_call>", "<|im_end|>"],
)
REQUEST = ProtocolRequest(
    dialect="hermes",
    mode="stream",
    text="",
    seed="",
    stop="",
    tools=[TOOL],
    tool_choice="auto",
    start="content",
    prompt=None,
    finish_reason="stop",
    facts=FACTS,
)


# -- chunks


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a", "<", "<tool_call>", "<to", "<|im_end|>", ">"])).map("".join)))
def test_chunks_do_not_cut_tokens(chunks: list[str]) -> None:
    text = "".join(chunks)
    pieces = list(aligned(chunks, replace(REQUEST, text=text), any_of(FACTS.controls)))
    assert len(pieces) == len(chunks)
    assert "".join(pieces) == text
    cuts = {sum(map(len, pieces[:n])) for n in range(len(pieces) + 1)}
    for token in re.finditer(r"<tool_call>|<\|im_end\|>", text):
        assert not cuts & set(range(token.start() + 1, token.end()))


@settings(deadline=None)
@given(st.lists(st.text("ab<", max_size=4)))
def test_cuts_outside_tokens_stay(chunks: list[str]) -> None:
    text = "".join(chunks)
    assert list(aligned(chunks, replace(REQUEST, text=text), any_of(FACTS.controls))) == chunks


def test_token_does_not_merge_with_the_text_before_it() -> None:
    chunks = ["Hi.<to", "ol_call", ">x"]
    request = replace(REQUEST, text="".join(chunks))
    assert list(aligned(chunks, request, any_of(FACTS.controls))) == ["Hi.", "<tool_call>", "x"]


def test_text_moved_to_the_prompt_is_in_no_chunk() -> None:
    request = replace(REQUEST, text="Hm.</think>", seed="<think>")
    assert list(aligned(["<thi", "nk>Hm", ".</think>"], request, None)) == ["", "Hm", ".</think>"]


# -- requests


@pytest.mark.parametrize(
    ("start", "prompt", "text", "thinking", "tail"),
    [
        ("content", None, "Hi.", False, "<|im_start|>assistant<think></think>"),
        ("content", None, "<think>Hm.</think>Hi.", True, "<|im_start|>assistant"),
        ("content", None, "<think>Hm", True, "<|im_start|>assistant"),
        ("content", None, "Well.<think>Hm.</think>", True, "<|im_start|>assistant"),
        (
            "content",
            None,
            "Put `<think>` and `</think>` there.",
            False,
            "<|im_start|>assistant<think></think>",
        ),
        ("content", None, '{"a": "<think>x</think>"}', False, "<|im_start|>assistant<think></think>"),
        ("reasoning", None, "Hm.</think>Hi.", True, "<|im_start|>assistant<think>"),
        ("reasoning", "<think>\n", "Hm.</think>Hi.", True, "<think>\n"),
        ("content", "<think>\n\n</think>", "Hi.", False, "<think>\n\n</think>"),
    ],
)
def test_request_carries_the_options_of_the_case(
    start: str, prompt: str | None, text: str, thinking: bool, tail: str
) -> None:
    request = replace(REQUEST, start=start, prompt=prompt, text=text)
    assert request.thinking is thinking
    assert request.tail == tail


@pytest.mark.parametrize(
    ("text", "is_guided"),
    [
        ('[{"name": "f", "parameters": {}}]', True),
        ('<think>Hm.</think>\n{"city": "Oslo"}', True),
        ("<tool_call>\n{}\n</tool_call>", False),
        ("", False),
    ],
)
def test_guided_json_has_no_markup(text: str, is_guided: bool) -> None:
    assert replace(REQUEST, text=text).is_guided is is_guided


def test_client_may_open_what_no_template_opens() -> None:
    inside = replace(REQUEST, start="reasoning")
    assert not inside.starts_in_unopened_reasoning
    assert replace(inside, facts=replace(FACTS, seed="")).starts_in_unopened_reasoning
    assert not replace(REQUEST, facts=replace(FACTS, seed="")).starts_in_unopened_reasoning


def test_control_token_in_a_string_is_spelled_out() -> None:
    assert replace(REQUEST, text='{"a": "see <|im_end|> x"}').has_control_token_in_string
    assert not replace(REQUEST, text='{"a": "b"}<|im_end|>').has_control_token_in_string
    assert not replace(REQUEST, text='{"a": "<tool_call>"}').has_control_token_in_string


def test_peer_programs_know_every_dialect() -> None:
    known_dialects = peers.dialects()
    facts = {name: Facts(**row) for name, row in known_dialects.items()}  # type: ignore[arg-type]
    assert facts["hermes"].openers[0] == "<think>"
    assert "<tool_call>" in facts["hermes"].controls
    assert "<|tool_call_begin|>" in facts["kimi_k2"].controls
    assert "<|im_end|>" in facts["hermes"].stops
    assert facts["hy_v4:opensource"].seed == "<think:opensource>"


def test_vocabulary_has_the_markers_of_one_checkpoint() -> None:
    facts = {name: Facts(**row) for name, row in peers.dialects().items()}  # type: ignore[arg-type]
    for name in ("hy_v3", "hy_v4"):
        of_it = [*facts[name].controls, *facts[name].stops, *facts[name].openers, *facts[name].closers]
        assert not [mark for mark in of_it if ":" in mark]
    for name, suffix in (("hy_v3", "opensource"), ("hy_v4", "opensource"), ("hy_v4", "6124c78e")):
        assert all(f":{suffix}" in mark for mark in facts[f"{name}:{suffix}"].controls)
    assert "<seed:think>" in facts["seed_oss"].controls


def test_missing_environment_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    with pytest.raises(UsageError, match=r"python -m lab\.environments vllm"):
        peers.command("vllm")
    with pytest.raises(UsageError, match="choose one of vllm, sglang"):
        peers.command("nobody")


# -- the protocol, with a fake parser

FAKE = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[2])
from lab.peers._protocol import (
    Environment, PeerProgram, PeerStream, Unsupported, any_of, serve
)

class Echo(PeerStream):
    def __init__(self, request):
        self.request, self.pieces = request, []
    def feed(self, text, finished):
        print("noise on standard output")
        self.pieces.append(text)
        if "boom" in text:
            raise KeyError("boom")
        return {"content": text}
    def finish(self):
        return [{"content": "|"}, {"reasoning": self.request.stop}]
    finish_reason = property(lambda self: self.request.finish_reason)

class Fake(PeerProgram):
    name, version = "fake", "1"
    def dialects(self):
        return {"hermes": {"parser": "echo"}, "of another planet": {}}
    def unsplittable(self, request):
        return any_of(request.facts.controls)
    def stream(self, request):
        if request.tool_choice == "required":
            raise Unsupported("it forces nothing")
        return Echo(request)
    def batch(self, request):
        return {"content": request.text}, "stop"

place = Environment.read(Path(sys.argv[1]))
serve(Fake(), place)
"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("fake")
    script = folder / "fake.py"
    script.write_text(FAKE, encoding="utf-8")
    facts = folder / "dialects.json"
    written = {"vocabularies": str(folder), "dialects": peers.dialects()}
    facts.write_text(json.dumps(written), encoding="utf-8")
    program = Program([sys.executable, str(script), str(facts), str(ROOT)])
    yield program
    program.close()


def case(text: str, **fields: Any) -> Case:
    return Case("a case", fields.pop("dialect", "hermes"), "standard", text, False, tools=(TOOL,), **fields)


def contents(
    program: Program, this: Case, *choices: list[str], streaming: bool = True
) -> list[list[str | None]]:
    answers = program.answer(this, choices, streaming=streaming)
    return [[delta.content if delta else None for delta in answer.deltas] for answer in answers]


def test_identity_lists_dialects(fake: Program) -> None:
    identity = fake.identity()
    assert (identity.name, identity.version) == ("fake", "1")
    assert list(identity.dialects) == ["hermes"]


def test_every_chunk_gives_an_entry_and_the_end_another(fake: Program) -> None:
    assert contents(fake, case("ab"), ["a", "", "b"]) == [["a", None, "b", "|", None]]


def test_end_of_turn_token_is_not_text(fake: Program) -> None:
    (answer,) = fake.answer(case("a<|im_end|>"), [["a<|im", "_end|>"]], streaming=True)
    assert [delta.content if delta else None for delta in answer.deltas] == ["a", None, "|", None]
    assert answer.deltas[-1] is not None
    assert answer.deltas[-1].reasoning == "<|im_end|>"


def test_engine_stops_at_the_first_end_of_turn_token(fake: Program) -> None:
    (answer,) = fake.answer(case("a<|im_end|><|endoftext|>"), [["a<|im_end|><|endoftext|>"]], streaming=True)
    assert answer.deltas[-1] is not None
    assert answer.deltas[-1].reasoning == "<|im_end|>"


def test_last_chunk_ends_the_stream_at_the_limit(fake: Program) -> None:
    assert contents(fake, case("ab", finish_reason="length"), ["a", "b"]) == [["a", "b", None]]


def test_tokens_are_not_cut(fake: Program) -> None:
    assert contents(fake, case("<tool_call>x"), ["<tool_", "call>", "x"])[0][:3] == ["<tool_call>", None, "x"]


def test_choices_are_interleaved(fake: Program) -> None:
    assert contents(fake, case("ab", n=2), ["a", "b"], ["ab"]) == [["a", "b", "|", None], ["ab", "|", None]]


def test_batch_gives_one_entry(fake: Program) -> None:
    assert contents(fake, case("ab<|im_end|>"), ["ab<|im_end|>"], streaming=False) == [["ab"]]


def test_exception_is_recorded_and_the_next_case_runs(fake: Program) -> None:
    from unspool.conformance.parser_interface import ParserFailed, Unsupported

    with pytest.raises(ParserFailed, match="KeyError: 'boom'"):
        fake.answer(case("boom"), [["boom"]], streaming=True)
    with pytest.raises(Unsupported, match="it forces nothing"):
        fake.answer(case("a", tool_choice="required"), [["a"]], streaming=True)
    with pytest.raises(Unsupported, match="no parser for qwen3_coder"):
        fake.answer(case("a", dialect="qwen3_coder"), [["a"]], streaming=True)
    assert contents(fake, case("a"), ["a"]) == [["a", "|", None]]


def test_hung_parser_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_protocol, "LIMIT", 0.01)
    with pytest.raises(_protocol.TooLong, match="of CPU time"), _protocol._time_limit(), suppress(Exception):
        sum(1 for _ in count())


# -- real parsers

UNSEEN = {("sglang", "mistral_v3")}
"""Calls that a peer does not find in its own dialect; see docs/conformance.md."""


@pytest.fixture(scope="module", params=list(peers.PEERS))
def peer(request: pytest.FixtureRequest) -> Iterator[tuple[str, Program]]:
    try:
        program = Program(peers.command(request.param))
    except UsageError as missing:
        pytest.skip(str(missing))
    yield request.param, program
    program.close()


@pytest.mark.slow
def test_peers_find_a_call_in_each_dialect(peer: tuple[str, Program]) -> None:
    from unspool.conformance.parser_interface import ParserFailed, Unsupported

    name, program = peer
    unseen = []
    for dialect in program.identity().dialects:
        try:
            text = render(Message(tool_calls=(CALL,)), dialect)
        except UsageError:  # the dialect has no calls
            continue
        results = []
        for streaming in (False, True):
            chunks = [text[at : at + 5] for at in range(0, len(text), 5)] if streaming else [text]
            try:
                (answer,) = program.answer(case(text, dialect=dialect), [chunks], streaming=streaming)
            except Unsupported as reason:
                assert "requires the `cohere_melody` package" in str(reason)  # noqa: PT017
                results.append([(CALL.name, json.loads(CALL.arguments))])
                continue
            except ParserFailed:
                continue
            message = decode_stream(answer.deltas, answer.finish_reason).message
            results.append([(c.function.name, _value(c.function.arguments)) for c in message.tool_calls])
        if [(CALL.name, json.loads(CALL.arguments))] not in results:
            unseen.append((name, dialect))
    assert set(unseen) == {one for one in UNSEEN if one[0] == name}


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@pytest.mark.slow
def test_peers_read_reasoning_opened_by_the_prompt(peer: tuple[str, Program]) -> None:
    name, program = peer
    dialect = "harmony" if name == "harmony" else "hermes"
    prompt = {"harmony": "<|start|>assistant<|channel|>analysis<|message|>", "hermes": "<think>\n"}[dialect]
    text = {"harmony": "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            "hermes": "Hm.\n</think>\n\nHi."}[dialect]  # fmt: skip
    this = case(text, dialect=dialect, start="reasoning", prompt=prompt)
    (answer,) = program.answer(this, [list(text)], streaming=True)
    message = decode_stream(answer.deltas, answer.finish_reason).message
    assert (message.reasoning or "").strip() == "Hm."
    assert (message.content or "").strip() == "Hi."
