"""Conversions of dialects to Python source and JSON, and to and from response templates."""
