"""Logits processor for vLLM that makes any model write given ids.

``vllm_xargs={"force": [...]}`` in a request forces these ids one by one, then the end of the output.
Unlike a grammar, the processor can also force special tokens and reasoning. With ``"free": 1`` the
output does not end after these ids: the model continues, under the request's grammar if there is one. A
JSON grammar allows unlimited whitespace, which random weights would write, so whitespace is then the last
choice.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

_BLANK: Final = " \t\r\nĠĊĉč▁"
"""Whitespace, as text and in the spelling of vocabularies."""


class _Forced:
    """Ids to force for one output."""

    def __init__(self, ids: list[int], end: int, blanks: torch.Tensor | None) -> None:
        self._ids = ids
        self._end = end
        self._blanks = blanks

    def __call__(self, output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        place = len(output_ids)
        wanted = self._ids[place] if place < len(self._ids) else self._end
        if place >= len(self._ids) and self._blanks is not None:
            logits[self._blanks] -= 1e4
            return logits
        logits.fill_(float("-inf"))
        logits[wanted] = 0.0
        return logits


class Force(AdapterLogitsProcessor):  # type: ignore[misc]
    """Processor for the requests that force an output."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        end = vllm_config.model_config.hf_config.eos_token_id
        self._end = end[0] if isinstance(end, list) else end
        words = cached_tokenizer_from_config(vllm_config.model_config).get_vocab()
        self._blanks = torch.tensor([id for word, id in words.items() if not word.strip(_BLANK)])

    def is_argmax_invariant(self) -> bool:
        """Return False, because greedy decoding needs the processor, too."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Any:
        """Return the processor for a request."""
        arguments = params.extra_args or {}
        free = bool(arguments.get("free"))
        ids = arguments.get("force") or []
        return _Forced(ids, self._end, self._blanks if free else None) if ids or free else None
