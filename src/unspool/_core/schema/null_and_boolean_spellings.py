"""Spellings of true, false and null in JSON, in Python and in the output of models."""

from __future__ import annotations

from typing import Final

PYTHON_TO_JSON: Final = {"True": "true", "False": "false", "None": "null"}
JSON_TO_PYTHON: Final = {word: python for python, word in PYTHON_TO_JSON.items()}
WORDS: Final = {**PYTHON_TO_JSON, **{word: word for word in JSON_TO_PYTHON}}
"""Map from the JSON and Python spellings of true, false and null to the JSON spelling."""
LOOSE_WORDS: Final = {
    **WORDS,
    **{word.upper(): word for word in JSON_TO_PYTHON},
    **dict.fromkeys(("none", "nil", "NIL"), "null"),
}
"""Map from all spellings of true, false and null in model outputs, such as ``nil``, to the JSON spelling.

Notations with unquoted strings use this map.
"""
