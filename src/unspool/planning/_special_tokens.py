"""Which of a dialect's markers a detokenizer would strip.

``skip_special_tokens`` removes what the vocabulary flags as special, which is
less than all the tokens it has added: Qwen's ``<tool_call>`` stays, Llama's
``<|python_tag|>`` goes.  So the flag is asked, not the kind of token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from .._core.token_ids.tokenizers import Tokenizer, as_tokenizer, unwrap_tokenizer
from ..dialects._declaration import Dialect


class _Flagged(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def special(self) -> bool: ...


@runtime_checkable
class _FlagsTokens(Protocol):
    """``tokenizers.Tokenizer``."""

    def get_added_tokens_decoder(self) -> Mapping[int, _Flagged]: ...


@runtime_checkable
class _TellsSkipped(Protocol):
    """A tokenizer of the caller's own that knows the flag."""

    def skipped_tokens(self) -> Mapping[int, str]:
        """What ``skip_special_tokens`` removes."""
        ...


def skipped_tokens(tokenizer: object) -> frozenset[str]:
    """The literals that ``skip_special_tokens`` removes.

    Where a tokenizer does not say, all tokens that are matched as a whole count:
    to keep one too many does no harm.
    """
    for layer in unwrap_tokenizer(tokenizer):
        if isinstance(layer, _TellsSkipped):
            return frozenset(layer.skipped_tokens().values())
        if isinstance(layer, _FlagsTokens):
            added = layer.get_added_tokens_decoder().values()
            return frozenset(token.content for token in added if token.special)
        if isinstance(layer, Tokenizer):
            break
    return frozenset(as_tokenizer(tokenizer).special_tokens().values())


def markers(dialect: Dialect, *, calls: bool, reasoning: bool) -> Iterator[str]:
    """The templates that an output of this kind can be made of.

    Furniture and stops are not among them: that they are stripped is as good as
    that they are dropped.
    """
    yield from dialect.content
    if reasoning:
        yield from dialect.reasoning
    if calls and dialect.call:
        yield from dialect.call
        yield from dialect.section
        yield from dialect.param
        if dialect.args == "bare":
            yield dialect.values.quote
    frame = dialect.frame
    if frame is not None:
        yield from (*frame.open, frame.sep, *frame.ends, *frame.fields)


def stripped_markers(dialect: Dialect, tokenizer: object, *, calls: bool, reasoning: bool) -> tuple[str, ...]:
    """The special tokens that such an output needs."""
    templates = tuple(markers(dialect, calls=calls, reasoning=reasoning))
    # A single character or white space means nothing on its own: as much text as markup.
    return tuple(
        token
        for token in sorted(skipped_tokens(tokenizer))
        if len(token) > 1 and not token.isspace() and any(token in template for template in templates)
    )
