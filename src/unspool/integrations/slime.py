"""slime's parsing of calls, ours: a function of the shape that its agents call.

slime generates with SGLang, and its agents (``--custom-generate-function-path``) read calls with SGLang's
``FunctionCallParser.parse_non_stream``: text in, the normal text and calls with a name and parameters out.
That contract was seen in SGLang 0.5.23; slime itself is not published as a package, and was not seen.  Inside
of SGLang's own server ``unspool.integrations.sglang`` does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._core.token_ids.tokenizers import AnyTokenizer
from ..dialects._declaration import Dialect
from ..parser import parse
from ..tokens._label_tokens import Ids, label_tokens


def parse_tools(
    response: str, tools: Iterable[Any] | None, parser: str | Dialect = "qwen25"
) -> dict[str, Any]:
    """The normal text of a response, and its calls.

    :param tools: as the request offered them; none, and there are no calls.
    :param parser: SGLang's name of a parser, or a dialect's.
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
    """The same by ids, and the loss mask of what was sampled: a 1 for every token that the model wrote."""
    schemas = [_schema(tool) for tool in tools or ()]
    found = label_tokens(ids, parser, tokenizer=tokenizer, tools=schemas, prompt_ids=prompt_ids)
    return _result(found.message.content, found.message.tool_calls), list(found.mask())


def _result(content: str | None, calls: Sequence[Any]) -> dict[str, Any]:
    items = [
        {"tool_index": index, "name": call.name, "parameters": call.arguments}
        for index, call in enumerate(calls)
    ]
    return {"normal_text": content or "", "calls": items}


def _schema(tool: Any) -> Any:
    dump = getattr(tool, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else tool
