"""A model directory, token ids, and several choices from an engine that gives one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

from gateways import CHATML, EngineProcess, GatewayThread, fetch, post, serving

WORDS = ["<unk>", "Hi", "<", "tool_call", ">", '{"name":"f","arguments":{}}', "</", "a"]
TOOL = {"type": "function", "function": {"name": "f"}}
ASK = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "chat_template.jinja").write_text("{{ bos_token }}" + CHATML)
    config = {"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [50, 51]}))
    tokenizer = Tokenizer(WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    markers = ["<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(marker, special=True) for marker in markers])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def ask(gateway: GatewayThread, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = post(f"{gateway.url}/v1/chat/completions", {"messages": ASK, **body})
    return answer


def test_model_directory_provides_everything(engine: EngineProcess, directory: Path) -> None:
    with serving(upstream="completions", url=engine.url, model_dir=str(directory)) as gateway:
        assert gateway.gateway.model.family == "hermes"
        engine.script("Hi")
        ask(gateway, tools=[TOOL])
        seen = engine.last()
        assert seen["prompt"].startswith("<s><|im_start|>")
        assert set(seen["stop_token_ids"]) >= {50, 51}
        assert seen["skip_special_tokens"] is False  # this tokenizer flags the markers as special
        engine.script("Hi")
        ask(gateway, ignore_eos=True)
        assert engine.last()["ignore_eos"] is True
        assert "stop_token_ids" not in engine.last()


def test_engine_that_adds_bos_gets_a_prompt_without_it(engine: EngineProcess, directory: Path) -> None:
    with serving(
        upstream="completions", url=engine.url, engine="sglang", model_dir=str(directory)
    ) as gateway:
        engine.script("Hi")
        ask(gateway)
        assert engine.last()["prompt"].startswith("<|im_start|>")


def test_token_ids_distinguish_markers_from_spelled_text(engine: EngineProcess, directory: Path) -> None:
    vocabulary = Tokenizer.from_file(str(directory / "tokenizer.json"))
    opener, closer = (vocabulary.token_to_id(marker) for marker in ("<tool_call>", "</tool_call>"))
    spelled = [
        {"text": "<", "token_ids": [2]},
        {"text": "tool_call", "token_ids": [3]},
        {"text": ">", "token_ids": [4]},
        {"text": WORDS[5], "token_ids": [5]},
    ]
    markup = [
        {"text": "<tool_call>", "token_ids": [opener]},
        {"text": WORDS[5], "token_ids": [5]},
        {"text": "</tool_call>", "token_ids": [closer]},
    ]
    settings = {"upstream": "completions", "url": engine.url, "model_dir": str(directory), "token_ids": True}
    with serving(**settings) as gateway:
        engine.script(*spelled)
        message = ask(gateway, tools=[TOOL])["choices"][0]["message"]
        assert message["content"].replace(" ", "") == "<tool_call>" + WORDS[5]
        assert "tool_calls" not in message
        assert engine.last()["return_token_ids"] is True
        engine.script(*markup)
        message = ask(gateway, tools=[TOOL])["choices"][0]["message"]
        assert message["tool_calls"][0]["function"]["name"] == "f"


def test_choices_do_not_share_a_seed(engine: EngineProcess, directory: Path) -> None:
    with serving(upstream="completions", url=engine.url, engine="tgi", model_dir=str(directory)) as gateway:
        for _ in range(3):
            engine.script("Hi")
        before = len(engine.seen())
        answer = ask(gateway, n=3, seed=7)
        assert [choice["message"]["content"] for choice in answer["choices"]] == ["Hi"] * 3
        assert answer["usage"]["prompt_tokens"] == 7
        assert answer["usage"]["completion_tokens"] == 15
        assert sorted(one["body"]["seed"] for one in engine.seen()[before:]) == [7, 8, 9]


def test_one_failed_choice_fails_the_request(engine: EngineProcess, directory: Path) -> None:
    with serving(upstream="completions", url=engine.url, engine="tgi", model_dir=str(directory)) as gateway:
        engine.script("Hi")
        engine.script("Hi", die=True)
        answer = ask(gateway, n=2)
        assert answer["error"]["code"] == "upstream_lost"
        engine.script(status=500)
        engine.script("Hi")
        assert ask(gateway, n=2)["error"]["code"] == "upstream_error"


def test_protected_options_do_not_reach_the_engine(engine: EngineProcess, directory: Path) -> None:
    with serving(upstream="completions", url=engine.url, model_dir=str(directory)) as gateway:
        before = len(engine.seen())
        for field in ({"prompt": "other"}, {"echo": True}, {"suffix": "x"}, {"best_of": 9}):
            assert ask(gateway, **field)["error"]["param"] == next(iter(field))
        assert len(engine.seen()) == before


def test_model_names_and_aliases_are_matched(engine: EngineProcess, directory: Path) -> None:
    settings = {"upstream": "completions", "url": engine.url, "model_dir": str(directory)}
    with serving(**settings, model="mine", aliases=("also",), strict_model_names=True) as gateway:
        for name in ("mine", "also", "", None):
            engine.script("Hi")
            assert ask(gateway, model=name)["model"] == "mine"
        assert ask(gateway, model="engine-model")["error"]["code"] == "model_not_found"
        assert fetch(f"{gateway.url}/v1/models/engine-model")[0] == 404
    with serving(**settings, aliases=("*",), strict_model_names=True) as gateway:
        engine.script("Hi")
        assert ask(gateway, model="claude-x")["model"] == "engine-model"


def test_policies_reach_parser_and_encoder(engine: EngineProcess, directory: Path) -> None:
    settings = {"upstream": "completions", "url": engine.url, "model_dir": str(directory)}
    with serving(
        **settings, policies={"reasoning_field": "reasoning", "malformed_call": "repair"}
    ) as gateway:
        engine.script("<think>a</think><tool_call>{'name': 'f', 'arguments': {}}</tool_call>")
        message = ask(gateway, tools=[TOOL])["choices"][0]["message"]
    assert message["reasoning"] == "a"
    assert "reasoning_content" not in message
    assert message["tool_calls"][0]["function"]["name"] == "f"
