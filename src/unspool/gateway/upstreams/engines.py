"""Inference engines, and the request fields that each of them supports.

A plan may require the engine to keep special tokens, to constrain the output with a grammar, or to
stop at certain token ids.  Each engine has its own names for these request fields.  A
subclass of :class:`Engine` converts a request to the fields of its engine, and rejects requests that
the engine does not support.

=========  ==================================================================
vllm       ``structured_outputs`` with a structural tag or a JSON schema
sglang     ``response_format`` with a structural tag, ``json_schema`` as text
llamacpp   ``grammar`` in GBNF, ``json_schema``, ``preserved_tokens``
ollama     ``format`` with a JSON schema, everything else in ``options``
tgi        no constraints: text and stop strings only
mlx        no constraints: text and stop strings only
openai     no constraints and standard fields only, for unknown servers
=========  ==================================================================
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import UsageError
from ...grammar import GrammarTooLarge
from ...planning import special_token_fields
from ..http.failure import invalid
from ..settings import EngineName
from ..telemetry.logs import log, log_once
from .base import UpstreamRequest

_STANDARD_FIELDS: Final = frozenset(
    ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "user")
)
"""Sampling fields that every engine supports."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Request format of an unknown engine with an OpenAI-compatible API; base class for known engines."""

    name: EngineName = "openai"
    constraints: tuple[str, ...] = ()
    """Supported output constraints: ``native`` for grammars, ``json`` for JSON schemas."""
    supports_n: bool = True
    """True if one request can generate n choices."""
    constrains_chat: bool = False
    """True if the chat endpoint accepts constraints in addition to tools."""
    adds_bos: bool = True
    """True if the engine may add a beginning-of-sequence token at the start of the prompt."""
    known_fields: frozenset[str] = _STANDARD_FIELDS
    """Sampling fields that the engine supports."""
    supports_stop_ids: bool = False
    """True if a request can set stop token ids and keep the stop string in the output."""
    finish_optional: bool = False
    """True if a stream may end without a finish reason."""
    streams_logprobs: bool = True
    """True if the chat endpoint streams log probabilities for requests with tools."""

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """Return the body of a ``/v1/completions`` request, without the prompt and the model."""
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
        """Return the fields to add to the body of a ``/v1/chat/completions`` request."""
        # If the plan has no constraint, the field response_format already contains the schema.
        constrained = request.plan.constraint.kind != "none"
        return {**self.extra_fields(request), **(self.constraint_fields(request) if constrained else {})}

    def check_supported(self, request: UpstreamRequest) -> None:
        """Raise a failure if the engine does not support a field that changes the output."""
        for name, value in (
            ("stop_token_ids", request.stop_ids),
            ("include_stop_str_in_output", request.include_stop),
        ):
            if value and not self.supports_stop_ids:
                message = f"the engine {self.name} does not support {name}; leave it out"
                raise invalid(message, name, "unsupported_parameter")

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        """Return the sampling fields that the engine supports."""
        for key in request.sampling.keys() - self.known_fields:
            log_once("field_ignored", f"{key}: the engine {self.name} may not support this field")
        return {key: value for key, value in request.sampling.items() if key in self.known_fields}

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        """Return the token limit to send; without a limit, many engines generate only 16 tokens."""
        return request.max_tokens if request.max_tokens is not None else default

    def top_logprobs(self, count: int) -> int:
        """Return the value to send so that the engine returns ``count`` alternatives per token."""
        return count

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        """Return the fields that are specific to this engine."""
        del request
        return {}

    def constraint_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        """Return the fields that constrain the output; they are built only once per request.

        If a native grammar would be too large, a warning is logged and the output is not constrained: the
        prompt still describes the tools, but nothing forces the model to write valid calls.
        """
        if self.name not in request.constraint_fields:
            try:
                request.constraint_fields[self.name] = self.build_constraint(request)
            except GrammarTooLarge as error:
                if request.plan.constraint.kind != "native":
                    # Unless the constraint is native, the parser expects constrained output and would
                    # misinterpret unconstrained output.
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
    """Request format of vLLM."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        del default
        return request.max_tokens

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        body = Engine.completion_fields(self, request, default_tokens)
        # The chat template has already written the special tokens at the start of the prompt, so vLLM must
        # not add them again.  A null max_tokens means no limit.
        return {"max_tokens": None, "add_special_tokens": False} | body

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        plan = request.plan
        body = special_token_fields(plan, self.name)
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
    """Request format of SGLang."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        plan = request.plan
        body = special_token_fields(plan, self.name)
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
    """Request format of llama.cpp's own server."""

    def sampling_fields(self, request: UpstreamRequest) -> Mapping[str, Any]:
        return request.sampling

    def max_tokens(self, request: UpstreamRequest, default: int) -> int | None:
        del default
        return request.max_tokens

    def top_logprobs(self, count: int) -> int:
        return max(count, 1)  # for 0, llama.cpp returns no log probabilities at all

    def extra_fields(self, request: UpstreamRequest) -> dict[str, Any]:
        body = special_token_fields(request.plan, self.name)
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
    """Request format of Ollama's endpoint ``/api/generate``."""

    def completion_fields(self, request: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """Return the body of an ``/api/generate`` request, without the prompt and the model."""
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
"""Sampling fields that Ollama supports in ``options``."""

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
"""Engine names by the value of ``owned_by`` in the response of ``/v1/models``."""


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
