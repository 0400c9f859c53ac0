"""Detection of a model's dialect."""
