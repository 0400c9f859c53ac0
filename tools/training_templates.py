"""Table of chat templates and their suitability for training, from ``unspool doctor``.

``python tools/training_templates.py`` reads the templates from ``make templates``, or the given files
and folders. Each row shows whether the next prompt keeps the sampled tokens when a tool result, a
second round of calls or the next question is appended, with and without reasoning, and which
parts ``{% generation %}`` covers. The totals are below the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from unspool import UnspoolError
from unspool.models.detection.probe_messages import FLAT_TOOLS
from unspool.models.detection.template_probe import TemplateProbe
from unspool.models.doctor.training_checks import PREFIX_CASES, Training, check_training
from unspool.models.sources import read_source

ROOT: Final = Path(__file__).resolve().parent.parent
COLUMNS: Final = (*(f"{case}, {mode}" for mode in ("without", "with") for case in PREFIX_CASES), "marks")
SIGNS: Final = {"kept": "kept", "broken": "BROKEN", "refused": "refused", "opens": "opens"}


def sources(given: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield templates by name."""
    for path in given or [ROOT / ".templates"]:
        files = sorted(path.rglob("*.jinja")) if path.is_dir() else [path]
        yield from ((str(file.relative_to(path.parent if path.is_file() else path)), file) for file in files)


def row(found: Training) -> tuple[str, ...]:
    """Return the verdicts of a row, with a dash if the template has no calls or no reasoning."""
    verdicts = {(case.appended, case.thinking): SIGNS[case.verdict] for case in found.prefixes}
    mask = found.mask
    outside = [name for name, inside in mask._asdict().items() if inside is False]
    marks = "none" if not mask.answer else f"without {', '.join(outside)}" if outside else "all"
    cells = [verdicts.get((case, thinking), "-") for thinking in (False, True) for case in PREFIX_CASES]
    return (*cells, marks + (", empty block" if mask.empty_block else ""))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="*", type=Path, help="templates or folders of templates")
    options = parser.parse_args()
    started = time.process_time()
    counts: Counter[tuple[str, str]] = Counter()
    read = 0
    print("| template |", " | ".join(COLUMNS), "|")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name, path in sources(options.path):
        try:
            model = read_source(path)
            cells = row(check_training(TemplateProbe(model.template, model.tokens), FLAT_TOOLS))
        except UnspoolError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        read += 1
        counts.update(zip(COLUMNS, cells, strict=True))
        print(f"| {name.removesuffix('.jinja')} |", " | ".join(cells), "|")
    print()
    for column in COLUMNS[:-1]:
        found = {cell: number for (each, cell), number in counts.items() if each == column}
        print(f"- {column}:", ", ".join(f"{number} {cell}" for cell, number in sorted(found.items())))
    print(f"- {read} templates in {time.process_time() - started:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
