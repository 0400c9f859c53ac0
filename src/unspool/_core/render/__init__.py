"""Conversion of messages and arguments to the text that a model would write."""
