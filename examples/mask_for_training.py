"""Labels for every token of a rollout, and a mask of the tokens to train on.

    pip install unspool tokenizers && python examples/mask_for_training.py [tokenizer.json]

Without a file, the program uses a vocabulary of single bytes.  docs/rollouts.md describes the labels.
"""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from unspool.tokens import LABEL_MASK, Label, label_tokens

ROLLOUT = (
    "<think>\nI ask.\n</think>\n\n"
    '<tool_call>\n{"name": "now", "arguments": {"zone": "CET"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "now", "arguments": {"zone": UTC}}\n</tool_call><|im_end|>'
)


def bytes_only() -> Tokenizer:
    """Return a vocabulary of single bytes, which needs no download."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {letter: number for number, letter in enumerate(letters)}
    vocabulary = Tokenizer(models.BPE(ids, []))
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary.decoder = decoders.ByteLevel()
    vocabulary.add_special_tokens(["<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"])
    return vocabulary


tokenizer = Tokenizer.from_file(sys.argv[1]) if len(sys.argv) > 1 else bytes_only()
# In a real rollout, these are the ids that the engine sampled.
sampled = tokenizer.encode(ROLLOUT, add_special_tokens=False).ids

reading = label_tokens(sampled, "hermes", tokenizer=tokenizer, finish_reason="stop")
for label in Label:
    ids = [id for id, value in zip(sampled, reading.labels, strict=True) if value & LABEL_MASK == label]
    if ids:
        print(f"{label.name:9} {tokenizer.decode(ids, skip_special_tokens=False)!r}")
for attempt in reading.attempts:
    print("attempt  ", attempt.name, attempt.status)

mask = reading.mask(Label.NAME, Label.ARGUMENTS, Label.CALL, Label.END, broken=False)
print(f"train on {sum(mask)} of {len(sampled)} tokens")
