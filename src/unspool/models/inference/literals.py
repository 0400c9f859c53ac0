"""Search for objects and calls in the notations in which models write arguments."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_DECODER: Final = json.JSONDecoder(strict=False)
_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}


def json_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield start, end and value of every JSON object in a text; outer objects come before inner ones."""
    for match in re.finditer(r"\{", text):
        found = json_object_at(text, match.start())
        if found is not None:
            yield match.start(), *found


def json_object_at(text: str, at: int) -> tuple[int, dict[str, Any]] | None:
    """Return end and value of the JSON object that begins at an offset."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return (end, value) if isinstance(value, dict) else None


def python_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield start, end and value of every Python dict in a text; outer ones come before inner ones."""
    for match in re.finditer(r"\{", text):
        end = end_of_brackets(text, match.start())
        if not end:
            continue
        try:
            value = ast.literal_eval(text[match.start() : end])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict):
            yield match.start(), end, value


def end_of_keywords(text: str, at: int) -> int:
    """Return the end of the arguments of a Python call, which begin at an offset; 0 if there are none."""
    end = end_of_brackets(text, at) if text[at : at + 1] == "(" else 0
    if not end:
        return 0
    try:
        tree = ast.parse(f"f{text[at:end]}", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return 0
    if not isinstance(tree, ast.Call):
        return 0
    # The only positional argument may be a dict with all arguments.
    keywords_only = not tree.args or (not tree.keywords and isinstance(tree.args[0], ast.Dict))
    return end if keywords_only and len(tree.args) < 2 else 0


def end_of_brackets(text: str, at: int, quotes: tuple[str, ...] = ('"', "'")) -> int:
    """Return the end of the brackets that open at an offset; 0 if they are not closed.

    :param quotes: delimiters of strings; only a quotation mark may be escaped inside its string.
    """
    stack: list[str] = []
    while at < len(text):
        quote = next((each for each in quotes if text.startswith(each, at)), "")
        if quote:
            end = _end_of_string(text, at + len(quote), quote)
            if not end:
                return 0
            at = end
            continue
        character = text[at]
        at += 1
        if character in _PAIRS:
            stack.append(_PAIRS[character])
        elif stack and character == stack[-1]:
            stack.pop()
            if not stack:
                return at
        elif character in ")]}":
            return 0
    return 0


def _end_of_string(text: str, at: int, quote: str) -> int:
    while True:
        end = text.find(quote, at)
        if end < 0:
            return 0
        escapes = len(text[:end]) - len(text[:end].rstrip("\\")) if len(quote) == 1 else 0
        at = end + len(quote)
        if escapes % 2 == 0:
            return at
