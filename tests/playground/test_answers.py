"""Answers to the playground's page: laws over every dialect's sample, and usage errors as answers."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paths import TEMPLATES, real
from unspool import Parser, get_dialect, list_dialects, parse
from unspool.conformance import TestCase, unspool_adapter
from unspool.conformance.runner import Runner
from unspool.dialects import dialect_to_json
from unspool.events import normalise
from unspool.parser import seeded_ids
from unspool.playground import answer
from unspool.playground.token_labels import _File
from unspool.sample_outputs import list_samples, tools
from unspool.wire import ChatStream, ChatStreamDecoder

NAMES = [dialect.name for dialect in list_dialects()]
BROKEN = '<tool_call>\n{"name": "now", "arguments": {"a": 3.}}\n</tool_call>'


def play(**request: Any) -> dict[str, Any]:
    result = answer({"ask": "play", "tools": tools(), **request})
    assert json.loads(json.dumps(result)) is not None, "JSON values"
    return result


def recorded(name: str) -> dict[str, Any]:
    (sample,) = list_samples([name])
    return {"text": sample.output, "dialect": name, "prompt": sample.prompt, "finish_reason": "stop"}


def parser(name: str) -> Parser:
    (sample,) = list_samples([name])
    return Parser(name, tools=tools(), prompt=sample.prompt, new_id=seeded_ids("playground", name))


# -- laws


@pytest.mark.parametrize("name", NAMES)
def test_spans_tile_the_text(name: str) -> None:
    request = recorded(name)
    steps = play(**request)["steps"]
    for position in (None, *range(0, steps, 1 + steps // 3)):
        seen = play(**request, position=position, apis=[])
        ends = [0, *(end for _, end, _, _ in seen["spans"])]
        assert [start for start, _, _, _ in seen["spans"]] == ends[:-1]
        assert ends[-1] == seen["decided"]
        assert seen["decided"] + seen["pending"] == seen["fed"]
    assert play(**request)["decided"] == len(request["text"])


@pytest.mark.parametrize("name", NAMES)
def test_events_equal_the_parser_at_every_position(name: str) -> None:
    request = recorded(name)
    size = 1 + len(request["text"]) // 7
    reading = parser(name)
    so_far: list[Any] = []
    for position in range(len(range(0, len(request["text"]), size)) + 2):
        seen = play(**request, chunk=size, position=position, window=10_000, apis=[])
        if position > seen["steps"]:
            so_far += reading.finish("stop")
        elif position:
            so_far += reading.feed(request["text"][(position - 1) * size : position * size])
        events = [{key: value for key, value in event.items() if key != "step"} for event in seen["events"]]
        assert events == [event.to_dict() for event in so_far]
        assert seen["mode"] == ("finished" if position > seen["steps"] else reading.mode)


@pytest.mark.parametrize("name", NAMES)
def test_old_events_may_arrive_together(name: str) -> None:
    """A window is only a faster way to the same state."""
    request = recorded(name)
    position = play(**request)["steps"] * 2 // 3
    quick, slow = (play(**request, position=position, window=window, apis=[]) for window in (1, 10_000))
    for key in ("fed", "decided", "pending", "max_pending", "mode", "spans", "message", "diagnostics"):
        assert quick[key] == slow[key], key


@pytest.mark.parametrize("name", NAMES)
def test_final_message_equals_parse(name: str) -> None:
    request = recorded(name)
    message = parse(
        request["text"], name, tools=tools(), prompt=request["prompt"], finish_reason="stop",
        new_id=seeded_ids("playground", name),
    )  # fmt: skip
    seen = play(**request)["message"]
    assert (seen["reasoning"], seen["content"]) == (message.reasoning, message.content)
    assert seen["tool_calls"] == [
        {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
    ]
    assert seen["finish_reason"] == message.finish_reason


def test_chunks_equal_those_of_the_server() -> None:
    request = recorded("hermes")
    seen = play(**request, chunk=5, window=10_000)
    client = ChatStreamDecoder()
    reading = parser("hermes")
    wire = ChatStream(reading, model="playground", id="chatcmpl-0", created=0)
    sent: list[Any] = []
    for at in range(0, len(request["text"]), 5):
        sent += wire.feed(reading.feed(request["text"][at : at + 5]))
    sent += wire.feed(reading.finish("stop"))
    assert [one["chunk"] for one in seen["chunks"]["chat"]] == sent
    for chunk in sent:
        client.feed(chunk)
    assert client.finish().content == seen["message"]["content"]
    assert seen["chunks"]["messages"][-1]["chunk"]["type"] == "message_stop"
    assert seen["chunks"]["responses"][-1]["chunk"]["type"] == "response.completed"


# -- examples


def test_malformed_call_has_a_caret() -> None:
    seen = play(text=BROKEN, dialect="hermes")
    (diagnostic,) = (each for each in seen["diagnostics"] if each["kind"] == "malformed_call")
    assert BROKEN[diagnostic["at"]] == "}"
    line, caret = diagnostic["caret"].split("\n")
    assert line[len(caret) - 1] == "}"
    assert [part["status"] for part in seen["message"]["parts"]] == ["malformed"]
    assert all(broken for _, _, kind, broken in seen["spans"] if kind == "arguments")


def test_strict_policies_still_show_the_output() -> None:
    seen = play(text=BROKEN, dialect="hermes", policies={"malformed_call": "error"})
    assert seen["message"] is None
    assert "expected a digit" in seen["diagnostics"][0]["error"]
    assert seen["decided"] == len(BROKEN)


def test_position_survives_another_chunk_size() -> None:
    assert play(text="abcdefgh", dialect="hermes", chunk=3, at=4)["position"] == 2
    assert play(text="abcdefgh", dialect="hermes", chunk=3, at=0)["position"] == 0
    assert play(text="abcdefgh", dialect="hermes", chunk=3)["position"] == 4


def test_dialect_may_be_a_declaration() -> None:
    declared = dialect_to_json(get_dialect("hermes"))
    assert play(text=BROKEN, dialect=declared)["spans"] == play(text=BROKEN, dialect="hermes")["spans"]


def test_open_call_is_shown_while_it_grows() -> None:
    text = '<tool_call>{"name": "now", "arguments": {"city": "Os'
    seen = play(text=text, dialect="hermes", position=1, chunk=1000)
    assert seen["message"]["parts"][0] == {
        "kind": "call", "id": seen["message"]["parts"][0]["id"], "name": "now", "arguments": '{"city": "Os',
        "status": "open", "raw": "",
    }  # fmt: skip
    assert [text[start:end] for start, end, kind, _ in seen["spans"] if kind == "name"] == ["now"]


def test_every_dialect_has_sample_outputs() -> None:
    start = answer({"ask": "dialects"})
    assert [dialect["name"] for dialect in start["dialects"]] == NAMES
    result = answer({"ask": "examples", "dialect": "harmony"})
    assert result["sample"]["text"] == recorded("harmony")["text"]
    assert {"The ten standard patterns", "Malformed calls"} <= {group["title"] for group in result["groups"]}
    for preset in start["presets"]:
        assert bool(play(**preset)["diagnostics"]) == (
            preset["title"] in ("A broken call", "Cut off in a call")
        )


# -- corpus cases


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "harmony", "kimi_k2", "pythonic"])
def test_copied_case_passes(name: str) -> None:
    examples = answer({"ask": "examples", "dialect": name})
    outputs = [examples["sample"], *(case for group in examples["groups"] for case in group["cases"][:3])]
    copied: list[TestCase] = []
    for output in outputs:
        made = answer({"ask": "case", **output, "dialect": name, "tools": examples["tools"][output["tools"]]})
        copied.append(TestCase.from_json(made["case"]))
        assert made["line"] == copied[-1].to_line()
    report = Runner(unspool_adapter(), ["whole", "characters"], minimise=False).run(copied)
    assert [(result.case.model_output, result.worst) for result in report.failed] == []
    assert len(report.results) == len(copied)


# -- detection and labels


@real
def test_template_detection_gives_reasons() -> None:
    path = next(path for name, path in TEMPLATES.items() if "hermes" in name.lower())
    result = answer({"ask": "detect", "name": "t.jinja", "text": path.read_text(encoding="utf-8")})
    assert result["use"] == "hermes"
    assert result["evidence"]
    config = {"chat_template": path.read_text(encoding="utf-8")}
    request = {"ask": "detect", "name": "tokenizer_config.json", "text": json.dumps(config)}
    assert answer(request)["use"] == "hermes"


def test_partial_header_asks_for_more() -> None:
    assert answer({"ask": "detect", "base64": "\x80"})["error"].startswith("the field base64 is not valid: ")
    data = base64.b64encode(b"GGUF\x03\x00\x00\x00" + bytes(8)).decode()
    assert answer({"ask": "detect", "base64": data})["kind"] == "TruncatedHeader"


def added(id: int, content: str, *, special: bool = False) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": content, "special": special, **flags}


TOKENIZER = json.dumps(
    {
        "added_tokens": [
            added(2, "<tool_call>"),
            added(3, "</tool_call>"),
            added(4, "<|im_end|>", special=True),
        ],
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "merges": [], "vocab": {"Hi": 0, '{"name":Ġ"now",Ġ"arguments":Ġ{}}': 1}},
    }
)


def test_every_token_has_a_label() -> None:
    request = {"ask": "labels", "dialect": "hermes", "text": "Hi", "tokenizer_json": TOKENIZER}
    result = answer({**request, "ids": [0, 2, 1, 3, 4]})
    assert [token["kind"] for token in result["tokens"]] == ["content", "call", "call", "call", "end"]
    assert result["tokens"][2]["shared"]
    assert "".join(token["text"] for token in result["tokens"]).startswith("Hi<tool_call>{")


def test_tokenizer_file_is_read_without_its_package() -> None:
    from tokenizers import Tokenizer

    from unspool._core.token_ids.tokenizer_adapters import as_tokenizer

    ours, theirs = as_tokenizer(_File(json.loads(TOKENIZER))), as_tokenizer(Tokenizer.from_str(TOKENIZER))
    assert ours.special_tokens() == theirs.special_tokens()
    assert [ours.token_bytes(id) for id in (0, 1)] == [theirs.token_bytes(id) for id in (0, 1)]


# -- errors

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.text(max_size=20), st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.sampled_from(["name", "preset", "commit", "function"]), st.text(max_size=5), max_size=2
    ),
)  # fmt: skip
FIELDS = (
    """text tools policies prompt finish_reason chunk position window apis at ids tokenizer_json base64"""
)
REQUESTS = st.fixed_dictionaries(
    {"ask": st.sampled_from(["play", "case", "labels", "detect", "examples", "dialects", "what"])},
    optional={
        **dict.fromkeys(FIELDS.split(), VALUES),
        "dialect": st.one_of(VALUES, st.sampled_from(NAMES)),
    },
)


@given(REQUESTS)
def test_no_request_raises(request: dict[str, Any]) -> None:
    json.dumps(answer(request))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"ask": "paly"}, "choose one of dialects, examples, play"),
        ({"ask": "play", "text": "a", "dialect": "hermez"}, "did you mean hermes"),
        ({"ask": "play", "text": 3, "dialect": "hermes"}, "text must be a string, got int"),
        ({"ask": "play", "dialect": "hermes", "policies": {"commit": "late"}}, "choose one of name, call"),
        ({"ask": "play", "dialect": "hermes", "tools": {"a": 1}}, "tools must be a list"),
        ({"ask": "detect", "text": "no template"}, "not a chat template"),
        ({"ask": "labels", "dialect": "hermes", "tokenizer_json": "{}"}, "has no field 'model'"),
    ],
)
def test_errors_suggest_a_fix(request_: dict[str, Any], expected: str) -> None:
    assert expected in answer(request_)["error"]


def test_normalised_events_do_not_depend_on_chunk_size() -> None:
    request = recorded("qwen3_coder")

    def events(chunk: int) -> list[Any]:
        reading = parser("qwen3_coder")
        pieces = [request["text"][at : at + chunk] for at in range(0, len(request["text"]), chunk)]
        return normalise([event for piece in pieces for event in reading.feed(piece)])

    for one, other in pairwise([1, 3, 8]):
        assert events(one) == events(other)
        spans = [play(**request, chunk=chunk, apis=[])["spans"] for chunk in (one, other)]
        assert spans[0] == spans[1]
