"""Spellings of true, false and null in JSON, Python and the output of models."""

from __future__ import annotations

from typing import Final

PYTHON_TO_JSON: Final = {"True": "true", "False": "false", "None": "null"}
JSON_TO_PYTHON: Final = {word: python for python, word in PYTHON_TO_JSON.items()}
WORDS: Final = {**PYTHON_TO_JSON, **{word: word for word in JSON_TO_PYTHON}}
"""JSON words by their JSON or Python spelling."""
LOOSE_WORDS: Final = {
    **WORDS,
    **{word.upper(): word for word in JSON_TO_PYTHON},
    **dict.fromkeys(("none", "nil", "NIL"), "null"),
}
"""JSON words by any spelling, for notations that write strings without quotes."""
