"""The test wrappers of the matchers of llama.cpp and xgrammar."""

from __future__ import annotations

import pytest

from matchers import Llama, XGrammar, needs_llama, needs_xgrammar

GBNF = 'root ::= "a" [^<]* "</x>" end?\nend ::= [\\x00-\\x1F] | "｜"{2,3}\n'


@needs_llama
def test_llama_matcher_matches() -> None:
    match = Llama(GBNF)
    assert [match(text) for text in ("abc</x>", "a</x>｜｜", "a</x>\n")] == [True] * 3
    assert [match(text) for text in ("abc", "ab<c</x>", "b</x>", "a</x>｜", "a</x>x", "")] == [False] * 6
    assert match.explain("ab<c</x>") == "'ab<', then not 'c</x>'"


@needs_llama
def test_llama_matcher_refuses_an_invalid_grammar(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="does not read"):
        Llama("root ::= missing")


@needs_xgrammar
def test_xgrammar_matcher_matches() -> None:
    match = XGrammar.from_gbnf(GBNF)
    assert [match(text) for text in ("abc</x>", "a</x>｜｜", "a</x>\n")] == [True] * 3
    assert [match(text) for text in ("abc", "ab<c</x>", "b</x>", "a</x>｜", "a</x>x", "")] == [False] * 6
    assert match.explain("ab<c</x>") == "'ab<', then not 'c</x>'"


@needs_xgrammar
def test_xgrammar_matcher_reads_structural_tags() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tag = {
        "type": "tag",
        "begin": "<c>",
        "content": {"type": "json_schema", "json_schema": schema},
        "end": "</c>",
    }
    match = XGrammar.from_tag({"type": "structural_tag", "format": tag})
    assert match('<c>{"n": 1}</c>')
    assert not match('<c>{"n": "1"}</c>')
