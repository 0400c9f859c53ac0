r"""Grammars for constrained decoding, built from the templates of a dialect.

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

from ..dialects import Dialect, find
from ..dialects.list_templates_and_markers import with_spaced_templates
from ..errors import UsageError
from ._dialect_grammar import FramedGrammarBuilder, GrammarBuilder, Start
from ._gbnf import to_gbnf
from ._guided_schema import guided_schema
from ._nodes import Node
from ._request_functions import Choice, select_functions
from ._size_limit import GrammarTooLarge
from ._structural_tag import to_structural_tag

__all__ = ["Choice", "Grammar", "GrammarTooLarge", "Start", "grammar_for", "guided_schema"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Grammar of the outputs that a dialect allows for the tools of a request."""

    dialect: Dialect
    tools: tuple[Mapping[str, Any], ...]
    choice: Choice
    parallel: bool
    root: Node
    """The grammar as a tree of nodes; ``unspool.grammar._nodes`` describes them."""

    def gbnf(self) -> str:
        """Return the grammar in GBNF, for llama.cpp."""
        return to_gbnf(self.root)

    def structural_tag(self) -> dict[str, Any]:
        """Return the grammar as a structural tag, for xgrammar, vLLM and SGLang."""
        return to_structural_tag(self.root)

    def json_schema(self, *, bare: bool = False) -> dict[str, Any]:
        """Return a JSON schema for a list of calls, for backends that can constrain only JSON.

        The dialect ``generic_json`` reads such a list.  If the model reasons, the backend must apply the
        schema only to the text after the reasoning.

        :param bare: if ``choice`` names a function, return only the schema of its arguments; see
            ``guided_schema``.
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
    """Build the grammar of the outputs that a model with this dialect may write.

    :param choice: the ``tool_choice`` of the request.
    :param parallel: allow more than one call.
    :param reasoning: allow the model to reason first.
    :param start: ``reasoning`` or ``content`` if the prompt ends inside reasoning or content, for example
        after ``<think>``; otherwise ``message``.
    """
    declared = find(dialect)
    spec = with_spaced_templates(declared)
    offered = tuple(tools)
    functions, is_named = select_functions(offered, choice)
    parallel = parallel and not is_named

    if spec.frame is not None:
        builder: GrammarBuilder = FramedGrammarBuilder(spec, spec.frame, functions, parallel=parallel)
    elif spec.call:
        builder = GrammarBuilder(spec, functions, parallel=parallel)
    else:
        raise UsageError(
            f"dialect {spec.name!r} has no tool calls to build a grammar for; use the JSON schema "
            "of guided_schema(), and read the output with the dialect 'generic_json'"
        )
    root = builder.output(required=choice != "auto", reasoning=reasoning, start=start)
    return Grammar(declared, offered, choice, parallel, root)
