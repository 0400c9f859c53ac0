"""Decision PRE.1: whether the detokenizer may strip special tokens.

``skip_special_tokens`` removes only those added tokens that the vocabulary flags as special.  For example, it
removes Llama's ``<|python_tag|>`` but keeps Qwen's ``<tool_call>``.  So the decision depends on whether the
vocabulary flags the markers that the parser needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .._core.token_ids.tokenizer_adapters import Tokenizer, as_tokenizer, unwrap_tokenizer
from ..dialects import Dialect, Section, Wrapper
from ..dialects.list_templates_and_markers import header_literals
from ..dialects.parse_templates import literals, parse_template

if TYPE_CHECKING:
    from ._context import PlanContext


def decide_skip_special_tokens(context: PlanContext, *, calls: bool, reasoning: bool) -> bool:
    """Return whether the detokenizer may strip special tokens.

    :param calls: True if the parser reads calls in the dialect's own markup.
    :param reasoning: True if the parser reads reasoning markers.
    """
    needed, not_needed = _reasons(context, calls=calls, reasoning=reasoning)
    requested = context.request.skip_special_tokens
    if requested is None:
        why = f"keep them: {needed}" if needed else f"the backend's default: {not_needed}"
        context.why["skip_special_tokens"] = why
        return not needed
    context.why["skip_special_tokens"] = f"the request sets {str(requested).lower()}"
    if requested and needed:
        context.warnings.append(
            f"skip_special_tokens=true hides markers from the parser: {needed}; "
            "leave it out, or set it to false"
        )
    return requested


def _reasons(context: PlanContext, *, calls: bool, reasoning: bool) -> tuple[str, str]:
    """Return the reason to keep special tokens (empty if there is none) and the reason to strip them."""
    if context.tokenizer is not None:
        tokens = stripped_markers(context.dialect, context.tokenizer, calls=calls, reasoning=reasoning)
        more = ", ..." if len(tokens) > 3 else ""
        return (
            f"the tokenizer flags {', '.join(tokens[:3])}{more} as special" if tokens else "",
            "the tokenizer does not flag any marker of this output as special",
        )
    special = {
        "calls": calls and bool(context.facts.calls_special),
        "reasoning": reasoning and bool(context.thinking.special),
        "answers": context.facts.answers_special,
    }
    names = " and ".join(name for name, is_special in special.items() if is_special)
    return (
        f"the markers of {names} in {context.family} are special tokens" if names else "",
        "no marker of this output is known to be a special token",
    )


class _Flagged(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def special(self) -> bool: ...


@runtime_checkable
class _FlagsTokens(Protocol):
    """Tokenizer that flags its special tokens, such as ``tokenizers.Tokenizer``."""

    def get_added_tokens_decoder(self) -> Mapping[int, _Flagged]: ...


@runtime_checkable
class _ListsSkippedTokens(Protocol):
    """A custom tokenizer that lists its special tokens."""

    def skipped_tokens(self) -> Mapping[int, str]:
        """Return the tokens that ``skip_special_tokens`` removes."""
        ...


def skipped_tokens(tokenizer: object) -> frozenset[str]:
    """Return the texts of the tokens that ``skip_special_tokens`` removes.

    If a tokenizer does not flag tokens, all of its special tokens are returned.  Then the plan may keep more
    tokens than necessary, which does no harm.
    """
    for layer in unwrap_tokenizer(tokenizer):
        if isinstance(layer, _ListsSkippedTokens):
            return frozenset(layer.skipped_tokens().values())
        if isinstance(layer, _FlagsTokens):
            added = layer.get_added_tokens_decoder().values()
            return frozenset(token.content for token in added if token.special)
        if isinstance(layer, Tokenizer):
            break
    return frozenset(as_tokenizer(tokenizer).special_tokens().values())


def markers(dialect: Dialect, *, calls: bool, reasoning: bool) -> Iterator[str]:
    """Yield the literal texts of templates, which contain the markers of an output.

    :param calls: True to include the templates of calls.
    :param reasoning: True to include the templates of reasoning.

    Message boundaries and stop tokens are left out.  The parser removes them anyway, so the
    detokenizer may strip them.
    """
    templates: list[str | Section | Wrapper] = [*dialect.content]
    if reasoning:
        templates += dialect.reasoning
    if calls and dialect.call:
        templates += [*dialect.call, *dialect.section, *dialect.param]
    for template in templates:
        yield from literals(parse_template(template))
    if calls and dialect.call and dialect.args == "bare":
        yield dialect.values.quote
    yield from header_literals(dialect)


def stripped_markers(dialect: Dialect, tokenizer: object, *, calls: bool, reasoning: bool) -> tuple[str, ...]:
    """Return the tokens that ``skip_special_tokens`` would strip although the parser needs them.

    :param calls: True if the parser needs the markers of calls.
    :param reasoning: True if the parser needs the markers of reasoning.
    """
    texts = tuple(markers(dialect, calls=calls, reasoning=reasoning))
    # Tokens that consist of one character or of whitespace are not markers.
    return tuple(
        token
        for token in sorted(skipped_tokens(tokenizer))
        if len(token) > 1 and not token.isspace() and any(token in text for text in texts)
    )
