"""Model: how requests to one model are planned and rendered, loaded from the gateway's settings."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ..._core.schema.tools import tool_name
from ..._core.token_ids.tokenizer_adapters import AnyTokenizer
from ...chat_templates import (
    ChatTemplate,
    ChatTemplateError,
    ChatTemplateLimit,
    NoRenderer,
    normalise_history,
)
from ...dialects._declaration import Dialect
from ...dialects._registry import get_dialect
from ...errors import UnspoolError, UsageError
from ...models.detect.detect_dialect import detect_dialect
from ...models.detect.result import Detection
from ...models.sources import Source, read_source
from ...models.sources.tokenizer_file import find_tokenizer_file, load_tokenizer
from ...planning import Plan, plan
from ...policies import Policies
from ..conversation.media import check_parts, has_media, without_media
from ..http.failure import Failure, invalid
from ..settings import Settings
from ..telemetry.logs import log, log_once
from .tool_prompt import ToolPrompt, find_tool_prompt

_FIELDS: Final = re.compile(
    r"\b(tool_choice|tools|messages|message (?P<at>\d+)|response_format|stop|n(?==)|parallel_tool_calls|"
    r"continue_final_message|add_generation_prompt|chat_template_kwargs|chat_template_args|reasoning_effort|"
    r"enable_thinking|thinking_mode|thinking_budget|thinking|reasoning|separate_reasoning|include_reasoning|"
    r"skip_special_tokens|ignore_eos|functions|function_call|guided_\w+|structured_outputs|structural_tag)\b"
)
"""Names of request fields in error messages of other packages; they become the error's ``param``."""
_RESERVED: Final = frozenset({"self", "messages", "tools", "add_generation_prompt", "continue_final_message"})
"""Template variables that the gateway sets itself."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Request with its plan and prompt, ready for the upstream."""

    plan: Plan
    prompt: str | None
    """Rendered prompt; None if the upstream renders it."""
    tools: tuple[Mapping[str, Any], ...]
    """Tools that the model sees."""


@dataclass(frozen=True, slots=True)
class Model:
    """Facts about a model that planning, rendering and parsing need."""

    name: str
    """Name for clients."""
    dialect: str | Dialect
    """Dialect, or the name of a dialect or checkpoint."""
    template: ChatTemplate | None = None
    template_without_tools: ChatTemplate | None = None
    """Template for requests without tools, if the model has another one for these."""
    tool_prompt: ToolPrompt | None = None
    """Replacement for tools in the prompt, if the template has none."""
    tokenizer: AnyTokenizer | None = None
    eos_token_ids: tuple[int, ...] | None = None
    bos_token: str = ""
    aliases: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default variables for the template."""
    policies: Policies = field(default_factory=Policies)
    strict_tools: bool = False
    created: int = 0
    source: Source | None = None
    """Files that the template comes from, or None."""

    @property
    def family(self) -> str:
        """Name of the dialect."""
        return self.dialect if isinstance(self.dialect, str) else self.dialect.name

    def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return the tokens of a text, or None if there is no tokenizer of the package ``tokenizers``."""
        tokenizer: Any = self.tokenizer
        if not hasattr(tokenizer, "to_str"):
            return None
        return list(tokenizer.encode(text, add_special_tokens=special).ids)

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text of tokens, or None if there is no tokenizer of the package ``tokenizers``."""
        tokenizer: Any = self.tokenizer
        if not hasattr(tokenizer, "to_str"):
            return None
        return str(tokenizer.decode(list(tokens), skip_special_tokens=False))

    def prepare(
        self,
        request: Mapping[str, Any],
        *,
        constraints: Sequence[str],
        renders: bool,
        policies: Policies | None = None,
    ) -> PreparedRequest:
        """Plan a request and render its prompt.

        :param constraints: output constraints that the upstream supports.
        :param renders: True if the upstream renders the prompt itself.
        :param policies: policies of this request, if they differ from the model's.
        """
        try:
            return self._prepare(request, constraints, renders, policies or self.policies)
        except ChatTemplateLimit as error:
            raise Failure("too_large", str(error), param="messages") from error
        except (UsageError, ChatTemplateError) as error:
            message = str(error)
            field = _FIELDS.search(message)
            param = None if field is None else field[0]
            if field is not None and field["at"]:
                param = f"messages[{field['at']}]"
            elif isinstance(error, ChatTemplateError):
                param = param or "messages"
            raise invalid(message, param) from error
        except NoRenderer as error:
            raise renderer_unavailable(error) from error
        except UnspoolError as error:
            raise Failure("internal", str(error)) from error

    def _prepare(
        self, request: Mapping[str, Any], constraints: Sequence[str], renders: bool, policies: Policies
    ) -> PreparedRequest:
        planned = dict(request)
        if self.strict_tools and planned.get("tools"):
            planned["tools"] = [_with_strict(tool) for tool in planned["tools"]]
        decided = plan(
            self.dialect,
            planned,
            tokenizer=self.tokenizer,
            defaults=self.defaults,
            constraints=constraints,
            eos_token_ids=self.eos_token_ids,
            policies=policies,
        )
        names = {tool_name(tool) for tool in decided.tools}
        tools = tuple(tool for tool in request.get("tools") or () if tool_name(tool) in names)
        if renders or self.template is None:
            return PreparedRequest(decided, None, tools)
        messages = self._adapt_messages(request["messages"])
        if self.tool_prompt is not None:
            offered = () if decided.tool_output == "none" else tools
            messages = self.tool_prompt.rewrite(messages, offered, decided.dialect)
        history = normalise_history(messages, self.template, dialect=decided.dialect)
        variables = dict(decided.chat_template_kwargs)
        for name in _RESERVED & variables.keys():
            raise invalid(
                f"chat_template_kwargs: {name} is reserved; use the request's own field",
                "chat_template_kwargs",
            )
        if request.get("documents"):
            if "documents" not in self.template.source:
                raise invalid("the model's chat template does not use documents; leave it out", "documents")
            variables["documents"] = request["documents"]
        prompt = self._render(history, tools, variables, request)
        return PreparedRequest(decided.with_prompt(prompt), prompt, tools)

    def _adapt_messages(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Replace roles that the template does not know, and media, which a prompt cannot contain."""
        check_parts(messages)
        if self.template is not None and "developer" not in self.template.source:
            messages = [
                {**message, "role": "system"} if message["role"] == "developer" else message
                for message in messages
            ]
        if not has_media(messages):
            return messages
        log_once("field_ignored", f"images and files: {self.name} gets a description in their place")
        return without_media(messages)

    def _render(
        self,
        history: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, object],
        request: Mapping[str, Any],
    ) -> str:
        """Render the prompt.

        Some templates fail on null tools or on a missing description, so a failure is retried with an empty
        list, or with empty descriptions.
        """
        template = self.template_without_tools
        if tools or template is None:
            template = self.template
        assert template is not None  # noqa: S101 - the caller has checked it
        first_error: ChatTemplateError | None = None
        for variant in (tools, [_with_descriptions(tool) for tool in tools]) if tools else (None, ()):
            try:
                return template.render(
                    history,
                    variant,
                    add_generation_prompt=True,
                    continue_final_message=bool(request.get("continue_final_message")),
                    **variables,
                )
            except ChatTemplateLimit:
                raise
            except ChatTemplateError as error:
                first_error = first_error or error
        assert first_error is not None  # noqa: S101 - the loop returns or sets it
        raise first_error


def renderer_unavailable(error: NoRenderer) -> Failure:
    """Log why no template can be rendered now, and return the failure for the client."""
    log(logging.ERROR, "renderer_unavailable", reason=str(error))
    return Failure("overloaded", "the gateway cannot render chat templates now; try again", retry_after="1")


def _with_descriptions(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool in which the function and all parameters have a description."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(properties, Mapping):
        described = {
            key: {"description": "", **value} if isinstance(value, Mapping) else value
            for key, value in properties.items()
        }
        parameters = {**parameters, "properties": described}
    return {**tool, "function": {"description": "", **function, "parameters": parameters}}


def _with_strict(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or "strict" in function:
        return dict(tool)
    return {**tool, "function": {**function, "strict": True}}


def load_model(
    settings: Settings, *, source: Mapping[str, Any] | None = None, name: str = "", created: int = 0
) -> Model:
    """Load the model that the settings describe.

    :param source: tokenizer configuration from the upstream.
    """
    origin = _read_source(settings, source)
    directory = Path(settings.model_dir) if settings.model_dir else None
    tokenizer = None if directory is None else _load_tokenizer(directory)
    dialect: str | Dialect = settings.dialect
    if settings.dialect == "auto":
        dialect = _detect_dialect(origin, tokenizer)
    else:
        # plan() resolves names of checkpoints; call it now to report a mistake at the start.
        plan(settings.dialect, {"messages": [{"role": "user", "content": ""}]}, tokenizer=tokenizer)
    template = template_without_tools = None
    if origin is not None:
        template = ChatTemplate(origin.template, **dict(origin.tokens))  # type: ignore[arg-type]
        template.capabilities  # noqa: B018 - computed now and not in the first request
        default = origin.others.get("the template 'default'")
        if default is not None:
            template_without_tools = ChatTemplate(default, **dict(origin.tokens))  # type: ignore[arg-type]
    prompt = None if template is None else find_tool_prompt(template)
    if prompt is not None:
        log(logging.WARNING, "template_without_tools", reason="tools go into the system message")
    return Model(
        name=settings.model or name or "model",
        dialect=dialect,
        template=template,
        template_without_tools=template_without_tools,
        tool_prompt=prompt,
        tokenizer=tokenizer,
        eos_token_ids=None if directory is None else _read_eos_ids(directory),
        bos_token="" if origin is None else origin.tokens.get("bos_token", ""),
        aliases=settings.aliases,
        defaults=settings.chat_template_kwargs,
        policies=settings.parser_policies(),
        strict_tools=settings.strict_tools,
        created=created,
        source=origin,
    )


def _read_source(settings: Settings, config: Mapping[str, Any] | None) -> Source | None:
    """Read the chat template and its tokens from the settings, or from the upstream's configuration."""
    source = None
    if settings.model_dir:
        try:
            source = read_source(Path(settings.model_dir))
        except UsageError:
            if not settings.template:
                raise
    elif config and config.get("chat_template"):
        source = read_source(config)
    if settings.template:
        explicit = read_source(Path(settings.template))
        tokens = {} if source is None else source.tokens
        source = replace(explicit, tokens={**tokens, **explicit.tokens})
    return source


def _detect_dialect(source: Source | None, tokenizer: AnyTokenizer | None) -> Dialect:
    if source is None:
        raise UsageError("the dialect is unknown; set dialect, or set template or model_dir to detect it")
    detection: Detection = detect_dialect(source, tokenizer=tokenizer)
    if detection.dialect is not None:
        return detection.dialect
    if not detection.hint and _has_neither_tools_nor_calls(source):
        log(logging.WARNING, "dialect_assumed", reason="the template has no calls", dialect="hermes")
        return get_dialect("hermes")
    if not detection.hint:
        raise UsageError(
            f"cannot detect the dialect from the chat template: {detection.evidence[0]} "
            "Set dialect; for a model without tools, set it to passthrough"
        )
    log(logging.WARNING, "dialect_assumed", reason="the template only hints at it", dialect=detection.hint)
    return get_dialect(detection.hint)


def _has_neither_tools_nor_calls(source: Source) -> bool:
    """Return whether the template renders neither tools nor calls; then any dialect will do."""
    template = ChatTemplate(source.template, **dict(source.tokens))  # type: ignore[arg-type]
    return find_tool_prompt(template) is not None and template.capabilities.calls == "none"


def _load_tokenizer(directory: Path) -> AnyTokenizer | None:
    """Load the tokenizer of a model directory; return None without a file, or without the package for it."""
    file = find_tokenizer_file(directory)
    if file is None:
        return None
    try:
        return load_tokenizer(file)
    except UsageError:
        return None


def _read_eos_ids(directory: Path) -> tuple[int, ...] | None:
    path = directory / "generation_config.json"
    if not path.is_file():
        return None
    try:
        ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{path} is not a generation configuration: {error}") from error
    if isinstance(ids, int):
        return (ids,)
    return tuple(ids) if isinstance(ids, Sequence) and not isinstance(ids, str) else None


def find_dialect(name: str) -> Dialect:
    """Return a dialect by the name in a request."""
    try:
        return get_dialect(name)
    except UsageError as error:
        raise invalid(str(error).partition("\n")[0], "dialect") from error
