"""Build hook for the optional compiled build: ``UNSPOOL_COMPILE=1 pip install .``.

Without the variable the wheel is pure Python and works everywhere.  With it, mypyc compiles the modules
in ``CORE``.  The wheel then contains these next to their sources, and the interpreter prefers them.
Nothing else differs, and the same tests run over both builds.

GCC compiles the modules twice.  The first build runs ``hatch_training.py`` and records how often each
branch is taken; the second build is optimised for that profile.
"""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from setuptools import Extension

CORE = (
    "events",
    "_core/finish_reason",
    "message",
    "_core/scan/short_text_cache_limits",
    "_core/scan/character_runs",
    "_core/scan/markers",
    "_core/schema/json_pointer",
    "_core/schema/tools",
    "_core/schema/text_to_value",
    "_core/compiler/argument_codec_base",
    "_core/compiler/match_program_types",
    "_core/compiler/matcher",
    "_core/compiler/split_templates",
    "_core/compiler/message_headers",
    "_core/compiler/split_name_and_id",
    "_core/compiler/follow_sets",
    "_core/compiler/states_outside_calls",
    "_core/compiler/compiled_dialect",
    "_core/compiler/compile",
    "_core/arguments/json_value",
    "_core/arguments/python_literal",
    "_core/arguments/json_envelope",
    "_core/arguments/tagged_parameters_base",
    "_core/arguments/tagged_parameters",
    "_core/arguments/nested_parameters",
    "_core/arguments/bare_key_object",
    "_core/arguments/raw_code",
    "_core/arguments/select_codec",
    "_core/compile_cache",
    "_core/ledger",
    "_core/unique_call_ids",
    "_core/call_reader",
    "_core/machine",
    "_core/stages/whole_call_buffer",
    "_core/read_prompt_end",
    "_core/token_ids/align_text_with_ids",
    "_core/token_ids/detokenizer",
    "_core/token_ids/token_text_cache",
    "_core/token_ids/reader",
    "_core/token_ids/labels",
    "_core/stages/whitespace_filter",
    "_core/stages/message_builder",
    "parser",
    "_core/stages/message_columns",
)
"""Modules that run for every delta or every parser."""
CHECKS = (
    "--config-file=",
    "--strict",
    "--always-true=COMPILING",
    # Other modules import optional dependencies, which need not be installed here.
    "--follow-imports=silent",
)
"""Options of mypy."""


def _is_requested() -> bool:
    """Return whether the environment asks for the compiled build."""
    return os.environ.get("UNSPOOL_COMPILE", "") not in ("", "0")


class CompiledCore(BuildHookInterface[Any]):
    """Build hook that adds the compiled modules to the wheel."""

    def dependencies(self) -> list[str]:
        """Return the requirements that a pure wheel does not have."""
        return ["mypy[mypyc]>=2.4,<2.5", "setuptools>=77"] if _is_requested() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the modules before the wheel is assembled."""
        if not _is_requested() or self.target_name != "wheel" or version == "editable":
            return
        self._output = tempfile.TemporaryDirectory()
        built = _compile(Path(self.root, "src"), Path(self._output.name))
        build_data["force_include"].update({str(path): name for name, path in built.items()})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compile(sources: Path, output: Path) -> dict[str, Path]:
    """Compile the core; return each library by its path in the wheel."""
    from mypyc.build import mypycify

    os.chdir(sources)
    sys.argv[1:] = []
    modules = [f"unspool/{module}.py" for module in CORE]
    extensions = mypycify([*CHECKS, *modules], target_dir=str(output / "c"))
    flags: list[str] = []
    if sys.platform != "win32":
        # Hide symbols, so that the compiler can inline calls between modules.
        flags += ["-fvisibility=hidden"]
    if sys.platform.startswith("linux"):
        flags += ["-fno-plt"]
        # Remove the search path of the interpreter's own libraries: it is specific to this machine.
        linker = str(sysconfig.get_config_var("LDSHARED")).split()
        os.environ.setdefault("LDSHARED", " ".join(w for w in linker if not w.startswith("-Wl,-rpath")))
    if _is_gcc():
        trained = _build(extensions, [*flags, "-fprofile-generate"], output, "trained")
        shutil.copytree(sources, trained, dirs_exist_ok=True)
        training = Path(__file__).with_name("hatch_training.py")
        if _run([sys.executable, str(training)], PYTHONPATH=str(trained)) is not None:
            flags += ["-fprofile-use", "-Wno-missing-profile"]
    library = _build(extensions, flags, output, "library")
    return {str(path.relative_to(library)): path for path in library.rglob("*") if path.is_file()}


def _is_gcc() -> bool:
    """Return whether the C compiler is GCC, which can use profiles."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    defined = _run([*compiler.split(), "-dM", "-E", "-x", "c", os.devnull]) or ""
    return sys.platform.startswith("linux") and "__GNUC__" in defined and "__clang__" not in defined


def _run(command: list[str], **environment: str) -> str | None:
    """Run a program and return its output; None if it cannot be run or fails."""
    variables = os.environ | environment
    try:
        return subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None


def _build(extensions: list[Extension], flags: list[str], output: Path, name: str) -> Path:
    """Compile and link; return the folder of the libraries."""
    from setuptools import Distribution

    flagged = copy.deepcopy(extensions)
    for extension in flagged:
        extension.extra_compile_args += flags
        extension.extra_link_args += flags
    command = Distribution({"ext_modules": flagged}).get_command_obj("build_ext")
    command.build_lib = str(output / name)  # type: ignore[attr-defined]
    command.build_temp = str(output / "temp")  # type: ignore[attr-defined]
    command.force = True
    command.ensure_finalized()
    command.run()
    return output / name
