"""Dialects: the declaration language, the registry, and the families of built-in dialects."""
