"""Input as token ids, which distinguish special tokens from ordinary text with the same characters."""
