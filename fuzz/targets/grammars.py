"""Target: grammars of arbitrary tools.

They are refused, or they are valid GBNF that admits only parseable calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from fuzz import gbnf
from fuzz.choices import Choices, choosing
from fuzz.forgiving import object_of
from fuzz.outputs import support
from fuzz.targets.schemas import EXAMPLES
from unspool import UnspoolError, list_dialects, parse
from unspool.grammar import Choice, grammar_for

support()
from grammar_sampling import HARMLESS, Sampler  # noqa: E402 - a helper of the tests

_CHOICES: tuple[Choice, ...] = ("auto", "required")

HEAD: Final = 4
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    dialect, choice, seed = choices.dialect(), choices.choose(_CHOICES), choices.byte()
    request = object_of(choices.utf8_text())
    tools: list[dict[str, Any]] = [{"name": "f", "parameters": request.get("schema")}]
    if seed & 1:
        tools.append({"name": "get_time", "parameters": {"type": "object", "properties": {}}})
    try:
        grammar = grammar_for(dialect, tools, choice=choice, parallel=bool(seed & 2))
        text = grammar.gbnf()
        json.dumps([grammar.structural_tag(), grammar.json_schema()])
    except UnspoolError:
        return
    gbnf.check(text)
    sampler = Sampler(dialect, grammar.root, seed)
    drawn = sampler.text()
    message = parse(drawn, dialect, tools=tools)
    # Schemas are arbitrary: grammars do not enforce required members without a declaration, for example.
    ignored = {*HARMLESS, "schema_mismatch"}
    diagnostics = [diagnostic for diagnostic in message.diagnostics if diagnostic.kind not in ignored]
    assert not diagnostics, (dialect.name, request, drawn, diagnostics)
    called = [call.name for call in message.tool_calls]
    assert called == sampler.called, (dialect.name, request, drawn, called, sampler.called)


def seeds() -> Iterator[bytes]:
    for number, dialect in enumerate(list_dialects()):
        request = EXAMPLES[number % len(EXAMPLES)]
        yield choosing(dialect) + bytes([number % 2, number]) + json.dumps(request).encode()
