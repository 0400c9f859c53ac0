"""Loading of the model that the settings describe: its template, tokenizer and dialect."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..._core.token_ids.tokenizer_adapters import AnyTokenizer
from ...dialects import Dialect, get_dialect
from ...errors import UsageError
from ...models.detection.detect_dialect import detect_dialect
from ...models.detection.result import Detection
from ...models.sources import Source, read_source
from ...models.sources.load_tokenizer import find_tokenizer_file, load_tokenizer
from ...planning import plan
from ...templates import ChatTemplate
from ..settings import Settings
from ..telemetry.logs import log
from .model import Model
from .tool_prompt import find_tool_prompt


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
        # plan() resolves checkpoint names; call it now, so that a wrong name is reported at startup.
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
        wire_options=settings.wire_options(),
        strict_tools=settings.strict_tools,
        created=created,
        source=origin,
    )


def _read_source(settings: Settings, config: Mapping[str, Any] | None) -> Source | None:
    """Read the chat template and its special tokens from the settings or the upstream's configuration."""
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
        raise UsageError(
            "cannot detect the dialect without a chat template; set dialect, template or model_dir"
        )
    detection: Detection = detect_dialect(source, tokenizer=tokenizer)
    if detection.dialect is not None:
        return detection.dialect
    if not detection.hint and _has_neither_tools_nor_calls(source):
        log(logging.WARNING, "dialect_assumed", reason="the template does not render calls", dialect="hermes")
        return get_dialect("hermes")
    if not detection.hint:
        raise UsageError(
            f"cannot detect the dialect from the chat template: {detection.evidence[0]} "
            "Set dialect; if the model does not support tools, set dialect to passthrough"
        )
    reason = "the template mentions this dialect but does not render calls"
    log(logging.WARNING, "dialect_assumed", reason=reason, dialect=detection.hint)
    return get_dialect(detection.hint)


def _has_neither_tools_nor_calls(source: Source) -> bool:
    """Return whether the template renders neither tools nor calls; any dialect works with such a template."""
    template = ChatTemplate(source.template, **dict(source.tokens))  # type: ignore[arg-type]
    return find_tool_prompt(template) is not None and template.capabilities.calls == "none"


def _load_tokenizer(directory: Path) -> AnyTokenizer | None:
    """Load a model directory's tokenizer; return None if the file or the tokenizer package is missing."""
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
        raise UsageError(f"{path} is not a valid generation configuration: {error}") from error
    if isinstance(ids, int):
        return (ids,)
    return tuple(ids) if isinstance(ids, Sequence) and not isinstance(ids, str) else None
