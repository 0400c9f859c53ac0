"""The optional compiled build: ``UNSPOOL_COMPILE=1 pip install .``.

Without the variable the wheel is pure Python and works everywhere.  With it,
the files below are compiled with mypyc and lie in the wheel beside their
sources; the interpreter prefers them.  Nothing else differs, and the same
tests run over both.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = (
    "_events",
    "_scan",
    "_watch",
    "_trial",
    "_forms",
    "_grammar",
    "_ledger",
    "_machine",
    "_gate",
    "_tidy",
    "_finish",
    "_fold",
    "_schema",
    "_prompt",
    "_detokenizer",
    "_token_mode",
    "_parser",
    "codecs/base",
    "codecs/json",
    "codecs/python",
    "codecs/envelope",
    "codecs/tagged",
    "codecs/tree",
    "codecs/bare",
    "codecs/code",
    "codecs/make",
)
"""What runs for every delta, or for every parser."""


def _wanted() -> bool:
    return os.environ.get("UNSPOOL_COMPILE", "") not in ("", "0")


class CompiledCore(BuildHookInterface[Any]):
    """Adds the compiled modules to the wheel."""

    def dependencies(self) -> list[str]:
        """What building needs beyond what a pure wheel needs."""
        return ["mypy[mypyc]>=2.4,<2.5", "setuptools>=77"] if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together."""
        if not _wanted() or self.target_name != "wheel" or version == "editable":
            return
        self._output = tempfile.TemporaryDirectory()
        built = _compile(Path(self.root, "src"), Path(self._output.name))
        build_data["force_include"].update({str(path): name for name, path in built.items()})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compile(sources: Path, output: Path) -> dict[str, Path]:
    """Compile the core; gives each compiled module with its place in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    os.chdir(sources)
    sys.argv[1:] = []
    modules = [f"unspool/{module}.py" for module in CORE]
    options = ["--config-file=", "--strict", "--always-true=COMPILING"]
    extensions = mypycify([*options, *modules], target_dir=str(output / "c"))
    if sys.platform != "win32":
        for extension in extensions:
            # Calls between compiled functions stay inside the library, so that they can be inlined.
            extension.extra_compile_args.append("-fno-semantic-interposition")
    if sys.platform.startswith("linux"):
        for extension in extensions:
            extension.extra_compile_args += ["-flto", "-fno-plt"]
            extension.extra_link_args += ["-flto", "-O3", "-Wl,-Bsymbolic-functions"]
    command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = str(output / "lib")  # type: ignore[attr-defined]
    command.build_temp = str(output / "temp")  # type: ignore[attr-defined]
    command.ensure_finalized()
    command.run()
    library = output / "lib"
    return {str(path.relative_to(library)): path for path in library.rglob("*") if path.is_file()}
