"""Request fields that make an engine keep the special tokens of a dialect in the text."""

from __future__ import annotations

from typing import Any

from ._plan import Plan
from .decide_special_tokens import markers


def special_token_fields(plan: Plan, engine: str) -> dict[str, Any]:
    """Return request fields that make an engine keep the special tokens that the plan's parser needs.

    :param engine: the name of the engine: ``vllm``, ``sglang`` or ``llamacpp``; for any other name, the
        result is empty.

    >>> from unspool import plan
    >>> special_token_fields(plan("kimi_k2", {"messages": [{"role": "user", "content": "Hi"}]}), "sglang")
    {'skip_special_tokens': False}
    """
    if engine == "vllm":
        return {
            "skip_special_tokens": plan.skip_special_tokens,
            "spaces_between_special_tokens": plan.spaces_between_special_tokens,
        }
    if engine == "sglang":
        return {"skip_special_tokens": plan.skip_special_tokens}
    if engine == "llamacpp" and not plan.skip_special_tokens:
        # llama.cpp removes all special tokens that are not listed here.  It ignores listed texts that are not
        # a single token.
        texts: dict[str, None] = {}
        for literal in markers(plan.dialect, calls=True, reasoning=True):
            if len(literal.strip()) > 1:
                texts[literal.strip()] = None
        return {"preserved_tokens": list(texts)}
    return {}
