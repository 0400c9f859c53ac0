"""Input as token ids, in which special tokens differ from text that looks like them."""
