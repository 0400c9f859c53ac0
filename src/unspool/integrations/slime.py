"""Tool call parsing for slime, as a drop-in function for its agents.

slime generates with SGLang.  Its agents (``--custom-generate-function-path``) read calls with SGLang's
``FunctionCallParser.parse_non_stream``, which takes text and returns the normal text and the calls, each with
a name and parameters.  This contract was checked against SGLang 0.5.23.  slime is not published as a package
and was not tested.  Inside SGLang's own server, use ``unspool.integrations.sglang`` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import AnyTokenizer
from ..dialects._declaration import Dialect
from ..parser import parse
from ..tokens._label_tokens import Ids, label_tokens


def parse_tools(
    response: str, tools: Iterable[Any] | None, parser: str | Dialect = "qwen25"
) -> dict[str, Any]:
    """Return the normal text of a response, and its calls.

    :param tools: the tools of the request; if there are none, the result has no calls.
    :param parser: SGLang's name of a parser, or the name of a dialect.
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
    """Return what ``parse_tools`` returns, and the loss mask, for a response of token ids.

    The mask has a 1 for every token that the model wrote.
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
    """Return a tool as JSON values; SGLang has a Pydantic model for it."""
    dump = getattr(tool, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else tool
