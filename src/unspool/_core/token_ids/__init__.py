"""Token ids: input as ids, with special tokens that text cannot imitate."""
