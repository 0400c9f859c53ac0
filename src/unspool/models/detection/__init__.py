"""Detection of the dialect in which a model writes its tool calls."""
