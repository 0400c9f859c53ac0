"""JSON schemas of tools, and conversion of text to typed values."""
