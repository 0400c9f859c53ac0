"""Engines: the request fields that each inference engine understands.

A plan decides, for example, to keep special tokens, to constrain the output by a grammar, or to
stop at certain token ids.  Every engine has other names for these.  An :class:`Engine` knows its
names, and refuses what the engine does not support.

=========  ==================================================================
vllm       ``structured_outputs`` with a structural tag or a JSON schema
sglang     ``response_format`` with a structural tag, ``json_schema`` as text
llamacpp   ``grammar`` in GBNF, ``json_schema``, ``preserved_tokens``
ollama     ``format`` with a JSON schema, everything else among ``options``
tgi        no constraints: text and stop strings only
mlx        no constraints: text and stop strings only
openai     no constraints and standard fields only, for unknown servers
=========  ==================================================================
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...dialects._templates import literals, parse_template, split_marks
from ...errors import UsageError
from ...grammar import GrammarTooLarge
from ...planning._decide_special_tokens import markers
from ..http.failure import invalid
from ..settings import EngineName
from ..telemetry.logs import log, log_once
from .base import UpstreamRequest

_STANDARD_FIELDS: Final = frozenset(
    ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "user")
)
"""Sampling fields that every engine knows."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Unknown engine with an OpenAI-compatible API; base class of the known ones."""

    name: EngineName = "openai"
    constraints: tuple[str, ...] = ()
    """Output constraints that the engine supports: ``native`` grammars, ``json`` schemas."""
    supports_n: bool = True
    """True if one request can generate n choices."""
    constrains_chat: bool = False
    """True if the chat endpoint also accepts constraints beside tools."""
    adds_bos: bool = True
    """True if the engine prepends a beginning-of-sequence token; the template's own is then removed."""
    known_fields: frozenset[str] = _STANDARD_FIELDS
    """Sampling fields that the engine knows."""
    supports_stop_ids: bool = False
    """True if a request can set stop token ids and keep the stop string in the output."""
    finish_optional: bool = False
    """True if a stream may end without a finish reason."""
    streams_logprobs: bool = True
    """True if the chat endpoint streams log probabilities for requests with tools."""

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """Return the body for ``/v1/completions`` without prompt and model."""
        body = dict(self.sampling_fields(request))
        limit = self.max_tokens(request, default_tokens)
        if limit is not None:
            body["max_tokens"] = limit
        if request.stop:
            body["stop"] = list(request.stop)
        if request.logprobs is not None:
            body["logprobs"] = self.top_logprobs(request.logprobs)
        if request.n > 1 and self.supports_n:
            body["n"] = request.n
        return {**body, **self.extra_fields(request), **self.constraint_fields(request)}

    def chat_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        """Return the fields to add to a body for ``/v1/chat/completions``."""
        # Without a constraint of the plan, response_format has the schema already.
        constrained = request.plan.constraint.kind != "none"
        return {**self.extra_fields(request), **(self.constraint_fields(request) if constrained else {})}

    def check_supported(self, request: UpstreamRequest) -> None:
        """Refuse fields that change the output and that the engine does not support."""
        for name, value in (
            ("stop_token_ids", request.stop_ids),
            ("include_stop_str_in_output", request.include_stop),
        ):
            if value and not self.supports_stop_ids:
                message = f"the engine {self.name} does not support {name}; leave it out"
                raise invalid(message, name, "unsupported_parameter")

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        """Return the sampling fields that the engine knows."""
        for key in request.sampling.keys() - self.known_fields:
            log_once("field_ignored", f"{key}: the engine {self.name} may not know this field")
        return {key: value for key, value in request.sampling.items() if key in self.known_fields}

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        """Return ``max_tokens``; many engines generate only 16 tokens without it."""
        return request.max_tokens if request.max_tokens is not None else default

    def top_logprobs(self, count: int) -> int:
        """Return the engine's value for this number of alternatives per token."""
        return count

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        """Return the fields that only this engine has."""
        del request
        return {}

    def constraint_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        """Return the fields that constrain the output, built once per request.

        If a native grammar would be too large, it is left out and logged: the model still sees its tools,
        but nothing forces it to write valid calls.
        """
        if self.name not in request.constraint_fields:
            try:
                request.constraint_fields[self.name] = self.build_constraint(request)
            except GrammarTooLarge as error:
                if request.plan.constraint.kind != "native":
                    # The parser expects constrained output and would misread free text.
                    raise invalid(str(error), "tools") from error
                log(logging.WARNING, "grammar_too_large", id=request.id, reason=str(error))
                request.constraint_fields[self.name] = {}
            except UsageError as error:
                raise invalid(str(error), "tools") from error
        return request.constraint_fields[self.name]

    def build_constraint(self, request: UpstreamRequest) -> dict[str, Any]:
        """Build the fields that constrain the output to the plan's grammar or to the JSON schema."""
        del request
        return {}


class Vllm(Engine):
    """Engine vLLM."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        del default
        return request.max_tokens

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        body = Engine.completion_fields(self, request, default_tokens)
        # The template has written the special tokens at the start; null means no token limit.
        return {"max_tokens": None, "add_special_tokens": False} | body

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        plan = request.plan
        body: dict[str, Any] = {
            "skip_special_tokens": plan.skip_special_tokens,
            "spaces_between_special_tokens": plan.spaces_between_special_tokens,
        }
        if plan.ignore_eos:
            body["ignore_eos"] = True
        ids = (*request.stop_ids, *(() if plan.ignore_eos else plan.eos_token_ids or ()))
        if ids:
            body["stop_token_ids"] = list(dict.fromkeys(ids))
        if request.token_ids:
            body["return_token_ids"] = True
        if request.include_stop:
            body["include_stop_str_in_output"] = True
        return body

    def build_constraint(self, request: UpstreamRequest) -> dict[str, Any]:
        constraint = request.plan.constraint
        if constraint.kind == "native":
            return {"structured_outputs": {"structural_tag": _compact(constraint.grammar().structural_tag())}}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else request.schema
        return {} if schema is None else {"structured_outputs": {"json": schema}}


class Sglang(Engine):
    """Engine SGLang."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        plan = request.plan
        body: dict[str, Any] = {"skip_special_tokens": plan.skip_special_tokens}
        if request.include_stop:
            body["no_stop_trim"] = True
        if plan.ignore_eos:
            body["ignore_eos"] = True
        ids = (*request.stop_ids, *(() if plan.ignore_eos else plan.eos_token_ids or ()))
        if ids:
            body["stop_token_ids"] = list(dict.fromkeys(ids))
        return body

    def build_constraint(self, request: UpstreamRequest) -> dict[str, Any]:
        constraint = request.plan.constraint
        if constraint.kind == "native":
            return {"response_format": constraint.grammar().structural_tag()}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else request.schema
        return {} if schema is None else {"json_schema": _compact(schema)}


class LlamaCpp(Engine):
    """Engine llama.cpp, by its own server."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        del default
        return request.max_tokens

    def top_logprobs(self, count: int) -> int:
        return max(count, 1)  # 0 means no log probabilities at all

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if not request.plan.skip_special_tokens:
            body["preserved_tokens"] = list(_marker_texts(request))
        if request.plan.ignore_eos:
            body["ignore_eos"] = True
        return body

    def build_constraint(self, request: UpstreamRequest) -> dict[str, Any]:
        constraint = request.plan.constraint
        if constraint.kind == "native":
            return {"grammar": constraint.grammar().gbnf()}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else request.schema
        return {} if schema is None else {"json_schema": schema}


class Ollama(Engine):
    """Engine Ollama, by its own generate endpoint."""

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """Return the body for ``/api/generate`` without prompt and model."""
        del default_tokens
        num_predict = -1 if request.max_tokens is None else request.max_tokens
        options = {**self.sampling_fields(request), "num_predict": num_predict}
        if request.stop:
            options["stop"] = list(request.stop)
        body: dict[str, Any] = {"options": options}
        if request.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        return {**body, **self.constraint_fields(request)}

    def build_constraint(self, request: UpstreamRequest) -> dict[str, Any]:
        constraint = request.plan.constraint
        schema = constraint.json_schema() if constraint.kind == "guided_json" else request.schema
        return {} if schema is None else {"format": schema}


_OLLAMA_OPTIONS: Final = frozenset(
    (
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed"),
        *("presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n"),
    )
)
"""Sampling fields that Ollama expects among its ``options``."""

ENGINES: Final[dict[EngineName, Engine]] = {
    "vllm": Vllm("vllm", ("native", "json"), constrains_chat=True, adds_bos=False, supports_stop_ids=True),
    "sglang": Sglang("sglang", ("native", "json"), constrains_chat=True, supports_stop_ids=True),
    "llamacpp": LlamaCpp("llamacpp", ("native", "json"), supports_n=False, streams_logprobs=False),
    "ollama": Ollama("ollama", ("json",), supports_n=False, known_fields=_OLLAMA_OPTIONS),
    "tgi": Engine("tgi", supports_n=False, known_fields=_STANDARD_FIELDS | {"repetition_penalty"}),
    "mlx": Engine(
        "mlx", supports_n=False, known_fields=_STANDARD_FIELDS | {"repetition_penalty", "min_p", "top_k"}
    ),
    "openai": Engine(finish_optional=True),
}
"""Engines by their name in the settings."""

OWNERS: Final[dict[str, EngineName]] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp"}
"""Engines by the ``owned_by`` that ``/v1/models`` reports."""


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _marker_texts(request: UpstreamRequest) -> Sequence[str]:
    """Return the literal texts of the dialect's markers.

    llama.cpp hides special tokens unless they are preserved.  It ignores texts of several tokens.
    """
    texts: dict[str, None] = {}
    for template in markers(request.plan.dialect, calls=True, reasoning=True):
        for literal in literals(parse_template(split_marks(template)[1])):
            if len(literal.strip()) > 1:
                texts[literal.strip()] = None
    return tuple(texts)
