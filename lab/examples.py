"""Examples for other data libraries: Polars, pandas, datasets, Spark and Ray.

``tests/project/test_examples.py`` runs the examples that need no other library.

Needs: the package index, and Java for Spark.
Takes: minutes, most of them for installations on the first run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from typing import Final

from lab import ROOT, environments

EXAMPLES: Final = {
    "batch_polars": "tables",
    "batch_pandas": "tables",
    "batch_datasets": "tables",
    "batch_spark": "tables",
    "batch_ray": "ray",
}
"""Environments by example."""


def main() -> int:
    """Run the examples; return 1 if one fails."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    failed = []
    for name, environment in EXAMPLES.items():
        if name == "batch_spark" and shutil.which("java") is None:
            print("without Java: batch_spark is skipped", file=sys.stderr)
            continue
        environments.install(environment)
        command = [str(environments.python(environment)), str(ROOT / "examples" / f"{name}.py")]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603 - our own program
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all examples ran")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
