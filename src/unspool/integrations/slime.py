"""Tool call parsing for slime, as a drop-in replacement for the function that slime's agents call.

slime generates text with SGLang.  Its agents (``--custom-generate-function-path``) parse calls with SGLang's
``FunctionCallParser.parse_non_stream``.  That function takes text, and returns the text outside calls
together with the names and parameters of the calls.  The replacement was tested with SGLang 0.5.23, but not
with slime, which is not published as a package.  Inside SGLang's own server, use
``unspool.integrations.sglang`` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..dialects import Dialect
from ..parser import parse
from ..tokens import AnyTokenizer, Ids, label_tokens


def parse_tools(
    response: str, tools: Iterable[Any] | None, parser: str | Dialect = "qwen25"
) -> dict[str, Any]:
    """Parse a response; return a dictionary with the normal text and the calls.

    :param tools: the tools of the request; without tools, no calls are parsed.
    :param parser: the name of one of SGLang's parsers, or the name of a dialect.
    """
    message = parse(response, parser, tools=[_schema(tool) for tool in tools or ()])
    return _result(message.content, message.tool_calls)


def parse_tool_ids(
    ids: Ids,
    tools: Iterable[Any] | None,
    parser: str | Dialect = "qwen25",
    *,
    tokenizer: AnyTokenizer,
    prompt_ids: Ids | None = None,
) -> tuple[dict[str, Any], list[int]]:
    """Parse the token ids of a response; return the same dictionary as ``parse_tools``, and the loss mask.

    The mask contains 1 for every token that the model generated, and 0 for all other tokens.
    """
    schemas = [_schema(tool) for tool in tools or ()]
    reading = label_tokens(ids, parser, tokenizer=tokenizer, tools=schemas, prompt_ids=prompt_ids)
    return _result(reading.message.content, reading.message.tool_calls), list(reading.mask())


def _result(content: str | None, calls: Sequence[Any]) -> dict[str, Any]:
    items = [
        {"tool_index": index, "name": call.name, "parameters": call.arguments}
        for index, call in enumerate(calls)
    ]
    return {"normal_text": content or "", "calls": items}


def _schema(tool: Any) -> Any:
    """Convert a tool, which may be one of SGLang's Pydantic models, to JSON values."""
    dump = getattr(tool, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else tool
