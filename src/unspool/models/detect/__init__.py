"""Detection: which dialect a model speaks."""
