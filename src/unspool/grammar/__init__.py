r"""Grammars for constrained decoding, from the same templates that are read.

>>> tools = [{"name": "now", "parameters": {"type": "object", "properties": {}}}]
>>> grammar = grammar_for("hermes", tools, choice="required", reasoning=False, parallel=False)
>>> print(grammar.gbnf(), end="")
root ::= [\n ]{0,4} now-call
now-call ::= "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import UsageError
from ._from_dialect import FramedWalk, Start, Walk
from ._gbnf import expanded, written
from ._intermediate import Node
from ._json_schema import Choice, chosen, guided_schema
from ._size_limit import GrammarTooLarge
from ._structural_tag import structural_tag

__all__ = ["Choice", "Grammar", "GrammarTooLarge", "Start", "grammar_for", "guided_schema"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a model may write, for the engines that can hold it to that."""

    dialect: Dialect
    tools: tuple[Mapping[str, Any], ...]
    choice: Choice
    parallel: bool
    root: Node
    """The grammar itself; see ``unspool.grammar._intermediate``."""

    def gbnf(self) -> str:
        """For llama.cpp: a grammar in GBNF."""
        return written(expanded(self.root))

    def structural_tag(self) -> dict[str, Any]:
        """For xgrammar, and so vLLM and SGLang: a structural tag."""
        return structural_tag(self.root)

    def json_schema(self, *, bare: bool = False) -> dict[str, Any]:
        """For backends that constrain JSON only: the schema of what ``generic_json`` reads.

        Reasoning must be over before the constraint begins.  ``bare``: see ``guided_schema``.
        """
        return guided_schema(self.tools, choice=self.choice, parallel=self.parallel, bare=bare)


def grammar_for(
    dialect: str | Dialect,
    tools: Iterable[Mapping[str, Any]],
    *,
    choice: Choice = "auto",
    parallel: bool = True,
    reasoning: bool = True,
    start: Start = "message",
) -> Grammar:
    """The grammar of what a model that writes this dialect may answer.

    ``choice``: the request's ``tool_choice``.  ``parallel``: more than one call.
    ``reasoning``: the model may reason first.  ``start``: the prompt has opened
    reasoning (or content) already.
    """
    spec = find(dialect)
    offered = tuple(tools)
    functions, named = chosen(offered, choice)
    parallel = parallel and not named
    kind = "auto" if choice == "auto" else "required"
    if spec.frame is not None:
        walk: Walk = FramedWalk(spec, spec.frame, functions, parallel=parallel)
    elif spec.call:
        walk = Walk(spec, functions, parallel=parallel)
    else:
        raise UsageError(
            f"dialect {spec.name!r} has no tool calls, so there is no grammar of them; "
            "guided_schema() gives a JSON schema, which the dialect 'generic_json' reads"
        )
    return Grammar(spec, offered, choice, parallel, walk.output(kind, reasoning=reasoning, start=start))
