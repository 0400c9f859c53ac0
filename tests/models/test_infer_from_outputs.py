"""Dialects that are inferred from raw outputs, without a chat template."""

from __future__ import annotations

import json
import random
from unittest.mock import patch

import pytest

from invented_formats import FORMATS
from unspool import Dialect, Message, UsageError, dialects, get_dialect, list_dialects, parse
from unspool.dialects import _registry as registry
from unspool.models import InferredDialect, infer_dialect
from varied_messages import TOOLS, VariedMessages, comparable, rendered_outputs

DIALECTS = (
    "apertus",
    "cohere",
    "command_r",
    "deepseek_v3",
    "deepseek_v3_2",
    "gemma4",
    "glm45",
    "granite",
    "hermes",
    "kimi_k2",
    "kimi_k3",
    "lfm2",
    "llama3_json",
    "minimax_m2",
    "minimax_m3",
    "mistral_v11",
    "plamo3",
    "pythonic",
    "qwen3_coder",
    "solar_open",
)
"""Built-in dialects, one of each shape of calls."""
SEEN, FRESH = 40, 200
"""Number of outputs from which a dialect is inferred, and on which it is tried."""


def same_messages(inferred: InferredDialect, outputs: list[tuple[str, Message]]) -> int:
    """Return the number of outputs that the inferred dialect parses to the expected messages."""
    return sum(
        comparable(parse(text, inferred.dialect, tools=TOOLS)) == comparable(message)
        for text, message in outputs
    )


def infer_built_in(name: str, seed: int) -> int:
    """Infer a dialect again from its outputs, and return the number of fresh outputs that it parses alike."""
    dialect = get_dialect(name)
    seen = [text for text, _ in rendered_outputs(dialect, SEEN, seed)]
    with patch.dict(registry._dialects, clear=True):  # nothing is registered
        inferred = infer_dialect(seen, tools=TOOLS)
    return same_messages(inferred, list(rendered_outputs(dialect, FRESH, seed + 1)))


def invented_outputs(name: str, count: int, seed: int) -> list[tuple[str, Message]]:
    """Return outputs in an invented format, with their messages."""
    source = VariedMessages(seed)
    messages = (source.message() for _ in range(2 * count))
    spoken = [each for each in messages if each.content or each.reasoning or each.tool_calls]
    return [(FORMATS[name](message), message) for message in spoken[:count]]


def infer_invented(name: str, seed: int) -> int:
    seen = [text for text, _ in invented_outputs(name, SEEN, seed)]
    inferred = infer_dialect(seen, tools=TOOLS, dialects=())
    return same_messages(inferred, invented_outputs(name, FRESH, seed + 1))


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "pythonic"])
def test_outputs_of_a_dialect_give_an_equal_dialect(name: str) -> None:
    assert infer_built_in(name, seed=11) == FRESH


def test_outputs_of_an_invented_format_give_a_dialect() -> None:
    assert infer_invented("lines", seed=11) == FRESH


@pytest.mark.slow
def test_built_in_dialects_are_inferred_from_their_outputs() -> None:
    found = {name: infer_built_in(name, seed=21) for name in DIALECTS}
    equal = [name for name, same in found.items() if same == FRESH]
    assert len(equal) >= 15, found


@pytest.mark.slow
def test_invented_formats_are_inferred_from_their_outputs() -> None:
    found = {name: infer_invented(name, seed=21) for name in FORMATS}
    equal = [name for name, same in found.items() if same == FRESH]
    assert len(equal) >= 4, found


@pytest.mark.slow
def test_inference_never_fails_on_any_dialect() -> None:
    for dialect in list_dialects():
        if dialect.name == "minimax_append_think":  # it expresses no message of its own
            continue
        seen = [text for text, _ in rendered_outputs(dialect, SEEN, seed=31)]
        inferred = infer_dialect(seen, tools=TOOLS, dialects=())
        assert len(inferred.proofs) == SEEN


PIECES = (
    *(
        "<think>",
        "</think>",
        "<tool>",
        "</tool>",
        "<|x|>",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "'",
        "\\",
        "=",
        ",",
        ":",
    ),
    *("{text}", "{{calls}}", "{name}", "get_weather", "now", "city", "name", "Hello", "a.b", "3", " ", "\n"),
    *('"city": "Oslo"', '{"city": "Oslo"}', "(city='x')", "{city:1}", "<arg city>"),
    *('{"name": "now", "arguments": {}}', "\U000f0000", "\ud800"),
)


@pytest.mark.parametrize("seed", range(20))
def test_inference_never_fails_on_random_outputs(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311
    common = source.choices(PIECES, k=source.randint(1, 8))
    outputs: list[str] = []
    for _ in range(source.randint(1, 12)):
        pieces = list(common)
        for _ in range(source.randint(0, 4)):
            pieces.insert(source.randint(0, len(pieces)), source.choice(PIECES))
        outputs.append("".join(pieces))
    inferred = infer_dialect(outputs, tools=TOOLS, dialects=())
    assert len(inferred.proofs) == len(outputs)


# -- evidence


def outputs_of(name: str, seed: int = 41, count: int = 20) -> list[str]:
    return [text for text, _ in rendered_outputs(get_dialect(name), count, seed)]


def test_proofs_say_what_was_parsed_and_rendered() -> None:
    inferred = infer_dialect(outputs_of("hermes"), tools=TOOLS)
    assert [proof.line for proof in inferred.proofs] == list(range(1, 21))
    assert {str(proof) for proof in inferred.proofs} == {"parsed, rendered back, equal"}
    assert not inferred.unexplained
    assert repr(inferred) == "InferredDialect('inferred', explained=20/20)"


def test_registered_dialects_with_the_same_messages_are_named() -> None:
    assert "hermes" in infer_dialect(outputs_of("hermes"), tools=TOOLS).same_as


def test_outputs_of_another_format_are_not_explained() -> None:
    odd = "<|odd|>get_weather<|odd_args|>{}<|odd_end|>"
    inferred = infer_dialect([*outputs_of("hermes"), odd], tools=TOOLS)
    assert [proof.line for proof in inferred.unexplained] == [21]
    assert "<|odd|>" in str(inferred.unexplained[0])


def test_truncated_outputs_do_not_change_the_dialect() -> None:
    whole = outputs_of("qwen3_coder", count=40)
    calls = [text for text in whole if text.endswith("</tool_call>")]
    inferred = infer_dialect([*whole, *(text[:-20] for text in calls[:4])], tools=TOOLS, dialects=())
    assert inferred.dialect == infer_dialect(whole, tools=TOOLS, dialects=()).dialect
    assert {proof.line for proof in inferred.unexplained} == {41, 42, 43, 44}


def test_declaration_is_python_source_of_the_dialect() -> None:
    inferred = infer_dialect(outputs_of("pythonic"), tools=TOOLS, name="mine")
    scope = dict(vars(dialects), Dialect=Dialect)
    exec(inferred.declaration, scope)  # noqa: S102 - the source was made here
    assert scope["MINE"] == inferred.dialect


def test_result_is_serializable() -> None:
    found = infer_dialect(outputs_of("glm45"), tools=TOOLS, dialects=()).to_dict()
    assert json.loads(json.dumps(found))["explained"] == found["outputs"] == 20


# -- special cases


def test_closer_without_opener_means_that_the_prompt_opens_reasoning() -> None:
    texts = [text.removeprefix("<think>\n") for text in outputs_of("hermes", count=40)]
    seeded = [text for text in texts if "</think>" in text]
    inferred = infer_dialect(seeded, tools=TOOLS, dialects=())
    assert inferred.dialect.prompt.start == "<think>"
    assert not inferred.unexplained
    message = parse("Hm.\n</think>\n\nHi.", inferred.dialect)
    assert (message.reasoning, message.content) == ("Hm.", "Hi.")


def test_marker_at_the_end_of_all_outputs_is_a_stop_marker() -> None:
    texts = [f"{text}<|im_end|>" for text in outputs_of("hermes", count=40)]
    inferred = infer_dialect(texts, tools=TOOLS, dialects=())
    assert inferred.dialect.stop == ("<|im_end|>",)
    assert not inferred.unexplained


def test_outputs_without_calls_give_reasoning_only() -> None:
    texts = [
        text for text in outputs_of("granite", count=60) if "tool_call" not in text and "get_" not in text
    ]
    inferred = infer_dialect(texts, tools=TOOLS, dialects=())
    assert not inferred.dialect.call
    assert inferred.evidence == ("No calls were found in the outputs.",)


def test_outputs_may_have_tools_of_their_own() -> None:
    rows = [{"text": text, "tools": TOOLS, "id": 7} for text in outputs_of("hermes")]
    assert not infer_dialect(rows, dialects=()).unexplained


@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        ([], "there are no outputs"),
        ("text", "takes several outputs"),
        ([{"tools": []}], "output 1 has no text"),
        ([{"text": "", "tools": "hermes"}], "output 1: "),
        (["Hi."], "no output has tools"),
    ],
)
def test_unusable_outputs_are_refused(outputs: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        infer_dialect(outputs)
