"""Conformance suite on the parsers of other engines: vLLM, SGLang, Transformers, openai-harmony.

The remaining arguments are those of ``unspool conformance run``::

    python -m lab.peers vllm sglang --html report.html

Needs: the package index, and npm for vocabularies; vLLM and SGLang take several GB each.
Takes: minutes for each parser, longer on the first run.
"""

from __future__ import annotations

import argparse
import shlex

from lab import environments
from lab.peers import PEERS, command
from unspool.cli import main as run_unspool


def main() -> int:
    """Install the peers and run the suite."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peers", nargs="*", default=list(PEERS), metavar="PEER", help="default: all of them")
    options, rest = parser.parse_known_args()
    for unknown in set(options.peers) - set(PEERS):
        parser.error(f"unknown peer {unknown!r}; choose from {', '.join(PEERS)}")
    for name in options.peers:
        environments.install(name)
    commands = (f"--command={shlex.join(command(name))}" for name in options.peers)
    return run_unspool(["conformance", "run", *commands, *rest])


if __name__ == "__main__":
    raise SystemExit(main())
