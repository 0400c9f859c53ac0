"""Builds the playground as a static page: ``make playground``.

The folder ``build/playground`` then holds the page, Pyodide's core, a reader of
``tokenizer.json`` and the wheels that run in the browser: ours, pure, and Jinja2
and MarkupSafe as they are installed, without what is compiled.  The page asks no
other origin, so any server of files will do.  What the page asks first is
answered here already: it shows an output before Python is there.
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
"""What of its package a browser loads."""
PURE: Final = ("jinja2", "markupsafe")
"""What detection needs, from this environment; MarkupSafe does without its compiled part."""


def build(target: Path, modules: Path) -> None:
    """Put the page together."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PAGE, target)
    for name in PYODIDE:
        _copy(modules / "pyodide" / name, target / "pyodide" / name)
    _copy(modules / "@huggingface" / "tokenizers" / "dist" / "tokenizers.min.mjs", target / "tokenizers.mjs")
    names = [wheel(target / "wheels"), *(archive(name, target / "wheels") for name in PURE)]
    (target / "wheels" / "wheels.json").write_text(json.dumps(names))
    (target / "start.json").write_text(json.dumps(beginning()))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def wheel(folder: Path) -> str:
    """Our own wheel, the pure one."""
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)  # noqa: S603 - our own
    (found,) = folder.glob("unspool-*-none-any.whl")
    return found.name


def archive(name: str, folder: Path) -> str:
    """An installed package as an archive of its Python files."""
    installed = distribution(name)
    path = folder / f"{name}-{installed.version}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for file in installed.files or ():
            if file.suffix in (".py", ".typed") or ".dist-info" in file.parts[0]:
                out.writestr(str(file), Path(file.locate()).read_bytes())
    return path.name


def beginning() -> dict[str, Any]:
    """What the page asks first, with the answers."""
    dialects = answer({"ask": "dialects"})
    first = {key: value for key, value in dialects["presets"][0].items() if key != "title"}
    play = answer({"ask": "play", **first, "tools": dialects["tools"], "apis": [], "window": 24})
    return {"dialects": dialects, "play": play}


def main() -> int:
    """Build, and say how to look at it."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("modules", type=Path, help="the folder that npm has installed packages into")
    options.add_argument("--into", type=Path, default=ROOT / "build" / "playground")
    chosen = options.parse_args()
    build(chosen.into, chosen.modules)
    size = sum(file.stat().st_size for file in chosen.into.rglob("*") if file.is_file())
    print(f"{chosen.into}: {size / 1e6:.0f} MB of files, for any server of files. To look at it here:")
    print(f"  {Path(sys.executable).name} -m http.server -d {chosen.into} --bind 127.0.0.1 8765")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
