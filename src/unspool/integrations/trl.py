"""TRL's parsing of responses, ours: on the tokenizer, where TRL looks for it.

Seen: TRL 1.16.0, ``trl/chat_template_utils.py``.  Its trainers give sampled ids, the prompt's ids and the
tools to ``tokenizer.parse_response``, if the tokenizer has a ``response_template``; what they want is an
assistant's message whose arguments are objects.  TRL has such templates for the chat templates that it knows.

>>> attach(tokenizer)  # doctest: +SKIP
>>> GRPOTrainer(processing_class=tokenizer, ...)  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ..chat_templates import ChatTemplate, ChatTemplateError
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import SpecError, UsageError
from ..message import Message
from ..models.convert.to_response_template import to_response_template
from ..parser import parse
from ..tokens._label_tokens import as_ids, label_tokens
from ._engine import dialect_of_model

TokenizerT = TypeVar("TokenizerT")
Json: TypeAlias = dict[str, Any]


def attach(tokenizer: TokenizerT, dialect: str | Dialect | None = None) -> TokenizerT:
    """Have a tokenizer's ``parse_response`` read by unspool; the same tokenizer, or processor, is returned.

    :param dialect: None: the one that its chat template speaks.
    :raises UsageError: if there is no telling, with what to do instead.
    """
    inner: Any = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor
    template = getattr(tokenizer, "chat_template", None) or getattr(inner, "chat_template", None)
    spec = find(dialect, inner) if dialect is not None else dialect_of_model(inner)[0]
    inner.parse_response = Reader(inner, spec, _reasoning_key(template))
    if getattr(inner, "response_template", None) is None:
        # TRL goes by whether there is one; what is saved with the tokenizer should read without us, too.
        try:
            inner.response_template = to_response_template(spec)
        except (SpecError, UsageError):
            inner.response_template = {}
    return tokenizer


class Reader:
    """What stands in place of a tokenizer's ``parse_response``."""

    def __init__(self, tokenizer: Any, dialect: Dialect, reasoning: str) -> None:
        self.dialect = dialect
        """What it reads."""
        self.reasoning = reasoning
        """The key that reasoning goes under: the one that the chat template reads."""
        self._tokenizer = tokenizer

    def __call__(
        self,
        response: str | Sequence[Any],
        prefix: str | Sequence[int] | None = None,
        tools: Iterable[Any] | None = None,
    ) -> Json | list[Json]:
        """The message of a response, given as text or ids; of several, a list of them."""
        schemas = None if tools is None else [_schema(tool) for tool in tools]
        if isinstance(response, str):
            prompt = None if prefix is None else prefix if isinstance(prefix, str) else self._text(prefix)
            return self._as_dict(parse(response, self.dialect, tools=schemas, prompt=prompt))
        listed = getattr(response, "tolist", None)
        ids: Any = listed() if callable(listed) else response
        if ids and not isinstance(ids[0], int):
            prefixes = prefix if prefix and not isinstance(prefix[0], int | str) else [prefix] * len(ids)
            pairs = zip(ids, prefixes, strict=True)
            return [self._one(each, begun, schemas) for each, begun in pairs]
        return self._one(ids, prefix, schemas)

    def _one(self, ids: Sequence[int], prefix: str | Sequence[int] | None, tools: list[Any] | None) -> Json:
        if isinstance(prefix, str):
            return self._as_dict(parse(self._text(ids), self.dialect, tools=tools, prompt=prefix))
        prompt = None if prefix is None else as_ids(prefix)
        found = label_tokens(ids, self.dialect, tokenizer=self._tokenizer, tools=tools, prompt_ids=prompt)
        return self._as_dict(found.message)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def _as_dict(self, message: Message) -> Json:
        found: Json = {"role": "assistant", "content": message.content or ""}
        if message.reasoning:
            found[self.reasoning] = message.reasoning
        if message.tool_calls:
            found["tool_calls"] = [
                {"type": "function", "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
                for call in message.tool_calls
            ]
        return found


def _reasoning_key(template: object) -> str:
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    try:
        key = ChatTemplate(template).wants.reasoning if isinstance(template, str) else ""
    except (ChatTemplateError, UsageError):
        key = ""
    return key if key not in ("", "parts") else "reasoning_content"


def _schema(tool: Any) -> Any:
    """A tool as JSON values; TRL takes functions, whose docstrings Transformers reads."""
    if not callable(tool):
        return tool
    from transformers.utils import get_json_schema

    return get_json_schema(tool)
