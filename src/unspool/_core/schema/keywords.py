"""Python's words and JSON's: true, false and null in every spelling that models use."""

from __future__ import annotations

from typing import Final

PYTHON_TO_JSON: Final = {"True": "true", "False": "false", "None": "null"}
JSON_TO_PYTHON: Final = {word: python for python, word in PYTHON_TO_JSON.items()}
WORDS: Final = {**PYTHON_TO_JSON, **{word: word for word in JSON_TO_PYTHON}}
"""Either spelling, and JSON's."""
LOOSE_WORDS: Final = {
    **WORDS,
    **{word.upper(): word for word in JSON_TO_PYTHON},
    **dict.fromkeys(("none", "nil", "NIL"), "null"),
}
"""The same for notations in which a word needs no quotes."""
