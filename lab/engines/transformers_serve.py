"""``transformers serve`` with forced model output: runs in ``.engines/transformers``.

The model has random weights, which write noise. A logits processor therefore forces the ids that a
request lists in its generation config: ``{"force": [ids]}``. Nothing else in the server is changed.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from transformers import LogitsProcessor
from transformers.cli.transformers import main
from transformers.generation.utils import GenerationMixin


class Force(LogitsProcessor):  # type: ignore[misc]
    """Processor that allows only the next forced id."""

    def __init__(self, ids: list[int], start: int) -> None:
        self._ids = ids
        self._start = start

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        step = input_ids.shape[1] - self._start
        if step < len(self._ids):
            scores = torch.full_like(scores, -torch.inf)
            scores[:, self._ids[step]] = 0.0
        return scores


_own = GenerationMixin._get_logits_processor  # noqa: SLF001 - there is no public hook


def _forcing(
    self: Any, generation_config: Any, input_ids_seq_length: int | None = None, *rest: Any, **named: Any
) -> Any:
    found = _own(self, generation_config, input_ids_seq_length, *rest, **named)
    ids = getattr(generation_config, "force", None)
    if ids:
        found.append(Force(ids, input_ids_seq_length or 0))
    return found


GenerationMixin._get_logits_processor = _forcing  # noqa: SLF001

if __name__ == "__main__":
    sys.exit(main())
