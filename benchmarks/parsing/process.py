"""Process that measures on request, so that contenders with different imports take turns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence


class Process:
    """Process that answers each line of JSON with a number."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, order: object) -> float:
        """Send an order and return its answer."""
        process = self._process
        assert process.stdin is not None  # noqa: S101 - see above
        assert process.stdout is not None  # noqa: S101 - see above
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    def stop(self) -> None:
        """Stop the process."""
        self._process.communicate()
