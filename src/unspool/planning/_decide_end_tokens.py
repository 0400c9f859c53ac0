"""Decision PRE.5: the tokens that end the output."""

from __future__ import annotations

from .._core.token_ids.tokenizer_adapters import as_tokenizer
from ..dialects import end_tokens
from ..dialects.parse_templates import template_text
from ._context import PlanContext


def decide_eos(context: PlanContext) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Return the texts and the ids of the tokens that end a turn; the ids are None if they are unknown."""
    family, inputs = context.family, context.inputs
    if context.request.ignore_eos:
        context.why["eos"] = "the request ignores the end of the turn"
        return (), ()
    names = end_tokens(context.dialect, context.facts)
    ids = _special_token_ids(context)
    known_ids = [ids[name] for name in names if name in ids]
    source = f"those of {family} in the vocabulary"
    if inputs.eos_token_ids is None:
        known = source if known_ids else "the backend knows them"
        context.why["eos"] = f"{known}; no generation config was given"
        return names, tuple(known_ids) or None
    # A token that ends one message of a turn must not stop generation, because more messages may follow.
    ends = context.dialect.frame.ends if context.dialect.frame is not None else ()
    inner = {ids[end]: end for end in ends if end in ids and end not in names}
    wrong = ", ".join(inner[id] for id in inputs.eos_token_ids if id in inner)
    if wrong:
        context.warnings.append(f"{wrong} ends a message of {family}, not the turn: not used as EOS")
    if known_ids and not set(known_ids).intersection(inputs.eos_token_ids):
        context.warnings.append(
            f"the generation config has none of the tokens that end a turn of {family} "
            f"({', '.join(names)}): is it the right model?"
        )
    context.why["eos"] = f"those of the generation config{f', and {source}' if known_ids else ''}"
    return names, tuple(dict.fromkeys([*(id for id in inputs.eos_token_ids if id not in inner), *known_ids]))


def _special_token_ids(context: PlanContext) -> dict[str, int]:
    """Return a dictionary from the tokenizer's special tokens to their ids."""
    if context.tokenizer is None:
        return {}
    return {token: id for id, token in as_tokenizer(context.tokenizer).special_tokens().items()}


def warn_about_stops(context: PlanContext) -> None:
    """Warn about each stop string that occurs in a marker, because the output would end at that marker."""
    dialect = context.dialect
    for stop in context.request.stop:
        templates = (*map(template_text, dialect.reasoning), *dialect.call)
        if any(stop and stop in template for template in templates):
            context.warnings.append(f"stop={stop!r} is markup of {context.family}: the output will end there")
