"""Control tokens by their looks: spellings that vocabularies reserve and that nobody writes in prose.

Vocabularies flag their special tokens, but a parser of text has no vocabulary.  So the
spelling decides, by one rule for the whole package.  A control token is

* a tag whose name touches a bar, ASCII or full-width: ``<|im_end|>``, ``<｜User｜>``,
  ``<|turn>``, ``<turn|>``;
* capitals alone in square brackets, at least three: ``[TOOL_CALLS]``, ``[/INST]``;
* a lone surrogate, which stands for a special token where the input is token ids
  (``_core/token_ids``).

``<tool_call>`` is not one by this rule: models mention such tags in prose, and XML is full of them.

Two questions differ, and have an answer each.  ``CONTROL_TOKEN`` finds whole tokens in a
text.  ``is_control_token`` judges a marker that a dialect declares, which may be a piece of a
token, or hold several of them.
"""

from __future__ import annotations

import re
from typing import Final

_BRACKETED: Final = r"\[/?[A-Z_]{3,}\]"

CONTROL_TOKEN: Final = re.compile(
    r"<[|｜][^<>|｜\s]+[|｜]?>"  # a bar after the opening bracket, and mostly one at the end as well
    r"|<[^<>|｜\s]+[|｜]>"
    rf"|{_BRACKETED}"
    r"|[\ud800-\udfff]"
    # Gemma's and Llama 2's, which look like HTML.  As markers these two families declare them;
    # in the prompts of others they mean that a turn ended.
    r"|<(?:start|end)_of_turn>|</?s>"
)
"""Pattern of one whole control token in running text."""

_IN_MARKER: Final = re.compile(rf"[|｜\ud800-\udfff]|^{_BRACKETED}$")
# A token may follow the opening of a tag, as in </｜DSML｜invoke>; such a tag stays in one piece.
_TOKEN_BEGINS: Final = re.compile(r"(?=<[|｜\ud800-\udfff])|(?<![</])(?=[\ud800-\udfff])")


def is_control_token(marker: str) -> bool:
    """Return whether a declared marker is made of control tokens, so that prose cannot hold it by chance.

    This asks for less than ``CONTROL_TOKEN``.  Templates are cut at their holes, so a marker may be
    the beginning of a token (``<｜DSML｜invoke name="``) or have text around one.  That the marker
    is markup is known already, and a bar anywhere in it is enough.  For the same reason ``</s>`` does not
    count here: where it is declared, it may still be HTML in an answer.
    """
    return _IN_MARKER.search(marker) is not None


def split_at_control_tokens(literal: str) -> list[str]:
    """Split a literal in front of each control token: a model may put white space between them.

    >>> split_at_control_tokens("<|start|>assistant<|message|>")
    ['<|start|>assistant', '<|message|>']
    """
    return [part for part in _TOKEN_BEGINS.split(literal) if part]
