"""Conversions between dialects and other forms: Python source, JSON and response templates."""
