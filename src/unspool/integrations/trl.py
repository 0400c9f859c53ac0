"""Response parser for TRL; the function ``attach`` adds the parser to a tokenizer.

This module was tested with TRL 1.16.0 (``trl/chat_template_utils.py``).  If a tokenizer has a
``response_template``, TRL's trainers call ``tokenizer.parse_response`` with the sampled ids, the prompt's ids
and the tools.  The trainers expect an assistant message in which the arguments of calls are objects.  TRL
itself has response templates only for a few known chat templates.

>>> attach(tokenizer)  # doctest: +SKIP
>>> GRPOTrainer(processing_class=tokenizer, ...)  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ..dialects import Dialect, find
from ..errors import SpecError, UsageError
from ..message import Message
from ..models.convert.to_response_template import to_response_template
from ..parser import parse
from ..templates import ChatTemplate, ChatTemplateError
from ..tokens import as_ids, label_tokens
from ._detect_from_tokenizer import detect_served_dialect

TokenizerT = TypeVar("TokenizerT")
Json: TypeAlias = dict[str, Any]


def attach(tokenizer: TokenizerT, dialect: str | Dialect | None = None) -> TokenizerT:
    """Replace a tokenizer's ``parse_response`` with unspool's parser, and return the tokenizer or processor.

    :param dialect: the dialect; by default, the dialect is detected from the chat template.
    :raises UsageError: if the dialect is not certain; the error message suggests what to do instead.
    """
    inner: Any = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has its tokenizer in an attribute
    template = getattr(tokenizer, "chat_template", None) or getattr(inner, "chat_template", None)
    spec = find(dialect, inner) if dialect is not None else detect_served_dialect(inner)[0]
    inner.parse_response = ResponseParser(inner, spec, _reasoning_key(template))
    if getattr(inner, "response_template", None) is None:
        # TRL calls parse_response only if the tokenizer has a response template.  A complete template is
        # better than an empty one, because the saved tokenizer then also works without unspool.
        try:
            inner.response_template = to_response_template(spec)
        except (SpecError, UsageError):
            inner.response_template = {}
    return tokenizer


class ResponseParser:
    """Callable that replaces a tokenizer's method ``parse_response``."""

    def __init__(self, tokenizer: Any, dialect: Dialect, reasoning_key: str) -> None:
        self.dialect = dialect
        """The dialect of the responses."""
        self.reasoning_key = reasoning_key
        """The message key for reasoning, which must be the key that the chat template reads."""
        self._tokenizer = tokenizer

    def __call__(
        self,
        response: str | Sequence[Any],
        prefix: str | Sequence[int] | None = None,
        tools: Iterable[Any] | None = None,
    ) -> Json | list[Json]:
        """Parse a response (text or token ids) to a message, or several responses to a list of messages."""
        schemas = None if tools is None else [_schema(tool) for tool in tools]
        if isinstance(response, str):
            prompt = prefix if prefix is None or isinstance(prefix, str) else self._decode(prefix)
            return self._to_dict(parse(response, self.dialect, tools=schemas, prompt=prompt))
        to_list = getattr(response, "tolist", None)
        ids: Any = to_list() if callable(to_list) else response
        if ids and not isinstance(ids[0], int):
            prefixes = prefix if prefix and not isinstance(prefix[0], int | str) else [prefix] * len(ids)
            pairs = zip(ids, prefixes, strict=True)
            return [self._parse_ids(each, prompt, schemas) for each, prompt in pairs]
        return self._parse_ids(ids, prefix, schemas)

    def _parse_ids(
        self, ids: Sequence[int], prefix: str | Sequence[int] | None, tools: list[Any] | None
    ) -> Json:
        if isinstance(prefix, str):
            return self._to_dict(parse(self._decode(ids), self.dialect, tools=tools, prompt=prefix))
        prompt = None if prefix is None else as_ids(prefix)
        reading = label_tokens(ids, self.dialect, tokenizer=self._tokenizer, tools=tools, prompt_ids=prompt)
        return self._to_dict(reading.message)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def _to_dict(self, message: Message) -> Json:
        fields: Json = {"role": "assistant", "content": message.content or ""}
        if message.reasoning:
            fields[self.reasoning_key] = message.reasoning
        if message.tool_calls:
            fields["tool_calls"] = [
                {"type": "function", "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
                for call in message.tool_calls
            ]
        return fields


def _reasoning_key(template: object) -> str:
    """Return the message key from which a chat template reads reasoning, by default ``reasoning_content``."""
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    try:
        key = ChatTemplate(template).capabilities.reasoning_key if isinstance(template, str) else ""
    except (ChatTemplateError, UsageError):
        key = ""
    return key if key not in ("", "parts") else "reasoning_content"


def _schema(tool: Any) -> Any:
    """Convert a tool to JSON values; for a Python function, Transformers derives the schema."""
    if not callable(tool):
        return tool
    from transformers.utils import get_json_schema

    return get_json_schema(tool)
