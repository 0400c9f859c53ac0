"""Rendering of messages and arguments as the text that a model would write."""
