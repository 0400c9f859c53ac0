"""Conversions of dialects: Python source, JSON and response templates."""
