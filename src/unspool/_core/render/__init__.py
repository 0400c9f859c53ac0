"""Rendering: messages and arguments as text in a dialect."""
