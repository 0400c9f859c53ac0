"""Program that renders chat templates with Transformers; runs where it is installed, JSON in and JSON out."""

from __future__ import annotations

import json
import sys
from typing import Any

import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast


def render(case: dict[str, Any], tokenizer: Any) -> dict[str, str]:
    try:
        text = tokenizer.apply_chat_template(
            case["messages"],
            tools=case["tools"],
            chat_template=case["template"],
            add_generation_prompt=case["generation"],
            continue_final_message=case["continued"],
            tokenize=False,
            **case["variables"],
        )
    except Exception as error:  # noqa: BLE001 - whatever a template does is a result
        return {"error": f"{type(error).__name__}: {error}"}
    return {"text": text}


def main() -> None:
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab={}, merges=[])), **tokens)
    results = [render(case, tokenizer) for case in json.load(sys.stdin)]
    json.dump({"version": transformers.__version__, "results": results}, sys.stdout)


main()
