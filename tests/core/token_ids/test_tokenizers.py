"""Token ids to text, with the tokenizers of real models."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from unspool import Parser
from unspool._core.token_ids import tokenizer_adapters as _tokens
from unspool._core.token_ids.detokenizer import Detokenizer, OffsetMap, restore
from unspool._core.token_ids.tokenizer_adapters import (
    Tokenizer,
    as_encoder,
    as_tokenizer,
    assign_code_points,
    substitute,
)
from unspool.errors import UsageError
from vocabularies import trained_on

METASPACE = "\u2581"
BAR = "\uff5c"  # the bar in DeepSeek's markers
DSML = f"{BAR}DSML{BAR}"

ADDED = ["<tool_call>", "</tool_call>", "<think>", DSML]

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    'call me: {"name": "get_weather", "arguments": {"city": "Zürich", "unit": "°C"}}',
    "Use the <tool_call> tag, then </tool_call>; or <think> first.",
    "  leading, trailing and\tinner   white space \r\n\n\n  ",
    "naïve façade, Привет мир, こんにちは世界, 你好\uff0c世界, مرحبا, नमस्ते",
    "emoji 🦊🚀 👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 \u200d \ufeff \ufffd",
    "[TOOL_CALLS] [ARGS] </s> <s> <0x0A> <unk>",
    "x" * 70,
    "\U0010ffff\u0000\u0001",
    "",
]

# --- vocabularies


@cache
def byte_level() -> HuggingFaceTokenizer:
    tokenizer = trained_on(SENTENCES, size=400, special=["<|im_end|>"])
    tokenizer.add_tokens([AddedToken(literal, special=False, normalized=False) for literal in ADDED])
    tokenizer.add_tokens(["   ", "\n\n"])  # like Phi and OLMo
    return tokenizer


def unigram(decoder: decoders.Decoder | None) -> HuggingFaceTokenizer:
    words = [
        METASPACE,
        f"{METASPACE}the",
        f"{METASPACE}quick",
        f"{METASPACE}get",
        "_weather",
        "na",
        "ï",
        "ve",
    ]
    letters = [chr(code) for code in range(0x21, 0x7F)]
    vocabulary = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -20.0) for byte in range(256))]
    vocabulary += [(word, -2.0) for word in words] + [(letter, -5.0) for letter in letters]
    tokenizer = HuggingFaceTokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens([AddedToken(literal, special=False, normalized=False) for literal in ADDED])
    # Like Gemma: runs of spaces are added tokens that are spelled like ordinary pieces.
    tokenizer.add_tokens([AddedToken(METASPACE * 3, normalized=False), AddedToken("\n\n", normalized=False)])
    return tokenizer


@cache
def llama_like() -> HuggingFaceTokenizer:
    steps = [
        decoders.Replace(METASPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    return unigram(decoders.Sequence(steps))


@cache
def metaspace() -> HuggingFaceTokenizer:
    return unigram(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]))


def mistral_file(name: str) -> Path:
    import mistral_common

    return Path(mistral_common.__file__).parent / "data" / name


@cache
def mistral(name: str) -> MistralTokenizer:  # type: ignore[type-arg]
    if ".model" in name and importlib.util.find_spec("sentencepiece") is None:
        pytest.skip("sentencepiece is not installed")
    return MistralTokenizer.from_file(str(mistral_file(name)))


@dataclass
class Vocabulary:
    """A real tokenizer with its own encoding and decoding."""

    source: object
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    dummy_space: bool = False
    """``decode`` removes a leading space; ours is in the middle of a text."""

    @property
    def tokenizer(self) -> Tokenizer:
        return as_tokenizer(self.source)


def hugging_face(source: HuggingFaceTokenizer, *, dummy_space: bool = False) -> Vocabulary:
    return Vocabulary(
        source,
        lambda text: list(source.encode(text, add_special_tokens=False).ids),
        lambda ids: str(source.decode(list(ids), skip_special_tokens=False)),
        dummy_space,
    )


def mistral_common(name: str) -> Vocabulary:
    source = mistral(name)
    inner = source.instruct_tokenizer.tokenizer
    return Vocabulary(
        source,
        lambda text: inner.encode(text, bos=False, eos=False),
        # SentencePiece keeps control tokens only together with its own spelling of spaces.
        lambda ids: inner.decode(
            list(ids), SpecialTokenPolicy.KEEP if "tekken" in name else SpecialTokenPolicy.IGNORE
        ),
        ".model" in name,
    )


V3 = "mistral_instruct_tokenizer_240323.model.v3"
V7 = "mistral_instruct_tokenizer_241114.model.v7"
TEKKEN = "tekken_240911.json"

VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "byte_level": lambda: hugging_face(byte_level()),
    "llama_like": lambda: hugging_face(llama_like(), dummy_space=True),
    "metaspace": lambda: hugging_face(metaspace(), dummy_space=True),
    "mistral_v1": lambda: mistral_common("tokenizer.model.v1"),
    "mistral_v3": lambda: mistral_common(V3),
    "mistral_v7": lambda: mistral_common(V7),
    "mistral_tekken": lambda: mistral_common(TEKKEN),
}
every_vocabulary = pytest.mark.parametrize("name", VOCABULARIES)


def text_of(ids: Iterable[int], tokenizer: Tokenizer, code_points: Mapping[str, str] | None = None) -> str:
    detokenizer = Detokenizer(tokenizer, code_points or {})
    return detokenizer.feed(ids) + detokenizer.finish()


def back(code_points: Mapping[str, str]) -> dict[str, str]:
    return {code_point: literal for literal, code_point in code_points.items()}


class Toy:
    """A custom tokenizer: ids below 256 are bytes."""

    def __init__(self, *special: str) -> None:
        self.special = {256 + number: literal for number, literal in enumerate(special)}

    def token_bytes(self, id: int) -> bytes:
        return [bytes([byte]) for byte in range(256)][id]

    def special_tokens(self) -> Mapping[int, str]:
        return self.special


# --- decoding


@every_vocabulary
@pytest.mark.parametrize("text", SENTENCES)
def test_text_equals_the_tokenizer_decoding(name: str, text: str) -> None:
    vocabulary = VOCABULARIES[name]()
    ids = vocabulary.encode(text)
    ours = text_of(ids, vocabulary.tokenizer)
    if vocabulary.dummy_space:
        ours = ours.removeprefix(" ")
    assert ours == vocabulary.decode(ids)


@every_vocabulary
@given(data=st.data())
def test_any_text_equals_the_tokenizer_decoding(name: str, data: st.DataObject) -> None:
    vocabulary = VOCABULARIES[name]()
    ids = vocabulary.encode(data.draw(st.text()))
    ours = text_of(ids, vocabulary.tokenizer)
    if vocabulary.dummy_space:
        ours = ours.removeprefix(" ")
    assert ours == vocabulary.decode(ids)


@pytest.mark.parametrize(("name", "size"), [("byte_level", 400), ("mistral_tekken", 131_072)])
@given(data=st.data())
def test_any_ids_equal_a_byte_level_decoding(name: str, size: int, data: st.DataObject) -> None:
    # This includes broken characters and special tokens.
    vocabulary = VOCABULARIES[name]()
    ids = data.draw(st.lists(st.one_of(st.integers(0, 20), st.integers(0, size - 1))))
    tokenizer = vocabulary.tokenizer
    code_points = assign_code_points(tokenizer.special_tokens().values(), tokenizer)
    text = text_of(ids, tokenizer, code_points)
    assert restore(text, back(code_points)) == vocabulary.decode(ids)


@every_vocabulary
@given(data=st.data())
def test_grouping_of_ids_does_not_matter(name: str, data: st.DataObject) -> None:
    tokenizer = VOCABULARIES[name]().tokenizer
    special = sorted(tokenizer.special_tokens())[:8]
    ordinary = st.integers(0, 350)
    ids = data.draw(st.lists(st.one_of(ordinary, st.sampled_from(special))))
    code_points = assign_code_points(list(tokenizer.special_tokens().values())[:4], tokenizer)
    detokenizer = Detokenizer(tokenizer, code_points)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    groups = [ids[start:end] for start, end in pairwise([0, *cuts, len(ids)])]
    text = "".join(map(detokenizer.feed, groups)) + detokenizer.finish()
    assert text == text_of(ids, tokenizer, code_points)
    for position in range(len(text) + 1):
        plain = restore(text[:position], back(code_points))
        assert detokenizer.offsets.to_text(position) == len(plain)


@pytest.mark.parametrize("name", ["byte_level", "llama_like", "mistral_v3", "mistral_tekken"])
def test_character_split_over_tokens_is_whole(name: str) -> None:
    vocabulary = VOCABULARIES[name]()
    text = "𓀀 🜲 𒐫"  # characters that are in no vocabulary
    ids = vocabulary.encode(text)
    assert len(ids) > len(text)
    detokenizer = Detokenizer(vocabulary.tokenizer, {})
    pieces = [detokenizer.feed([id]) for id in ids]
    assert detokenizer.finish() == ""
    assert "" in pieces
    assert "".join(pieces).lstrip() == text


def test_incomplete_character_is_replaced_at_the_end() -> None:
    fox = list("🦊".encode())
    tokenizer = Toy("<think>", "<pad>")
    code_points = assign_code_points(["<think>"], tokenizer)
    detokenizer = Detokenizer(tokenizer, code_points)
    assert detokenizer.feed(fox[:3]) == ""
    assert detokenizer.feed([256]) == "\ufffd" + code_points["<think>"]
    assert detokenizer.feed(fox[:2]) == ""
    assert detokenizer.feed([257]) == "\ufffd<pad>"
    assert detokenizer.feed(fox[:1]) == ""
    assert detokenizer.feed(b"a") == "\ufffda"
    assert detokenizer.feed(fox[:1]) == ""
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.finish() == ""


_BROKEN = (b"\xed", b"\xed\xa0", b"\xa0", b"\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xf4\x90", b"\xc0", b"a")


@given(pieces=st.lists(st.sampled_from([*_BROKEN, None]), max_size=6))
def test_invalid_bytes_decode_as_in_one_piece(pieces: list[bytes | None]) -> None:
    """This includes an incomplete surrogate at the end, or before a dropped special token (None)."""

    class Broken(Toy):
        def token_bytes(self, id: int) -> bytes:
            return _BROKEN[id]

        def special_tokens(self) -> Mapping[int, str]:
            return {len(_BROKEN): "<pad>"}

    detokenizer = Detokenizer(as_tokenizer(Broken()), {})
    widths = detokenizer.measure()
    ids = [len(_BROKEN) if piece is None else _BROKEN.index(piece) for piece in pieces]
    text = "".join(detokenizer.feed([id]) for id in ids) + detokenizer.finish()
    assert text == b"".join(b"<pad>" if piece is None else piece for piece in pieces).decode(errors="replace")
    assert sum(widths) == len(text)


def test_encoded_surrogate_is_not_a_code_point() -> None:
    smuggled = "\ud800".encode("utf-8", "surrogatepass")
    assert text_of(smuggled, Toy()) == "\ufffd" * 3


# --- special tokens ---


def test_special_tokens_become_code_points_and_mentions_stay_text() -> None:
    source = byte_level()
    tokenizer = as_tokenizer(source)
    code_points = assign_code_points(["<tool_call>", "</tool_call>", "<function="], tokenizer)
    assert set(code_points) == {"<tool_call>", "</tool_call>"}
    markup = source.encode('<tool_call>{"name": "f"}</tool_call>').ids
    # A model that writes about the tag spells the same characters with ordinary tokens.
    mentioned = [id for character in "<tool_call>" for id in source.encode(character).ids]
    text = text_of([*markup, *mentioned], tokenizer, code_points)
    opener, closer = code_points["<tool_call>"], code_points["</tool_call>"]
    assert text == f'{opener}{{"name": "f"}}{closer}<tool_call>'


@pytest.mark.parametrize("name", [V3, V7, TEKKEN])
def test_mistral_control_tokens_are_found(name: str) -> None:
    source = mistral(name)
    inner = source.instruct_tokenizer.tokenizer
    tokenizer = as_tokenizer(source)
    code_points = assign_code_points(["[TOOL_CALLS]", "[ARGS]", "</s>"], tokenizer)
    assert list(code_points) == ["</s>", "[TOOL_CALLS]"]
    call = inner.encode('[{"name": "f"}]', bos=False, eos=True)
    mention = inner.encode("Not [TOOL_CALLS].", bos=False, eos=False)
    ids = [*mention, inner.get_special_token("[TOOL_CALLS]"), *call]
    text = text_of(ids, tokenizer, code_points).replace(" ", "")
    assert text == f'Not[TOOL_CALLS].{code_points["[TOOL_CALLS]"]}[{{"name":"f"}}]{code_points["</s>"]}'
    # A control token that the dialect does not know becomes its literal.
    assert text_of([inner.get_special_token("[INST]")], tokenizer, code_points) == "[INST]"


def test_special_flag_does_not_matter() -> None:
    # Qwen's <tool_call> is an added token that is not flagged as special.
    assert {"<|im_end|>", *ADDED} == set(as_tokenizer(byte_level()).special_tokens().values())


@pytest.mark.parametrize("source", [byte_level, llama_like, metaspace])
def test_added_whitespace_is_text(source: Callable[[], HuggingFaceTokenizer]) -> None:
    tokenizer = as_tokenizer(source())
    assert not any(literal.strip(f" \n{METASPACE}") == "" for literal in tokenizer.special_tokens().values())
    for piece, text in (("   ", "   "), (METASPACE * 3, "   "), ("\n\n", "\n\n")):
        id = source().token_to_id(piece)
        if id is not None:
            assert text_of([id], tokenizer) == text
    assert assign_code_points(["a   b\n\nc"], tokenizer) == {}


def test_code_points_are_distinct_surrogates_in_a_fixed_order() -> None:
    literals = ["</tool_call>", "<tool_call>", f"<{DSML}invoke"]
    tokenizer = Toy("<think>", DSML, "</tool_call>", "<tool_call>")
    code_points = assign_code_points(literals, tokenizer)
    assert code_points == {"</tool_call>": "\ud800", "<tool_call>": "\ud801", DSML: "\ud802"}
    other = Toy("<tool_call>", "<|end|>", "</tool_call>", DSML)
    assert list(assign_code_points(reversed(literals), other).items()) == list(code_points.items())


def test_meaningless_tokens_get_no_code_point() -> None:
    tokenizer = Toy("<", " ", "\n\n", "<x>")
    assert list(assign_code_points(["<x>\n\n ", "<y>"], tokenizer)) == ["<x>"]


def test_token_does_not_match_across_literals() -> None:
    assert assign_code_points(["<tool", "_call>"], Toy("<tool_call>")) == {}


def test_too_many_code_points_are_refused() -> None:
    literals = [f"<{number}>" for number in range(2049)]
    assert len(assign_code_points(literals[:-1], Toy(*literals))) == 2048
    with pytest.raises(UsageError, match="2049 special tokens"):
        assign_code_points(literals, Toy(*literals))


def test_substitute_is_leftmost_longest() -> None:
    code_points = {"<a>": "\ud800", "<a><b>": "\ud801", "b>c": "\ud802", DSML: "\ud803", "a.c": "\ud804"}
    assert substitute("<a>x<a><b>c", code_points) == "\ud800x\ud801c"
    assert substitute("<b>c", code_points) == "<\ud802"
    assert substitute(f"</{DSML}invoke>", code_points) == "</\ud803invoke>"
    assert substitute("abc a.c", code_points) == "abc \ud804"
    assert substitute("<a>", {}) == "<a>"


@given(st.text("ab<>é\u2581", max_size=20))
def test_restore_undoes_substitute(text: str) -> None:
    code_points = {"<a>": "\ud800", "<b>": "\ud801", "a\u2581": "\ud802", "<a><b>": "\ud803"}
    assert restore(substitute(text, code_points), back(code_points)) == text


# --- offsets ---


@given(st.lists(st.integers(0, 40), unique=True).map(sorted), st.lists(st.integers(0, 60)))
def test_offsets_sum_widths_before_a_position(places: list[int], queries: list[int]) -> None:
    offsets = OffsetMap()
    for number, place in enumerate(places):
        offsets.note(place, number)
    for query in queries:  # queries may come in any order
        before = sum(number for number, place in enumerate(places) if place < query)
        assert offsets.to_text(query) == query + before


def test_offsets_may_be_queried_while_recording() -> None:
    offsets = OffsetMap()
    assert offsets.to_text(3) == 3
    offsets.note(3, 10)
    assert [offsets.to_text(position) for position in (3, 4, 5)] == [3, 14, 15]
    offsets.note(5, 1)
    assert [offsets.to_text(position) for position in (5, 6, 2)] == [15, 17, 2]


# --- recognised tokenizers


def test_every_tokenizer_wrapper_is_unwrapped() -> None:
    source = mistral(TEKKEN)
    layers = [source, source.instruct_tokenizer, source.instruct_tokenizer.tokenizer]
    assert {as_tokenizer(layer).token_bytes(1032) for layer in layers} == {b" "}
    fast = SimpleNamespace(backend_tokenizer=byte_level())  # the shape of a fast tokenizer in Transformers
    processor = SimpleNamespace(tokenizer=fast)
    for layer in (fast, processor):
        assert as_tokenizer(layer).special_tokens() == as_tokenizer(byte_level()).special_tokens()


def test_custom_tokenizer_is_used_as_it_is() -> None:
    toy = Toy()
    assert as_tokenizer(toy) is toy
    adapted = as_tokenizer(byte_level())
    assert as_tokenizer(adapted) is adapted


def test_custom_tokenizer_is_asked_once_per_token() -> None:
    class CountingToy(Toy):
        times = 0

        def token_bytes(self, id: int) -> bytes:
            self.times += 1
            return super().token_bytes(id)

    toy = CountingToy("<tool_call>")
    for _ in range(3):
        parser = Parser("hermes", tokenizer=toy)
        assert len(parser.feed_tokens(b"aaba") + parser.finish()) == 2
    assert toy.times == 2


def test_unwrapping_is_per_object_not_per_class() -> None:
    toy = Toy()
    bare = SimpleNamespace(token_bytes=toy.token_bytes, special_tokens=toy.special_tokens)
    assert as_tokenizer(bare) is bare
    assert as_tokenizer(SimpleNamespace(tokenizer=toy)) is toy


@pytest.mark.parametrize("wrong", [None, "gpt2", Path("tokenizer.json"), SimpleNamespace(tokenizer=None)])
def test_other_objects_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"tokenizers\.Tokenizer, .* token_bytes"):
        as_tokenizer(wrong)


def test_self_referential_object_is_refused() -> None:
    loop = SimpleNamespace()
    loop.tokenizer = loop
    with pytest.raises(UsageError):
        as_tokenizer(loop)


@every_vocabulary
@pytest.mark.parametrize("id", [-1, 10_000_000, 2**40])
def test_unknown_id_is_named(name: str, id: int) -> None:
    vocabulary = VOCABULARIES[name]()
    detokenizer = Detokenizer(vocabulary.tokenizer, {})
    ids = vocabulary.encode("abc")
    with pytest.raises(UsageError, match=f"id {id}:"):
        detokenizer.feed([*ids, id])
    # None of these tokens changed the state, so the caller may continue.
    assert (detokenizer.feed(ids) + detokenizer.finish()).strip() == "abc"


def test_vocabulary_cache_follows_the_tokenizer_lifetime() -> None:
    source = unigram(decoders.Metaspace())
    before = len(_tokens._VOCABULARIES)
    first, second = as_tokenizer(source), as_tokenizer(source)
    assert first.special_tokens() is second.special_tokens()
    assert first.token_bytes(300) is second.token_bytes(300)
    assert len(_tokens._VOCABULARIES) == before + 1
    del source
    gc.collect()
    assert first.token_bytes(257) == b" "  # the adapter keeps its tokenizer alive ...
    del first, second
    gc.collect()
    assert len(_tokens._VOCABULARIES) == before  # ... and nothing else does


# --- decoders that depend on neighbouring tokens


def words(decoder: decoders.Decoder | None) -> HuggingFaceTokenizer:
    vocabulary = {"[UNK]": 0, "play": 1, "##ing": 2, "foxes": 3, "ß": 4, ".": 5, "play</w>": 6, "re": 7}
    tokenizer = HuggingFaceTokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(["<tool_call>"])
    return tokenizer


class Shouting:
    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [token.upper() for token in tokens]


@pytest.mark.parametrize(
    ("decoder", "ids", "text"),
    [
        (decoders.WordPiece(), [3, 1, 2, 4, 5], " foxes playing ß."),
        (decoders.BPEDecoder(suffix="</w>"), [7, 6, 3], "replay foxes"),
        (decoders.Decoder.custom(Shouting()), [3, 1], "FOXESPLAY"),
        (decoders.Replace("s", "z"), [3, 1], "foxezplay"),
        (None, [3, 1], " foxes play"),
    ],
    ids=["wordpiece", "suffix", "custom", "replace", "none"],
)
def test_other_decoders_are_supported(decoder: decoders.Decoder | None, ids: list[int], text: str) -> None:
    tokenizer = as_tokenizer(words(decoder))
    assert text_of(ids, tokenizer) == text
    assert text_of([8], tokenizer, {"<tool_call>": "\ud800"}) == "\ud800"


# --- encoding


def test_tekken_encodes_special_tokens_in_text() -> None:
    encoder = as_encoder(mistral(TEKKEN))
    special = {literal: id for id, literal in encoder.special_tokens().items()}
    text = "[INST]Weather in 東京?[/INST]It rains.</s>"
    ids = list(encoder.encode(text))
    assert [ids[0], ids[-1]] == [special["[INST]"], special["</s>"]]
    assert special["[/INST]"] in ids
    assert text_of(ids, encoder) == text


def test_tokenizer_without_encode_is_explained() -> None:
    with pytest.raises(UsageError, match="cannot encode text that contains special tokens"):
        as_encoder(Toy("<tool_call>"))
