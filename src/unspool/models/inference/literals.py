"""Search for objects and calls in the notations in which models write arguments."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_DECODER: Final = json.JSONDecoder(strict=False)
_NOT_PYTHON: Final = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
"""Errors of ``ast`` for text that is not Python, or too large."""
_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore warnings about invalid escapes in strings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
            with _no_warnings():
                value = ast.literal_eval(text[match.start() : end])
        except _NOT_PYTHON:
            continue
        if isinstance(value, dict):
            yield match.start(), end, value


def end_of_keywords(text: str, at: int) -> int:
    """Return the end of the arguments of a Python call, which begin at an offset; 0 if there are none."""
    end = end_of_brackets(text, at) if text[at : at + 1] == "(" else 0
    if not end:
        return 0
    try:
        with _no_warnings():
            tree = ast.parse(f"f{text[at:end]}", mode="eval").body
    except _NOT_PYTHON:
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
    tokens = re.compile("|".join((*map(re.escape, quotes), r"[()\[\]{}]")))
    stack: list[str] = []
    while match := tokens.search(text, at):
        token = match[0]
        at = match.end()
        if token in quotes:
            at = _end_of_string(text, at, token)
            if not at:
                return 0
        elif token in _PAIRS:
            stack.append(_PAIRS[token])
        elif not stack or token != stack.pop():
            return 0
        elif not stack:
            return at
    return 0


def _end_of_string(text: str, at: int, quote: str) -> int:
    """Return the offset after the delimiter that ends a string; 0 if there is none."""
    if len(quote) > 1:
        end = text.find(quote, at)
        return end + len(quote) if end >= 0 else 0
    found = re.compile(rf"(?:[^{quote}\\]|\\.)*+{quote}", re.DOTALL).match(text, at)
    return found.end() if found else 0
