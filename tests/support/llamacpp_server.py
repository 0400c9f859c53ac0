"""llama.cpp's own server with a small model."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from unspool.gateway.upstreams.embedded_llamacpp import packaged_model

TEMPLATE = files("unspool.gateway").joinpath("smollm2.jinja").read_text(encoding="utf-8")


def engine(*, template: str = TEMPLATE, parses: bool = False) -> Any:
    """Start llama.cpp's server; it stops when the object is deleted.

    :param parses: let the server parse calls itself.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(packaged_model())
    params.n_ctx = 4096
    params.n_parallel = 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port = 0
    params.warmup = False
    params.verbosity = -1
    params.endpoint_slots = True
    params.use_jinja = True
    params.chat_template = template
    params.force_pure_content_parser = not parses
    return xllamacpp.Server(params)
