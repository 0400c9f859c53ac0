"""What several families share."""

from typing import Final

from .._core.words.facts import Mode

CHATML_STOPS = ("<|im_end|>", "<|endoftext|>")
LLAMA_STOPS = ("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end_of_text|>", "<|im_end|>", "</s>")
IM_END = ("<|im_end|>",)

THINK_LINES = ("<think>\n{text}\n</think>\n",)
THINK_INLINE = ("<think>{text}</think>",)

NATIVE: Final[tuple[Mode, ...]] = ("native",)
NATIVE_FIRST: Final[tuple[Mode, ...]] = ("native", "json")
JSON_FIRST: Final[tuple[Mode, ...]] = ("json", "native")
JSON: Final[tuple[Mode, ...]] = ("json",)
