"""A label for every token: laws over every dialect, then particular tokens."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tokenizers import Tokenizer

from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Markup,
    Message,
    Parser,
    Text,
    UsageError,
    get_dialect,
    list_dialects,
    render,
)
from unspool._core.render.example_output import EXAMPLE_TOOLS, example
from unspool._core.token_ids.labels import labels_of, stretches
from unspool.dialects._registry import ends_of_turn
from unspool.events import normalise
from unspool.testing import mutate
from unspool.tokens import LABEL_MASK, Label, LabelFlag, Reading, label_tokens, mask
from vocabularies import Bytes, bytes_for, real_vocabulary

NAMES = [dialect.name for dialect in list_dialects()]
REAL = [
    ("hermes", "qwen3"),
    ("qwen3_coder", "qwen3"),
    ("deepseek_v3_1", "deepseek_v3"),
    ("llama3_json", "llama3_2"),
    ("pythonic", "gemma3"),
]
HERMES = (
    "<think>\nThe user wants 日本 😀🎉.\n</think>\n\nLet me look.\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ōsaka"}}\n</tool_call><|im_end|>'
)
each_dialect = pytest.mark.parametrize("dialect", NAMES)


def texts_of(ids: list[int], tokenizer: Bytes, labels: bytes) -> dict[Label, str]:
    """Return the text of the tokens of each label."""
    data = dict.fromkeys(Label, b"")
    special = tokenizer.special_tokens()
    for id, label in zip(ids, labels, strict=True):
        data[Label(label & LABEL_MASK)] += special[id].encode() if id in special else bytes([id])
    return {label: text_bytes.decode(errors="replace") for label, text_bytes in data.items()}


@each_dialect
def test_labels_follow_the_message(dialect: str) -> None:
    tokenizer = bytes_for(dialect)
    spec = get_dialect(dialect, tokenizer=tokenizer)
    text, message = example(spec)
    ids = tokenizer.encode(text)
    reading = label_tokens(ids, dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS, finish_reason="stop")
    assert visible(reading.message) == visible(message)
    texts = texts_of(ids, tokenizer, reading.labels)
    assert spec.habits.echo + texts[Label.CONTENT] == (message.content or "")
    assert texts[Label.REASONING] == (message.reasoning or "")
    assert texts[Label.NAME] == "".join(call.name for call in message.tool_calls)
    values = [value for call in message.tool_calls for value in json.loads(call.arguments).values()]
    assert all(str(value) in texts[Label.ARGUMENTS] for value in values)
    assert not any(label & (LabelFlag.SHARED | LabelFlag.BROKEN) for label in reading.labels)
    for attempt, call in zip(reading.attempts, message.tool_calls, strict=True):
        assert (attempt.name, attempt.arguments, attempt.status) == (call.name, call.arguments, "complete")
        start, end = attempt.name_span
        assert bytes(ids[start:end]).decode() == call.name


def visible(message: Message) -> object:
    return message.content, message.reasoning, [(call.name, call.arguments) for call in message.tool_calls]


@each_dialect
def test_every_id_has_a_label_in_any_grouping(dialect: str) -> None:
    tokenizer = bytes_for(dialect)
    random = Random(dialect)  # noqa: S311
    text = example(get_dialect(dialect))[0].replace("Paris", "Orléans 😀")
    for _ in range(4):
        ids = tokenizer.encode(text)
        reading = label_tokens(ids, dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS)
        assert len(reading.labels) == len(ids)
        assert labels_in_groups(dialect, ids, tokenizer, random) == reading.labels
        broken = [attempt for attempt in reading.attempts if attempt.status != "complete"]
        flagged = any(label & LabelFlag.BROKEN for label in reading.labels)
        cut = any(isinstance(event, Markup) and event.kind == "cut" for event in reading.events)
        assert flagged == any(attempt.start < attempt.end for attempt in broken) or cut
        text = mutate(text, random)


def labels_in_groups(dialect: str, ids: list[int], tokenizer: Bytes, random: Random) -> bytes:
    """Return the labels of ids that arrive a few at a time."""
    parser = Parser(dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS)
    widths = parser.measure_tokens()
    events: list[Event] = []
    at = 0
    while at < len(ids):
        size = random.randint(1, 5)
        events += parser.feed_tokens(ids[at : at + size])
        at += size
    events = normalise(events + parser.finish())
    shown = parser.tidy().feed(events)
    return labels_of(widths, stretches(events, shown, ends_of_turn(parser.dialect)))


@pytest.mark.parametrize(
    ("widths", "spans", "labels"),
    [
        ([2, 2], [(2, 1), (4, 2)], [1, 2]),
        ([3, 1], [(2, 1), (4, 2)], [1 + LabelFlag.SHARED, 2]),
        ([3, 1], [(2, 1), (4, 1)], [1, 1]),
        (
            [4, 1],
            [(1, 1), (2, 1), (3, 2), (5, 2)],
            [1 + LabelFlag.SHARED, 2],
        ),  # the flag is kept
        ([4, 1], [(1, 1), (2, 2), (3, 1), (5, 1)], [1 + LabelFlag.SHARED, 1]),
        ([1, 0, 0, 1], [(1, 1), (2, 2)], [1, 1, 1, 2]),  # tokens that are parts of one character
        ([3], [(2, 1)], [1]),  # no span follows
        ([], [(0, 1)], []),
    ],
)
def test_token_over_several_spans_has_one_label(
    widths: list[int], spans: list[tuple[int, int]], labels: list[int]
) -> None:
    assert list(labels_of(widths, spans)) == labels


def by_characters(reading: Reading, text: str, ends: frozenset[str]) -> list[int]:
    """Label each character by its event, as the reference for tokens."""
    labels = [int(Label.MARKUP)] * len(text)
    head: CallStart | None = None
    for event in reading.events:
        span = range(event.start, event.end)
        if isinstance(event, Text) and event.text.strip():
            first = event.start + len(event.text) - len(event.text.lstrip("\r\n"))
            for at in range(first, event.start + len(event.text.rstrip())):
                labels[at] = Label.REASONING if event.channel == "reasoning" else Label.CONTENT
        elif isinstance(event, Markup) and (event.text in ends or event.kind in ("call", "separator")):
            for at in span:
                labels[at] = Label.END if event.text in ends else Label.CALL
        elif isinstance(event, CallStart | CallArgs | CallEnd):
            head = event if isinstance(event, CallStart) else head
            for at in span:
                labels[at] = Label.CALL
        if isinstance(event, CallEnd) and head is not None:
            for at in range(event.args_start, event.args_end):
                labels[at] = Label.ARGUMENTS
            for at in range(head.name_start, head.name_end):
                labels[at] = Label.NAME
    return labels


@pytest.mark.parametrize(("dialect", "model"), REAL)
def test_real_token_is_labelled_by_its_first_character(dialect: str, model: str) -> None:
    tokenizer = real_vocabulary(model)
    for text in (
        example(get_dialect(dialect))[0],
        example(get_dialect(dialect))[0].replace("Paris", "東京 😀"),
    ):
        encoded = tokenizer.encode(text, add_special_tokens=False)
        reading = label_tokens(encoded.ids, dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS)
        wanted = by_characters(reading, text, ends_of_turn(get_dialect(dialect)))
        for (start, end), label in zip(encoded.offsets, reading.labels, strict=True):
            assert label & LABEL_MASK == wanted[start], text[start:end]
            assert bool(label & LabelFlag.SHARED) == (len(set(wanted[start:end])) > 1), text[start:end]


# -- text of a token


def test_split_character_is_labelled_where_it_begins() -> None:
    tokenizer = bytes_for("hermes")
    ids = tokenizer.encode("<think>é</think>日")
    reading = label_tokens(ids, "hermes", tokenizer=tokenizer)
    assert [Label(label).name for label in reading.labels] == [
        "MARKUP", "REASONING", "REASONING", "MARKUP", "CONTENT", "CONTENT", "CONTENT",
    ]  # fmt: skip
    assert reading.spans[1] == (1, 3)


@pytest.mark.parametrize("tail", [[0xE6], [0xE6, 0x97], [0xFF], [0xE6, 0xE6, 0x41]])
def test_invalid_bytes_are_text(tail: list[int]) -> None:
    reading = label_tokens([*b"ab", *tail], "hermes", tokenizer=bytes_for("hermes"))
    assert reading.labels == bytes([Label.CONTENT]) * (2 + len(tail))
    assert (reading.message.content or "").startswith("ab\ufffd")


def test_incomplete_character_before_a_marker_is_text() -> None:
    tokenizer = bytes_for("hermes")
    think, closer = tokenizer.markers["<think>"], tokenizer.markers["</think>"]
    reading = label_tokens([think, 0xE6, closer, 0x41], "hermes", tokenizer=tokenizer)
    assert [Label(label).name for label in reading.labels] == ["MARKUP", "REASONING", "MARKUP", "CONTENT"]


def test_spelled_marker_is_content() -> None:
    tokenizer = bytes_for("hermes")
    reading = label_tokens(list(b"<tool_call>"), "hermes", tokenizer=tokenizer)
    assert set(reading.labels) == {Label.CONTENT}


def test_tokens_of_a_malformed_call_say_so() -> None:
    tokenizer = bytes_for("hermes")
    text = '<tool_call>{"name": "f", "arguments": {"a": 1'
    reading = label_tokens(tokenizer.encode(text), "hermes", tokenizer=tokenizer, finish_reason="length")
    assert all(label & LabelFlag.BROKEN for label in reading.labels)
    (attempt,) = reading.attempts
    assert (attempt.status, attempt.start, attempt.end) == ("truncated", 0, len(reading.labels))
    (diagnostic,) = reading.diagnostics
    assert (diagnostic.kind, diagnostic.start, diagnostic.end) == ("truncated_call", 0, len(reading.labels))
    assert not any(reading.mask(broken=False))


def test_padding_has_its_own_label() -> None:
    tokenizer = bytes_for("hermes")
    end = tokenizer.markers["<|im_end|>"]
    for ids, pad, wanted in (
        ([65, end, -100, -100], None, [1, 7, 8, 8]),
        ([65, end, end, end], end, [1, 7, 8, 8]),
        ([65, end, 0, 0], 0, [1, 7, 8, 8]),
        ([-100], None, [8]),
        ([], None, []),
    ):
        assert list(label_tokens(ids, "hermes", tokenizer=tokenizer, pad=pad).labels) == wanted


def test_masks_select_labels() -> None:
    tokenizer = bytes_for("hermes")
    reading = label_tokens(tokenizer.encode("<think>a</think>b<|im_end|>"), "hermes", tokenizer=tokenizer)
    assert list(reading.mask()) == [1, 1, 1, 1, 1]
    assert list(reading.mask(Label.CONTENT, Label.END)) == [0, 0, 0, 1, 1]
    assert list(mask(bytes([Label.CONTENT + LabelFlag.SHARED, Label.CONTEXT]))) == [1, 0]


def test_prompt_decides_the_start_channel() -> None:
    tokenizer = bytes_for("hermes")
    prompt = tokenizer.encode("<|im_start|>assistant\n<think>\n")
    reading = label_tokens(tokenizer.encode("a</think>b"), "hermes", tokenizer=tokenizer, prompt_ids=prompt)
    assert list(reading.labels) == [Label.REASONING, Label.MARKUP, Label.CONTENT]
    output: Any = tokenizer.encode("a</think>b")
    for given in (prompt, "<|im_start|>assistant\n<think>\n"):
        assert label_tokens(output, "hermes", tokenizer=tokenizer, prompt=given).labels == reading.labels
    with pytest.raises(UsageError, match=r"either prompt= or prompt_ids="):
        label_tokens(output, "hermes", tokenizer=tokenizer, prompt="", prompt_ids=prompt)


class Tensor:
    """The part of an array interface that is used."""

    def __init__(self, values: list[object]) -> None:
        self.values = values

    def tolist(self) -> list[object]:
        return self.values


def test_arrays_are_accepted() -> None:
    tokenizer = bytes_for("hermes")
    assert label_tokens(Tensor([65, 66]), "hermes", tokenizer=tokenizer).message.content == "AB"
    assert label_tokens((65, 66), "hermes", tokenizer=tokenizer).message.content == "AB"
    with pytest.raises(UsageError, match="one by one"):
        label_tokens(Tensor([[65], [66]]), "hermes", tokenizer=tokenizer)


def test_unknown_ids_are_an_error() -> None:
    tokenizer = real_vocabulary("qwen3")
    with pytest.raises(UsageError, match="no token with the id 10000000"):
        label_tokens([10_000_000, 1], "hermes", tokenizer=tokenizer)


def test_token_widths_are_measured_from_the_first_id() -> None:
    parser = Parser("hermes", tokenizer=bytes_for("hermes"))
    parser.feed_tokens([65])
    with pytest.raises(UsageError, match="before the first ids"):
        parser.measure_tokens()
    with pytest.raises(UsageError, match="tokenizer"):
        Parser("hermes").measure_tokens()


def test_rendered_and_encoded_message_is_labelled_as_written() -> None:
    tokenizer: Tokenizer = real_vocabulary("qwen3")
    message = Message(content="Let me look.", reasoning="The user wants 日本 😀🎉.")
    text = render(message, "hermes")
    reading = label_tokens(
        tokenizer.encode(text, add_special_tokens=False).ids, "hermes", tokenizer=tokenizer
    )
    assert (reading.message.content, reading.message.reasoning) == (message.content, message.reasoning)
