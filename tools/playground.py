"""Build of the playground as a static page: ``make playground``.

The folder ``build/playground`` then holds the page, Pyodide's core, a reader for
``tokenizer.json`` and the wheels for the browser: unspool's pure wheel, and the installed Jinja2
and MarkupSafe without compiled parts. The page loads nothing from other origins, so any file
server works. The answers to the page's first requests are included, so that it shows an output
before Python has loaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from unspool.playground import answer

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "src" / "unspool" / "playground" / "static"
PYODIDE: Final = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
"""Files of Pyodide's package that a browser loads."""
PURE: Final = ("jinja2", "markupsafe")
"""Packages for detection from this environment; MarkupSafe works without its compiled part."""


def build(target: Path, modules: Path) -> None:
    """Assemble the page."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PAGE, target)
    for name in PYODIDE:
        _copy(modules / "pyodide" / name, target / "pyodide" / name)
    _copy(modules / "@huggingface" / "tokenizers" / "dist" / "tokenizers.min.mjs", target / "tokenizers.mjs")
    names = [wheel(target / "wheels"), *(archive(name, target / "wheels") for name in PURE)]
    (target / "wheels" / "wheels.json").write_text(json.dumps(names))
    (target / "start.json").write_text(json.dumps(first_requests()))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def wheel(folder: Path) -> str:
    """Build unspool's pure wheel."""
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)  # noqa: S603 - our own package
    (found,) = folder.glob("unspool-*-none-any.whl")
    return found.name


def archive(name: str, folder: Path) -> str:
    """Pack an installed package as an archive of its Python files."""
    installed = distribution(name)
    path = folder / f"{name}-{installed.version}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for file in installed.files or ():
            if file.suffix in (".py", ".typed") or ".dist-info" in file.parts[0]:
                out.writestr(str(file), Path(file.locate()).read_bytes())
    return path.name


def first_requests() -> dict[str, Any]:
    """Return the page's first requests with their answers."""
    dialects = answer({"ask": "dialects"})
    first = {key: value for key, value in dialects["presets"][0].items() if key != "title"}
    play = answer({"ask": "play", **first, "tools": dialects["tools"], "apis": [], "window": 24})
    return {"dialects": dialects, "play": play}


def main() -> int:
    """Build the page and print how to open it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("modules", type=Path, help="the folder of npm's packages")
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "playground")
    options = parser.parse_args()
    build(options.into, options.modules)
    size = sum(file.stat().st_size for file in options.into.rglob("*") if file.is_file())
    print(f"{options.into}: {size / 1e6:.0f} MB of files, for any file server. To open it here:")
    print(f"  {Path(sys.executable).name} -m http.server -d {options.into} --bind 127.0.0.1 8765")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
