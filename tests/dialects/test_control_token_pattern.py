"""Control tokens: one pattern, checked against every marker of the built-in dialects."""

from __future__ import annotations

import pytest

from unspool.dialects._control_token_pattern import CONTROL_TOKEN, is_control_token, split_at_control_tokens
from unspool.dialects._registry import built_in_dialects
from unspool.dialects.list_templates_and_markers import dialect_texts
from unspool.dialects.parse_templates import Literal, parse_template

HTML_LIKE = {"</s>", "<end_of_turn>"}


def markers() -> list[str]:
    texts = {
        piece.text.strip()
        for dialect in built_in_dialects()
        for template in dialect_texts(dialect)
        for piece in parse_template(template)
        if isinstance(piece, Literal)
    }
    return sorted(texts - {""})


@pytest.mark.parametrize(
    "token",
    ["<|im_end|>", "<｜User｜>", "<|turn>", "<turn|>", '<|"|>', "[TOOL_CALLS]", "[/INST]", "\ud800", "</s>",
     "<start_of_turn>"],
)  # fmt: skip
def test_control_tokens_are_found_in_text(token: str) -> None:
    assert [match[0] for match in CONTROL_TOKEN.finditer(f"a {token}b")] == [token]


@pytest.mark.parametrize(
    "text",
    ["<tool_call>", "<b>", "a | b", "Array<string|number>", "x <|> y", "f <|| g", "[x]", "[AB]", "<| a |>"],
)
def test_prose_and_code_hold_no_control_token(text: str) -> None:
    assert CONTROL_TOKEN.search(text) is None


def test_text_and_marker_rules_agree_on_declared_markers() -> None:
    disagreeing = {
        marker for marker in markers() if CONTROL_TOKEN.fullmatch(marker) and not is_control_token(marker)
    }
    assert disagreeing == HTML_LIKE


def test_pieces_of_control_tokens_are_markers_too() -> None:
    assert is_control_token('<｜DSML｜invoke name="')
    assert not CONTROL_TOKEN.search('<｜DSML｜invoke name="')


def test_literals_are_split_in_front_of_control_tokens() -> None:
    assert split_at_control_tokens("<|a|>b<|c|>") == ["<|a|>b", "<|c|>"]
    assert split_at_control_tokens("</\ud800invoke>") == ["</\ud800invoke>"]
