"""Engines: one wish, as each of them spells it.

What a plan decides (keep special tokens, hold the model to a grammar, stop at
these ids) has another name everywhere.  An :class:`Engine` knows the names, and
what it cannot be told.

=========  ==================================================================
vllm       ``structured_outputs`` with a structural tag or a JSON schema
sglang     ``response_format`` with a structural tag, ``json_schema`` as text
llamacpp   ``grammar`` in GBNF, ``json_schema``, ``preserved_tokens``
ollama     ``format`` with a JSON schema, everything else among ``options``
tgi        nothing but text and stop strings
mlx        likewise
openai     likewise, and as little else as possible: a server we do not know
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
from ...planning._special_tokens import markers
from ..http.errors import invalid
from ..settings import EngineName
from ..telemetry.logs import log, log_once
from .base import UpstreamRequest

_SAMPLING: Final = frozenset(
    ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "user")
)
"""What every engine knows."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A server that we do not know anything about."""

    name: EngineName = "openai"
    constraints: tuple[str, ...] = ()
    """What it can hold a model to."""
    many: bool = True
    """Whether it generates n choices for one request."""
    repairs: bool = False
    """Whether its chat endpoint, too, takes such constraints beside tools."""
    adds_bos: bool = True
    """Whether it puts the token of the beginning before a prompt, so that the template's own must go."""
    samples: frozenset[str] = _SAMPLING
    """Which other fields of requests it knows."""
    told_stops: bool = False
    """Whether it can be told to stop at tokens, and to keep what it stopped at."""
    plain_end: bool = False
    """Whether its streams may end without a finish reason."""
    streams_logprobs: bool = True
    """Whether its chat endpoint streams log probabilities where there are tools."""

    def completion(self, task: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """The body for ``/v1/completions``, without prompt and model."""
        body = dict(self.sampling(task))
        limit = self.limit(task, default_tokens)
        if limit is not None:
            body["max_tokens"] = limit
        if task.stop:
            body["stop"] = list(task.stop)
        if task.logprobs is not None:
            body["logprobs"] = self.logprobs(task.logprobs)
        if task.n > 1 and self.many:
            body["n"] = task.n
        return {**body, **self.own(task), **self.held(task)}

    def chat(self, task: UpstreamRequest) -> dict[str, Any]:
        """What to change in a request for ``/v1/chat/completions``; it knows ``response_format`` itself."""
        return {**self.own(task), **(self.held(task) if task.plan.constraint.kind != "none" else {})}

    def check(self, task: UpstreamRequest) -> None:
        """Refuse what it cannot be told, and would change the answer."""
        for name, wanted in (
            ("stop_token_ids", task.stop_ids),
            ("include_stop_str_in_output", task.keeps_stop),
        ):
            if wanted and not self.told_stops:
                told = f"{name}: the engine ({self.name}) cannot be told"
                raise invalid(told, name, "unsupported_parameter")

    def sampling(self, task: UpstreamRequest) -> Mapping[str, Any]:
        """What of the request's other fields it is told."""
        for key in task.sampling.keys() - self.samples:
            log_once("left out of requests", f"the field {key}: the engine ({self.name}) may not know it")
        return {key: value for key, value in task.sampling.items() if key in self.samples}

    def limit(self, task: UpstreamRequest, default: int) -> int | None:
        """``max_tokens``: what is left out means 16 to many."""
        return task.max_tokens if task.max_tokens is not None else default

    def logprobs(self, wanted: int) -> int:
        """How to ask for that many alternatives."""
        return wanted

    def own(self, task: UpstreamRequest) -> dict[str, Any]:
        """Its own fields."""
        del task
        return {}

    def held(self, task: UpstreamRequest) -> Mapping[str, Any]:
        """What holds the model to the plan, made once for a task.

        A grammar that is too large to be made is left out, with a word in the log: the model is asked for
        calls, and not held to them.
        """
        if self.name not in task.held:
            try:
                task.held[self.name] = self.constraint(task)
            except GrammarTooLarge as error:
                if task.plan.constraint.kind != "native":  # the output would be read as what it is not
                    raise invalid(str(error), "tools") from error
                log(logging.WARNING, "the model is not held to its tools", id=task.id, reason=str(error))
                task.held[self.name] = {}
            except UsageError as error:
                raise invalid(str(error), "tools") from error
        return task.held[self.name]

    def constraint(self, task: UpstreamRequest) -> dict[str, Any]:
        """What holds the model to the plan, or the answer to its schema."""
        del task
        return {}


class Vllm(Engine):
    """vLLM."""

    def sampling(self, task: UpstreamRequest) -> Mapping[str, Any]:
        return task.sampling

    def limit(self, task: UpstreamRequest, default: int) -> int | None:
        del default
        return task.max_tokens

    def completion(self, task: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        body = Engine.completion(self, task, default_tokens)
        # The template has written the tokens of the beginning; null is "as long as it takes".
        return {"max_tokens": None, "add_special_tokens": False} | body

    def own(self, task: UpstreamRequest) -> dict[str, Any]:
        plan = task.plan
        body: dict[str, Any] = {
            "skip_special_tokens": plan.skip_special_tokens,
            "spaces_between_special_tokens": plan.spaces_between_special_tokens,
        }
        if plan.ignore_eos:
            body["ignore_eos"] = True
        ids = (*task.stop_ids, *(() if plan.ignore_eos else plan.eos_token_ids or ()))
        if ids:
            body["stop_token_ids"] = list(dict.fromkeys(ids))
        if task.token_ids:
            body["return_token_ids"] = True
        if task.keeps_stop:
            body["include_stop_str_in_output"] = True
        return body

    def constraint(self, task: UpstreamRequest) -> dict[str, Any]:
        constraint = task.plan.constraint
        if constraint.kind == "native":
            return {"structured_outputs": {"structural_tag": _compact(constraint.grammar().structural_tag())}}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else task.schema
        return {} if schema is None else {"structured_outputs": {"json": schema}}


class Sglang(Engine):
    """SGLang."""

    def sampling(self, task: UpstreamRequest) -> Mapping[str, Any]:
        return task.sampling

    def own(self, task: UpstreamRequest) -> dict[str, Any]:
        plan = task.plan
        body: dict[str, Any] = {"skip_special_tokens": plan.skip_special_tokens}
        if task.keeps_stop:
            body["no_stop_trim"] = True
        if plan.ignore_eos:
            body["ignore_eos"] = True
        ids = (*task.stop_ids, *(() if plan.ignore_eos else plan.eos_token_ids or ()))
        if ids:
            body["stop_token_ids"] = list(dict.fromkeys(ids))
        return body

    def constraint(self, task: UpstreamRequest) -> dict[str, Any]:
        constraint = task.plan.constraint
        if constraint.kind == "native":
            return {"response_format": constraint.grammar().structural_tag()}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else task.schema
        return {} if schema is None else {"json_schema": _compact(schema)}


class LlamaCpp(Engine):
    """The server of llama.cpp."""

    def sampling(self, task: UpstreamRequest) -> Mapping[str, Any]:
        return task.sampling

    def limit(self, task: UpstreamRequest, default: int) -> int | None:
        del default
        return task.max_tokens

    def logprobs(self, wanted: int) -> int:
        return max(wanted, 1)  # 0 means none at all

    def own(self, task: UpstreamRequest) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if not task.plan.skip_special_tokens:
            body["preserved_tokens"] = list(_marker_texts(task))
        if task.plan.ignore_eos:
            body["ignore_eos"] = True
        return body

    def constraint(self, task: UpstreamRequest) -> dict[str, Any]:
        constraint = task.plan.constraint
        if constraint.kind == "native":
            return {"grammar": constraint.grammar().gbnf()}
        schema = constraint.json_schema() if constraint.kind == "guided_json" else task.schema
        return {} if schema is None else {"json_schema": schema}


class Ollama(Engine):
    """Ollama, by its own endpoint; its chat endpoint is like anybody's."""

    def completion(self, task: UpstreamRequest, default_tokens: int) -> dict[str, Any]:
        """The body for ``/api/generate``, without prompt and model."""
        del default_tokens
        options = {**self.sampling(task), "num_predict": -1 if task.max_tokens is None else task.max_tokens}
        if task.stop:
            options["stop"] = list(task.stop)
        body: dict[str, Any] = {"options": options}
        if task.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": task.logprobs}
        return {**body, **self.held(task)}

    def constraint(self, task: UpstreamRequest) -> dict[str, Any]:
        constraint = task.plan.constraint
        schema = constraint.json_schema() if constraint.kind == "guided_json" else task.schema
        return {} if schema is None else {"format": schema}


_OPTIONS: Final = frozenset(
    (
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed"),
        *("presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n"),
    )
)
"""What of a request is an option of Ollama's."""

ENGINES: Final[dict[EngineName, Engine]] = {
    "vllm": Vllm("vllm", ("native", "json"), repairs=True, adds_bos=False, told_stops=True),
    "sglang": Sglang("sglang", ("native", "json"), repairs=True, told_stops=True),
    "llamacpp": LlamaCpp("llamacpp", ("native", "json"), many=False, streams_logprobs=False),
    "ollama": Ollama("ollama", ("json",), many=False, samples=_OPTIONS),
    "tgi": Engine("tgi", many=False, samples=_SAMPLING | {"repetition_penalty"}),
    "mlx": Engine("mlx", many=False, samples=_SAMPLING | {"repetition_penalty", "min_p", "top_k"}),
    "openai": Engine(plain_end=True),
}
"""Every engine, by its name in the settings."""

OWNERS: Final[dict[str, EngineName]] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp"}
"""Engines by what ``/v1/models`` gives as the owner of a model."""


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _marker_texts(task: UpstreamRequest) -> Sequence[str]:
    """The literals of the dialect's markup; those that are one token each will be shown."""
    found: dict[str, None] = {}
    for template in markers(task.plan.dialect, calls=True, reasoning=True):
        for literal in literals(parse_template(split_marks(template)[1])):
            if len(literal.strip()) > 1:
                found[literal.strip()] = None
    return tuple(found)
