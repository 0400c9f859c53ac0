"""Spellings of true, false and null in JSON, in Python and in the output of models."""

from __future__ import annotations

from typing import Final

PYTHON_TO_JSON: Final = {"True": "true", "False": "false", "None": "null"}
JSON_TO_PYTHON: Final = {word: python for python, word in PYTHON_TO_JSON.items()}
WORDS: Final = {**PYTHON_TO_JSON, **{word: word for word in JSON_TO_PYTHON}}
"""JSON spelling of true, false and null, by their JSON or Python spelling."""
LOOSE_WORDS: Final = {
    **WORDS,
    **{word.upper(): word for word in JSON_TO_PYTHON},
    **dict.fromkeys(("none", "nil", "NIL"), "null"),
}
"""JSON spelling of true, false and null, by any spelling that models use, such as ``TRUE`` or ``nil``.

These are for notations with unquoted strings.
"""
