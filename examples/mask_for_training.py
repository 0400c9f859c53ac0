"""What to train on: every token of a rollout, with what it is; a mask of those that count.

    pip install unspool tokenizers && python examples/mask_for_training.py [tokenizer.json]

Without a file it makes a vocabulary of bytes.  docs/rollouts.md goes on from here.
"""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from unspool.tokens import KIND, Label, label_tokens

ROLLOUT = (
    "<think>\nI ask.\n</think>\n\n"
    '<tool_call>\n{"name": "now", "arguments": {"zone": "CET"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "now", "arguments": {"zone": UTC}}\n</tool_call><|im_end|>'
)


def bytes_only() -> Tokenizer:
    """A vocabulary that needs no download."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"])
    return made


tokenizer = Tokenizer.from_file(sys.argv[1]) if len(sys.argv) > 1 else bytes_only()
sampled = tokenizer.encode(ROLLOUT, add_special_tokens=False).ids  # in a rollout: what the engine sampled

reading = label_tokens(sampled, "hermes", tokenizer=tokenizer, finish_reason="stop")
for label in Label:
    ids = [id for id, found in zip(sampled, reading.labels, strict=True) if found & KIND == label]
    if ids:
        print(f"{label.name:9} {tokenizer.decode(ids, skip_special_tokens=False)!r}")
for attempt in reading.attempts:
    print("attempt  ", attempt.name, attempt.status)

mask = reading.mask(Label.NAME, Label.ARGUMENTS, Label.CALL, Label.END, broken=False)
print(f"train on {sum(mask)} of {len(sampled)} tokens")
