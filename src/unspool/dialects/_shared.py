"""Markers that several families share."""

CHATML_STOPS = ("<|im_end|>", "<|endoftext|>")
LLAMA_STOPS = ("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end_of_text|>", "<|im_end|>", "</s>")
DEEPSEEK_EOS = "<｜end▁of▁sentence｜>"

THINK = ("<think>\n{text}\n</think>\n\n",)
THINK_INLINE = ("<think>{text}</think>",)
