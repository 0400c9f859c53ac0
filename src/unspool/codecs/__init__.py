"""Codecs: resumable transcoders from a payload's notation to JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .json import JsonValue

if TYPE_CHECKING:
    from .._dialect import Dialect
    from .._forms import CallForm
    from .._grammar import Grammar
    from .base import Codec


def make_codec(form: CallForm, grammar: Grammar, repair: bool) -> Codec:
    """The codec for the arguments of a call in its notation."""
    return JsonValue(repair)


def encode_arguments(notation: str, arguments: str, dialect: Dialect) -> str:
    """Arguments, given as JSON text, in a notation."""
    return arguments
