"""Build the site: ``python tools/website/build.py``, by ``make site``."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLAYGROUND = ROOT / "build" / "playground"
sys.path[:0] = [str(ROOT / "src"), str(HERE.parent)]

from website import dialects, layers, links  # noqa: E402
from website.reference import Reference  # noqa: E402
from website.staging import Staging  # noqa: E402


def staged(pages: Path) -> None:
    """Put together what Sphinx reads."""
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    Staging(ROOT, pages).run()
    layers.write(ROOT, pages)
    dialects.write(pages, playground=PLAYGROUND.is_dir())
    promises = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    Reference(ROOT / "src", promises).write(pages)


def main() -> int:
    """Build it; the exit code is 1 where a reference, a link or a picture leads nowhere."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    given = options.parse_args()
    pages = ROOT / "build" / "site-pages"
    staged(pages)
    shutil.rmtree(given.out, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-j", "auto"]
    kept = ["-d", str(ROOT / "build" / "site-doctrees"), "-c", str(HERE), str(pages), str(given.out)]
    if subprocess.run([*sphinx, *kept], check=False).returncode:  # noqa: S603 - our own pages
        return 1
    if PLAYGROUND.is_dir():
        shutil.copytree(PLAYGROUND, given.out / "playground")
    wrong = list(links.broken(given.out, apart=("playground",)))
    print(*wrong, sep="\n", end="\n" * bool(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
