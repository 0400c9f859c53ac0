"""The model behind a gateway: how it is prompted, and how it is read."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ..._core.token_ids.tokenizers import AnyTokenizer
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
from ...models._detection.detect import examine
from ...models._detection.result import Detection
from ...models._sources import Source, read_source
from ...planning import Plan, plan
from ...policies import Policies
from ..conversation.media import check_parts, has_media, without_media
from ..http.errors import Failure, invalid
from ..settings import Settings
from ..telemetry.logs import log, log_once
from .tool_prompt import ToolPrompt, tool_prompt

_FIELDS: Final = re.compile(
    r"\b(tool_choice|tools|messages|message (?P<at>\d+)|response_format|stop|n(?==)|parallel_tool_calls|"
    r"continue_final_message|add_generation_prompt|chat_template_kwargs|chat_template_args|reasoning_effort|"
    r"enable_thinking|thinking_mode|thinking_budget|thinking|reasoning|separate_reasoning|include_reasoning|"
    r"skip_special_tokens|ignore_eos|functions|function_call|guided_\w+|structured_outputs|structural_tag)\b"
)
"""Fields of a request as error messages name them."""
_OWN: Final = frozenset({"self", "messages", "tools", "add_generation_prompt", "continue_final_message"})
"""What every rendering is told anyway."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, made ready for the upstream."""

    plan: Plan
    prompt: str | None
    """None where the upstream renders it."""
    tools: tuple[Mapping[str, Any], ...]
    """The tools that the model is shown."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is known about a model."""

    name: str
    """As clients call it."""
    dialect: str | Dialect
    """How it writes; a name may be that of a checkpoint."""
    template: ChatTemplate | None = None
    toolless: ChatTemplate | None = None
    """What to render without tools, if the model has another template for that."""
    tool_prompt: ToolPrompt | None = None
    """How tools are shown, if the template does not show them."""
    tokenizer: AnyTokenizer | None = None
    eos_token_ids: tuple[int, ...] | None = None
    bos_token: str = ""
    aliases: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Variables for the template."""
    policies: Policies = field(default_factory=Policies)
    strict_tools: bool = False
    created: int = 0
    source: Source | None = None
    """What its template was found in; None: there is none."""

    @property
    def family(self) -> str:
        """The dialect's name."""
        return self.dialect if isinstance(self.dialect, str) else self.dialect.name

    def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """The tokens of a text; None: there is no tokenizer that could tell."""
        encode = getattr(self.tokenizer, "encode", None)
        return None if encode is None else list(encode(text, add_special_tokens=special).ids)

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        """The text of tokens; None: there is no tokenizer that could tell."""
        decode = getattr(self.tokenizer, "decode", None)
        return None if decode is None else str(decode(list(tokens), skip_special_tokens=False))

    def prepare(
        self,
        request: Mapping[str, Any],
        *,
        constraints: Sequence[str],
        renders: bool,
        policies: Policies | None = None,
    ) -> Prepared:
        """Decide what the request means, and write the prompt.

        :param constraints: what the upstream can hold the model to.
        :param renders: the upstream writes the prompt itself.
        :param policies: for this request, if they are not the model's.
        """
        try:
            return self._prepare(request, constraints, renders, policies or self.policies)
        except ChatTemplateLimit as error:
            raise Failure("too_large", str(error), param="messages") from error
        except (UsageError, ChatTemplateError) as error:
            message = str(error)
            found = _FIELDS.search(message)
            param = None if found is None else found[0]
            if found is not None and found["at"]:
                param = f"messages[{found['at']}]"
            elif isinstance(error, ChatTemplateError):
                param = param or "messages"
            raise invalid(message, param) from error
        except NoRenderer as error:
            raise no_renderer(error) from error
        except UnspoolError as error:
            raise Failure("internal", str(error)) from error

    def _prepare(
        self, request: Mapping[str, Any], constraints: Sequence[str], renders: bool, policies: Policies
    ) -> Prepared:
        told = dict(request)
        if self.strict_tools and told.get("tools"):
            told["tools"] = [_strict(tool) for tool in told["tools"]]
        decided = plan(
            self.dialect,
            told,
            tokenizer=self.tokenizer,
            defaults=self.defaults,
            constraints=constraints,
            eos_token_ids=self.eos_token_ids,
            policies=policies,
        )
        names = {_name(tool) for tool in decided.tools}
        tools = tuple(tool for tool in request.get("tools") or () if _name(tool) in names)
        if renders or self.template is None:
            return Prepared(decided, None, tools)
        messages = self._shown(request["messages"])
        if self.tool_prompt is not None:
            offered = () if decided.tool_output == "none" else tools
            messages = self.tool_prompt.told(messages, offered, decided.dialect)
        history = normalise_history(messages, self.template, dialect=decided.dialect)
        variables = dict(decided.chat_template_kwargs)
        for name in _OWN & variables.keys():
            raise invalid(
                f"chat_template_kwargs: {name} is no variable of templates; the request says it elsewhere",
                "chat_template_kwargs",
            )
        if request.get("documents"):
            if "documents" not in self.template.source:
                raise invalid("documents: the model's chat template does not read them", "documents")
            variables["documents"] = request["documents"]
        prompt = self._render(history, tools, variables, request)
        return Prepared(decided.with_prompt(prompt), prompt, tools)

    def _shown(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """The conversation in roles that the template knows, and as text, because a prompt is text."""
        check_parts(messages)
        if self.template is not None and "developer" not in self.template.source:
            messages = [
                {**message, "role": "system"} if message["role"] == "developer" else message
                for message in messages
            ]
        if not has_media(messages):
            return messages
        log_once("left out of requests", f"pictures and files: {self.name} is shown a text in their place")
        return without_media(messages)

    def _render(
        self,
        history: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, object],
        request: Mapping[str, Any],
    ) -> str:
        """The prompt; some templates insist on a list of tools, or on a description of everything."""
        template = self.template if tools or self.toolless is None else self.toolless
        assert template is not None  # noqa: S101 - the caller has looked
        failed: ChatTemplateError | None = None
        for shown in (tools, [_described(tool) for tool in tools]) if tools else (None, ()):
            try:
                return template.render(
                    history,
                    shown,
                    add_generation_prompt=True,
                    continue_final_message=bool(request.get("continue_final_message")),
                    **variables,
                )
            except ChatTemplateLimit:
                raise
            except ChatTemplateError as error:
                failed = failed or error
        assert failed is not None  # noqa: S101 - else the template has rendered
        raise failed


def no_renderer(error: NoRenderer) -> Failure:
    """A request whose template cannot be run now; why, is for the log."""
    log(logging.ERROR, "no template can be run", reason=str(error))
    return Failure("overloaded", "the gateway cannot run chat templates now; try again", retry_after="1")


def _name(tool: Mapping[str, Any]) -> object:
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool.get("name")


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in which nothing lacks a description."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(properties, Mapping):
        told = {
            key: {"description": "", **value} if isinstance(value, Mapping) else value
            for key, value in properties.items()
        }
        parameters = {**parameters, "properties": told}
    return {**tool, "function": {"description": "", **function, "parameters": parameters}}


def _strict(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or "strict" in function:
        return dict(tool)
    return {**tool, "function": {**function, "strict": True}}


def load_model(
    settings: Settings, *, source: Mapping[str, Any] | None = None, name: str = "", created: int = 0
) -> Model:
    """The model that the settings describe.

    :param source: a tokenizer configuration that the upstream has told.
    """
    found = _source(settings, source)
    directory = Path(settings.model_dir) if settings.model_dir else None
    tokenizer = None if directory is None else _tokenizer(directory)
    dialect: str | Dialect = settings.dialect
    if settings.dialect == "auto":
        dialect = _detected(found, tokenizer)
    else:
        # Names of checkpoints are for plan() to resolve; a mistake is to be told now.
        plan(settings.dialect, {"messages": [{"role": "user", "content": ""}]}, tokenizer=tokenizer)
    template = toolless = None
    if found is not None:
        template = ChatTemplate(found.template, **dict(found.tokens))  # type: ignore[arg-type]
        template.wants  # noqa: B018 - now, not in the first request
        default = found.others.get("the template 'default'")
        if default is not None:
            toolless = ChatTemplate(default, **dict(found.tokens))  # type: ignore[arg-type]
    prompt = None if template is None else tool_prompt(template)
    if prompt is not None:
        log(logging.WARNING, "the template writes no tools: they are shown in the system message")
    return Model(
        name=settings.model or name or "model",
        dialect=dialect,
        template=template,
        toolless=toolless,
        tool_prompt=prompt,
        tokenizer=tokenizer,
        eos_token_ids=None if directory is None else _eos(directory),
        bos_token="" if found is None else found.tokens.get("bos_token", ""),
        aliases=settings.aliases,
        defaults=settings.chat_template_kwargs,
        policies=settings.parser_policies(),
        strict_tools=settings.strict_tools,
        created=created,
        source=found,
    )


def _source(settings: Settings, told: Mapping[str, Any] | None) -> Source | None:
    """The chat template, and the tokens it needs."""
    found = None
    if settings.model_dir:
        try:
            found = read_source(Path(settings.model_dir))
        except UsageError:
            if not settings.template:
                raise
    elif told and told.get("chat_template"):
        found = read_source(told)
    if settings.template:
        own = read_source(Path(settings.template))
        found = own if found is None else replace(own, tokens={**found.tokens, **own.tokens})
    return found


def _detected(source: Source | None, tokenizer: AnyTokenizer | None) -> Dialect:
    if source is None:
        raise UsageError(
            "how does the model write its calls? Set dialect, or template or model_dir to tell it by"
        )
    found: Detection = examine(source, tokenizer=tokenizer)
    if found.dialect is not None:
        return found.dialect
    if not found.hint and _knows_no_tools(source):
        log(logging.WARNING, "the template knows no calls: they are written as in hermes", dialect="hermes")
        return get_dialect("hermes")
    if not found.hint:
        raise UsageError(
            f"the chat template does not tell the dialect: {found.evidence[0]} Set dialect, "
            "for a model without tools to passthrough"
        )
    log(logging.WARNING, "the template renders no calls, but speaks of a dialect", dialect=found.hint)
    return get_dialect(found.hint)


def _knows_no_tools(source: Source) -> bool:
    """Whether its template writes neither tools nor calls: then any dialect will do that it is told."""
    template = ChatTemplate(source.template, **dict(source.tokens))  # type: ignore[arg-type]
    return tool_prompt(template) is not None and template.wants.calls == "none"


def _tokenizer(directory: Path) -> AnyTokenizer | None:
    path = directory / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    return Tokenizer.from_file(str(path))


def _eos(directory: Path) -> tuple[int, ...] | None:
    path = directory / "generation_config.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{path} is not a generation configuration: {error}") from error
    if isinstance(found, int):
        return (found,)
    return tuple(found) if isinstance(found, Sequence) and not isinstance(found, str) else None


def find_dialect(name: str) -> Dialect:
    """A dialect for ``/v1/parse``."""
    try:
        return get_dialect(name)
    except UsageError as error:
        raise invalid(str(error).partition("\n")[0], "dialect") from error
