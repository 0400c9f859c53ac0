"""Token ids: markers are special tokens, and text that spells a marker stays text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from unspool import Event, Message, Parser, Text, UsageError, get_dialect, list_dialects, render
from unspool._core.render.example_output import EXAMPLE, example
from unspool.events import normalise

MARKERS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>"]
CALL = '{"name": "f", "arguments": {"c": "東京 😀 <tool_call>"}}'


def _hugging_face() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["Hello there, the weather is fine.", CALL], trainer)
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    return tokenizer


TOKENIZER = _hugging_face()


def spell(text: str) -> list[int]:
    """Return ordinary tokens that spell a text, including its markers."""
    plain = Tokenizer.from_str(TOKENIZER.to_str())
    return [id for piece in _split_markers(text) for id in plain.encode(piece).ids]


def _split_markers(text: str) -> list[str]:
    """Cut a text inside its markers, so that no tokenizer sees a whole marker."""
    for marker in MARKERS:
        text = text.replace(marker, marker[:1] + "\0" + marker[1:])
    return text.split("\0")


def token(marker: str) -> int:
    id = TOKENIZER.token_to_id(marker)
    assert id is not None
    return id


def read(ids: list[int], sizes: list[int] | None = None) -> tuple[list[Event], Message]:
    parser = Parser("hermes", tokenizer=TOKENIZER, new_id=lambda name, index: f"{name}{index}")
    fold = parser.fold()
    events: list[Event] = []
    rest = list(ids)
    for size in sizes or [1] * len(ids):
        events += parser.feed_tokens(rest[:size])
        rest = rest[size:]
    events += parser.feed_tokens(rest)
    events += parser.finish("stop")
    fold.feed(events)
    return events, fold.message


REAL = [token("<think>"), *spell("Hm."), token("</think>"), *spell("Use <tool_call> tags. é")]
REAL += [token("<tool_call>"), *spell(CALL), token("</tool_call>"), token("<|im_end|>")]
TEXT = f"<think>Hm.</think>Use <tool_call> tags. é<tool_call>{CALL}</tool_call><|im_end|>"


def test_spelled_marker_is_text() -> None:
    _, message = read(REAL)
    assert message.reasoning == "Hm."
    assert message.content == "Use <tool_call> tags. é"
    (call,) = message.tool_calls
    assert (call.name, call.arguments) == ("f", '{"c": "東京 😀 <tool_call>"}')


def test_prose_is_not_held_back() -> None:
    parser = Parser("hermes", tokenizer=TOKENIZER)
    shown = [event.text for event in parser.feed_tokens(spell("a <tool")) if isinstance(event, Text)]
    assert "".join(shown) == "a <tool"


def test_spans_refer_to_decoded_text() -> None:
    events, _ = read(REAL)
    at = 0
    for event in normalise(events):
        assert event.start in (at, event.end)
        at = max(at, event.end)
        if isinstance(event, Text):
            assert TEXT[event.start : event.end] == event.text
    assert at == len(TEXT)


@given(st.lists(st.integers(0, 9), max_size=30))
def test_grouping_of_ids_does_not_matter(sizes: list[int]) -> None:
    whole, message = read(REAL, [len(REAL)])
    events, again = read(REAL, sizes)
    assert normalise(events) == normalise(whole)
    assert again == message


def test_character_split_over_tokens_is_whole() -> None:
    parser = Parser("hermes", tokenizer=TOKENIZER)
    pieces = [
        event.text for id in spell("😀") for event in parser.feed_tokens([id]) if isinstance(event, Text)
    ]
    assert pieces == ["😀"]


def test_text_and_ids_cannot_be_mixed() -> None:
    with pytest.raises(UsageError, match="feed_tokens"):
        Parser("hermes", tokenizer=TOKENIZER).feed("text")
    with pytest.raises(UsageError, match="tokenizer"):
        Parser("hermes").feed_tokens([1])


# -- Mistral's own vocabularies


def _mistral(version: str) -> Any:
    tokenizers = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    if version == "tekken":
        return tokenizers.MistralTokenizer.v3(is_tekken=True)
    pytest.importorskip("sentencepiece")
    return getattr(tokenizers.MistralTokenizer, version)()


@pytest.mark.parametrize("version", ["v3", "v7", "tekken"])
def test_vocabulary_selects_the_mistral_grammar(version: str) -> None:
    assert get_dialect("mistral", tokenizer=_mistral(version)).name == "mistral_v3"


class _Version11:
    """A vocabulary with the control tokens of the later tokenizers."""

    def token_bytes(self, id: int) -> bytes:
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        return {300: "[TOOL_CALLS]", 301: "[ARGS]", 302: "[THINK]", 303: "[/THINK]"}


def test_later_vocabulary_selects_the_compact_grammar() -> None:
    parser = Parser("mistral", tokenizer=_Version11())
    assert parser.dialect.name == "mistral_v11"
    fold = parser.fold()
    fold.feed(parser.feed_tokens([300, *b"f", 301, *b'{"a": "[ARGS]"}', *b" [TOOL_CALLS]"]))
    fold.feed(parser.finish())
    message = fold.message
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a": "[ARGS]"}')]
    assert message.content == "[TOOL_CALLS]"


def test_both_grammars_are_read_without_a_tokenizer() -> None:
    assert get_dialect("mistral").name == "mistral"


@pytest.mark.parametrize("version", ["v3", "tekken"])
def test_call_in_mistral_tokens_is_read(version: str) -> None:
    own = _mistral(version)
    inner = own.instruct_tokenizer.tokenizer
    ids = [inner.get_special_token("[TOOL_CALLS]") if hasattr(inner, "get_special_token") else 5]
    ids += inner.encode('[{"name": "f", "arguments": {"c": "東京 😀 [TOOL_CALLS]"}}]', bos=False, eos=False)
    parser = Parser("mistral", tokenizer=own)
    fold = parser.fold()
    for id in ids:
        fold.feed(parser.feed_tokens([id]))
    fold.feed(parser.finish("stop"))
    (call,) = fold.message.tool_calls
    assert (call.name, call.arguments) == ("f", '{"c": "東京 😀 [TOOL_CALLS]"}')


# -- every dialect


class _Bytes:
    """A byte vocabulary in which every control token of a dialect is one token."""

    def __init__(self, specials: tuple[str, ...]) -> None:
        self.specials = {256 + number: text for number, text in enumerate(specials)}

    def token_bytes(self, id: int) -> bytes:
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        return self.specials

    def encode(self, text: str) -> list[int]:
        longest_first = sorted(self.specials.items(), key=lambda pair: -len(pair[1]))
        ids: list[int] = []
        at = 0
        while at < len(text):
            match = next(((id, marker) for id, marker in longest_first if text.startswith(marker, at)), None)
            ids += text[at].encode() if match is None else [match[0]]
            at += 1 if match is None else len(match[1])
        return ids


def _numbered(name: str, index: int) -> str:
    return f"{name}{index}"


def _control_tokens(name: str) -> tuple[str, ...]:
    """Return every control token in a dialect's templates."""
    tokens = re.findall(r"<[|｜][^<>{}]*?[|｜]>|\[/?[A-Z_]{3,}\]", repr(get_dialect(name)))
    return tuple(sorted(set(tokens)))


def _read_both_ways(name: str, written: str) -> tuple[Message, Message]:
    vocabulary = _Bytes(_control_tokens(name))
    text = Parser(name, new_id=_numbered)
    ids = Parser(name, new_id=_numbered, tokenizer=vocabulary)
    whole, fold = text.fold(), ids.fold()
    whole.feed(text.feed(written) + text.finish("stop"))
    for id in vocabulary.encode(written):
        fold.feed(ids.feed_tokens([id]))
    fold.feed(ids.finish("stop"))
    return fold.message, whole.message


@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects()])
def test_ids_give_the_same_result_as_text(name: str) -> None:
    actual, expected = _read_both_ways(name, example(get_dialect(name))[0])
    assert actual == expected
    dialect = get_dialect(name)
    if dialect.call or dialect.frame is not None:
        # Render without text, because some dialects accept calls only at the beginning.
        actual, expected = _read_both_ways(name, render(Message(tool_calls=EXAMPLE.tool_calls), name))
        assert actual == expected
        assert [call.name for call in actual.tool_calls] == ["get_weather", "now"]


# -- control tokens that are not markup of the dialect

OTHERS = (
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<|im_end|>",
    "<|vision|>",
    "<table>",
    "[IMG]",
)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_unknown_control_tokens_are_dropped(size: int) -> None:
    vocabulary = _Bytes(OTHERS)
    text = '<|vision|>A <table>[IMG] 東<tool_call>{"name": "f", "arguments": {"a": "[IMG]"}}</tool_call>'
    ids = vocabulary.encode(text)
    parser = Parser("hermes", tokenizer=vocabulary)
    events = [event for i in range(0, len(ids), size) for event in parser.feed_tokens(ids[i : i + size])]
    events += parser.finish("stop")
    message = parser.message(events)
    assert message.content == "A <table> 東"
    assert message.tool_calls[0].arguments == '{"a": "[IMG]"}'
    assert [(diagnostic.kind, diagnostic.detail, diagnostic.start) for diagnostic in message.diagnostics] == [
        ("dropped_token", "<|vision|>", 0),
        ("dropped_token", "[IMG]", text.index("[IMG]")),
    ]
    ends = [0, *(event.end for event in events)]
    assert [event.start for event in events] == ends[:-1]


def test_tokens_marked_special_are_dropped() -> None:
    tokenizer = Tokenizer.from_str(TOKENIZER.to_str())
    tokenizer.add_special_tokens([AddedToken("<bos>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<table>", normalized=False)])
    parser = Parser("hermes", tokenizer=tokenizer)
    ids = tokenizer.encode("<bos>Hello <table>").ids
    assert parser.message(parser.feed_tokens(ids) + parser.finish()).content == "Hello <table>"


def test_spelled_token_is_text() -> None:
    parser = Parser("hermes", tokenizer=_Bytes(OTHERS))
    assert parser.message(parser.feed_tokens(list(b"See [IMG].")) + parser.finish()).content == "See [IMG]."
