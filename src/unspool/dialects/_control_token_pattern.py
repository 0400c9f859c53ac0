"""Recognition of control tokens in text, by forms that nobody writes in prose.

A vocabulary flags its special tokens, but a parser of text has no vocabulary.  So the whole package
uses one rule, which looks only at the text.  A control token is

* a tag whose name begins or ends with a bar, ASCII or full-width: ``<|im_end|>``, ``<｜User｜>``,
  ``<|turn>``, ``<turn|>``;
* at least three capital letters in square brackets: ``[TOOL_CALLS]``, ``[/INST]``;
* a lone surrogate, which represents a special token if the input consists of ids (``_core/token_ids``).

``<tool_call>`` is not a control token by this rule, because models mention such tags in prose, and
similar tags occur in XML.

There are two checks for two purposes.  ``CONTROL_TOKEN`` finds complete control tokens in text.
``is_control_token`` checks a marker that a dialect declares.  Such a marker may be a part of a control token,
or contain several control tokens.
"""

from __future__ import annotations

import re
from typing import Final

_BRACKETED: Final = r"\[/?[A-Z_]{3,}\]"

CONTROL_TOKEN: Final = re.compile(
    r"<[|｜][^<>|｜\s]+[|｜]?>"  # a bar after the opening bracket, and an optional bar at the end
    r"|<[^<>|｜\s]+[|｜]>"
    rf"|{_BRACKETED}"
    r"|[\ud800-\udfff]"
    # These tokens of Gemma and Llama 2 look like HTML.  Only these two families declare them as markers.
    # In the prompts of other families they also show that a turn has ended.
    r"|<(?:start|end)_of_turn>|</?s>"
)
"""Pattern that matches one complete control token in text."""

_IN_MARKER: Final = re.compile(rf"[|｜\ud800-\udfff]|^{_BRACKETED}$")
# A tag may contain a token after its opening bracket, as in </｜DSML｜invoke>.  Such a tag is not split.
_TOKEN_BEGINS: Final = re.compile(r"(?=<[|｜\ud800-\udfff])|(?<![</])(?=[\ud800-\udfff])")


def is_control_token(marker: str) -> bool:
    """Return whether a marker contains a control token, and therefore cannot occur in prose by chance.

    The rule is less strict than ``CONTROL_TOKEN``.  Templates are split at their placeholders, so a marker
    may begin a token (``<｜DSML｜invoke name="``) or contain other text.  The marker is
    known to be markup, so a bar at any position is enough.  The exception is ``</s>``, which is not a control
    token here: even in a dialect that declares this marker, an answer may contain it as HTML.
    """
    return _IN_MARKER.search(marker) is not None


def split_at_control_tokens(literal: str) -> list[str]:
    """Split a literal before each control token, because a model may write whitespace between the parts.

    >>> split_at_control_tokens("<|start|>assistant<|message|>")
    ['<|start|>assistant', '<|message|>']
    """
    return [part for part in _TOKEN_BEGINS.split(literal) if part]
